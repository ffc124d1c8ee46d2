//! The critical path: from the end of the last operation back to the beginning of the first.
//!
//! ```text
//!  rank 0   ├──────── computing ─────────┤▒▒ waits ▒▒├─ transfer ─┤
//!  rank 1   ├ computing ┤ launching ├─────────────────┤
//!                                     ◄── rank 1 came last: here the path changes to it
//! ```
//!
//! `walk` finds the way, `parts` sums it up.

mod parts;
mod walk;

use std::collections::BTreeSet;

use analysis::report::{CriticalPath, PathKind, PathPart};
use analysis::units::{capital, plural, time};
use analysis::{Analysis, Filter, Trace};
use nccl_events::ids::index;

use crate::hosts::Hosts;

use walk::{Gap, Walk};

/// The critical path of what the filter selects, and what is to be read to sum it up.
pub(crate) struct Planned {
    walk: Walk,
    /// Whether the filter selects ranks, which the path does not.
    is_of_some_ranks: bool,
    ranks: BTreeSet<u32>,
    /// Of the operations whose calls and launches are wanted.
    pub(crate) rows: BTreeSet<u32>,
}

impl Planned {
    /// `None` if the selection lacks operations that others waited for.
    pub(crate) fn of(analysis: &Analysis, filter: &Filter) -> Option<Self> {
        if !filter.communicators.is_empty() || !filter.functions.is_empty() {
            return None;
        }
        let walk = Walk::of(analysis, filter)?;
        let ranks = parts::outside(analysis, &walk);
        let wanted = |gap: &&Gap| ranks.contains(&analysis.tables.job_rank(gap.next));
        let rows = walk.gaps.iter().filter(wanted).map(|gap| gap.next).collect();
        Some(Self { walk, is_of_some_ranks: !filter.ranks.is_empty(), ranks, rows })
    }

    pub(crate) fn path(&self, trace: &Trace, analysis: &Analysis, hosts: &Hosts) -> CriticalPath {
        let hosts = self.rows.iter().filter_map(|row| Some((*row, *hosts.get(row)?))).collect();
        let parts = parts::of(trace, analysis, (&self.walk, &self.ranks), &hosts);
        path(analysis, (&self.walk, self.is_of_some_ranks), parts)
    }
}

fn path(analysis: &Analysis, (walk, is_of_some_ranks): (&Walk, bool), parts: Vec<PathPart>) -> CriticalPath {
    let sum = |kind: PathKind| parts.iter().filter(|part| part.kind == kind).map(|part| part.ns).sum();
    let mut path = CriticalPath {
        from_ns: walk.from_ns,
        to_ns: walk.to_ns,
        operations: walk.operations,
        computing_ns: sum(PathKind::Computing),
        launching_ns: sum(PathKind::Launching),
        transfer_ns: sum(PathKind::Transfer),
        warm_up_ns: sum(PathKind::WarmUp),
        unclear_ns: sum(PathKind::Unclear),
        parts,
        sentence: String::new(),
    };
    path.sentence = sentence(analysis, &path, is_of_some_ranks);
    path
}

fn sentence(analysis: &Analysis, path: &CriticalPath, is_of_some_ranks: bool) -> String {
    let of_all = if is_of_some_ranks { " of all ranks" } else { "" };
    let length_ns = path.to_ns - path.from_ns;
    let kinds = [
        (path.computing_ns, "computing"),
        (path.launching_ns, "launching"),
        (path.transfer_ns, "transfer"),
        (path.warm_up_ns, "warm-up"),
        (path.unclear_ns, "unclear"),
    ];
    let share = |ns: u64| parts::share(ns, length_ns) * 100.0;
    let kinds = kinds.into_iter().filter(|(ns, _)| *ns > 0).map(|(ns, what)| format!("{:.1} % {what}", share(ns)));
    let most = path.parts.iter().find(|part| part.kind == PathKind::Computing);
    let most = most.and_then(|part| Some((part, analysis.report.ranks.get(index(part.rank?))?)));
    let most = most.map(|(part, rank)| format!(" {} computes {} of it.", capital(&rank.name), time(part.ns)));
    format!(
        "The critical path{of_all} takes {} through {}: {}.{}",
        time(length_ns),
        plural(path.operations, "operation", "operations"),
        kinds.collect::<Vec<_>>().join(", "),
        most.unwrap_or_default(),
    )
}
