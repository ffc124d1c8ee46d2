//! What an archive states of its own completeness, and of ranks that do not call the same collectives
//! (`docs/MAPPING.md` §9).

use std::collections::BTreeMap;

use schema::{Listed, Statements, is_written};
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Completeness {
    /// By kind of event: `seen`, `written`, `left_out`, `not_shown`, `duplicate`, `unfinished`, `orphan`, `lost`,
    /// `stops_lost`, `late` …
    pub kinds: BTreeMap<String, BTreeMap<String, u64>>,
    /// Numbers that belong to no kind.
    pub other: BTreeMap<String, u64>,
    /// Callbacks that could not be recorded, of all kinds.
    pub callbacks_lost: u64,
    /// Callbacks that came when recording had ended, of all kinds.
    pub callbacks_late: u64,
    pub problems: Vec<String>,
    /// How many of those there are; more than are listed in long lists.
    pub problem_count: u64,
    /// Processes whose part could not be taken in.
    pub parts_left_out: Vec<String>,
    pub ranks_missing: u64,
    pub collectives_unmatched: u64,
    /// What it says about ranks that do not call the same.
    pub matching: Matching,
}

impl Completeness {
    /// Names are in upper case in OTF2; here they are in lower case.
    pub fn of(said: &Statements) -> Self {
        let counts = &said.counts;
        let lower = |(name, number): (&str, u64)| (name.to_ascii_lowercase(), number);
        let kinds = counts.kinds.iter().map(|(kind, counts)| {
            let counts = counts.named().filter(|(name, number)| is_written(name, *number));
            (kind.name().to_ascii_lowercase(), counts.map(lower).collect())
        });
        let started = said.started.0.map(|number| ("STARTED", number));
        let late = [counts.kinds.sum(|kind| kind.late), counts.stops_late, counts.states_late];
        Self {
            kinds: kinds.collect(),
            other: counts.others.named().filter(|(_, number)| *number > 0).chain(started).map(lower).collect(),
            callbacks_lost: counts.lost(),
            callbacks_late: late.into_iter().fold(0, u64::saturating_add),
            problems: said.problems.lines.shown(),
            problem_count: said.problems.number.get(),
            parts_left_out: said.parts_left_out.shown(),
            ranks_missing: said.ranks_missing.get(),
            collectives_unmatched: said.collectives_unmatched.get(),
            matching: Matching::of(said),
        }
    }
}

/// Some lines of the archive, and how many there would be.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Statement {
    /// How many; of ranks that stopped earlier: the ranks.
    pub number: u64,
    /// The lines, at most 100.
    pub lines: Vec<String>,
}

impl Statement {
    fn of(listed: &Listed) -> Self {
        Self { number: listed.number.get(), lines: listed.lines.shown() }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Matching {
    /// Where ranks call something else, by kind.
    pub mismatches: Vec<(&'static str, Statement)>,
    /// Ranks that stopped before others.
    pub ranks_behind: Statement,
    /// Communicators of which it is not known.
    pub unknown: Statement,
}

impl Matching {
    pub fn of(said: &Statements) -> Self {
        let mismatches = said.mismatches().into_iter().filter(|(_, listed)| listed.number.get() > 0);
        Self {
            mismatches: mismatches.map(|(kind, listed)| (kind, Statement::of(listed))).collect(),
            ranks_behind: Statement::of(&said.ranks_behind),
            unknown: Statement::of(&said.matching_unknown),
        }
    }

    pub fn number(&self) -> u64 {
        self.mismatches.iter().fold(0, |sum, (_, one)| sum.saturating_add(one.number))
    }

    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.mismatches
            .iter()
            .flat_map(|(kind, statement)| statement.lines.iter().map(move |line| format!("{kind}: {line}")))
    }
}
