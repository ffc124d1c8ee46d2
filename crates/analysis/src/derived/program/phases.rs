//! Operations by the ranges of the program that their calls were in.

use super::names_of;
use crate::archive::Trace;
use crate::derived::filter::Filter;
use crate::report::{Budget, Phase};
use crate::tables::{NONE, Tables};
use nccl_events::ids::index as large;

/// `budgets` are by the number of the path. Sorted by the time in operations, the longest first.
pub(in crate::derived) fn phases(trace: &Trace, tables: &Tables, filter: &Filter, budgets: &[Budget]) -> Vec<Phase> {
    let texts = tables.paths.texts();
    let mut phases: Vec<Phase> = texts.iter().map(|text| Phase { path: names_of(text), ..Phase::default() }).collect();
    if tables.ranges.is_empty() && tables.operations.path.iter().all(|path| *path == NONE) {
        return Vec::new();
    }
    // Operations outside of ranges.
    let outside = phases.len();
    phases.push(Phase::default());
    for range in tables.ranges.rows().filter(|it| filter.wants_time(it.start_ns, it.stop_ns)) {
        if let Some(phase) = phases.get_mut(large(range.path)) {
            phase.ranges += 1;
            phase.ranges_ns += range.stop_ns.saturating_sub(range.start_ns);
        }
    }
    for operation in tables.operations.rows() {
        if filter.wants(trace, &tables.members, &operation)
            && let Some(phase) = phases.get_mut(large(operation.path).min(outside))
        {
            phase.operations += 1;
            phase.bytes = phase.bytes.saturating_add(operation.bytes);
        }
    }
    for (phase, budget) in phases.iter_mut().zip(budgets) {
        phase.budget = *budget;
    }
    // Names of communicators are numbered with the paths.
    phases.retain(|phase| phase.ranges + phase.operations > 0);
    nccl_events::sort::sort_by(&mut phases, |a, b| {
        let of = |it: &Phase| (it.budget.operations_ns, it.ranges_ns);
        of(b).cmp(&of(a)).then_with(|| a.path.cmp(&b.path))
    });
    phases
}
