//! The room on disk that the slots of a process share.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nccl_events::id::ProcessTag;

use super::mapping::JournalFile;
use super::slot::Slot;
use crate::clock::TickSource;
use crate::file_size;
use crate::format::layout::{SEGMENT_BYTES, SEGMENTS_PER_FILE};
use crate::lock::Lock;

/// How many files fit under a limit on address space (`ulimit -v`): a thread has up to three mapped, and the program
/// may need nearly all of the limit itself. RLIMIT_DATA does not count mappings that are shared.
const FILES_IN_ADDRESS_SPACE: u64 = 256;

/// Who records, and how much may be recorded.
#[derive(Clone, Debug)]
pub struct WriterOptions {
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

/// How much a flight recording retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Most bytes on disk. Each recording thread has one or two segments that are never removed.
    pub bytes: u64,
    /// How long a used segment is kept.
    pub time: Option<Duration>,
}

/// Why recording stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The size limit was reached.
    Limit,
    /// The system refused space or a file.
    System(String),
    /// The system refused memory.
    Memory,
    /// Every slot number is taken: more threads at once than slots.
    Slots,
}

/// What is reserved on disk, and whether there may be more.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) options: WriterOptions,
    /// Absent where everything is kept.
    pub(crate) retention: Option<Retention>,
    /// Most address space that a file may take; none without a limit on it.
    most_mapped_bytes: Option<u64>,
    reserved_bytes: AtomicU64,
    full: AtomicBool,
    has_lost: AtomicBool,
    stop: Lock<Option<Stop>>,
}

impl Space {
    pub(crate) fn new(options: WriterOptions, retention: Option<Retention>) -> Self {
        Self {
            options,
            retention,
            most_mapped_bytes: file_size::limit_of(libc::RLIMIT_AS).map(|bytes| bytes / FILES_IN_ADDRESS_SPACE),
            reserved_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
            stop: Lock::new(None),
        }
    }

    pub(crate) fn create_file(&self, slot: &Slot) -> Result<Arc<JournalFile>, Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        let number = slot.next_file.fetch_add(1, Ordering::Relaxed);
        let path = self.path_of(slot, number);
        // A file is what can be removed: in a flight recording one segment.
        let segments = match self.retention {
            Some(_) => 1,
            None => segments_in([file_size::limit(), self.most_mapped_bytes].into_iter().flatten().min()),
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
                self.reserved_bytes.fetch_add(SEGMENT_BYTES as u64, Ordering::Relaxed);
            }
        }
        prepared.map(|_first| ()).map_err(|error| self.stopped(Stop::System(describe(&self.options.directory, &error))))
    }

    /// Counts a segment, if the limit leaves room for it.
    fn count_in(&self) -> bool {
        let more = |reserved: u64| {
            let reserved = reserved.checked_add(SEGMENT_BYTES as u64)?;
            (reserved <= self.options.limit_bytes).then_some(reserved)
        };
        self.reserved_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn count_out(&self) {
        self.reserved_bytes.fetch_sub(SEGMENT_BYTES as u64, Ordering::Relaxed);
    }

    /// From now on every thread records only to the end of the segment it has.
    pub(super) fn stopped(&self, stop: Stop) -> Stop {
        self.full.store(true, Ordering::Relaxed);
        self.stop.lock().get_or_insert_with(|| stop.clone());
        stop
    }

    /// Why recording stopped, if it did. The first reason counts.
    pub(crate) fn stop_reason(&self) -> Option<Stop> {
        self.stop.lock().clone()
    }

    /// Takes note that something is not recorded; how much is counted in the journal.
    pub(crate) fn lose(&self) {
        self.has_lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// One thread goes without a slot: its events are counted, and the others continue to record.
    pub(crate) fn no_slot(&self) -> Stop {
        self.stop.lock().get_or_insert(Stop::Slots);
        Stop::Slots
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Takes note that files were removed.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How many segments go into a file of at most `limit` bytes.
fn segments_in(limit: Option<u64>) -> usize {
    let segments = limit.map_or(SEGMENTS_PER_FILE as u64, |bytes| bytes / SEGMENT_BYTES as u64);
    usize::try_from(segments).unwrap_or(SEGMENTS_PER_FILE).clamp(1, SEGMENTS_PER_FILE)
}

fn describe(directory: &Path, error: &io::Error) -> String {
    format!("{}: {}", directory.display(), file_size::explain(error))
}
