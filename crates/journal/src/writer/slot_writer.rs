//! Appends records to one slot.
//!
//! A slot writer belongs to one thread at a time and appends without locks, system calls or allocation. It meets the
//! maintenance thread only at the end of a segment: either the maintenance thread has prepared the next segment, or
//! the slot writer prepares it itself and counts a stall.

use nccl_events::event;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::clock::ticks;
use crate::format::encode::{self, NameNumber, Sink};
use crate::format::layout::{HEADER_WORDS, RECORD_HEADER_WORDS, SEGMENT_WORDS, header, kind, mark, pair, record_word};
use crate::uninterrupted::uninterrupted;
use crate::writer::lost::Lost;
use crate::writer::mapping::Segment;
use crate::writer::names::{NameCache, PermanentName};
use crate::writer::repeat_filter::{HeldControl, Waits};
use crate::writer::slot::Slot;
use crate::writer::space::Space;
use nccl_events::id::{EventId, LAST_SEQUENCE};
use nccl_events::{Body, Kind, Name, Start, State};

mod control_records;
mod left;
mod next_segment;
mod range;

/// Prefetch distance: about twenty records, several hundred nanoseconds at full speed.
const FETCH_AHEAD_WORDS: usize = 128;

/// Upper bound for a record, the strings it names and a held control event: a flight recording has them in one segment.
const RECORD_AND_NAMES_WORDS: usize = 256;

/// Appends records to one slot. What every callback reads comes first: after other work it is not in the caches.
#[repr(C)]
pub struct SlotWriter {
    /// The next record's offset in words.
    at: usize,
    /// The offset from which a record that names strings goes to the next segment.
    names_end: usize,
    order: u64,
    next_sequence: u64,
    /// An id with the process tag and the number of this slot.
    own_id: EventId,
    segment: Segment,
    held: HeldControl,
    /// The record of the slot's thread. Here, because its tag also says whether a thread has a slot writer.
    thread: Option<ThreadBegin>,
    names: NameCache,
    waits: Waits,
    /// Nothing more can be recorded.
    has_ended: bool,
    space: Arc<Space>,
    slot: Arc<Slot>,
    counters: Counters,
    /// What a new segment of a flight recording repeats.
    repeat: Option<fn(&mut SlotWriter)>,
}

/// The payload of a `THREAD_BEGIN` record.
type ThreadBegin = [u64; 3];

/// The running totals of a slot, laid out as in the header of the segment in use.
#[derive(Clone, Copy, Debug)]
struct Counters([u64; COUNTERS]);

const COUNTERS: usize = header::STARTED_AT_LOSS + 1 - header::STALLS;

impl std::fmt::Debug for SlotWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SlotWriter")
            .field("slot", &self.slot.number)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl SlotWriter {
    /// A slot writer at the start of a slot's first segment, which must be prepared.
    pub(crate) fn new(space: Arc<Space>, slot: Arc<Slot>, segment: Segment) -> Self {
        let names_end = match space.retention {
            Some(_) => SEGMENT_WORDS - RECORD_AND_NAMES_WORDS,
            None => SEGMENT_WORDS,
        };
        let mut slot_writer = Self {
            at: HEADER_WORDS,
            names_end,
            order: 0,
            next_sequence: 1,
            own_id: EventId::new(space.options.tag, slot.number, 0, Kind::Group),
            segment,
            held: HeldControl::NONE,
            thread: None,
            names: NameCache::new(),
            waits: Waits::new(),
            has_ended: false,
            space,
            slot,
            counters: Counters([0; COUNTERS]),
            repeat: None,
        };
        slot_writer.write_header(0);
        slot_writer
    }

    /// Records the start of an event. If there is no room the loss is counted, and a mark in the id makes the event's
    /// stop and states count as lost, too.
    #[inline]
    pub fn start(&mut self, event: &Start<Name<'_>>) -> EventId {
        self.make_room_for_names();
        let sequence = self.next_sequence;
        let id = self.own_id.with_number(sequence, event.body.kind());
        self.put_held();
        if matches!(event.body, Body::ProxyCtrl(event::ProxyCtrl {})) && sequence <= LAST_SEQUENCE {
            // Counted as empty from now on, so that the count is right even if the process is killed.
            self.held = HeldControl::new(id, ticks(), event);
            self.add(header::EMPTY_CONTROLS, 1);
        } else if sequence > LAST_SEQUENCE || !encode::start(self, id.get(), event) {
            self.next_sequence = sequence + 1;
            return self.lose_start(id);
        }
        // A number counts as used once its record is committed: see `was_left`.
        compiler_fence(Ordering::SeqCst);
        self.next_sequence = sequence + 1;
        id
    }

    /// In a flight recording: advances to the next segment if a record and its strings might not fit into this one.
    #[inline]
    fn make_room_for_names(&mut self) {
        if self.at > self.names_end {
            let _full = self.advance();
        }
    }

    #[cold]
    fn lose_start(&mut self, id: EventId) -> EventId {
        self.count_loss(Lost::Start(id.kind()));
        self.set(header::STARTED_AT_LOSS, self.next_sequence - 1);
        id.unrecorded()
    }

    /// Records the held control event: something else happens, so the event is not empty.
    #[inline]
    fn put_held(&mut self) {
        if !self.held.id.is_none() {
            self.put_held_now();
        }
    }

    #[cold]
    fn put_held_now(&mut self) {
        // A held event counts among the events of the next segment.
        self.make_room_for_names();
        let held = std::mem::replace(&mut self.held, HeldControl::NONE);
        let payload = [held.parent, held.context, u64::from(held.rank.cast_unsigned())];
        let control = Kind::ProxyCtrl;
        let record = kind::START + control as u8;
        if !self.put_at(record, 0, held.ticks, held.id.get(), payload) {
            // NCCL has the id without the mark, but this thread has no room for the event's stop and states either.
            let _marked = self.lose_start(held.id);
        }
        self.add(header::EMPTY_CONTROLS, u64::MAX);
    }

    /// Records the end of an event.
    #[inline]
    pub fn stop(&mut self, event: u64) {
        if event == self.held.id.get() {
            // The event entered no state and is only counted. Its sequence number, the last one, becomes free again:
            // otherwise a day of these events would use up all numbers.
            self.next_sequence -= u64::from(!self.held.id.is_none());
            self.held = HeldControl::NONE;
            return;
        }
        self.put_held();
        if self.is_of_lost(event) || !self.put(kind::STOP, 0, event, []) {
            self.count_loss(Lost::Stop(event));
        }
    }

    /// Whether the start of this event was lost. If so, its stop and states are lost as well, even if there is room.
    #[inline]
    fn is_of_lost(&self, event: u64) -> bool {
        let id = EventId::from_raw(event);
        id.is_unrecorded() && id.tag() == self.own_id.tag()
    }

    /// Records a change of state.
    #[inline]
    pub fn state(&mut self, event: &State) {
        if self.waits.repeats(event) {
            self.add(header::REPEATED_WAITS, 1);
            return;
        }
        self.put_held();
        if self.is_of_lost(event.event) || !encode::state(self, event) {
            self.count_loss(Lost::State(event.event));
        }
    }

    #[cold]
    fn count_loss(&mut self, what: Lost) {
        let place = what.index(self.space.options.tag);
        self.add(header::LOST_STARTS + place, 1);
        self.space.note_loss();
    }

    /// Sets a counter, here and in the journal.
    fn set(&mut self, word: usize, value: u64) {
        if let Some(total) = self.counters.0.get_mut(word - header::STALLS) {
            *total = value;
            if let Some(word) = self.segment.get(word) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// Adds to a running total, here and in the journal. Wraps, so that `u64::MAX` subtracts one.
    #[inline]
    fn add(&mut self, word: usize, more: u64) {
        if let Some(total) = self.counters.0.get_mut(word - header::STALLS) {
            *total = total.wrapping_add(more);
            if let Some(word) = self.segment.get(word) {
                word.store(*total, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn put_at<const WORDS: usize>(&mut self, record: u8, flags: u8, now: u64, id: u64, payload: [u64; WORDS]) -> bool {
        let words = RECORD_HEADER_WORDS + WORDS;
        if self.at + words > SEGMENT_WORDS && !self.advance() {
            return false;
        }
        let at = self.at;
        let Some(room) = self.segment.get(at..at + words) else {
            return false;
        };
        let [head, tick, event, rest @ ..] = room else {
            return false;
        };
        #[expect(clippy::cast_possible_truncation, reason = "RECORD_MAX_WORDS is far below 65536")]
        let length = words as u16;
        head.store(record_word(record, flags, length, mark(self.order, at)), Ordering::Relaxed);
        tick.store(now, Ordering::Relaxed);
        event.store(id, Ordering::Relaxed);
        for (to, from) in rest.iter().zip(payload) {
            to.store(from, Ordering::Relaxed);
        }
        self.at = at + words;
        self.segment.fetch_ahead(at + FETCH_AHEAD_WORDS);
        if let Some(committed) = self.segment.get(header::COMMITTED) {
            committed.store(8 * self.at as u64, Ordering::Release);
        }
        true
    }
}

impl Sink for SlotWriter {
    #[inline]
    fn put<const WORDS: usize>(&mut self, record: u8, flags: u8, id: u64, payload: [u64; WORDS]) -> bool {
        self.put_at(record, flags, ticks(), id, payload)
    }

    #[inline]
    fn name(&mut self, name: Name<'_>) -> NameNumber {
        if name.is_none() {
            return 0;
        }
        match self.names.get(name) {
            Some(number) => number,
            None => self.new_name(name),
        }
    }
}

impl SlotWriter {
    /// Records a string on first use. If there is no room for the string there is also none for the record that
    /// names it ([`Self::advance`]). A string counts as recorded once it is: a signal handler may leave before.
    #[cold]
    fn new_name(&mut self, name: Name<'_>) -> NameNumber {
        if let Some(number) = self.names.find_recorded(name) {
            return number;
        }
        let Some(number) = self.names.number(name) else {
            return 0;
        };
        self.put_name(number, name);
        compiler_fence(Ordering::SeqCst);
        if self.names.has_room(name) {
            self.names.add_recorded(name, number);
        } else {
            uninterrupted(|| self.names.add_recorded(name, number));
        }
        number
    }

    #[inline]
    fn permanent_name(&mut self, name: Option<PermanentName>) -> NameNumber {
        name.map_or(0, |name| self.names.get_permanent(name).unwrap_or_else(|| self.new_permanent_name(name)))
    }

    #[cold]
    fn new_permanent_name(&mut self, name: PermanentName) -> NameNumber {
        if !self.names.has_room_for_permanent() {
            uninterrupted(|| self.names.make_room_for_permanent());
        }
        let Some(number) = self.names.number_permanent(name) else {
            return 0;
        };
        self.put_name(number, name.text());
        compiler_fence(Ordering::SeqCst);
        self.names.add_recorded_permanent(name, number);
        number
    }

    fn put_name(&mut self, number: NameNumber, name: Name<'_>) {
        let mut text = [0_u8; Name::MAX_BYTES + 1];
        let bytes = name.bytes();
        for (to, from) in text.iter_mut().zip(bytes) {
            *to = *from;
        }
        let (words, _) = text.as_chunks::<8>();
        let length = u32::try_from(bytes.len()).unwrap_or(0);
        let mut payload = [0; 1 + (Name::MAX_BYTES + 1) / 8];
        for (to, from) in payload.iter_mut().skip(1).zip(words) {
            *to = u64::from_le_bytes(*from);
        }
        if let Some(first) = payload.first_mut() {
            *first = pair(u32::from(number), length);
        }
        let _full = self.put(kind::NAME, 0, 0, payload);
    }
}

#[cfg(test)]
mod tests;
