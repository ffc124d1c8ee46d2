//! What a flight recording removed, from the headers of the oldest segments.

use std::collections::BTreeMap;

use nccl_events::id::EventId;

/// What was recorded and then removed on purpose, as opposed to lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Whether the journal is a flight recording.
    pub is_window: bool,
    /// Removed starts of events.
    pub starts: u64,
    /// Removed segments.
    pub segments: u64,
    /// The tick from which the records of all threads are complete; 0 if nothing was removed.
    pub since_ticks: u64,
    /// Highest number of a removed event, by slot.
    last: BTreeMap<u16, u64>,
}

/// What the header of a slot's oldest segment states about earlier segments.
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

    /// Whether the start of the event with this id was removed.
    pub fn has(&self, id: u64, process_tag: u16) -> bool {
        let id = EventId::from_raw(id);
        let last = self.last.get(&id.slot()).copied().unwrap_or(0);
        id.tag() == process_tag && !id.is_unrecorded() && id.sequence() <= last
    }

    /// How many later events of the same thread were removed as well; `None` if the event with this id was kept.
    pub fn starts_after(&self, id: u64, process_tag: u16) -> Option<u64> {
        let sequence = EventId::from_raw(id).sequence();
        let last = self.last.get(&EventId::from_raw(id).slot()).copied()?;
        self.has(id, process_tag).then(|| last.saturating_sub(sequence))
    }
}
