//! What runs asynchronously: operations from their start to the last stop of what they consist of.
//!
//! A ring of fixed size, in the order of starts. Any thread begins an operation and its parts and ends them, without a
//! lock; who holds the drain takes the oldest out. When it is full, what comes is not kept: counted.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::index::Index;
use super::regions::{ALGORITHMS, Function, Timing, element_bytes};
use nccl_events::{Body, Name, Start};

/// How many operations can be on their way at once: a tape of small collectives that nobody waits for.
const OPERATIONS: usize = 4096;
/// How many events can be: each operation and its parts.
const EVENTS: usize = 4 * OPERATIONS;
/// For an algorithm that is none of those known.
const NO_ALGORITHM: u8 = u8::MAX;
/// For a peer that there is not.
const NO_PEER: u32 = u32::MAX;

/// What is known of an operation when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) function: Function,
    /// NCCL's, as the plugin gave it.
    pub(super) context: u64,
    /// None for sends and receives.
    pub(super) sequence: Option<u64>,
    pub(super) bytes: u64,
    pub(super) peer: Option<u32>,
    /// A place in the list of algorithms.
    pub(super) algorithm: Option<usize>,
}

impl Facts {
    /// Those of a Coll or P2p.
    pub(super) fn of(event: &Start<Name<'_>>) -> Self {
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
                facts.bytes = coll
                    .count
                    .saturating_mul(element_bytes(coll.datatype.bytes()));
                facts.algorithm = ALGORITHMS
                    .iter()
                    .position(|known| known.to_bytes() == algorithm);
            }
            Body::P2p(p2p) => {
                facts.function = Function::named(p2p.func.bytes());
                facts.bytes = p2p
                    .count
                    .saturating_mul(element_bytes(p2p.datatype.bytes()));
                facts.peer = u32::try_from(p2p.peer).ok();
            }
            _ => {}
        }
        facts
    }
}

/// An operation that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) facts: Facts,
    pub(super) begin_ticks: u64,
    pub(super) end_ticks: u64,
    pub(super) timing: Timing,
    pub(super) is_unfinished: bool,
}

/// When the oldest operation may be taken out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) now_ticks: u64,
    /// So long after its last part: another one may come.
    pub(super) after_parts_ticks: u64,
    /// So long after its start when there were no parts: they may be late.
    pub(super) without_parts_ticks: u64,
    /// So long after the last sign of it, whatever is open: what never stops must not hold up the rest.
    pub(super) given_up_ticks: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// 0 until all below is there.
    id: AtomicU64,
    /// The how-manieth operation it is.
    place: AtomicU64,
    begin_ticks: AtomicU64,
    context: AtomicU64,
    sequence: AtomicU64,
    bytes: AtomicU64,
    /// Function, algorithm and whether there is a sequence number, in bytes; the peer in the upper half.
    packed: AtomicU64,
    /// When it was enqueued; 0 before that.
    enqueued_ticks: AtomicU64,
    /// Last start or stop of a part.
    seen_ticks: AtomicU64,
    /// Last stop of a part.
    stopped_ticks: AtomicU64,
    parts: AtomicU32,
    channels: AtomicU32,
    open: AtomicU32,
}

#[derive(Debug)]
pub(super) struct Operations {
    slots: Box<[Slot]>,
    index: Index,
    /// How many began.
    head: AtomicU64,
    /// How many were taken out.
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

    /// How many are in it.
    pub(super) fn waiting(&self) -> u64 {
        let tail = self.tail.load(Ordering::Acquire);
        self.head.load(Ordering::Acquire).saturating_sub(tail)
    }

    fn slot(&self, place: u64) -> Option<&Slot> {
        let place = usize::try_from(place % OPERATIONS as u64).ok()?;
        self.slots.get(place)
    }

    /// An operation starts. Not kept when there is no room.
    pub(super) fn begin(&self, id: u64, ticks: u64, facts: &Facts) -> bool {
        let Some(place) = self.take_place() else {
            return false;
        };
        let Some(slot) = self.slot(place) else {
            return false;
        };
        let algorithm = facts.algorithm.and_then(|place| u8::try_from(place).ok());
        let packed = u64::from(facts.function.number())
            | u64::from(algorithm.unwrap_or(NO_ALGORITHM)) << 8
            | u64::from(facts.sequence.is_some()) << 16
            | u64::from(facts.peer.unwrap_or(NO_PEER)) << 32;
        slot.place.store(place, Ordering::Relaxed);
        slot.begin_ticks.store(ticks, Ordering::Relaxed);
        slot.context.store(facts.context, Ordering::Relaxed);
        slot.sequence
            .store(facts.sequence.unwrap_or(0), Ordering::Relaxed);
        slot.bytes.store(facts.bytes, Ordering::Relaxed);
        slot.packed.store(packed, Ordering::Relaxed);
        for zero in [&slot.enqueued_ticks, &slot.stopped_ticks] {
            zero.store(0, Ordering::Relaxed);
        }
        slot.seen_ticks.store(ticks, Ordering::Relaxed);
        for zero in [&slot.parts, &slot.channels, &slot.open] {
            zero.store(0, Ordering::Relaxed);
        }
        slot.id.store(id, Ordering::Release);
        // Without an entry it is shown as far as it was enqueued: its parts do not find it.
        self.index.put(id, place, self.oldest());
        true
    }

    fn oldest(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// A place in the ring.
    fn take_place(&self) -> Option<u64> {
        let taken = self
            .head
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |head| {
                let tail = self.tail.load(Ordering::Acquire);
                (head.saturating_sub(tail) < OPERATIONS as u64).then_some(head + 1)
            });
        taken.ok()
    }

    /// The slot of an operation that is in the ring.
    fn of(&self, id: u64) -> Option<(u64, &Slot)> {
        let place = self.index.get(id)?;
        let slot = self.slot(place)?;
        (slot.id.load(Ordering::Acquire) == id).then_some((place, slot))
    }

    /// A part of an operation starts. False where the operation is not in the ring.
    pub(super) fn child_begins(&self, id: u64, parent: u64, is_channel: bool) -> bool {
        let Some((place, slot)) = self.of(parent) else {
            return false;
        };
        if !self.index.put(id, place, self.oldest()) {
            return false;
        }
        slot.open.fetch_add(1, Ordering::AcqRel);
        slot.parts.fetch_add(1, Ordering::Relaxed);
        if is_channel {
            slot.channels.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// An operation is enqueued, or a part of one stops. False where the event is neither.
    pub(super) fn stops(&self, id: u64, ticks: u64) -> bool {
        if let Some((_, slot)) = self.of(id) {
            slot.enqueued_ticks.store(ticks, Ordering::Release);
            slot.seen_ticks.fetch_max(ticks, Ordering::AcqRel);
            return true;
        }
        let Some(place) = self.index.take(id) else {
            return false;
        };
        let slot = self.slot(place).filter(|slot| {
            let is_there = slot.id.load(Ordering::Acquire) != 0;
            is_there && slot.place.load(Ordering::Relaxed) == place
        });
        // Of an operation that was not waited for.
        let Some(slot) = slot else {
            return true;
        };
        slot.stopped_ticks.fetch_max(ticks, Ordering::AcqRel);
        slot.seen_ticks.fetch_max(ticks, Ordering::AcqRel);
        let less = |open: u32| open.checked_sub(1);
        let _last = slot
            .open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        true
    }

    /// Takes out the oldest operation, if it has ended as far as one can tell. Only who holds the drain may ask.
    pub(super) fn take(&self, patience: Option<&Patience>) -> Option<Ended> {
        let tail = self.tail.load(Ordering::Acquire);
        if tail == self.head.load(Ordering::Acquire) {
            return None;
        }
        let slot = self.slot(tail)?;
        let id = slot.id.load(Ordering::Acquire);
        // Just being put in.
        if id == 0 {
            return None;
        }
        let state = SlotState::of(slot);
        if let Some(patience) = patience {
            let is_crowded = self.waiting() > OPERATIONS as u64 / 2;
            if !is_crowded && !state.may_go(patience) {
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

/// A slot as it is just now.
#[derive(Clone, Copy, Debug)]
struct SlotState {
    begin_ticks: u64,
    enqueued_ticks: u64,
    seen_ticks: u64,
    stopped_ticks: u64,
    parts: u32,
    channels: u32,
    open: u32,
}

impl SlotState {
    fn of(slot: &Slot) -> Self {
        Self {
            open: slot.open.load(Ordering::Acquire),
            enqueued_ticks: slot.enqueued_ticks.load(Ordering::Acquire),
            begin_ticks: slot.begin_ticks.load(Ordering::Relaxed),
            seen_ticks: slot.seen_ticks.load(Ordering::Relaxed),
            stopped_ticks: slot.stopped_ticks.load(Ordering::Relaxed),
            parts: slot.parts.load(Ordering::Relaxed),
            channels: slot.channels.load(Ordering::Relaxed),
        }
    }

    const fn may_go(&self, patience: &Patience) -> bool {
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

    fn ended(&self, slot: &Slot) -> Ended {
        let [function, algorithm, has_sequence, ..] =
            slot.packed.load(Ordering::Relaxed).to_le_bytes();
        let peer = u32::try_from(slot.packed.load(Ordering::Relaxed) >> 32).unwrap_or(NO_PEER);
        let sequence = slot.sequence.load(Ordering::Relaxed);
        // A shared kernel's channels end after the network's work, or there is none.
        let timing = match (self.stopped_ticks, self.channels) {
            (0, _) => Timing::Enqueue,
            (_, 0) => Timing::Proxy,
            _ => Timing::Channels,
        };
        let end_ticks = match timing {
            Timing::Enqueue => self.enqueued_ticks.max(self.seen_ticks),
            _ => self.stopped_ticks,
        };
        Ended {
            facts: Facts {
                function: Function::from_number(function),
                context: slot.context.load(Ordering::Relaxed),
                sequence: (has_sequence != 0).then_some(sequence),
                bytes: slot.bytes.load(Ordering::Relaxed),
                peer: Some(peer).filter(|&peer| peer != NO_PEER),
                algorithm: Some(usize::from(algorithm)).filter(|&at| at < ALGORITHMS.len()),
            },
            begin_ticks: self.begin_ticks,
            end_ticks,
            timing,
            is_unfinished: self.open > 0 || self.enqueued_ticks == 0,
        }
    }
}

#[cfg(test)]
mod tests;
