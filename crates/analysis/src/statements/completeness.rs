//! What the archive says about its own completeness, for programs.

use std::collections::BTreeMap;

use schema::{Statements, is_written};
use serde::Serialize;

use super::matching::Matching;

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
