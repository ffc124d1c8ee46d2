//! Appends records to one slot.
//!
//! A cursor belongs to one thread at a time and appends without locks, system calls or allocation. It
//! meets the keeper thread only where a segment ends: the keeper has prepared the next one, or the
//! cursor prepares it itself and counts a stall.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::encode::{self, NameNumber, Sink};
use super::layout::{
    FORMAT_VERSION, HEADER_WORDS, MAGIC, RECORD_HEADER_WORDS, SEGMENT_BYTES, SEGMENT_WORDS, header,
    kind, mark, pair, record_word, segment_flag,
};
use super::mapping::{JournalFile, Segment};
use super::names::NameCache;
use super::quiet::{HeldControl, Waits};
use super::writer::{Lost, Registry, Slot};
use crate::clock::{ClockPair, ticks};
use crate::control::windows::Span;
use crate::control::{Cause, Switch};
use crate::event::{Body, Kind, Name, Start, State};
use crate::gpu::record::GpuRecord;
use crate::id::{EventId, LAST_SEQUENCE};

/// How far ahead lines are fetched: some twenty records, several hundred nanoseconds at full speed.
const FETCH_AHEAD_WORDS: usize = 128;

/// What a record and the strings it names may take together, and a control event that was held back: in a window they
/// must be in one segment.
const RECORD_AND_NAMES_WORDS: usize = 256;

/// Used segments that may be resident before the recording thread lets go of them itself.
const MOST_UNRELEASED: usize = 1;

/// Appends records to one slot.
pub struct Cursor {
    registry: Arc<Registry>,
    slot: Arc<Slot>,
    segment: Segment,
    /// Where the next record begins, in words.
    at: usize,
    /// From where a record that names strings goes to the next segment.
    turn_at: usize,
    order: u64,
    next_sequence: u64,
    names: NameCache,
    held: HeldControl,
    waits: Waits,
    counters: Counters,
    /// The record of the thread that writes here.
    thread: Option<ThreadBegin>,
}

/// The payload of the record of a thread's beginning.
type ThreadBegin = [u64; 3];

/// The running totals of a slot, as they lie in the header of the segment in use.
#[derive(Clone, Copy, Debug)]
struct Counters([u64; COUNTERS]);

const COUNTERS: usize = header::STARTED_AT_LOSS + 1 - header::STALLS;

impl std::fmt::Debug for Cursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Cursor")
            .field("slot", &self.slot.number)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Cursor {
    /// A cursor at the beginning of a slot's first segment, which is prepared.
    pub(super) fn new(registry: Arc<Registry>, slot: Arc<Slot>, segment: Segment) -> Self {
        let turn_at = match registry.window() {
            Some(_) => SEGMENT_WORDS - RECORD_AND_NAMES_WORDS,
            None => SEGMENT_WORDS,
        };
        let mut cursor = Self {
            registry,
            slot,
            segment,
            at: HEADER_WORDS,
            turn_at,
            order: 0,
            next_sequence: 1,
            names: NameCache::new(),
            held: HeldControl::NONE,
            waits: Waits::new(),
            counters: Counters([0; COUNTERS]),
            thread: None,
        };
        cursor.write_header();
        cursor
    }

    /// Records the start of an event. When there is no room the loss is counted, and the id says that its stop
    /// and its states are part of what is lost.
    #[inline]
    pub fn start(&mut self, event: &Start<'_>) -> EventId {
        self.make_room_for_names();
        let id = EventId::new(
            self.registry.options.tag,
            self.slot.number,
            self.next_sequence,
            event.body.kind(),
        );
        self.next_sequence += 1;
        self.put_held();
        if self.next_sequence > LAST_SEQUENCE + 1 {
            return self.lose_start(id);
        }
        if matches!(event.body, Body::ProxyCtrl) {
            // Counted as empty from now on, so that the count is right whenever the process is killed.
            self.held = HeldControl::new(id, ticks(), event);
            self.add(header::EMPTY_CONTROLS, 1);
        } else if !encode::start(self, id.get(), event) {
            return self.lose_start(id);
        }
        id
    }

    /// In a window: goes on to the next segment if a record with its strings might not fit into this one.
    #[inline]
    fn make_room_for_names(&mut self) {
        if self.at > self.turn_at {
            let _full = self.advance();
        }
    }

    #[cold]
    fn lose_start(&mut self, id: EventId) -> EventId {
        self.lose(Lost::Start(id.kind()));
        self.set(header::STARTED_AT_LOSS, self.next_sequence - 1);
        id.unrecorded()
    }

    /// Records the control event that was held back: something else happens, so it is not an empty one.
    #[inline]
    fn put_held(&mut self) {
        if !self.held.id.is_none() {
            self.put_held_now();
        }
    }

    #[cold]
    fn put_held_now(&mut self) {
        // While it is held back it counts among those that come in the next segment.
        self.make_room_for_names();
        let held = std::mem::replace(&mut self.held, HeldControl::NONE);
        let payload = [
            held.parent,
            held.context,
            u64::from(held.rank.cast_unsigned()),
        ];
        let control = Kind::ProxyCtrl;
        let record = kind::START + control as u8;
        if !self.put_at(record, 0, held.ticks, held.id.get(), payload) {
            // NCCL has its id already, without the mark; but its stop and states come on this thread, which has no
            // room for them either.
            let _marked = self.lose_start(held.id);
        }
        self.add(header::EMPTY_CONTROLS, u64::MAX);
    }

    /// Records the end of an event.
    #[inline]
    pub fn stop(&mut self, event: u64) {
        if event == self.held.id.get() {
            // It never entered a state: it stays a number. Its sequence number, that of the last start, is free
            // again: these are so many that a day of them would use up all there are.
            self.next_sequence -= u64::from(!self.held.id.is_none());
            self.held = HeldControl::NONE;
            return;
        }
        self.put_held();
        if self.is_of_lost(event) || !self.put(kind::STOP, 0, event, []) {
            self.lose(Lost::Stop(event));
        }
    }

    /// Whether the start of this event was lost: then its stop and states are, too, wherever there is room.
    #[inline]
    fn is_of_lost(&self, event: u64) -> bool {
        let id = EventId::from_raw(event);
        id.is_unrecorded() && id.tag() == self.registry.options.tag.get()
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
            self.lose(Lost::State(event.event));
        }
    }

    /// Records what the system's clocks show.
    pub fn clock_pair(&mut self, clocks: &ClockPair) {
        let payload = [
            clocks.monotonic_ns,
            clocks.realtime_ns,
            clocks.monotonic_raw_ns,
            clocks.uncertainty_ticks,
        ];
        let _full = self.put_at(kind::CLOCK_PAIR, 0, clocks.ticks, 0, payload);
    }

    /// Records a communicator's beginning: `begin_ticks` is when `init` was entered.
    pub fn comm_init(
        &mut self,
        context: u64,
        begin_ticks: u64,
        repetition: u32,
        comm: &crate::event::CommInit<'_>,
    ) {
        self.put_held();
        if !self.put_comm(kind::COMM_INIT, context, begin_ticks, repetition, comm) {
            self.lose(Lost::Communicator);
        }
    }

    /// Records that a communicator is there, for when the record of its beginning is gone.
    pub fn comm_known(
        &mut self,
        context: u64,
        begin_ticks: u64,
        repetition: u32,
        comm: &crate::event::CommInit<'_>,
    ) {
        // A loss is told by the record of the beginning.
        let _full = self.put_comm(kind::COMM_KNOWN, context, begin_ticks, repetition, comm);
    }

    fn put_comm(
        &mut self,
        record: u8,
        context: u64,
        begin_ticks: u64,
        repetition: u32,
        comm: &crate::event::CommInit<'_>,
    ) -> bool {
        self.make_room_for_names();
        let name = self.name(comm.name);
        let payload = [
            ticks(),
            comm.comm_id,
            pair(comm.nodes.cast_unsigned(), comm.ranks.cast_unsigned()),
            pair(comm.rank.cast_unsigned(), comm.nccl_version),
            pair(u32::from(name) | u32::from(comm.table) << 16, repetition),
        ];
        self.put_at(record, 0, begin_ticks, context, payload)
    }

    /// Records a communicator's end.
    pub fn comm_finalize(&mut self, context: u64, begin_ticks: u64) {
        self.put_held();
        if !self.put_at(kind::COMM_FINALIZE, 0, begin_ticks, context, [ticks()]) {
            self.lose(Lost::Communicator);
        }
    }

    /// Records that what is wanted was changed, by windows of steps for one `context`; else that is 0.
    pub fn switch(&mut self, begin_ticks: u64, context: u64, switch: &Switch) {
        self.put_held();
        let [before, after] = [switch.before, switch.after]
            .map(|wanted| pair(wanted.events, u32::from(wanted.is_on)));
        let (cause, turn) = match switch.cause {
            Cause::File => (0, None),
            Cause::Signal => (1, None),
            Cause::Window(turn) => (pair(2, u32::from(turn.is_exact)), Some(turn)),
        };
        let window = turn.and_then(|turn| turn.window);
        let payload = [
            before,
            after,
            cause,
            window.map_or(0, Span::word),
            turn.map_or(0, |turn| turn.started),
        ];
        let _full = self.put_at(kind::SWITCH, 0, begin_ticks, context, payload);
    }

    /// Records how many starts were not wanted, by kind.
    pub fn not_wanted(&mut self, counts: [u64; Kind::COUNT]) {
        let _full = self.put(kind::NOT_WANTED, 0, 0, counts);
    }

    /// Records what was found out about GPUs, at `ticks`. False when there was no room.
    pub fn gpu(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) -> bool {
        self.put_held();
        self.make_room_for_names();
        let mut sink = At {
            cursor: self,
            ticks,
        };
        super::gpu::put(&mut sink, id, record)
    }

    pub(super) fn thread_begin(&mut self, name: &str) {
        let mut text = [0_u8; 16];
        let length = name.len().min(text.len());
        for (to, from) in text.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        // SAFETY: gettid has no preconditions.
        let thread = unsafe { libc::gettid() };
        let ([a, b], _) = text.as_chunks::<8>() else {
            return;
        };
        let length = u32::try_from(length).unwrap_or(0);
        let payload = [
            pair(thread.cast_unsigned(), length),
            u64::from_le_bytes(*a),
            u64::from_le_bytes(*b),
        ];
        let _full = self.put(kind::THREAD_BEGIN, 0, 0, payload);
        self.thread = Some(payload);
    }

    pub(super) fn thread_end(&mut self) {
        self.put_held();
        let _full = self.put(kind::THREAD_END, 0, 0, []);
        self.thread = None;
    }

    #[cold]
    fn lose(&mut self, what: Lost) {
        let place = what.index(self.registry.options.tag);
        self.add(header::LOST_STARTS + place, 1);
    }

    /// Sets a running number, here and in the journal.
    fn set(&mut self, word: usize, value: u64) {
        if let Some(total) = self.counters.0.get_mut(word - header::STALLS) {
            *total = value;
            if let Some(word) = self.segment.get(word) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// Adds to a running total (wrapping, so that `u64::MAX` takes one away), here and in the journal.
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
    fn put_at<const WORDS: usize>(
        &mut self,
        record: u8,
        flags: u8,
        now: u64,
        id: u64,
        payload: [u64; WORDS],
    ) -> bool {
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
        #[expect(
            clippy::cast_possible_truncation,
            reason = "RECORD_MAX_WORDS is far below 65536"
        )]
        let length = words as u16;
        head.store(
            record_word(record, flags, length, mark(self.order, at)),
            Ordering::Relaxed,
        );
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

    /// Goes on to the next segment. False when there is none to be had.
    #[cold]
    fn advance(&mut self) -> bool {
        let index = self.segment.index() + 1;
        let next = if index < self.segment.file().segments() {
            let file = Arc::clone(self.segment.file());
            self.ready(file, index)
        } else {
            self.next_file()
        };
        let Some(next) = next else {
            // Nothing more may go in, also not what is short enough for the rest of this segment: it could
            // name a string whose record found no room.
            self.at = SEGMENT_WORDS;
            return false;
        };
        self.segment = next;
        let file = self.segment.file();
        if file.unreleased() > MOST_UNRELEASED {
            // The keeper is late, and used segments must not pile up in memory.
            file.release_used();
            self.stall();
        }
        self.order += 1;
        self.at = HEADER_WORDS;
        self.write_header();
        if self.registry.window().is_some() {
            self.stand_alone();
        }
        true
    }

    /// Says anew what the records to come rest on: the segments before this one will be gone.
    fn stand_alone(&mut self) {
        self.names.record_anew();
        if let Some(thread) = self.thread {
            let _fits = self.put(kind::THREAD_BEGIN, 0, 0, thread);
        }
    }

    fn ready(&mut self, file: Arc<JournalFile>, index: usize) -> Option<Segment> {
        if !file.is_prepared(index) {
            self.stall();
            self.registry.prepare(&file, index).ok()?;
        }
        Some(Segment::take(file, index))
    }

    /// A new file for the slot, its first segment ready.
    fn next_file(&mut self) -> Option<Segment> {
        let spare = self
            .slot
            .spare
            .try_lock()
            .and_then(|mut spare| spare.take());
        let file = match spare {
            Some(file) => file,
            None => self.registry.create_file(&self.slot).ok()?,
        };
        let segment = self.ready(Arc::clone(&file), 0)?;
        if self.registry.window().is_some()
            && let Some(mut left) = self.slot.left.try_lock()
            && left.len() < left.capacity()
        {
            // The keeper unmaps it.
            left.push(Arc::clone(self.segment.file()));
        }
        // The keeper holds this lock only to copy the pointer. If it is held just now, the keeper goes on
        // with the old file, and this thread prepares its segments itself until the next file.
        if let Some(mut current) = self.slot.current.try_lock() {
            *current = Some(file);
        }
        Some(segment)
    }

    fn write_header(&mut self) {
        let options = &self.registry.options;
        let set = |index: usize, value: u64| {
            if let Some(word) = self.segment.get(index) {
                word.store(value, Ordering::Relaxed);
            }
        };
        let slot = u32::from(self.slot.number) << 16;
        #[expect(clippy::cast_possible_truncation, reason = "128")]
        let head = HEADER_WORDS as u32;
        set(header::VERSION, pair(FORMAT_VERSION, head | slot));
        set(header::ORDER, self.order);
        let source = u32::from(options.tick_source as u8) << 16;
        set(
            header::PROCESS,
            pair(u32::from(options.tag.get()) | source, options.process_id),
        );
        set(header::SESSION, options.session_start_realtime_ns);
        set(header::BYTES, SEGMENT_BYTES as u64);
        set(header::TICKS, ticks());
        set(header::COMMITTED, 8 * HEADER_WORDS as u64);
        for (index, total) in (header::STALLS..).zip(self.counters.0) {
            set(index, total);
        }
        if self.registry.window().is_some() {
            let held = u64::from(!self.held.id.is_none());
            let first = header::LOST_STARTS - header::STALLS;
            let lost = self.counters.0.iter().skip(first).take(Kind::COUNT);
            set(header::STARTED_BEFORE, self.next_sequence - 1 - held);
            set(header::LOST_BEFORE, lost.sum());
            set(header::FLAGS, segment_flag::WINDOW);
        }
        if let Some(magic) = self.segment.get(header::MAGIC) {
            magic.store(MAGIC, Ordering::Release);
        }
    }

    /// This thread does the keeper's work.
    fn stall(&mut self) {
        self.add(header::STALLS, 1);
    }
}

impl Sink for Cursor {
    #[inline]
    fn put<const WORDS: usize>(
        &mut self,
        record: u8,
        flags: u8,
        id: u64,
        payload: [u64; WORDS],
    ) -> bool {
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

/// The cursor, for records of a time that is not now.
struct At<'a> {
    cursor: &'a mut Cursor,
    ticks: u64,
}

impl Sink for At<'_> {
    fn put<const WORDS: usize>(
        &mut self,
        record: u8,
        flags: u8,
        id: u64,
        payload: [u64; WORDS],
    ) -> bool {
        self.cursor.put_at(record, flags, self.ticks, id, payload)
    }

    fn name(&mut self, name: Name<'_>) -> NameNumber {
        self.cursor.name(name)
    }
}

impl Cursor {
    /// Records a string on first sight. When there is no room for it there is none for the record that
    /// names it either ([`Self::advance`]).
    #[cold]
    fn new_name(&mut self, name: Name<'_>) -> NameNumber {
        let (number, new) = self.names.insert(name);
        if new {
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
        number
    }
}

#[cfg(test)]
mod tests;
