//! Counts the records that are read from a segment, and keeps the highest event number.

use crate::format::record::{Record, Records, Symbol};
use nccl_events::id::EventId;
use nccl_events::{Start, StateArgs};

pub(crate) struct Counted<'a, S> {
    sink: &'a mut S,
    pub(crate) records: u64,
    pub(crate) starts: u64,
    /// The highest number of an event.
    pub(crate) last: u64,
}

impl<'a, S> Counted<'a, S> {
    pub(crate) const fn new(sink: &'a mut S) -> Self {
        Self { sink, records: 0, starts: 0, last: 0 }
    }
}

impl<S: Records> Records for Counted<'_, S> {
    fn record(&mut self, record: Record) {
        self.records += 1;
        self.sink.record(record);
    }

    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        self.records += 1;
        self.starts += 1;
        self.last = self.last.max(EventId::from_raw(id).sequence());
        self.sink.start(slot, ticks, id, start);
    }

    #[inline]
    fn stop(&mut self, slot: u16, ticks: u64, id: u64) {
        self.records += 1;
        self.sink.stop(slot, ticks, id);
    }

    #[inline]
    fn state(&mut self, slot: u16, ticks: u64, id: u64, state: (u32, StateArgs)) {
        self.records += 1;
        self.sink.state(slot, ticks, id, state);
    }
}
