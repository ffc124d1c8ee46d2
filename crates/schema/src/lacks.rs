//! What happened and is not in an archive.

use crate::grammar::Listed;
use crate::statements::Statements;

/// Something that is not in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Callbacks that could not be recorded: of events, stops, states, beginnings and ends of communicators.
    Callbacks(u64),
    /// Processes whose part could not be included.
    Processes(u64),
    /// Places of journals that could not be read.
    Places(u64),
    /// What came before the end that flight recordings keep.
    Beginning,
    /// What came while recording was off.
    WhileOff,
    /// Records of collectives: it was written without.
    CollectiveRecords,
    /// Ranks of communicators that nobody recorded.
    Ranks(u64),
    /// Collectives that not all recorded ranks have.
    Collectives(u64),
    /// Ranks that called fewer collectives than others.
    RanksBehind(u64),
}

impl Statements {
    /// What the archive does not have, by its own account. Events that had not ended when recording did are in it.
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
        ];
        lacks.into_iter().flatten()
    }

    /// Whether something that happened is not in the archive.
    pub fn is_cut(&self) -> bool {
        self.lacks().any(|lack| {
            use Lack::{Beginning, Callbacks, Places, Processes, Ranks};
            matches!(lack, Callbacks(_) | Processes(_) | Places(_) | Beginning | Ranks(_))
        })
    }

    /// Events that had not ended when recording did.
    pub fn unfinished(&self) -> u64 {
        self.counts.kinds.sum(|kind| kind.unfinished)
    }

    /// Whether ranks need not have all of each other's operations, by the archive's own account.
    pub fn is_partial(&self) -> bool {
        self.is_cut() || self.unfinished() > 0
    }

    /// The places of an order mean nothing where something in the middle is missing.
    pub fn has_gaps(&self) -> bool {
        self.lacks().any(|lack| matches!(lack, Lack::Callbacks(_) | Lack::Places(_)))
    }

    /// What it says of ranks of a communicator that do not call the same, or may not. A line begins with the name of
    /// the communicator.
    pub fn differences(&self) -> impl Iterator<Item = &Listed> {
        self.mismatches().into_iter().map(|(_, listed)| listed).chain([&self.ranks_behind, &self.matching_unknown])
    }

    /// In what ranks of a communicator differ that do not call the same.
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
