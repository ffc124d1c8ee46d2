//! What the archive says about ranks that do not call the same collectives (`docs/MAPPING.md` §9).

use otf2::Archive;
use serde::Serialize;

use super::statement;

/// In what ranks can differ, as the properties are called.
const KINDS: [&str; 5] = ["function", "count", "datatype", "root", "order"];

/// Some lines of the archive, and how many there would be.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Statement {
    /// How many; of ranks that stopped earlier: the ranks.
    pub number: u64,
    /// The lines, at most 100.
    pub lines: Vec<String>,
}

impl Statement {
    fn of(archive: &Archive, name: &str) -> Self {
        Self {
            number: statement::number(archive, name).unwrap_or(0),
            lines: statement::lines(archive, &format!("{name}::LIST")),
        }
    }
}

/// What is said.
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
    /// Reads the properties.
    pub fn of(archive: &Archive) -> Self {
        let mismatches = KINDS.map(|kind| {
            let name = format!("NCCL::MISMATCH::{}", kind.to_ascii_uppercase());
            (kind, Statement::of(archive, &name))
        });
        Self {
            mismatches: mismatches.into_iter().filter(|(_, statement)| statement.number > 0).collect(),
            ranks_behind: Statement::of(archive, "NCCL::RANKS_BEHIND"),
            unknown: Statement::of(archive, "NCCL::MATCHING_UNKNOWN"),
        }
    }

    /// How many mismatches.
    pub fn number(&self) -> u64 {
        self.mismatches.iter().fold(0, |sum, (_, one)| sum.saturating_add(one.number))
    }

    /// The mismatches in words.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.mismatches.iter().flat_map(|(kind, statement)| {
            let lines = statement.lines.iter();
            lines.map(move |line| format!("{kind}: {line}"))
        })
    }

    /// Whether the archive says itself that the ranks of a communicator do not call the same.
    pub fn is_stated(&self, comm: &str) -> bool {
        let lines = self.mismatches.iter().flat_map(|(_, one)| &one.lines);
        let lines = lines.chain(&self.ranks_behind.lines);
        let mut lines = lines.chain(&self.unknown.lines);
        lines.any(|line| {
            let rest = line.strip_prefix(comm);
            rest.is_some_and(|rest| rest.starts_with(": "))
        })
    }
}
