//! What the archive says about ranks that do not call the same collectives (`docs/MAPPING.md` §9).

use schema::{Listed, Statements};
use serde::Serialize;

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
        let mismatches = [
            ("function", &said.mismatch_function),
            ("count", &said.mismatch_count),
            ("datatype", &said.mismatch_datatype),
            ("root", &said.mismatch_root),
            ("order", &said.mismatch_order),
        ];
        let mismatches = mismatches.into_iter().filter(|(_, listed)| listed.number.get() > 0);
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
