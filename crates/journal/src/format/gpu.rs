//! Records about GPUs in words: out and in, side by side. `docs/FORMATS.md` has the table.

use crate::format::decode::{Word, field8, field16, numbers, word_at};
use crate::format::encode::Sink;
use crate::format::layout::{flag, high, kind, low, pair};
use crate::format::record::Symbol;
use nccl_events::Name;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::{ClockSample, Copy, Device, GpuClock, GpuRecord, Kernel, LaunchTime, Way};

const fn two(words: [u8; 16]) -> [u64; 2] {
    let value = u128::from_le_bytes(words);
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    [value as u64, (value >> 64) as u64]
}

/// Appends a record about GPUs. `ticks`: when, where that is not now. False when there was no room.
pub(crate) fn put(sink: &mut impl Sink, id: u64, record: &GpuRecord<Name<'_>>) -> bool {
    match record {
        GpuRecord::Device(device) => {
            let name = sink.name(device.name);
            let [uuid_low, uuid_high] = two(device.uuid);
            let [major, minor] = device.compute_capability;
            let flags = if device.is_mig { flag::TRUE } else { 0 };
            let place = u32::from(device.pci_bus) | u32::from(device.pci_device) << 8;
            sink.put(
                kind::GPU_DEVICE,
                flags,
                id,
                [
                    pair(device.ordinal, device.driver_version),
                    uuid_low,
                    uuid_high,
                    pair(device.pci_domain, place),
                    pair(
                        u32::from(major) | u32::from(minor) << 16,
                        device.multiprocessors,
                    ),
                    u64::from(name),
                ],
            )
        }
        GpuRecord::DeviceOfCommunicator { ordinal } => {
            sink.put(kind::GPU_OF_COMMUNICATOR, 0, id, [u64::from(*ordinal)])
        }
        GpuRecord::Clock(sample) => sink.put(
            kind::GPU_CLOCK,
            0,
            id,
            [
                pair(sample.clock as u32, sample.ordinal),
                sample.gpu_ns,
                sample.uncertainty_ticks,
            ],
        ),
        GpuRecord::Kernel(kernel) => {
            let name = sink.name(kernel.name);
            let [grid_x, grid_y, grid_z] = kernel.grid;
            let [block_x, block_y, block_z] = kernel.block;
            sink.put(
                kind::GPU_KERNEL,
                0,
                id,
                [
                    pair(kernel.correlation, kernel.device),
                    pair(kernel.context, kernel.stream),
                    kernel.start_ns,
                    kernel.end_ns,
                    pair(grid_x, grid_y),
                    pair(grid_z, block_x),
                    pair(block_y, block_z),
                    pair(kernel.static_shared_bytes, kernel.dynamic_shared_bytes),
                    pair(
                        u32::from(name) | u32::from(kernel.registers_per_thread) << 16,
                        kernel.graph,
                    ),
                    kernel.graph_node,
                    kernel.source_graph_node,
                ],
            )
        }
        GpuRecord::Copy(copy) => sink.put(
            kind::GPU_COPY,
            0,
            id,
            [
                pair(copy.correlation, copy.device),
                pair(copy.context, copy.stream),
                copy.start_ns,
                copy.end_ns,
                copy.bytes,
                pair(
                    u32::from_le_bytes([copy.kind, copy.source_kind, copy.destination_kind, 0]),
                    copy.count,
                ),
                copy.graph_node,
                pair(copy.source_device, copy.destination_device),
            ],
        ),
        GpuRecord::LaunchTime(time) => sink.put(
            kind::GPU_LAUNCH_TIME,
            0,
            id,
            [
                pair(time.ordinal, time.uncertainty_ns),
                time.stream,
                time.start_ns,
                time.end_ns,
            ],
        ),
        GpuRecord::Notice { way, text } => {
            let text = sink.name(*text);
            sink.put(
                kind::GPU_NOTICE,
                0,
                id,
                [pair(*way as u32, u32::from(text))],
            )
        }
        GpuRecord::Counts(counts) => sink.put(kind::GPU_COUNTS, 0, id, *counts),
    }
}

/// Reads the payload of a record about GPUs. `None` when it is none, or its words do not fit.
pub(crate) fn decode(
    record_kind: u8,
    flags: u8,
    payload: &[Word],
    symbol: &impl Fn(u16) -> Option<Symbol>,
) -> Option<GpuRecord<Symbol>> {
    let word = |index: usize| word_at(payload, index);
    let both = |index: usize| word(index).map(|word| (low(word), high(word)));
    Some(match record_kind {
        kind::GPU_DEVICE => {
            let (ordinal, driver_version) = both(0)?;
            let uuid = u128::from(word(1)?) | u128::from(word(2)?) << 64;
            let (pci_domain, multiprocessors) = (low(word(3)?), high(word(4)?));
            GpuRecord::Device(Device {
                ordinal,
                is_mig: flags & flag::TRUE != 0,
                uuid: uuid.to_le_bytes(),
                pci_domain,
                pci_bus: field8(word(3)?, 4),
                pci_device: field8(word(3)?, 5),
                driver_version,
                compute_capability: [field16(word(4)?, 0), field16(word(4)?, 1)],
                multiprocessors,
                name: symbol(field16(word(5)?, 0))?,
            })
        }
        kind::GPU_OF_COMMUNICATOR => GpuRecord::DeviceOfCommunicator {
            ordinal: low(word(0)?),
        },
        kind::GPU_CLOCK => GpuRecord::Clock(ClockSample {
            clock: GpuClock::from_number(field8(word(0)?, 0))?,
            ordinal: high(word(0)?),
            gpu_ns: word(1)?,
            uncertainty_ticks: word(2)?,
        }),
        kind::GPU_KERNEL => {
            let ((correlation, device), (context, stream)) = (both(0)?, both(1)?);
            let ((grid_x, grid_y), (grid_z, block_x)) = (both(4)?, both(5)?);
            let ((block_y, block_z), (fixed, dynamic)) = (both(6)?, both(7)?);
            GpuRecord::Kernel(Kernel {
                correlation,
                device,
                context,
                stream,
                start_ns: word(2)?,
                end_ns: word(3)?,
                grid: [grid_x, grid_y, grid_z],
                block: [block_x, block_y, block_z],
                static_shared_bytes: fixed,
                dynamic_shared_bytes: dynamic,
                registers_per_thread: field16(word(8)?, 1),
                graph: high(word(8)?),
                graph_node: word(9)?,
                source_graph_node: word(10)?,
                name: symbol(field16(word(8)?, 0))?,
            })
        }
        kind::GPU_COPY => {
            let ((correlation, device), (context, stream)) = (both(0)?, both(1)?);
            let (source_device, destination_device) = both(7)?;
            GpuRecord::Copy(Copy {
                correlation,
                device,
                context,
                stream,
                start_ns: word(2)?,
                end_ns: word(3)?,
                bytes: word(4)?,
                kind: field8(word(5)?, 0),
                source_kind: field8(word(5)?, 1),
                destination_kind: field8(word(5)?, 2),
                count: high(word(5)?),
                graph_node: word(6)?,
                source_device,
                destination_device,
            })
        }
        kind::GPU_LAUNCH_TIME => {
            let (ordinal, uncertainty_ns) = both(0)?;
            GpuRecord::LaunchTime(LaunchTime {
                ordinal,
                uncertainty_ns,
                stream: word(1)?,
                start_ns: word(2)?,
                end_ns: word(3)?,
            })
        }
        kind::GPU_NOTICE => GpuRecord::Notice {
            way: Way::from_number(field8(word(0)?, 0))?,
            text: symbol(field16(word(0)?, 2))?,
        },
        kind::GPU_COUNTS => {
            let counts: [u64; GpuCount::COUNT] = numbers(payload)?;
            GpuRecord::Counts(counts)
        }
        _ => return None,
    })
}
