//! The disk space that the slots of a process share.

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

/// How many files must fit within a limit on address space (`ulimit -v`): a thread maps up to three files, and the
/// program itself may need nearly all of the limit. RLIMIT_DATA does not count shared mappings.
const FILES_IN_ADDRESS_SPACE: u64 = 256;

/// Identity of the recording process, and the limit on its journal.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The journal's directory, which must exist.
    pub directory: PathBuf,
    /// The process tag in every id.
    pub tag: ProcessTag,
    /// Id of this process. Stored, because `getpid` is a system call and headers are written in callbacks.
    pub process_id: u32,
    /// The tick source of the process.
    pub tick_source: TickSource,
    /// Start of the session, CLOCK_REALTIME ns.
    pub session_start_realtime_ns: u64,
    /// Maximum number of bytes to reserve on disk.
    pub limit_bytes: u64,
}

/// How much a flight recording retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Maximum number of bytes on disk. One or two segments of each recording thread are never removed.
    pub bytes: u64,
    /// How long a used segment is kept; no time limit if `None`.
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
    /// All slot numbers are taken: more simultaneous threads than slots.
    Slots,
}

/// The reserved disk space, and whether more may be reserved.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) options: WriterOptions,
    /// `None` if all segments are kept.
    pub(crate) retention: Option<Retention>,
    /// Maximum address space for one file; `None` if it is unlimited.
    most_mapped_bytes: Option<u64>,
    reserved_bytes: AtomicU64,
    full: AtomicBool,
    has_losses: AtomicBool,
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
            has_losses: AtomicBool::new(false),
            stop: Lock::new(None),
        }
    }

    pub(crate) fn create_file(&self, slot: &Slot) -> Result<Arc<JournalFile>, Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        let number = slot.next_file.fetch_add(1, Ordering::Relaxed);
        let path = self.path_of(slot, number);
        // A flight recording removes whole files, so its files have one segment.
        let segments = match self.retention {
            Some(_) => 1,
            None => segments_in([file_size::limit(), self.most_mapped_bytes].into_iter().flatten().min()),
        };
        JournalFile::create(&path, number, segments)
            .map_err(|error| self.stopped(Stop::System(format!("{}: {error}", path.display()))))
    }

    /// The path of a slot's file.
    pub(crate) fn path_of(&self, slot: &Slot, number: u32) -> PathBuf {
        let name = format!("{}.{number}", slot.number);
        self.options.directory.join(name)
    }

    pub(crate) fn prepare(&self, file: &JournalFile, index: usize) -> Result<(), Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        // Count before preparing: threads that prepare at the same time must not all find room for the last segment.
        let counted = !file.is_claimed(index);
        if counted && !self.count_in() {
            return Err(self.stopped(Stop::Limit));
        }
        let prepared = file.prepare(index);
        match (&prepared, counted) {
            (Ok(true), true) | (Ok(false) | Err(_), false) => {}
            // Another thread claimed and counted the segment in the meantime, or there is no such segment.
            (Ok(false) | Err(_), true) => self.count_out(),
            // The claim of another thread was undone in the meantime.
            (Ok(true), false) => {
                self.reserved_bytes.fetch_add(SEGMENT_BYTES as u64, Ordering::Relaxed);
            }
        }
        prepared.map(|_first| ()).map_err(|error| self.stopped(Stop::System(describe(&self.options.directory, &error))))
    }

    /// Counts a segment if the limit leaves room for it.
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

    /// Stops the recording: every thread fills only its current segment.
    pub(super) fn stopped(&self, stop: Stop) -> Stop {
        self.full.store(true, Ordering::Relaxed);
        self.stop.lock().get_or_insert_with(|| stop.clone());
        stop
    }

    /// Why recording stopped, if it did. The first reason is kept.
    pub(crate) fn stop_reason(&self) -> Option<Stop> {
        self.stop.lock().clone()
    }

    /// Notes that something is not recorded; the journal counts how much.
    pub(crate) fn note_loss(&self) {
        self.has_losses.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_losses(&self) -> bool {
        self.has_losses.load(Ordering::Relaxed)
    }

    /// Notes that a thread has no slot: its events are counted, and the other threads continue to record.
    pub(crate) fn no_slot(&self) -> Stop {
        self.stop.lock().get_or_insert(Stop::Slots);
        Stop::Slots
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Removes a file of one prepared segment. One that cannot be removed stays in the account and in the archive.
    pub(crate) fn remove_file(&self, slot: &Slot, number: u32) {
        if std::fs::remove_file(self.path_of(slot, number)).is_ok() {
            self.count_out();
        }
    }
}

/// Number of segments in a file of at most `limit` bytes.
fn segments_in(limit: Option<u64>) -> usize {
    let segments = limit.map_or(SEGMENTS_PER_FILE as u64, |bytes| bytes / SEGMENT_BYTES as u64);
    usize::try_from(segments).unwrap_or(SEGMENTS_PER_FILE).clamp(1, SEGMENTS_PER_FILE)
}

fn describe(directory: &Path, error: &io::Error) -> String {
    format!("{}: {}", directory.display(), file_size::explain(error))
}
