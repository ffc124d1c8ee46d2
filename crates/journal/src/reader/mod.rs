//! Reads the journal of one process: every committed record, slot by slot, and everything wrong or missing.
//!
//! A reader is a [`Follower`] polled once. It may run in a process of the job, so it opens one file at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

mod in_order;

use crate::clock::TickSource;
use crate::follow::{Follower, Polled};
use crate::format::record::Records;
use crate::segments::segment::SegmentPlace;
pub use crate::segments::{Error, Losses, Problem, Removed, Symbols};
pub use in_order::InOrder;

const CHUNK_BYTES: usize = 256 << 10;

/// What reading returns besides records.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The strings; index by [`crate::format::record::Symbol`].
    pub symbols: Symbols,
    /// Places that could not be used.
    pub problems: Vec<Problem>,
    /// What was not recorded.
    pub losses: Losses,
    /// What a flight recording removed.
    pub removed: Removed,
    /// How many events were given an id, recorded or lost: the sum of the highest numbers of all slots, which is
    /// independent of the numbers of records and losses. Empty proxy control events return their ids.
    pub started: u64,
    /// Records read.
    pub records: u64,
    /// Committed bytes of all segments.
    pub bytes: u64,
}

/// An opened journal of one process.
#[derive(Debug)]
#[expect(missing_docs, reason = "the functions of `Follower` have these names")]
pub struct Journal {
    pub process_tag: u16,
    pub process_id: u32,
    pub tick_source: TickSource,
    pub session_start_realtime_ns: u64,
    directory: PathBuf,
    follower: Follower,
    found: Polled,
}

/// The segments of a journal, by slot.
#[derive(Clone, Debug)]
pub struct Segments(BTreeMap<u16, Vec<SegmentPlace>>);

impl Journal {
    /// Finds the segments in a journal directory (`parts/<part>/journal`).
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let mut follower = Follower::with(directory, 0, CHUNK_BYTES)?;
        let found = follower.find()?;
        follower.check_reads()?;
        Ok(Self {
            process_tag: follower.process_tag(),
            process_id: follower.process_id(),
            tick_source: follower.tick_source(),
            session_start_realtime_ns: follower.session_start_realtime_ns(),
            directory: directory.to_owned(),
            follower,
            found,
        })
    }

    /// The segments that were found.
    pub fn segments(&self) -> Segments {
        Segments(self.follower.segments())
    }

    /// Reads every committed record, slot by slot, in the order of writing. What a file contains and cannot be used is a
    /// problem of the outcome; a file that the system does not read is an error, because another attempt may read it.
    pub fn read(mut self, sink: &mut impl Records) -> Result<Outcome, Error> {
        let segments = self.follower.segments();
        let bytes = segments.values().flatten().map(|place| place.committed).sum();
        let mut read = self.found;
        self.follower.read_found(sink, u64::MAX, &mut read);
        self.follower.check_reads()?;
        let (removed, started) = (self.follower.removed(), self.follower.started());
        let (symbols, unread) = self.follower.end();
        let mut problems = read.problems;
        problems.extend(unread);
        let gone = read.discarded;
        // A flight recording may remove its oldest files during the reading; any other journal must lose none.
        if !removed.is_window && gone.segments > 0 {
            let reason = format!("{} segments were removed while they were read", gone.segments);
            problems.push(Problem { path: self.directory, offset: 0, reason, lost_bytes: gone.bytes });
        }
        Ok(Outcome { symbols, problems, losses: read.losses, removed, started, records: read.records, bytes })
    }
}
