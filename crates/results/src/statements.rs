//! The archive's statements on completeness, and on ranks that call different collectives (`docs/MAPPING.md` §9).

use std::collections::BTreeMap;

use nccl_events::schema::{Listed, Statements, is_written};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Completeness {
    /// By kind of event: `seen`, `written`, `left_out`, `not_shown`, `duplicate`, `unfinished`, `orphan`, `lost`,
    /// `stops_lost`, `late` …
    pub kinds: BTreeMap<String, BTreeMap<String, u64>>,
    /// Counts that belong to no kind of event.
    pub other: BTreeMap<String, u64>,
    /// Callbacks that could not be recorded, all kinds.
    pub callbacks_lost: u64,
    /// Callbacks that arrived after recording had ended, all kinds.
    pub callbacks_late: u64,
    pub problems: Vec<String>,
    /// How many problems there are; long lists are cut.
    pub problem_count: u64,
    /// How often the recording of a process was switched off or on.
    pub switches: u64,
    /// Processes whose part could not be merged.
    pub parts_left_out: Vec<String>,
    /// NCCL's dumps of its topology that could not be used, and why.
    pub topology_unused: Vec<String>,
    pub ranks_missing: u64,
    /// Communicators for which NCCL stated a rank or a number of ranks that cannot be.
    pub ranks_impossible: Statement,
    pub collectives_unmatched: u64,
    /// The archive's statements on ranks that do not call the same.
    pub matching: Matching,
}

impl Completeness {
    /// OTF2 property names are in upper case; the keys here are in lower case.
    pub fn of(statements: &Statements) -> Self {
        let counts = &statements.counts;
        let lower = |(name, number): (&str, u64)| (name.to_ascii_lowercase(), number);
        let kinds = counts.kinds.iter().map(|(kind, counts)| {
            let counts = counts.named().filter(|(name, number)| is_written(name, *number));
            (kind.name().to_ascii_lowercase(), counts.map(lower).collect())
        });
        let started = statements.started.0.map(|number| ("STARTED", number));
        let late = [counts.kinds.sum(|kind| kind.late), counts.stops_late, counts.states_late];
        Self {
            kinds: kinds.collect(),
            other: counts.others.named().filter(|(_, number)| *number > 0).chain(started).map(lower).collect(),
            callbacks_lost: counts.lost(),
            callbacks_late: late.into_iter().fold(0, u64::saturating_add),
            problems: statements.problems.lines.shown(),
            problem_count: statements.problems.number.get(),
            switches: statements.measurement_list.len(),
            parts_left_out: statements.parts_left_out.shown(),
            topology_unused: statements.unused_dumps(),
            ranks_missing: statements.ranks_missing.get(),
            ranks_impossible: Statement::of(&statements.ranks_impossible),
            collectives_unmatched: statements.collectives_unmatched.get(),
            matching: Matching::of(statements),
        }
    }
}

/// Some lines of the archive, and their total number.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Statement {
    /// Total number; for ranks that stopped earlier, the number of ranks.
    pub number: u64,
    /// The lines, at most 100.
    pub lines: Vec<String>,
}

impl Statement {
    fn of(listed: &Listed) -> Self {
        Self { number: listed.number.get(), lines: listed.lines.shown() }
    }
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Matching {
    /// Differing calls, by kind of difference.
    pub mismatches: Vec<(&'static str, Statement)>,
    /// Ranks that stopped before the others.
    pub ranks_behind: Statement,
    /// Communicators whose matching is unknown.
    pub unknown: Statement,
}

impl Matching {
    pub fn of(statements: &Statements) -> Self {
        let mismatches = statements.mismatches().into_iter().filter(|(_, listed)| listed.number.get() > 0);
        Self {
            mismatches: mismatches.map(|(kind, listed)| (kind, Statement::of(listed))).collect(),
            ranks_behind: Statement::of(&statements.ranks_behind),
            unknown: Statement::of(&statements.matching_unknown),
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
