//! The recording side of the journal: one [`Cursor`] a slot, one [`Registry`] a process.
//!
//! A cursor belongs to one thread at a time and appends without locks, system calls or allocation. It
//! meets the keeper thread only where a segment ends: the keeper has prepared the next one, or the
//! cursor prepares it itself and counts a stall.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::encode::{self, NameNumber, Sink};
use super::layout::{
    FORMAT_VERSION, HEADER_WORDS, MAGIC, RECORD_HEADER_WORDS, SEGMENT_BYTES, SEGMENT_WORDS,
    SEGMENTS_PER_FILE, header, kind, mark, pair, record_word,
};
use super::mapping::{JournalFile, Segment};
use super::names::NameCache;
use crate::clock::{ClockPair, TickSource, ticks};
use crate::event::{Kind, Name, Start, State};
use crate::id::{EventId, ProcessTag, SLOTS};

/// How full a segment is when the keeper prepares the next one: early, since at full speed the rest lasts
/// less than a millisecond.
const PREPARE_FROM_BYTES: u64 = SEGMENT_BYTES as u64 / 8;

/// How far ahead lines are fetched: some twenty records, several hundred nanoseconds at full speed.
const FETCH_AHEAD_WORDS: usize = 128;

/// Used segments that may be resident before the recording thread lets go of them itself.
const MOST_UNRELEASED: usize = 1;

/// Who records, and how much may be recorded.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The journal's directory; it exists.
    pub directory: PathBuf,
    /// The tag in every id.
    pub tag: ProcessTag,
    /// This process. A number, because asking is a system call, and headers are written in callbacks.
    pub process_id: u32,
    /// Where ticks come from.
    pub tick_source: TickSource,
    /// When the session began, CLOCK_REALTIME ns.
    pub session_start_realtime_ns: u64,
    /// Most bytes to reserve on disk.
    pub limit_bytes: u64,
}

/// Why recording cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The size limit was reached.
    Limit,
    /// The system refused space or a file.
    System(String),
    /// Every slot number is taken: more threads at once than slots.
    Slots,
}

/// All slots of a process and what they share.
pub struct Registry {
    options: RegistryOptions,
    slots: Mutex<Vec<Arc<Slot>>>,
    free: Mutex<Vec<Cursor>>,
    reserved_bytes: AtomicU64,
    full: AtomicBool,
    stop: Mutex<Option<Stop>>,
    /// Losses of threads that have no slot to count them in, by kind; then stops, states.
    lost: [AtomicU64; Kind::COUNT + 2],
}

/// What the keeper sees of a slot.
struct Slot {
    number: u16,
    next_file: AtomicU32,
    current: Mutex<Option<Arc<JournalFile>>>,
    spare: Mutex<Option<Arc<JournalFile>>>,
    /// The keeper's own hold on the current file: so it is the keeper, not the recording thread, who lets a
    /// used-up file go and unmaps it.
    kept: Mutex<Option<Arc<JournalFile>>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Registry")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// A registry without slots.
    #[must_use]
    pub fn new(options: RegistryOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            slots: Mutex::new(Vec::new()),
            free: Mutex::new(Vec::new()),
            reserved_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
            stop: Mutex::new(None),
            lost: [const { AtomicU64::new(0) }; Kind::COUNT + 2],
        })
    }

    /// Gives the calling thread a slot: one that an ended thread left, or a new one.
    ///
    /// # Errors
    /// Recording has stopped, or stops now because no file can be made.
    pub fn register(self: &Arc<Self>, thread_name: &str) -> Result<Cursor, Stop> {
        let free = self.free.lock().pop();
        let mut cursor = match free {
            Some(cursor) => cursor,
            None => self.new_cursor()?,
        };
        cursor.thread_begin(thread_name);
        Ok(cursor)
    }

    fn new_cursor(self: &Arc<Self>) -> Result<Cursor, Stop> {
        let mut slots = self.slots.lock();
        let number = match u16::try_from(slots.len()) {
            Ok(number) if number < SLOTS => number,
            _ => return Err(self.stopped(Stop::Slots)),
        };
        let slot = Arc::new(Slot {
            number,
            next_file: AtomicU32::new(0),
            current: Mutex::new(None),
            spare: Mutex::new(None),
            kept: Mutex::new(None),
        });
        let file = self.create_file(&slot)?;
        self.prepare(&file, 0)?;
        *slot.current.lock() = Some(Arc::clone(&file));
        slots.push(Arc::clone(&slot));
        let mut cursor = Cursor {
            registry: Arc::clone(self),
            slot,
            segment: Segment::take(file, 0),
            at: HEADER_WORDS,
            order: 0,
            next_sequence: 1,
            names: NameCache::new(),
            stalls: 0,
            lost: [0; Kind::COUNT + 2],
        };
        cursor.write_header();
        Ok(cursor)
    }

    fn create_file(&self, slot: &Slot) -> Result<Arc<JournalFile>, Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        let number = slot.next_file.fetch_add(1, Ordering::Relaxed);
        let path = self
            .options
            .directory
            .join(format!("{}.{number}", slot.number));
        JournalFile::create(&path)
            .map_err(|error| self.stopped(Stop::System(format!("{}: {error}", path.display()))))
    }

    fn prepare(&self, file: &JournalFile, index: usize) -> Result<(), Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        let bytes = SEGMENT_BYTES as u64;
        if self.reserved_bytes.load(Ordering::Relaxed) + bytes > self.options.limit_bytes {
            return Err(self.stopped(Stop::Limit));
        }
        match file.prepare(index) {
            Ok(first) => {
                if first {
                    self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(error) => {
                Err(self.stopped(Stop::System(describe(&self.options.directory, &error))))
            }
        }
    }

    /// From now on every thread records only to the end of the segment it has.
    fn stopped(&self, stop: Stop) -> Stop {
        self.full.store(true, Ordering::Relaxed);
        self.stop.lock().get_or_insert_with(|| stop.clone());
        stop
    }

    /// Why recording stopped, if it did. The first reason counts.
    #[must_use]
    pub fn stop_reason(&self) -> Option<Stop> {
        self.stop.lock().clone()
    }

    /// Bytes reserved on disk.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Takes back the slot of a thread that ends.
    pub fn retire(&self, mut cursor: Cursor) {
        cursor.thread_end();
        self.free.lock().push(cursor);
    }

    /// Lets go of the slots of ended threads; after this the registry only counts.
    pub fn close(&self) {
        let cursors = std::mem::take(&mut *self.free.lock());
        drop(cursors);
    }

    /// Counts an event that has no slot to be counted in.
    pub fn lose(&self, what: Lost) {
        if let Some(counter) = self.lost.get(what.index()) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One round of the keeper: prepares what recording threads will need next, lets go of what they
    /// have left. Returns whether there was anything to prepare.
    pub fn keep(&self) -> bool {
        let slots: Vec<Arc<Slot>> = self.slots.lock().clone();
        let mut busy = false;
        for slot in slots {
            let Some(file) = slot.current.lock().clone() else {
                continue;
            };
            *slot.kept.lock() = Some(Arc::clone(&file));
            file.release_used();
            // Most threads record little: they stay at the one segment they have.
            if file.committed_bytes() < PREPARE_FROM_BYTES {
                continue;
            }
            let next = file.active() + 1;
            if next < SEGMENTS_PER_FILE {
                if !file.is_prepared(next) {
                    busy |= self.prepare(&file, next).is_ok();
                }
            } else if slot.spare.lock().is_none()
                && let Ok(spare) = self.create_file(&slot)
                && self.prepare(&spare, 0).is_ok()
            {
                busy = true;
                *slot.spare.lock() = Some(spare);
            }
        }
        busy
    }
}

fn describe(directory: &std::path::Path, error: &io::Error) -> String {
    format!("{}: {error}", directory.display())
}

/// Something that could not be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// An event's start.
    Start(Kind),
    /// A stop.
    Stop,
    /// A change of state.
    State,
}

impl Lost {
    #[inline]
    const fn index(self) -> usize {
        match self {
            Self::Start(event_kind) => event_kind as usize,
            Self::Stop => Kind::COUNT,
            Self::State => Kind::COUNT + 1,
        }
    }
}

const _: () = assert!(header::LOST_STOPS == header::LOST_STARTS + Kind::COUNT);
const _: () = assert!(header::LOST_STATES == header::LOST_STOPS + 1);

/// Appends records to one slot.
pub struct Cursor {
    registry: Arc<Registry>,
    slot: Arc<Slot>,
    segment: Segment,
    /// Where the next record begins, in words.
    at: usize,
    order: u64,
    next_sequence: u64,
    names: NameCache,
    stalls: u64,
    lost: [u64; Kind::COUNT + 2],
}

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
    /// Records the start of an event. Its id is valid, and its stop worth recording, even when there was
    /// no room: the loss is counted.
    #[inline]
    pub fn start(&mut self, event: &Start<'_>) -> EventId {
        let id = EventId::new(
            self.registry.options.tag,
            self.slot.number,
            self.next_sequence,
        );
        self.next_sequence += 1;
        if !encode::start(self, id.get(), event) {
            self.lose(Lost::Start(event.body.kind()));
        }
        id
    }

    /// Records the end of an event.
    #[inline]
    pub fn stop(&mut self, event: u64) {
        if !self.put(kind::STOP, 0, event, []) {
            self.lose(Lost::Stop);
        }
    }

    /// Records a change of state.
    #[inline]
    pub fn state(&mut self, event: &State) {
        if !encode::state(self, event) {
            self.lose(Lost::State);
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
        let name = self.name(comm.name);
        let payload = [
            ticks(),
            comm.comm_id,
            pair(comm.nodes.cast_unsigned(), comm.ranks.cast_unsigned()),
            pair(comm.rank.cast_unsigned(), comm.nccl_version),
            pair(u32::from(name) | u32::from(comm.table) << 16, repetition),
        ];
        let _full = self.put_at(kind::COMM_INIT, 0, begin_ticks, context, payload);
    }

    /// Records a communicator's end.
    pub fn comm_finalize(&mut self, context: u64, begin_ticks: u64) {
        let _full = self.put_at(kind::COMM_FINALIZE, 0, begin_ticks, context, [ticks()]);
    }

    fn thread_begin(&mut self, name: &str) {
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
    }

    fn thread_end(&mut self) {
        let _full = self.put(kind::THREAD_END, 0, 0, []);
    }

    /// Takes over the losses that were counted without a slot (the keeper does this).
    pub fn adopt_losses(&mut self) {
        for index in 0..self.registry.lost.len() {
            let more = self
                .registry
                .lost
                .get(index)
                .map_or(0, |counter| counter.swap(0, Ordering::Relaxed));
            if let Some(total) = self.lost.get_mut(index) {
                *total += more;
            }
        }
        self.write_losses();
    }

    #[cold]
    fn lose(&mut self, what: Lost) {
        if let Some(total) = self.lost.get_mut(what.index()) {
            *total += 1;
            if let Some(word) = self.segment.get(header::LOST_STARTS + what.index()) {
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
        let next = if index < SEGMENTS_PER_FILE {
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
            self.stalls += 1;
            file.release_used();
        }
        self.order += 1;
        self.at = HEADER_WORDS;
        self.write_header();
        true
    }

    fn ready(&mut self, file: Arc<JournalFile>, index: usize) -> Option<Segment> {
        if !file.is_prepared(index) {
            self.stalls += 1;
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
        #[expect(clippy::cast_possible_truncation, reason = "64")]
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
        self.write_losses();
        if let Some(magic) = self.segment.get(header::MAGIC) {
            magic.store(MAGIC, Ordering::Release);
        }
    }

    fn write_losses(&self) {
        if let Some(word) = self.segment.get(header::STALLS) {
            word.store(self.stalls, Ordering::Relaxed);
        }
        for (index, total) in self.lost.iter().enumerate() {
            if let Some(word) = self.segment.get(header::LOST_STARTS + index) {
                word.store(*total, Ordering::Relaxed);
            }
        }
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
