//! Records other than events: communicators, switches, clocks, GPUs, and the threads themselves.

use super::SlotWriter;
use crate::clock::{ClockPair, ticks};
use crate::format::encode::{NameNumber, Sink};
use crate::format::gpu;
use crate::format::layout::{kind, pair};
use crate::host;
use crate::writer::Lost;
use nccl_events::control::Span;
use nccl_events::control::{Cause, Switch};
use nccl_events::gpu::GpuRecord;
use nccl_events::{CommInit, Kind, Name};

impl SlotWriter {
    /// Records the values of the system's clocks.
    pub fn clock_pair(&mut self, clocks: &ClockPair) {
        let payload = [clocks.monotonic_ns, clocks.realtime_ns, clocks.monotonic_raw_ns, clocks.uncertainty_ticks];
        let _full = self.put_at(kind::CLOCK_PAIR, 0, clocks.ticks, 0, payload);
    }

    /// Records the creation of a communicator. `begin_ticks` is when `init` was entered.
    pub fn comm_init(&mut self, context: u64, begin_ticks: u64, repetition: u32, comm: &CommInit<'_>) {
        self.put_held();
        if !self.put_comm(kind::COMM_INIT, context, begin_ticks, repetition, comm) {
            self.count_loss(Lost::Communicator);
        }
    }

    /// Records that a communicator exists, in case the record of its creation is removed.
    pub fn comm_known(&mut self, context: u64, begin_ticks: u64, repetition: u32, comm: &CommInit<'_>) {
        // The record of the creation reports a loss.
        let _full = self.put_comm(kind::COMM_KNOWN, context, begin_ticks, repetition, comm);
    }

    fn put_comm(&mut self, record: u8, context: u64, begin_ticks: u64, repetition: u32, comm: &CommInit<'_>) -> bool {
        self.make_room_for_names();
        let name = self.name(comm.name);
        let payload = [
            ticks(),
            comm.comm_id,
            pair(comm.nodes.cast_unsigned(), comm.ranks.cast_unsigned()),
            pair(comm.rank.cast_unsigned(), comm.nccl_version),
            pair(u32::from(name) | u32::from(comm.table.number()) << 16, repetition),
        ];
        self.put_at(record, 0, begin_ticks, context, payload)
    }

    /// Records the end of a communicator.
    pub fn comm_finalize(&mut self, context: u64, begin_ticks: u64) {
        self.put_held();
        if !self.put_at(kind::COMM_FINALIZE, 0, begin_ticks, context, [ticks()]) {
            self.count_loss(Lost::Communicator);
        }
    }

    /// Records a change of the selection. `context` is the context whose step ranges caused it, otherwise 0.
    pub fn switch(&mut self, begin_ticks: u64, context: u64, switch: &Switch) {
        self.put_held();
        let [before, after] = [switch.before, switch.after].map(|wanted| pair(wanted.events, u32::from(wanted.is_on)));
        let (cause, of_steps) = match switch.cause {
            Cause::File => (0, None),
            Cause::Signal => (1, None),
            Cause::Steps(it) => (pair(2, u32::from(it.is_exact) | u32::from(it.is_named) << 1), Some(it)),
        };
        let range = of_steps.and_then(|it| it.range);
        let payload = [before, after, cause, range.map_or(0, Span::word), of_steps.map_or(0, |it| it.started)];
        let _full = self.put_at(kind::SWITCH, 0, begin_ticks, context, payload);
    }

    /// Records how many starts were not selected, by kind.
    pub fn not_selected(&mut self, counts: [u64; Kind::COUNT]) {
        let _full = self.put(kind::NOT_SELECTED, 0, 0, counts);
    }

    /// Records data about GPUs, at `ticks`. Returns false if there was no room.
    pub fn gpu(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) -> bool {
        self.put_held();
        self.make_room_for_names();
        let mut sink = At { slot_writer: self, ticks };
        gpu::put(&mut sink, id, record)
    }

    pub(crate) fn thread_begin(&mut self, name: &str) {
        let mut text = [0_u8; 16];
        let length = name.len().min(text.len());
        for (to, from) in text.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        let ([a, b], _) = text.as_chunks::<8>() else {
            return;
        };
        let length = u32::try_from(length).unwrap_or(0);
        let payload = [pair(host::thread_id(), length), u64::from_le_bytes(*a), u64::from_le_bytes(*b)];
        let _full = self.put(kind::THREAD_BEGIN, 0, 0, payload);
        self.thread = Some(payload);
    }

    pub(crate) fn thread_end(&mut self) {
        self.put_held();
        let _full = self.put(kind::THREAD_END, 0, 0, []);
        self.thread = None;
    }
}

/// The slot writer, for records of another time than now.
struct At<'a> {
    slot_writer: &'a mut SlotWriter,
    ticks: u64,
}

impl Sink for At<'_> {
    fn put<const WORDS: usize>(&mut self, record: u8, flags: u8, id: u64, payload: [u64; WORDS]) -> bool {
        self.slot_writer.put_at(record, flags, self.ticks, id, payload)
    }

    fn name(&mut self, name: Name<'_>) -> NameNumber {
        self.slot_writer.name(name)
    }
}
