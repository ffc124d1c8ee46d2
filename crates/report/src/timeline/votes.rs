//! A thread of a process with several GPUs belongs to the rank that most of its calls are for.

use std::collections::BTreeMap;

use analysis::Trace;
use analysis::read::{NONE, Tables};
use nccl_events::ids::index_u32 as small;
use otf2::{AttributeRef, AttributeValue};

/// Of larger jobs, this many operations evenly are enough.
const MOST: usize = 1_000_000;

nccl_events::fields! {
    struct Own {
        event: Event,
    }
}

/// The ranks of calls, by the calls' ids; empty if no process has several ranks.
#[derive(Debug, Default)]
pub(super) struct Votes(Vec<(u64, u32)>);

impl Votes {
    pub(super) fn of(tables: &Tables) -> Self {
        if !tables.members.has_process_of_several_ranks() {
            return Self::default();
        }
        let operations = &tables.operations;
        let rows = (0..operations.len()).step_by(operations.len().div_ceil(MOST).max(1));
        let rows = rows.filter(|row| operations.parent.get(*row) != 0 && operations.member[*row] != NONE);
        let mut ranks: Vec<(u64, u32)> =
            rows.map(|row| (operations.parent.get(row), tables.job_rank(small(row)))).collect();
        ranks.sort_unstable();
        Self(ranks)
    }

    /// Counts the operations of an event, if it is their call.
    pub(super) fn add(
        &self,
        trace: &Trace,
        attributes: &[(AttributeRef, AttributeValue)],
        votes: &mut BTreeMap<u32, u64>,
    ) {
        let Own { event: Some(event), .. } = trace.read_fields::<Own<'_>>(attributes) else {
            return;
        };
        let first = self.0.partition_point(|(call, _)| *call < event);
        for (_, rank) in self.0[first..].iter().take_while(|(call, _)| *call == event) {
            *votes.entry(*rank).or_default() += 1;
        }
    }
}
