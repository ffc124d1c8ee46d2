//! Summarises an archive in a few numbers, for `finalize` and the end of `run`.

use std::path::Path;

use analysis::Matching;
use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::archive;
use crate::print::Text;
use crate::units::plural;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Summary {
    pub(crate) anchor: String,
    pub(crate) processes: u64,
    pub(crate) locations: u64,
    pub(crate) events: u64,
    pub(crate) communicators: u64,
    pub(crate) ranks_missing: u64,
    pub(crate) unfinished: u64,
    pub(crate) lost: u64,
    pub(crate) problems: u64,
    /// NCCL's dumps of hosts' topology that could not be used. Graphs, often of small communicators, do not count.
    pub(crate) topology_unused: u64,
    /// Places where ranks of a communicator call something other than the rest.
    pub(crate) mismatches: u64,
    /// Ranks that called fewer collectives than others of their communicator.
    pub(crate) ranks_behind: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_mismatch: Option<String>,
}

impl Summary {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let trace = archive::open(path)?;
        let (statements, matching) = (&trace.statements, Matching::of(&trace.statements));
        Ok(Self {
            anchor: trace.anchor.display().to_string(),
            processes: trace.processes().count() as u64,
            locations: trace.definitions.locations.len() as u64,
            events: trace.events(),
            communicators: trace.definitions.comms.len() as u64,
            ranks_missing: statements.ranks_missing.get(),
            unfinished: statements.unfinished(),
            lost: statements.counts.lost(),
            problems: statements.problems.number.get(),
            topology_unused: statements.topology_unused.number.get(),
            mismatches: matching.number(),
            ranks_behind: matching.ranks_behind.number,
            first_mismatch: matching.lines().next(),
        })
    }

    pub(crate) fn print(&self, into: &mut Text) {
        let mut line = format!(
            "{}: {}, {}, {}, {}",
            self.anchor,
            plural(self.processes, "process", "processes"),
            plural(self.communicators, "communicator", "communicators"),
            plural(self.locations, "location", "locations"),
            plural(self.events, "event", "events"),
        );
        for (number, one, many) in [
            (self.lost, "lost", "lost"),
            (self.unfinished, "unfinished", "unfinished"),
            (self.ranks_missing, "rank not recorded", "ranks not recorded"),
            (self.problems, "problem in journals", "problems in journals"),
            (self.topology_unused, "unusable dump of the topology", "unusable dumps of the topology"),
        ] {
            if number > 0 {
                line += &format!(", {}", plural(number, one, many));
            }
        }
        into.line(line);
        if let Some(first) = &self.first_mismatch {
            let more = match self.mismatches {
                0 | 1 => String::new(),
                number => format!(" (and {} more, see nccl-otf2 check)", number - 1),
            };
            into.line(format_args!("MISMATCH between ranks: {first}{more}"));
        }
    }
}
