//! Completes the tables when all records are read: contexts of events, missing stops and missing parents.

use super::contexts::ContextName;
use super::ids::Ids;
use super::kinds::EventRow;
use super::{Tables, context_key, event_key};
use clocks::ticks::HostClock;
use journal::reader::Removed;
use nccl_events::ids::{index, index_u32};

impl Tables {
    /// Sets the row of an event id unless it has one; returns whether it had none.
    #[inline]
    pub(super) fn note_event(&mut self, id: u64, row: EventRow) -> bool {
        let events = &self.events;
        let is_of = |row| events.head(row).is_some_and(|head| head.id == id);
        self.ids.insert_new(id, event_key(id), row, is_of)
    }

    /// Sets the index of a context's id, replacing an earlier one.
    pub(super) fn note_context(&mut self, id: u64, at: u32) {
        let contexts = &self.contexts;
        let is_of = |at: u32| contexts.get(index(at)).is_some_and(|one| one.id == id);
        self.context_ids.put(id, context_key(id), at, is_of);
    }

    /// Sorts the communicator ranks by context id, which counts up in order of creation.
    pub(super) fn sort_contexts(&mut self) {
        let mut order: Vec<u32> = (0..index_u32(self.contexts.len())).collect();
        nccl_events::sort::sort_by_key(&mut order, |&at| self.contexts.get(index(at)).map(|context| context.id));
        let mut moved = vec![None; order.len()];
        for (now, &before) in order.iter().enumerate() {
            if let Some(slot) = moved.get_mut(index(before)) {
                *slot = Some(index_u32(now));
            }
        }
        let to_now = |at: u32| moved.get(index(at)).copied().flatten();
        nccl_events::sort::sort_by_key(&mut self.contexts, |context| context.id);
        for call in &mut self.comm_calls {
            call.context = call.context.and_then(to_now);
        }
        self.context_ids = Ids::default();
        for at in 0..index_u32(self.contexts.len()) {
            let id = self.contexts.get(index(at)).map_or(0, |one| one.id);
            self.note_context(id, at);
        }
    }

    /// Sets each event's context, and converts its times to nanoseconds if there is a clock: a second pass over all
    /// events would cost as much again.
    pub(super) fn name_contexts(&mut self, clock: Option<&HostClock>) {
        let ids = self.context_names.ids().iter();
        let listed: Vec<Option<ContextName>> =
            ids.map(|&id| self.find_context(id).map(ContextName::of_index)).collect();
        let name = |name: ContextName| {
            name.number().and_then(|number| listed.get(index(number)).copied()).flatten().unwrap_or(name)
        };
        self.events.name_contexts(name, clock.map(HostClock::reader));
    }

    /// Counts events without a stop, and events whose parent is missing.
    pub(super) fn count_open(&mut self, removed: &Removed, process_tag: u16) {
        let mut counts = std::mem::take(&mut self.counts);
        self.events.each_head(|kind, head| {
            let counts = counts.kind_mut(kind);
            counts.unfinished += u64::from(head.stop().is_none());
            let is_orphan =
                head.parent != 0 && self.find(head.parent).is_none() && !removed.has(head.parent, process_tag);
            counts.orphan += u64::from(is_orphan);
        });
        self.counts = counts;
    }
}
