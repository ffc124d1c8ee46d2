//! The archive has as many events as it states.

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Shows, Step, Trace};
use nccl_events::Kind;
use schema::Statements;

use crate::findings::Findings;
use crate::rules::Rule;

pub(super) struct Written {
    /// Kinds that are counted by their events on threads.
    by_calls: BTreeSet<Kind>,
    counts: BTreeMap<Kind, u64>,
    unfinished: u64,
    /// By kind, the last event: the parts of an event follow each other on its location.
    pub(super) last: BTreeMap<Kind, u64>,
}

impl Written {
    pub(super) fn of(trace: &Trace) -> Self {
        let by_calls = trace.definitions.regions.keys().filter_map(|region| match trace.shows(*region)? {
            Shows::Call(kind) => Some(kind),
            _ => None,
        });
        Self { by_calls: by_calls.collect(), counts: BTreeMap::new(), unfinished: 0, last: BTreeMap::new() }
    }

    pub(super) fn step(&mut self, step: &Step<'_>) {
        let entered = match step {
            Step::Entered(entered) => entered,
            Step::Left(left) => {
                self.unfinished += u64::from(left.fields.is_unfinished == Some(true));
                return;
            }
            Step::Inside => return,
        };
        // Regions without an event, such as a call assembled from others, have no id.
        let (Some(shows), Some(id)) = (entered.shows, entered.fields.event) else {
            return;
        };
        // Operations are written twice: as they were enqueued, and as they ran.
        if matches!(shows, Shows::Operation(kind) if self.by_calls.contains(&kind)) {
            return;
        }
        if self.last.insert(shows.kind(), id) != Some(id) {
            *self.counts.entry(shows.kind()).or_insert(0) += 1;
        }
    }

    pub(super) fn end(&self, said: &Statements, findings: &mut Findings) {
        for kind in Kind::ALL {
            let (name, said) = (kind.name(), said.counts.kinds.get(kind).written);
            let found = self.counts.get(&kind).copied().unwrap_or(0);
            if said != found {
                findings.general(Rule::Written, format!("{name}: {said} written, {found} are in the archive"));
            }
        }
        if self.unfinished > 0 && said.unfinished() == 0 {
            let number = self.unfinished;
            findings.general(Rule::UnfinishedMark, format!("{number} regions are marked unfinished, none is counted"));
        }
    }
}
