//! What the archive says about its own completeness, in its properties.

use std::collections::BTreeMap;

use otf2::Archive;
use serde::Serialize;

use super::matching::Matching;
use super::statement;

/// Counts of one kind of event.
pub(crate) type KindCounts = BTreeMap<String, u64>;

/// What was seen, and what became of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Completeness {
    /// By kind of event: `seen`, `written`, `left_out`, `not_shown`, `duplicate`, `unfinished`, `orphan`, `lost`,
    /// `stops_lost`, `late` …
    pub kinds: BTreeMap<String, KindCounts>,
    /// Numbers that belong to no kind.
    pub other: BTreeMap<String, u64>,
    /// Callbacks that could not be recorded, of all kinds.
    pub callbacks_lost: u64,
    /// Callbacks that came when recording had ended, of all kinds.
    pub callbacks_late: u64,
    /// Places of journals that could not be used.
    pub problems: Vec<String>,
    /// How many of those there are; more than are listed in long lists.
    pub problem_count: u64,
    /// Processes whose part could not be taken in.
    pub parts_left_out: Vec<String>,
    /// Ranks of communicators that nobody recorded.
    pub ranks_missing: u64,
    /// Collectives that not all recorded ranks have.
    pub collectives_unmatched: u64,
    /// What it says about ranks that do not call the same.
    pub matching: Matching,
}

impl Completeness {
    /// Reads the properties. Names are in upper case in OTF2; here they are in lower case.
    pub fn of(archive: &Archive) -> Self {
        let mut found = Self::default();
        for (name, number) in statement::numbers(archive, "NCCL::COUNT::") {
            match name.split_once("::") {
                Some((kind, what)) => {
                    let kind = found.kinds.entry(kind.to_owned()).or_default();
                    kind.insert(what.to_owned(), number);
                }
                None => {
                    found.other.insert(name, number);
                }
            }
        }
        let number = |name| statement::number(archive, name).unwrap_or(0);
        let lines = |name| statement::lines(archive, name);
        found.callbacks_lost = found.lost();
        let late = [found.sum("late"), found.number("stops_late"), found.number("states_late")];
        found.callbacks_late = late.into_iter().fold(0, u64::saturating_add);
        found.problems = lines("NCCL::PROBLEM_LIST");
        found.problem_count = number("NCCL::PROBLEMS");
        found.parts_left_out = lines("NCCL::PARTS_LEFT_OUT");
        found.ranks_missing = number("NCCL::RANKS_MISSING");
        found.collectives_unmatched = number("NCCL::COLLECTIVES_UNMATCHED");
        found.matching = Matching::of(archive);
        found
    }

    /// The sum of one count over all kinds.
    pub fn sum(&self, what: &str) -> u64 {
        let kinds = self.kinds.values();
        kinds.filter_map(|counts| counts.get(what)).copied().fold(0, u64::saturating_add)
    }

    /// A number that belongs to no kind.
    pub fn number(&self, what: &str) -> u64 {
        self.other.get(what).copied().unwrap_or(0)
    }

    /// Events, stops, states, beginnings and ends of communicators that could not be recorded.
    pub fn lost(&self) -> u64 {
        let others = ["stops_lost", "states_lost", "communicators_lost"];
        others.map(|what| self.number(what)).into_iter().fold(self.sum("lost"), u64::saturating_add)
    }

    /// Operations that had not ended when recording did.
    pub fn unfinished(&self) -> u64 {
        self.sum("unfinished")
    }

    /// Whether something is missing that the archive owns up to: then ranks need not have all of each
    /// other's operations.
    pub fn is_partial(&self) -> bool {
        self.is_cut() || self.unfinished() > 0
    }

    /// Whether something of what happened is not in the archive; events that had not ended are in it.
    pub fn is_cut(&self) -> bool {
        self.lost() > 0
            || self.number("removed") > 0
            || self.problem_count > 0
            || self.ranks_missing > 0
            || !self.parts_left_out.is_empty()
    }
}
