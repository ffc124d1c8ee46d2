//! The second half of joining: when all is read, operations find what they name.

use super::{Assembly, StateChange, event_key};
use crate::clocks::ticks::HostClock;
use crate::tables::ids::Ids;
use crate::tables::named::ContextName;
use crate::tables::near::{AHEAD, bring_near};
use crate::tables::place::{NOWHERE, index, place};
use journal::reader::NotKept;
use nccl_events::Kind;

impl Assembly {
    /// Puts the states in the order of their operations, and of time.
    pub(crate) fn sort_states(&mut self) {
        // Behind a first 0: how many of each operation, then where they begin, and, when they are put there, where they end,
        // which is where the next ones begin.
        let mut from = vec![0_u32; self.operations.len() + 2];
        for change in &self.states {
            if let Some(count) = from.get_mut(index(change.operation) + 2) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for begin in &mut from {
            sum += *begin;
            *begin = sum;
        }
        let nothing = StateChange {
            operation: NOWHERE,
            state: 0,
            time: 0,
        };
        let mut sorted = vec![nothing; self.states.len()];
        for change in self.states.drain(..) {
            if let Some(to) = from.get_mut(index(change.operation) + 1) {
                if let Some(slot) = sorted.get_mut(index(*to)) {
                    *slot = change;
                }
                *to += 1;
            }
        }
        for own in sorted.chunk_by_mut(|a, b| a.operation == b.operation) {
            own.sort_by_key(|change| change.time);
        }
        self.states = sorted;
        self.states_from = from;
    }

    /// Finds for each operation the places of what it names, counts those without an end or a parent, and turns ticks into
    /// nanoseconds where there is a clock.
    pub(crate) fn link(&mut self, not_kept: &NotKept, process_tag: u16, clock: Option<&HostClock>) {
        let mut clock = clock.map(HostClock::reader);
        let names: Vec<Option<ContextName>> = (self.named.ids().iter())
            .map(|&id| self.find_context(id).map(ContextName::of_place))
            .collect();
        for kind in Kind::ALL {
            // No more than were seen, and those were counted.
            let seen = usize::try_from(self.counts.kinds.get(kind).seen).unwrap_or(0);
            self.by_kind.reserve(kind, seen.min(self.operations.len()));
        }
        for at in 0..self.operations.len() {
            let Some(operation) = self.operations.get(at) else {
                continue;
            };
            // Parents are mostly of another thread, which is elsewhere in the list.
            let soon = self.operations.get(at + AHEAD);
            let soon = soon.and_then(|soon| self.ids.likely(event_key(soon.parent)));
            if let Some(parent) = soon.and_then(|parent| self.operation(parent)) {
                bring_near(parent);
            }
            let kind = operation.kind();
            let parent = self.find(operation.parent);
            let is_open = operation.end().is_none();
            let is_orphan = operation.parent != 0
                && parent.is_none()
                && !not_kept.has(operation.parent, process_tag);
            let counts = self.counts.kind_mut(kind);
            counts.unfinished += u64::from(is_open);
            counts.orphan += u64::from(is_orphan);
            self.by_kind.push(kind, place(at));
            let Some(operation) = self.operations.get_mut(at) else {
                continue;
            };
            operation.parent_at = parent.unwrap_or(NOWHERE);
            let named = operation.context.number();
            if let Some(Some(name)) = named.and_then(|number| names.get(index(number))) {
                operation.context = *name;
            }
            if let Some(clock) = &mut clock {
                operation.turn_to_nanoseconds(clock);
            }
        }
    }

    /// Orders the communicator ranks by context id, which counts up in order of creation.
    pub(crate) fn sort_contexts(&mut self) {
        let mut order: Vec<u32> = (0..place(self.contexts.len())).collect();
        order.sort_by_key(|&at| self.contexts.get(index(at)).map(|context| context.id));
        let mut moved = vec![NOWHERE; order.len()];
        for (now, &before) in order.iter().enumerate() {
            if let Some(slot) = moved.get_mut(index(before)) {
                *slot = place(now);
            }
        }
        let to_now = |at: u32| moved.get(index(at)).copied().unwrap_or(NOWHERE);
        self.contexts.sort_by_key(|context| context.id);
        for call in &mut self.comm_calls {
            call.context = to_now(call.context);
        }
        self.context_ids = Ids::default();
        for at in 0..place(self.contexts.len()) {
            let id = self.contexts.get(index(at)).map_or(0, |one| one.id);
            self.note_context(id, at);
        }
    }
}
