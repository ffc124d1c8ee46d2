//! Asynchronous operations, from their start to the last stop of their parts (proxy operations, kernel channels).
//!
//! A fixed-size ring, in the order of starts. Any thread begins and ends operations and their parts, without a lock.
//! The thread that holds the drain removes the oldest. When the ring is full, new operations are counted as dropped.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::scorep::regions::Function;
use model::links::intervals::{Interval, OperationTimes};
use nccl_events::archive::Timing;
use nccl_events::collective::{ALGORITHMS, element_bytes};
use nccl_events::ids::EventId;
use nccl_events::{Body, Kind, Name, Start};

/// The capacity, enough for a program that enqueues many small collectives without waiting.
const OPERATIONS: usize = 4096;
/// The capacity of the index, which holds each operation and its parts.
const EVENTS: usize = 4 * OPERATIONS;
const NO_ALGORITHM: u8 = u8::MAX;
const NO_PEER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperationInfo {
    pub(super) function: Function,
    pub(super) context: u64,
    /// `None` for sends and receives.
    pub(super) sequence: Option<u64>,
    pub(super) bytes: u64,
    pub(super) peer: Option<u32>,
    pub(super) algorithm: Option<usize>,
}

impl OperationInfo {
    pub(super) fn from_event(event: &Start<Name<'_>>) -> Self {
        let mut facts = Self {
            function: Function::named(b""),
            context: event.context,
            sequence: None,
            bytes: 0,
            peer: None,
            algorithm: None,
        };
        match event.body {
            Body::Coll(coll) => {
                let algorithm = coll.algorithm.bytes();
                facts.function = Function::named(coll.func.bytes());
                facts.sequence = Some(coll.sequence);
                facts.bytes = coll.count.saturating_mul(element_bytes(coll.datatype.bytes()));
                facts.algorithm = ALGORITHMS.iter().position(|known| known.to_bytes() == algorithm);
            }
            Body::P2p(p2p) => {
                facts.function = Function::named(p2p.func.bytes());
                facts.bytes = p2p.count.saturating_mul(element_bytes(p2p.datatype.bytes()));
                facts.peer = u32::try_from(p2p.peer).ok();
            }
            _ => {}
        }
        facts
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndedOperation {
    pub(super) facts: OperationInfo,
    pub(super) begin_ticks: u64,
    pub(super) end_ticks: u64,
    pub(super) timing: Timing,
    pub(super) is_unfinished: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) now_ticks: u64,
    /// The time after an operation's last part, because another part may come.
    pub(super) after_parts_ticks: u64,
    /// The time after the start of an operation without parts, because parts may be late.
    pub(super) without_parts_ticks: u64,
    /// The time after the last event, even if parts are open: an operation that never stops must not delay the others.
    pub(super) given_up_ticks: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// 0 until all other fields are stored.
    id: AtomicU64,
    number: AtomicU64,
    begin_ticks: AtomicU64,
    context: AtomicU64,
    sequence: AtomicU64,
    bytes: AtomicU64,
    /// Function, algorithm and whether there is a sequence number, one byte each; the peer in the upper half.
    packed: AtomicU64,
    /// The end of enqueueing; 0 until then.
    enqueued_ticks: AtomicU64,
    seen_ticks: AtomicU64,
    /// The last stop of a part.
    stopped_ticks: AtomicU64,
    /// The last stop of a kernel channel.
    channel_stopped_ticks: AtomicU64,
    parts: AtomicU32,
    open: AtomicU32,
}

#[derive(Debug)]
pub(super) struct Operations {
    slots: Box<[Slot]>,
    index: Index,
    head: AtomicU64,
    tail: AtomicU64,
}

impl Operations {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..OPERATIONS).map(|_| Slot::default()).collect(),
            index: Index::new(EVENTS),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        }
    }

    pub(super) fn waiting(&self) -> u64 {
        let tail = self.tail.load(Ordering::Acquire);
        self.head.load(Ordering::Acquire).saturating_sub(tail)
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        let index = usize::try_from(number % OPERATIONS as u64).ok()?;
        self.slots.get(index)
    }

    /// An operation starts. False if the ring is full.
    pub(super) fn begin(&self, id: u64, ticks: u64, facts: &OperationInfo) -> bool {
        let Some(number) = self.next_number() else {
            return false;
        };
        let Some(slot) = self.slot(number) else {
            return false;
        };
        let algorithm = facts.algorithm.and_then(|index| u8::try_from(index).ok());
        let packed = u64::from(facts.function.number())
            | u64::from(algorithm.unwrap_or(NO_ALGORITHM)) << 8
            | u64::from(facts.sequence.is_some()) << 16
            | u64::from(facts.peer.unwrap_or(NO_PEER)) << 32;
        slot.number.store(number, Ordering::Relaxed);
        slot.begin_ticks.store(ticks, Ordering::Relaxed);
        slot.context.store(facts.context, Ordering::Relaxed);
        slot.sequence.store(facts.sequence.unwrap_or(0), Ordering::Relaxed);
        slot.bytes.store(facts.bytes, Ordering::Relaxed);
        slot.packed.store(packed, Ordering::Relaxed);
        for zero in [&slot.enqueued_ticks, &slot.stopped_ticks, &slot.channel_stopped_ticks] {
            zero.store(0, Ordering::Relaxed);
        }
        slot.seen_ticks.store(ticks, Ordering::Relaxed);
        for zero in [&slot.parts, &slot.open] {
            zero.store(0, Ordering::Relaxed);
        }
        slot.id.store(id, Ordering::Release);
        // Without an index entry, its parts do not find the operation, which then ends with its enqueueing.
        self.index.put(id, number, self.oldest());
        true
    }

    fn oldest(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    fn next_number(&self) -> Option<u64> {
        let taken = self.head.fetch_update(Ordering::AcqRel, Ordering::Acquire, |head| {
            let tail = self.tail.load(Ordering::Acquire);
            (head.saturating_sub(tail) < OPERATIONS as u64).then_some(head + 1)
        });
        taken.ok()
    }

    fn slot_of_event(&self, id: u64) -> Option<(u64, &Slot)> {
        let number = self.index.get(id)?;
        let slot = self.slot(number)?;
        (slot.id.load(Ordering::Acquire) == id).then_some((number, slot))
    }

    /// A part of an operation starts. False if the operation is not in the ring.
    pub(super) fn child_begins(&self, id: u64, parent: u64) -> bool {
        let Some((number, slot)) = self.slot_of_event(parent) else {
            return false;
        };
        if !self.index.put(id, number, self.oldest()) {
            return false;
        }
        slot.open.fetch_add(1, Ordering::AcqRel);
        slot.parts.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// An operation has been enqueued, or one of its parts stops. False if the event is neither.
    pub(super) fn stops(&self, id: u64, ticks: u64) -> bool {
        if let Some((_, slot)) = self.slot_of_event(id) {
            slot.enqueued_ticks.store(ticks, Ordering::Release);
            slot.seen_ticks.fetch_max(ticks, Ordering::AcqRel);
            return true;
        }
        let Some(number) = self.index.take(id) else {
            return false;
        };
        let slot = self.slot(number).filter(|slot| {
            let is_in_use = slot.id.load(Ordering::Acquire) != 0;
            is_in_use && slot.number.load(Ordering::Relaxed) == number
        });
        // The operation was removed before its part stopped.
        let Some(slot) = slot else {
            return true;
        };
        if EventId::from_raw(id).kind() == Kind::KernelCh {
            slot.channel_stopped_ticks.fetch_max(ticks, Ordering::AcqRel);
        }
        slot.stopped_ticks.fetch_max(ticks, Ordering::AcqRel);
        slot.seen_ticks.fetch_max(ticks, Ordering::AcqRel);
        let less = |open: u32| open.checked_sub(1);
        let _last = slot.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        true
    }

    /// Removes the oldest operation, if it has ended or waited long enough. Only for the holder of the drain.
    pub(super) fn take(&self, patience: Option<&Timeouts>) -> Option<EndedOperation> {
        let tail = self.tail.load(Ordering::Acquire);
        if tail == self.head.load(Ordering::Acquire) {
            return None;
        }
        let slot = self.slot(tail)?;
        let id = slot.id.load(Ordering::Acquire);
        // A thread is still filling the slot.
        if id == 0 {
            return None;
        }
        let state = SlotState::load(slot);
        if let Some(patience) = patience {
            let is_crowded = self.waiting() > OPERATIONS as u64 / 2;
            if !is_crowded && !state.is_complete(patience) {
                return None;
            }
        }
        let ended = state.ended(slot);
        self.index.take(id);
        slot.id.store(0, Ordering::Release);
        self.tail.store(tail + 1, Ordering::Release);
        Some(ended)
    }
}

#[derive(Clone, Copy, Debug)]
struct SlotState {
    begin_ticks: u64,
    enqueued_ticks: u64,
    seen_ticks: u64,
    stopped_ticks: u64,
    channel_stopped_ticks: u64,
    parts: u32,
    open: u32,
}

impl SlotState {
    fn load(slot: &Slot) -> Self {
        Self {
            open: slot.open.load(Ordering::Acquire),
            enqueued_ticks: slot.enqueued_ticks.load(Ordering::Acquire),
            begin_ticks: slot.begin_ticks.load(Ordering::Relaxed),
            seen_ticks: slot.seen_ticks.load(Ordering::Relaxed),
            stopped_ticks: slot.stopped_ticks.load(Ordering::Relaxed),
            channel_stopped_ticks: slot.channel_stopped_ticks.load(Ordering::Relaxed),
            parts: slot.parts.load(Ordering::Relaxed),
        }
    }

    const fn is_complete(&self, patience: &Timeouts) -> bool {
        let quiet_ticks = patience.now_ticks.saturating_sub(self.seen_ticks);
        if quiet_ticks > patience.given_up_ticks {
            return true;
        }
        let waits_for = match self.parts {
            0 => patience.without_parts_ticks,
            _ => patience.after_parts_ticks,
        };
        self.enqueued_ticks > 0 && self.open == 0 && quiet_ticks > waits_for
    }

    /// The operation's interval by the rules of archives; here it begins with the enqueueing.
    fn interval(&self) -> Interval {
        let has_ended =
            model::links::operations::has_ended(self.open > 0, self.enqueued_ticks > 0, self.stopped_ticks > 0);
        let known = |ticks: u64| (ticks > 0).then_some(ticks);
        let known = OperationTimes {
            launched: self.begin_ticks,
            enqueued: (self.begin_ticks, self.enqueued_ticks.max(self.seen_ticks)),
            kernel_on_host: known(self.channel_stopped_ticks).map(|stopped| (self.begin_ticks, stopped)),
            proxy_last: known(self.stopped_ticks),
            unfinished: !has_ended,
            ..OperationTimes::default()
        };
        Interval::new(&known, self.seen_ticks)
    }

    fn ended(&self, slot: &Slot) -> EndedOperation {
        let [function, algorithm, has_sequence, ..] = slot.packed.load(Ordering::Relaxed).to_le_bytes();
        let peer = u32::try_from(slot.packed.load(Ordering::Relaxed) >> 32).unwrap_or(NO_PEER);
        let sequence = slot.sequence.load(Ordering::Relaxed);
        let Interval { start, end, timing, unfinished, .. } = self.interval();
        EndedOperation {
            facts: OperationInfo {
                function: Function::from_number(function),
                context: slot.context.load(Ordering::Relaxed),
                sequence: (has_sequence != 0).then_some(sequence),
                bytes: slot.bytes.load(Ordering::Relaxed),
                peer: Some(peer).filter(|&peer| peer != NO_PEER),
                algorithm: Some(usize::from(algorithm)).filter(|&at| at < ALGORITHMS.len()),
            },
            begin_ticks: start,
            end_ticks: end,
            timing,
            is_unfinished: unfinished,
        }
    }
}

const REACH: usize = 16;
const FREE: u64 = 0;
/// A thread is filling the entry. No event id equals this value, because ids have a tag in their upper bits.
const TAKEN: u64 = 1;

#[derive(Debug)]
struct Entry {
    id: AtomicU64,
    operation: AtomicU64,
}

impl Entry {
    /// Replaces the id, unless another thread was first.
    fn replace(&self, from: u64, to: u64) -> bool {
        self.id.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// A fixed-size, lock-free hash table, shared by all threads, from an event's id to the number of its operation.
#[derive(Debug)]
pub(super) struct Index {
    entries: Box<[Entry]>,
}

impl Index {
    /// Creates a table with this number of entries, rounded up to a power of two.
    pub(super) fn new(entries: usize) -> Self {
        let entry = |_| Entry { id: AtomicU64::new(FREE), operation: AtomicU64::new(0) };
        Self { entries: (0..entries.next_power_of_two()).map(entry).collect() }
    }

    /// Inserts an id, replacing an id of an operation before `oldest` if necessary. False if no entry is available.
    pub(super) fn put(&self, id: u64, operation: u64, oldest: u64) -> bool {
        let free = |entry: &&Entry| entry.replace(FREE, TAKEN);
        let old = |entry: &&Entry| {
            let id = entry.id.load(Ordering::Acquire);
            id > TAKEN && entry.operation.load(Ordering::Relaxed) < oldest && entry.replace(id, TAKEN)
        };
        let entry = self.entries_for(id).find(free);
        let Some(entry) = entry.or_else(|| self.entries_for(id).find(old)) else {
            return false;
        };
        // A thread that reads the new number sees that the id has changed.
        entry.operation.store(operation, Ordering::Release);
        entry.id.store(id, Ordering::Release);
        true
    }

    pub(super) fn get(&self, id: u64) -> Option<u64> {
        let entry = self.find(id)?;
        let operation = entry.operation.load(Ordering::Acquire);
        // If the entry was reused meanwhile, the number belongs to another id.
        (entry.id.load(Ordering::Acquire) == id).then_some(operation)
    }

    pub(super) fn take(&self, id: u64) -> Option<u64> {
        let entry = self.find(id)?;
        let operation = entry.operation.load(Ordering::Acquire);
        entry.replace(id, FREE).then_some(operation)
    }

    fn find(&self, id: u64) -> Option<&Entry> {
        if id <= TAKEN {
            return None;
        }
        self.entries_for(id).find(|entry| entry.id.load(Ordering::Acquire) == id)
    }

    fn entries_for(&self, id: u64) -> impl Iterator<Item = &Entry> {
        let mask = self.entries.len() - 1;
        // Ids differ in their lower bits; the lowest five are the kind.
        let hash = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = usize::try_from(hash).unwrap_or(0);
        (0..REACH).filter_map(move |step| self.entries.get((first + step) & mask))
    }
}

#[cfg(test)]
mod index_tests {
    use crate::scorep::operations::*;

    #[test]
    fn a_full_index_reuses_only_old_entries() {
        let index = Index::new(REACH);
        let put = (100..200).filter(|&id| index.put(id, id, 0)).count();
        assert_eq!(put, REACH);
        assert!(index.put(200, 7, 101), "the entry of 100, which is too old");
        assert_eq!((index.get(100), index.get(200)), (None, Some(7)));
        assert!(!index.put(201, 8, 7), "nothing is too old");
    }
}

#[cfg(test)]
mod tests;
