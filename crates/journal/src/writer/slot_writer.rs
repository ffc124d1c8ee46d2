//! Appends records to one slot. A slot writer belongs to one thread at a time and appends without locks, system calls
//! or allocation. It meets the maintenance thread only at the end of a segment: either the maintenance thread has
//! prepared the next segment, or the slot writer prepares it itself and counts a stall. The maintenance thread's own
//! slot, which several threads write in turn, is behind a lock ([`SharedSlotWriter`]).

use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::clock::{ClockPair, ticks};
use crate::format::{
    FORMAT_VERSION, HEADER_WORDS, MAGIC, NameNumber, RECORD_HEADER_WORDS, SEGMENT_BYTES, SEGMENT_WORDS, Sink,
    begin_word, end_word, flags, header, kind, mark, pair, record_word, segment_flag,
};
use crate::uninterrupted::uninterrupted;
use crate::writer::mapping::{JournalFile, LostRecord, Segment, Slot, Space};
use crate::writer::names::{NameCache, PendingControl, PermanentName, Waits};
use crate::{format, host};
use nccl_events::gpu::GpuRecord;
use nccl_events::ids::{EventId, LAST_SEQUENCE};
use nccl_events::range::{Range, RangeCount, RangeFields};
use nccl_events::{Body, Cause, CommInit, Kind, Name, Span, Start, State, Switch, event};
use parking_lot::{Mutex, MutexGuard};

mod left;

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
    held: PendingControl,
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
            held: PendingControl::NONE,
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
            self.held = PendingControl::new(id, ticks(), event);
            self.add(header::EMPTY_CONTROLS, 1);
        } else if sequence > LAST_SEQUENCE || !format::put_start(self, id.get(), event) {
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
        self.count_loss(LostRecord::Start(id.kind()));
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
        let held = std::mem::replace(&mut self.held, PendingControl::NONE);
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
            self.held = PendingControl::NONE;
            return;
        }
        self.put_held();
        if self.is_of_lost(event) || !self.put(kind::STOP, 0, event, []) {
            self.count_loss(LostRecord::Stop(event));
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
        if self.is_of_lost(event.event) || !format::put_state(self, event) {
            self.count_loss(LostRecord::State(event.event));
        }
    }

    #[cold]
    fn count_loss(&mut self, what: LostRecord) {
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

// Moving on to the next segment, where the recording thread meets the maintenance thread.

/// Used segments that may be resident before the recording thread releases them itself.
const MOST_UNRELEASED: usize = 1;

impl SlotWriter {
    /// Moves on to the next segment. Returns false if there is none.
    #[cold]
    #[inline(never)]
    pub(super) fn advance(&mut self) -> bool {
        if self.has_ended {
            return false;
        }
        let (file, index) = (self.segment.file(), self.segment.index() + 1);
        if file.is_prepared(index) {
            // Takes no lock. So it needs no system call, which blocking signals would be.
            let segment = Segment::take(Arc::clone(file), index);
            self.begin_segment(segment);
            return true;
        }
        uninterrupted(|| self.make_next())
    }

    /// Moves on to a segment that the maintenance thread has not prepared, or to the next file.
    fn make_next(&mut self) -> bool {
        let index = self.segment.index() + 1;
        let next = if index < self.segment.file().segments() {
            let file = Arc::clone(self.segment.file());
            self.ready(file, index)
        } else {
            self.next_file()
        };
        let Some(next) = next else {
            // Append nothing more, not even what would fit: it could name a string whose own record found no room.
            self.at = SEGMENT_WORDS;
            self.has_ended = true;
            return false;
        };
        self.begin_segment(next);
        if self.space.retention.is_some() {
            self.make_self_contained();
        }
        true
    }

    fn begin_segment(&mut self, segment: Segment) {
        self.segment = segment;
        let file = self.segment.file();
        if file.unreleased() > MOST_UNRELEASED {
            // The maintenance thread is late, and used segments must not accumulate in memory.
            file.release_used();
            self.stall();
        }
        self.at = HEADER_WORDS;
        self.write_header(self.order + 1);
    }

    /// The thread has left a callback with `siglongjmp`, perhaps while it began a segment.
    pub(super) fn complete_segment(&mut self) {
        let word = |place: usize| self.segment.get(place).map_or(0, |word| word.load(Ordering::Relaxed));
        if word(header::MAGIC) == MAGIC {
            self.order = word(header::ORDER);
        } else {
            self.write_header(self.order + 1);
        }
    }

    /// Repeats what later records depend on, because the segments before this one will be removed.
    fn make_self_contained(&mut self) {
        self.names.record_anew();
        if let Some(thread) = self.thread {
            let _fits = self.put(kind::THREAD_BEGIN, 0, 0, thread);
        }
        if let Some(repeat) = self.repeat {
            repeat(self);
        }
    }

    fn ready(&mut self, file: Arc<JournalFile>, index: usize) -> Option<Segment> {
        if !file.is_prepared(index) {
            self.stall();
            self.space.prepare(&file, index).ok()?;
        }
        Some(Segment::take(file, index))
    }

    /// A new file for the slot, with its first segment prepared.
    fn next_file(&mut self) -> Option<Segment> {
        // A spare file that came too late stays there for the maintenance thread to remove.
        let number = self.segment.file().number();
        let spare = self.slot.spare.try_lock().and_then(|mut spare| spare.take_if(|spare| spare.number() > number));
        let file = match spare {
            Some(file) => file,
            None => self.space.create_file(&self.slot).ok()?,
        };
        let segment = self.ready(Arc::clone(&file), 0)?;
        if self.space.retention.is_some()
            && let Some(mut left) = self.slot.left.try_lock()
            && left.len() < left.capacity()
        {
            // Leave the file for the maintenance thread to unmap.
            left.push(Arc::clone(self.segment.file()));
        }
        // The maintenance thread holds this lock only while it copies the pointer. If it holds the lock now, it keeps
        // working on the old file, and this thread prepares its own segments until the next file.
        if let Some(mut current) = self.slot.current.try_lock() {
            *current = Some(file);
        }
        Some(segment)
    }

    /// Writes the header of the slot's segment with this number.
    pub(super) fn write_header(&mut self, order: u64) {
        let options = &self.space.options;
        let set = |index: usize, value: u64| {
            if let Some(word) = self.segment.get(index) {
                word.store(value, Ordering::Relaxed);
            }
        };
        let slot = u32::from(self.slot.number) << 16;
        #[expect(clippy::cast_possible_truncation, reason = "128")]
        let head = HEADER_WORDS as u32;
        set(header::VERSION, pair(FORMAT_VERSION, head | slot));
        set(header::ORDER, order);
        let source = u32::from(options.tick_source as u8) << 16;
        set(header::PROCESS, pair(u32::from(options.tag.get()) | source, options.process_id));
        set(header::SESSION, options.session_start_realtime_ns);
        set(header::BYTES, SEGMENT_BYTES as u64);
        set(header::TICKS, ticks());
        set(header::COMMITTED, 8 * HEADER_WORDS as u64);
        for (index, total) in (header::STALLS..).zip(self.counters.0) {
            set(index, total);
        }
        if self.space.retention.is_some() {
            let held = u64::from(!self.held.id.is_none());
            let first = header::LOST_STARTS - header::STALLS;
            let lost = self.counters.0.iter().skip(first).take(Kind::COUNT);
            set(header::STARTED_BEFORE, self.next_sequence - 1 - held);
            set(header::LOST_BEFORE, lost.sum());
            set(header::FLAGS, segment_flag::FLIGHT);
        }
        if let Some(magic) = self.segment.get(header::MAGIC) {
            magic.store(MAGIC, Ordering::Release);
        }
        // After the header, also to a signal handler on this thread: see `complete_segment`.
        compiler_fence(Ordering::SeqCst);
        self.order = order;
    }

    /// Counts that this thread did the maintenance thread's work.
    fn stall(&mut self) {
        self.add(header::STALLS, 1);
    }
}

// Records other than events: communicators, switches, clocks, GPUs, and the threads themselves.

impl SlotWriter {
    /// Records the values of the system's clocks.
    pub fn clock_pair(&mut self, clocks: &ClockPair) {
        let payload = [clocks.monotonic_ns, clocks.realtime_ns, clocks.monotonic_raw_ns, clocks.uncertainty_ticks];
        let _full = self.put_at(kind::CLOCK_PAIR, 0, clocks.ticks, 0, payload);
    }

    /// Records the creation of a communicator. `begin_ticks` is when `init` was entered.
    pub fn comm_init(&mut self, context: u64, begin_ticks: u64, repetition: u32, comm: &CommInit<'_>) {
        self.put_held();
        if !self.put_comm(kind::COMM_INIT, context, begin_ticks, repetition, comm) {
            self.count_loss(LostRecord::Communicator);
        }
    }

    /// Records that a communicator exists, in case the record of its creation is removed.
    pub fn comm_known(&mut self, context: u64, begin_ticks: u64, repetition: u32, comm: &CommInit<'_>) {
        // The record of the creation reports a loss.
        let _full = self.put_comm(kind::COMM_KNOWN, context, begin_ticks, repetition, comm);
    }

    fn put_comm(&mut self, record: u8, context: u64, begin_ticks: u64, repetition: u32, comm: &CommInit<'_>) -> bool {
        self.make_room_for_names();
        let name = self.name(comm.name);
        let payload = [
            ticks(),
            comm.comm_id,
            pair(comm.nodes.cast_unsigned(), comm.ranks.cast_unsigned()),
            pair(comm.rank.cast_unsigned(), comm.nccl_version),
            pair(u32::from(name) | u32::from(comm.table.number()) << 16, repetition),
        ];
        self.put_at(record, 0, begin_ticks, context, payload)
    }

    /// Records the end of a communicator.
    pub fn comm_finalize(&mut self, context: u64, begin_ticks: u64) {
        self.put_held();
        if !self.put_at(kind::COMM_FINALIZE, 0, begin_ticks, context, [ticks()]) {
            self.count_loss(LostRecord::Communicator);
        }
    }

    /// Records a change of the selection. `context` is the context whose step ranges caused it, otherwise 0.
    pub fn switch(&mut self, begin_ticks: u64, context: u64, switch: &Switch) {
        self.put_held();
        let [before, after] = [switch.before, switch.after].map(|wanted| pair(wanted.events, u32::from(wanted.is_on)));
        let (cause, step_switch) = match switch.cause {
            Cause::File => (0, None),
            Cause::Signal => (1, None),
            Cause::Steps(switch) => {
                (pair(2, u32::from(switch.is_exact) | u32::from(switch.is_named) << 1), Some(switch))
            }
        };
        let range = step_switch.and_then(|switch| switch.range);
        let payload =
            [before, after, cause, range.map_or(0, Span::word), step_switch.map_or(0, |switch| switch.started)];
        let _full = self.put_at(kind::SWITCH, 0, begin_ticks, context, payload);
    }

    /// Records how many starts were not selected, by kind.
    pub fn not_selected(&mut self, counts: [u64; Kind::COUNT]) {
        let _full = self.put(kind::NOT_SELECTED, 0, 0, counts);
    }

    /// Records data about GPUs, at `ticks`. Returns false if there was no room.
    pub fn gpu(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) -> bool {
        self.put_held();
        self.make_room_for_names();
        let mut sink = SlotWriterAt { slot_writer: self, ticks };
        format::put_gpu_record(&mut sink, id, record)
    }

    pub(crate) fn thread_begin(&mut self, name: &str) {
        let mut text = [0_u8; 16];
        let length = name.len().min(text.len());
        for (to, from) in text.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        let ([a, b], _) = text.as_chunks::<8>() else {
            return;
        };
        let length = u32::try_from(length).unwrap_or(0);
        let payload = [pair(host::thread_id(), length), u64::from_le_bytes(*a), u64::from_le_bytes(*b)];
        let _full = self.put(kind::THREAD_BEGIN, 0, 0, payload);
        self.thread = Some(payload);
    }

    pub(crate) fn thread_end(&mut self) {
        self.put_held();
        let _full = self.put(kind::THREAD_END, 0, 0, []);
        self.thread = None;
    }
}

/// The slot writer, for records of another time than now.
struct SlotWriterAt<'a> {
    slot_writer: &'a mut SlotWriter,
    ticks: u64,
}

impl Sink for SlotWriterAt<'_> {
    fn put<const WORDS: usize>(&mut self, record: u8, flags: u8, id: u64, payload: [u64; WORDS]) -> bool {
        self.slot_writer.put_at(record, flags, self.ticks, id, payload)
    }

    fn name(&mut self, name: Name<'_>) -> NameNumber {
        self.slot_writer.name(name)
    }
}

type RangeText = Option<PermanentName>;
/// What all records have: kind, flags, ticks, id.
type Head = (u8, u8, u64, u64);

impl SlotWriter {
    /// Records that the thread pushed a range, at `ticks`. Returns false if there was no room.
    #[inline]
    pub fn push_range(&mut self, ticks: u64, level: u16, is_repeated: bool, range: &Range<RangeText>) -> bool {
        self.begin_range((kind::RANGE_PUSH, flags(is_repeated), ticks, 0), level, range)
    }

    /// Records that the thread popped the range at this level.
    #[inline]
    pub fn pop_range(&mut self, ticks: u64, level: u16, fields: &RangeFields) -> bool {
        self.put_held();
        self.put_fields((kind::RANGE_POP, 0, ticks, 0), end_word(level), fields)
    }

    /// Records a moment.
    pub fn mark_range(&mut self, ticks: u64, range: &Range<RangeText>) -> bool {
        self.begin_range((kind::RANGE_MARK, 0, ticks, 0), 0, range)
    }

    /// Records the start of a range that any thread can end.
    pub fn start_range(&mut self, ticks: u64, id: u64, is_repeated: bool, range: &Range<RangeText>) -> bool {
        self.begin_range((kind::RANGE_START, flags(is_repeated), ticks, id), 0, range)
    }

    /// Records its end.
    pub fn end_range(&mut self, ticks: u64, id: u64, fields: &RangeFields) -> bool {
        self.put_held();
        self.put_fields((kind::RANGE_END, 0, ticks, id), end_word(0), fields)
    }

    /// Records what was counted about ranges.
    pub fn range_counts(&mut self, ticks: u64, counts: [u64; RangeCount::COUNT]) -> bool {
        self.put_held();
        self.put_at(kind::RANGE_COUNTS, 0, ticks, 0, counts)
    }

    /// Sets what the thread repeats in each new segment of a flight recording.
    pub(crate) fn repeat_in_new_segments(&mut self, repeat: Option<fn(&mut Self)>) {
        self.repeat = repeat;
    }

    #[inline]
    fn begin_range(&mut self, head: Head, level: u16, range: &Range<RangeText>) -> bool {
        self.put_held();
        self.make_room_for_names();
        let names = [range.name, range.domain, range.category].map(|name| self.permanent_name(name));
        self.put_fields(head, begin_word(names, level), &range.fields)
    }

    /// Appends a record with its first word and its fields. The length of a record must be known at compile time.
    #[inline]
    fn put_fields(&mut self, (kind, flags, ticks, id): Head, first: u64, fields: &RangeFields) -> bool {
        let (count, kinds, values) = fields.words();
        match (count, values) {
            (0, _) => self.put_at(kind, flags, ticks, id, [first]),
            (1, [a, ..]) => self.put_at(kind, flags, ticks, id, [first, kinds, *a]),
            (2 | 3, [a, b, c, ..]) => self.put_at(kind, flags, ticks, id, [first, kinds, *a, *b, *c]),
            (_, [a, b, c, d, e, f, g, h]) => {
                self.put_at(kind, flags, ticks, id, [first, kinds, *a, *b, *c, *d, *e, *f, *g, *h])
            }
        }
    }
}

/// A [`SlotWriter`] behind a lock: the maintenance thread's. Not for callbacks.
#[derive(Clone, Debug)]
pub struct SharedSlotWriter(Arc<Mutex<SlotWriter>>);

impl SharedSlotWriter {
    /// Puts a slot writer behind a lock.
    pub fn new(slot_writer: SlotWriter) -> Self {
        Self(Arc::new(Mutex::new(slot_writer)))
    }

    /// Locks the slot writer.
    pub fn lock(&self) -> MutexGuard<'_, SlotWriter> {
        self.0.lock()
    }

    /// Records data about GPUs at `ticks`. Returns false if there was no room.
    #[expect(clippy::must_use_candidate, reason = "what had no room is counted by the slot_writer")]
    pub fn put(&self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) -> bool {
        self.lock().gpu(ticks, id, record)
    }
}

#[cfg(test)]
mod tests;
