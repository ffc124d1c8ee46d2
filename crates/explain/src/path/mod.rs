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

use analysis::report::{CriticalPath, PathKind};
use analysis::units::{capital, plural, time};
use analysis::{Analysis, Filter, Trace};
use nccl_events::index::index;

use walk::Walk;

/// The critical path of what the filter selects; `None` if that lacks operations that others waited for.
pub fn critical_path(trace: &Trace, analysis: &Analysis, filter: &Filter) -> otf2::Result<Option<CriticalPath>> {
    if !filter.communicators.is_empty() || !filter.functions.is_empty() {
        return Ok(None);
    }
    let Some(walk) = Walk::of(analysis, filter) else {
        return Ok(None);
    };
    let parts = parts::of(trace, analysis, &walk)?;
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
    path.sentence = sentence(analysis, &path, filter);
    Ok(Some(path))
}

fn sentence(analysis: &Analysis, path: &CriticalPath, filter: &Filter) -> String {
    let of_all = if filter.ranks.is_empty() { "" } else { " of all ranks" };
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
