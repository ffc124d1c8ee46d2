//! The recording side of the journal: one [`Registry`] a process, which hands out one [`Cursor`] a slot and
//! prepares what cursors will need next.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

mod copy;
pub(crate) mod cursor;
pub(crate) mod discard;
pub(crate) mod mapping;
mod names;
mod quiet;
mod shared_cursor;

use crate::clock::TickSource;
use crate::format::layout::{SEGMENT_BYTES, SEGMENTS_PER_FILE, header};
pub use cursor::Cursor;
use discard::Used;
use mapping::{JournalFile, Segment};
use nccl_events::Kind;
use nccl_events::id::{EventId, ProcessTag, SLOTS};
pub use shared_cursor::SharedCursor;

/// How full a segment is when the keeper prepares the next one: early, since at full speed the rest lasts
/// less than a millisecond.
pub(crate) const PREPARE_FROM_BYTES: u64 = SEGMENT_BYTES as u64 / 8;

/// How many used files a recording thread may leave to the keeper, between two of its looks, to unmap.
const LEFT_FILES: usize = 16;

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

/// What is kept of a recording of which only the end is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Most bytes on disk. Each recording thread has one or two segments that are never removed.
    pub bytes: u64,
    /// How long a used segment is kept.
    pub time: Option<Duration>,
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
    pub(crate) options: RegistryOptions,
    slots: Mutex<Vec<Arc<Slot>>>,
    free: Mutex<Vec<Cursor>>,
    reserved_bytes: AtomicU64,
    full: AtomicBool,
    stop: Mutex<Option<Stop>>,
    /// The first slot's first file: its header counts what threads without a slot lose, so that the count
    /// survives the process.
    first_file: OnceLock<Arc<JournalFile>>,
    /// Events that threads without a slot have started.
    slotless_sequence: AtomicU64,
    window: Option<Window>,
}

/// What the keeper sees of a slot.
pub(crate) struct Slot {
    pub(crate) number: u16,
    next_file: AtomicU32,
    pub(crate) current: Mutex<Option<Arc<JournalFile>>>,
    pub(crate) spare: Mutex<Option<Arc<JournalFile>>>,
    /// The keeper's own hold on the current file: so it is the keeper, not the recording thread, who lets a
    /// used-up file go and unmaps it.
    kept: Mutex<Option<Arc<JournalFile>>>,
    /// In a window: files that the recording thread has left, for the keeper to unmap.
    pub(crate) left: Mutex<Vec<Arc<JournalFile>>>,
    /// In a window: used files that are still there, oldest first.
    pub(crate) used: Mutex<Used>,
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
        Self::with_window(options, None)
    }

    /// A registry without slots that keeps only the end of what is recorded.
    #[must_use]
    pub fn with_window(options: RegistryOptions, window: Option<Window>) -> Arc<Self> {
        Arc::new(Self {
            options,
            slots: Mutex::new(Vec::new()),
            free: Mutex::new(Vec::new()),
            reserved_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
            stop: Mutex::new(None),
            first_file: OnceLock::new(),
            slotless_sequence: AtomicU64::new(0),
            window,
        })
    }

    /// What is kept, where that is not everything.
    #[inline]
    pub(crate) const fn window(&self) -> Option<Window> {
        self.window
    }

    /// Where the journal lies.
    pub(crate) fn directory(&self) -> &std::path::Path {
        &self.options.directory
    }

    /// The slots there are.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().clone()
    }

    /// Takes note that files were removed.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
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
            // Only this thread goes without: its events are counted, and the others' recording goes on.
            _ => {
                self.stop.lock().get_or_insert(Stop::Slots);
                return Err(Stop::Slots);
            }
        };
        let slot = Arc::new(Slot {
            number,
            next_file: AtomicU32::new(0),
            current: Mutex::new(None),
            spare: Mutex::new(None),
            kept: Mutex::new(None),
            left: Mutex::new(Vec::with_capacity(LEFT_FILES)),
            used: Mutex::new(Used::default()),
        });
        let file = self.create_file(&slot)?;
        self.prepare(&file, 0)?;
        *slot.current.lock() = Some(Arc::clone(&file));
        let _first = self.first_file.set(Arc::clone(&file));
        slots.push(Arc::clone(&slot));
        Ok(Cursor::new(Arc::clone(self), slot, Segment::take(file, 0)))
    }

    pub(crate) fn create_file(&self, slot: &Slot) -> Result<Arc<JournalFile>, Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        let number = slot.next_file.fetch_add(1, Ordering::Relaxed);
        let path = self.path_of(slot, number);
        // A file is what can be removed: in a window a segment.
        let segments = match self.window {
            Some(_) => 1,
            None => SEGMENTS_PER_FILE,
        };
        JournalFile::create(&path, number, segments)
            .map_err(|error| self.stopped(Stop::System(format!("{}: {error}", path.display()))))
    }

    /// Where a file of a slot lies.
    pub(crate) fn path_of(&self, slot: &Slot, number: u32) -> PathBuf {
        let name = format!("{}.{number}", slot.number);
        self.options.directory.join(name)
    }

    pub(crate) fn prepare(&self, file: &JournalFile, index: usize) -> Result<(), Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        // Before anything is made: threads that prepare at the same time must not all find room for the last segment.
        let counted = !file.is_claimed(index);
        if counted && !self.count_in() {
            return Err(self.stopped(Stop::Limit));
        }
        let prepared = file.prepare(index);
        match (&prepared, counted) {
            (Ok(true), true) | (Ok(false) | Err(_), false) => {}
            // Another claimed it meanwhile and has counted it, or there is none.
            (Ok(false) | Err(_), true) => self.count_out(),
            // It was given back meanwhile.
            (Ok(true), false) => {
                self.reserved_bytes
                    .fetch_add(SEGMENT_BYTES as u64, Ordering::Relaxed);
            }
        }
        prepared
            .map(|_first| ())
            .map_err(|error| self.stopped(Stop::System(describe(&self.options.directory, &error))))
    }

    /// Counts a segment, if the limit leaves room for it.
    fn count_in(&self) -> bool {
        let more = |reserved: u64| {
            let reserved = reserved.checked_add(SEGMENT_BYTES as u64)?;
            (reserved <= self.options.limit_bytes).then_some(reserved)
        };
        self.reserved_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn count_out(&self) {
        self.reserved_bytes
            .fetch_sub(SEGMENT_BYTES as u64, Ordering::Relaxed);
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

    /// Counts what a thread without a slot could not record.
    pub fn lose(&self, what: Lost) {
        if let Some(file) = self.first_file.get() {
            let place = what.index(self.options.tag);
            file.count_in_header(header::SLOTLESS_LOST + place);
        }
    }

    /// An id for an event that no slot can record. It is not [`EventId::NONE`]: up to 2.27 NCCL leaves out the
    /// children of an event without a handle, which other threads may well be able to record.
    pub fn slotless_id(&self, kind: Kind) -> EventId {
        // The first slot is the keeper's, which starts no events.
        let sequence = self.slotless_sequence.fetch_add(1, Ordering::Relaxed) + 1;
        EventId::new(self.options.tag, 0, sequence, kind).unrecorded()
    }

    /// One round of the keeper: prepares what recording threads will need next, lets go of what they
    /// have left. Returns whether there was anything to prepare.
    pub fn keep(&self) -> bool {
        let slots = self.slots();
        if let Some(window) = self.window {
            self.discard(&slots, window);
        }
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
            if next < file.segments() {
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
    /// The stop of the event with this id.
    Stop(u64),
    /// A change of state of the event with this id.
    State(u64),
    /// The beginning or the end of a communicator.
    Communicator,
}

impl Lost {
    /// Its place among the counters of losses of a process.
    pub(crate) fn index(self, tag: ProcessTag) -> usize {
        const STARTS: usize = header::LOST_STARTS;
        match self {
            Self::Start(kind) => kind as usize,
            Self::Stop(event) => header::LOST_STOPS - STARTS + kind_of(event, tag) as usize,
            Self::State(event) => header::LOST_STATES - STARTS + kind_of(event, tag) as usize,
            Self::Communicator => header::LOST_COMMUNICATORS - STARTS,
        }
    }
}

/// The kind of an event. What this process did not name, a stale handle or one of another process, may mean
/// anything by these bits.
fn kind_of(event: u64, tag: ProcessTag) -> Kind {
    let id = EventId::from_raw(event);
    if id.tag() == tag.get() {
        id.kind()
    } else {
        Kind::Unknown
    }
}
