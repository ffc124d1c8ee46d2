//! What a poll returned beside the records.

use crate::segments::{Losses, Problem};

/// What a poll returned beside the records. *Since the beginning*: a total of all polls of a follower.
#[derive(Debug, Default)]
pub struct Polled {
    /// Records that this poll gave.
    pub records: u64,
    /// Bytes of them, and of strings.
    pub bytes: u64,
    /// Committed when the poll began, and not read yet.
    pub behind_bytes: u64,
    /// Ticks of the oldest record that was not read yet, if there is one.
    pub oldest_unread_ticks: Option<u64>,
    /// What was gone before it was read, since the beginning.
    pub discarded: Discarded,
    /// Committed bytes that could not be used, since the beginning: those of all problems, and what was committed later
    /// behind a bad record.
    pub damaged_bytes: u64,
    /// What could not be used and was not reported by earlier polls.
    pub problems: Vec<Problem>,
    /// What was not recorded, as the process counts it at this moment.
    pub losses: Losses,
    /// Whether the journal's directory is gone. What was held open is read to its end all the same.
    pub is_removed: bool,
}

/// What a flight recording, or who finalized the process, had removed before it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Segments of which not all was read.
    pub segments: u64,
    /// Their bytes that were not read: as committed when last seen, or whole segments that were never seen.
    pub bytes: u64,
    /// Starts of events in them, where a later segment of the flight recording says so.
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
