//! Events and data that an archive lacks.

use crate::grammar::Listed;
use crate::statements::Statements;

/// Something that an archive lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Callbacks that could not be recorded: starts, stops, states, and starts and ends of communicators.
    Callbacks(u64),
    /// Processes whose part could not be included.
    Processes(u64),
    /// Places in journals that could not be read.
    Places(u64),
    /// What happened before the period that flight recordings keep.
    Beginning,
    /// What happened while recording was off.
    WhileOff,
    /// Records of collectives, because the archive was written without them.
    CollectiveRecords,
    /// Ranks of communicators whose processes were not recorded.
    Ranks(u64),
    /// Collectives that some recorded ranks lack.
    Collectives(u64),
    /// Ranks that called fewer collectives than others.
    RanksBehind(u64),
    /// Ranges and marks of the program or of NCCL that could not be recorded.
    Ranges(u64),
}

impl Statements {
    /// What the archive lacks according to its own properties. Events that were unfinished at the end are not lacking.
    pub fn lacks(&self) -> impl Iterator<Item = Lack> {
        let some = |number: u64, lack: fn(u64) -> Lack| (number > 0).then(|| lack(number));
        let is = |is_so: bool, lack: Lack| is_so.then_some(lack);
        let is_flight = self.counts.removed > 0 || self.flight_processes.get() > 0;
        let is_without_records = self.collectives.all.iter().any(|written| written == "none");
        let lacks = [
            some(self.counts.lost(), Lack::Callbacks),
            some(self.parts_left_out.len(), Lack::Processes),
            some(self.problems.number.get(), Lack::Places),
            is(is_flight, Lack::Beginning),
            is(!self.measurement_list.is_empty(), Lack::WhileOff),
            is(is_without_records, Lack::CollectiveRecords),
            some(self.ranks_missing.get(), Lack::Ranks),
            some(self.collectives_unmatched.get(), Lack::Collectives),
            some(self.ranks_behind.number.get(), Lack::RanksBehind),
            some(self.counts.ranges_lost, Lack::Ranges),
        ];
        lacks.into_iter().flatten()
    }

    /// Whether the archive lacks something that happened.
    pub fn is_cut(&self) -> bool {
        self.lacks().any(|lack| {
            use Lack::{Beginning, Callbacks, Places, Processes, Ranks};
            matches!(lack, Callbacks(_) | Processes(_) | Places(_) | Beginning | Ranks(_))
        })
    }

    /// Whether recording was switched off at times.
    pub fn was_switched(&self) -> bool {
        self.lacks().any(|lack| lack == Lack::WhileOff)
    }

    /// Whether the clock readings of a process are lost, so that its ticks were taken for nanoseconds.
    pub fn has_assumed_ticks(&self) -> bool {
        self.clock_calibration.all.iter().any(|calibration| calibration == "assumed")
    }

    /// Number of events that were unfinished when the recording ended.
    pub fn unfinished(&self) -> u64 {
        self.counts.kinds.sum(|kind| kind.unfinished)
    }

    /// Whether ranks may lack some of each other's operations, according to the archive's properties.
    pub fn is_partial(&self) -> bool {
        self.is_cut() || self.unfinished() > 0
    }

    /// Whether something in the middle may be missing, so that positions in an order have no meaning.
    pub fn has_gaps(&self) -> bool {
        self.lacks().any(|lack| matches!(lack, Lack::Callbacks(_) | Lack::Places(_)))
    }

    /// On ranks of a communicator whose calls differ or may differ. Each line begins with the communicator's name.
    pub fn differences(&self) -> impl Iterator<Item = &Listed> {
        self.mismatches().into_iter().map(|(_, listed)| listed).chain([&self.ranks_behind, &self.matching_unknown])
    }

    /// In what the calls of a communicator's ranks differ.
    pub const fn mismatches(&self) -> [(&'static str, &Listed); 5] {
        [
            ("function", &self.mismatch_function),
            ("count", &self.mismatch_count),
            ("datatype", &self.mismatch_datatype),
            ("root", &self.mismatch_root),
            ("order", &self.mismatch_order),
        ]
    }
}
