//! The state of a slot that the maintenance thread shares with the recording thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::mapping::JournalFile;
use crate::format::layout::SEGMENT_BYTES;
use crate::lock::Lock;

/// How many used files a recording thread may leave for unmapping between two rounds of the maintenance thread.
const LEFT_FILES: usize = 16;

/// The maintenance thread's view of a slot.
pub(crate) struct Slot {
    pub(crate) number: u16,
    pub(crate) next_file: AtomicU32,
    pub(crate) current: Lock<Option<Arc<JournalFile>>>,
    pub(crate) spare: Lock<Option<Arc<JournalFile>>>,
    /// The maintenance thread's reference to the current file: it unmaps a used-up file, not the recording thread.
    pub(crate) kept: Lock<Option<Arc<JournalFile>>>,
    /// In a flight recording: files that the recording thread has finished with, for the maintenance thread to unmap.
    pub(crate) left: Lock<Vec<Arc<JournalFile>>>,
    /// In a flight recording: used files that still exist, oldest first.
    pub(crate) used: Lock<UsedFiles>,
    /// The time of the maintenance thread's last round, and the bytes that were recorded until then.
    progress: Lock<Option<(Instant, u64)>>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Slot {
    pub(crate) fn new(number: u16) -> Self {
        Self {
            number,
            next_file: AtomicU32::new(0),
            current: Lock::new(None),
            spare: Lock::new(None),
            kept: Lock::new(None),
            left: Lock::new(Vec::with_capacity(LEFT_FILES)),
            used: Lock::new(UsedFiles::default()),
            progress: Lock::new(None),
        }
    }

    /// How long a segment lasts at the pace since the last call; `recorded` bytes have been recorded until `now`.
    /// `None` if none since then.
    pub(crate) fn segment_lasts(&self, now: Instant, recorded: u64) -> Option<Duration> {
        let (since, before) = self.progress.lock().replace((now, recorded))?;
        let more = recorded.checked_sub(before).filter(|more| *more > 0)?;
        Some((now - since).mul_f64(SEGMENT_BYTES as f64 / more as f64))
    }
}

#[derive(Debug, Default)]
pub(crate) struct UsedFiles {
    /// The number of the first file that is not in `files` yet.
    next: u32,
    pub(crate) files: VecDeque<UsedFile>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedFile {
    pub(crate) number: u32,
    /// When the maintenance thread noticed that the recording thread had left the file: all its records are older.
    pub(crate) since: Instant,
}

impl UsedFiles {
    /// Adds the files before the current one. Of these, one may be gone: a spare file that came too late.
    pub(crate) fn extend_to(&mut self, current: u32, now: Instant) {
        for number in self.next..current {
            self.files.push_back(UsedFile { number, since: now });
        }
        self.next = self.next.max(current);
    }
}
