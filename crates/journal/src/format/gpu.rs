//! Encodes and decodes records about GPUs. Their structures define the layout (`nccl_events::gpu`).

use crate::format::encode::{Sink, flags};
use crate::format::layout::{flag, kind, low, pair};
use crate::format::record::Symbol;
use crate::format::words::{Word, field8, field16, numbers, word_at};
use nccl_events::Name;
use nccl_events::gpu::{Backend, ClockSample, Copy, Device, GpuRecord, Kernel, LaunchTime};

/// Appends a record about GPUs. Returns false if there was no room.
pub(crate) fn put(sink: &mut impl Sink, id: u64, record: &GpuRecord<Name<'_>>) -> bool {
    macro_rules! put {
        ($kind:ident, $fields:expr) => {
            if let Some(fields) = $fields {
                let mut words = [0; _];
                let flag = fields.put(&mut words);
                sink.put(kind::$kind, flags(flag), id, words)
            } else {
                false
            }
        };
    }
    match *record {
        GpuRecord::Device(device) => {
            put!(GPU_DEVICE, device.map_names(|name| Some(sink.name(name))))
        }
        GpuRecord::DeviceOfCommunicator { ordinal } => sink.put(kind::GPU_OF_COMMUNICATOR, 0, id, [u64::from(ordinal)]),
        GpuRecord::Clock(sample) => put!(GPU_CLOCK, Some(sample)),
        GpuRecord::Kernel(kernel) => {
            put!(GPU_KERNEL, kernel.map_names(|name| Some(sink.name(name))))
        }
        GpuRecord::Copy(copy) => put!(GPU_COPY, Some(copy)),
        GpuRecord::LaunchTime(time) => put!(GPU_LAUNCH_TIME, Some(time)),
        GpuRecord::Notice { backend, text } => {
            let text = sink.name(text);
            let word = pair(backend as u32, u32::from(text));
            sink.put(kind::GPU_NOTICE, 0, id, [word])
        }
        GpuRecord::Counts(counts) => sink.put(kind::GPU_COUNTS, 0, id, counts),
    }
}

/// Decodes the payload of a record about GPUs. `None` if the kind is another one or the words do not fit it.
pub(crate) fn decode(
    record_kind: u8,
    flags: u8,
    payload: &[Word],
    symbol: &impl Fn(u16) -> Option<Symbol>,
) -> Option<GpuRecord<Symbol>> {
    let flag = flags & flag::TRUE != 0;
    Some(match record_kind {
        kind::GPU_DEVICE => GpuRecord::Device(Device::take(flag, payload)?.map_names(symbol)?),
        kind::GPU_OF_COMMUNICATOR => GpuRecord::DeviceOfCommunicator { ordinal: low(word_at(payload, 0)?) },
        kind::GPU_CLOCK => GpuRecord::Clock(ClockSample::take(flag, payload)?),
        kind::GPU_KERNEL => GpuRecord::Kernel(Kernel::take(flag, payload)?.map_names(symbol)?),
        kind::GPU_COPY => GpuRecord::Copy(Copy::take(flag, payload)?),
        kind::GPU_LAUNCH_TIME => GpuRecord::LaunchTime(LaunchTime::take(flag, payload)?),
        kind::GPU_NOTICE => GpuRecord::Notice {
            backend: Backend::from_number(field8(word_at(payload, 0)?, 0))?,
            text: symbol(field16(word_at(payload, 0)?, 2))?,
        },
        kind::GPU_COUNTS => GpuRecord::Counts(numbers(payload)?),
        _ => return None,
    })
}
