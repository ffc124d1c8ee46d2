//! Which events of a process have been seen: ids count up within their slot.

use nccl_events::ids::EventId;

/// The state of an event that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// The start has not been read yet: slots are read one after the other.
    NotStarted,
    /// The event is over, or its start was lost.
    Ended,
    Foreign,
}

#[derive(Debug, Default)]
pub(crate) struct SeenIds {
    tag: u16,
    last: Vec<u64>,
}

impl SeenIds {
    pub(crate) fn new(tag: u16) -> Self {
        Self { tag, last: Vec::new() }
    }

    #[inline]
    pub(crate) fn note(&mut self, id: u64) -> bool {
        let id = EventId::from_raw(id);
        let slot = usize::from(id.slot());
        if slot >= self.last.len() {
            self.last.resize(slot + 1, 0);
        }
        let last = self.last.get_mut(slot);
        last.is_some_and(|last| {
            let is_new = id.sequence() > *last;
            *last = id.sequence().max(*last);
            is_new
        })
    }

    #[inline]
    pub(crate) fn lifecycle(&self, id: u64) -> Lifecycle {
        let id = EventId::from_raw(id);
        if id.tag() != self.tag || id.is_none() {
            return Lifecycle::Foreign;
        }
        let last = self.last.get(usize::from(id.slot())).copied().unwrap_or(0);
        if id.sequence() > last { Lifecycle::NotStarted } else { Lifecycle::Ended }
    }
}
