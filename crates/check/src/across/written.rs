//! The archive has as many events as it states.

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Role, Step, Trace};
use nccl_events::Kind;
use schema::Statements;
use small_sort::Gather;

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
        let by_calls = trace.definitions.regions.keys().filter_map(|region| match trace.role(*region)? {
            Role::Call(kind) => Some(kind),
            _ => None,
        });
        Self { by_calls: by_calls.gather(), counts: BTreeMap::new(), unfinished: 0, last: BTreeMap::new() }
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
        let (Some(role), Some(id)) = (entered.role, entered.fields.event) else {
            return;
        };
        // Operations are written twice: as they were enqueued, and as they ran.
        if matches!(role, Role::Operation(kind) if self.by_calls.contains(&kind)) {
            return;
        }
        if self.last.insert(role.kind(), id) != Some(id) {
            *self.counts.entry(role.kind()).or_insert(0) += 1;
        }
    }

    pub(super) fn end(&self, statements: &Statements, findings: &mut Findings) {
        for kind in Kind::ALL {
            let (name, written) = (kind.name(), statements.counts.kinds.get(kind).written);
            let found = self.counts.get(&kind).copied().unwrap_or(0);
            if written != found {
                findings.general(Rule::Written, format!("{name}: {written} written, {found} are in the archive"));
            }
        }
        if self.unfinished > 0 && statements.unfinished() == 0 && statements.counts.ranges_unfinished == 0 {
            let number = self.unfinished;
            findings.general(Rule::UnfinishedMark, format!("{number} regions are marked unfinished, none is counted"));
        }
    }
}
