//! What a poll returns besides records.

use crate::segments::{Losses, Problem};

/// What a poll returns besides records. *Since the beginning*: the total over all polls of a follower.
#[derive(Debug, Default)]
pub struct Polled {
    /// Number of records that this poll returned.
    pub records: u64,
    /// Bytes of these records and of string records.
    pub bytes: u64,
    /// Bytes committed when the poll began but not read yet.
    pub behind_bytes: u64,
    /// Ticks of the oldest unread record, if any.
    pub oldest_unread_ticks: Option<u64>,
    /// What was removed before it was read, since the beginning.
    pub discarded: Discarded,
    /// Committed bytes that could not be used so far: those of all problems, and those committed behind a bad record.
    pub damaged_bytes: u64,
    /// Problems that earlier polls did not report.
    pub problems: Vec<Problem>,
    /// What was not recorded, as the process counts it now.
    pub losses: Losses,
    /// Whether the journal's directory is gone. Files held open are still read to their end.
    pub is_removed: bool,
}

/// What a flight recording, or whoever finalized the process, removed before it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Segments that were not fully read.
    pub segments: u64,
    /// Unread bytes of these segments: as committed when last seen; the whole segment if it was never seen.
    pub bytes: u64,
    /// Starts of events in these segments, if a later segment of the flight recording counts them.
    pub starts: u64,
}

impl Polled {
    pub(super) fn report(&mut self, problems: impl IntoIterator<Item = Problem>) {
        for problem in problems {
            self.damaged_bytes = self.damaged_bytes.saturating_add(problem.lost_bytes);
            self.problems.push(problem);
        }
    }
}
