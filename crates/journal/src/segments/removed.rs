//! What a flight recording removed, by the headers of the oldest segments.

use std::collections::BTreeMap;

use nccl_events::id::EventId;

/// What was recorded and then removed on purpose: not a loss.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Whether it is a flight recording.
    pub is_window: bool,
    /// Starts of events that were recorded.
    pub starts: u64,
    /// Segments that are gone.
    pub segments: u64,
    /// From when on the records of all threads are there; 0 when nothing is gone.
    pub since_ticks: u64,
    /// By slot: the numbers of events up to this one are gone.
    last: BTreeMap<u16, u64>,
}

/// What the header of a slot's oldest segment has about the segments before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldestSegment {
    pub(crate) order: u64,
    pub(crate) ticks: u64,
    pub(crate) started_before: u64,
    pub(crate) lost_before: u64,
}

impl Removed {
    pub(crate) fn add(&mut self, slot: u16, oldest: OldestSegment) {
        self.is_window = true;
        if oldest.order == 0 {
            return;
        }
        self.segments = self.segments.saturating_add(oldest.order);
        self.starts += oldest.started_before.saturating_sub(oldest.lost_before);
        self.since_ticks = self.since_ticks.max(oldest.ticks);
        self.last.insert(slot, oldest.started_before);
    }

    /// Whether the start of the event with this id is gone.
    pub fn has(&self, id: u64, process_tag: u16) -> bool {
        let id = EventId::from_raw(id);
        let last = self.last.get(&id.slot()).copied().unwrap_or(0);
        id.tag() == process_tag && !id.is_unrecorded() && id.sequence() <= last
    }

    /// How many events of the same thread that are gone, too, came after the one with this id; `None` where that is not
    /// gone.
    pub fn starts_after(&self, id: u64, process_tag: u16) -> Option<u64> {
        let sequence = EventId::from_raw(id).sequence();
        let last = self.last.get(&EventId::from_raw(id).slot()).copied()?;
        self.has(id, process_tag).then(|| last.saturating_sub(sequence))
    }
}
