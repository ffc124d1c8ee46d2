//! Sheets by what the program names through NVTX.

use std::collections::BTreeMap;

use analysis::results::{Phase, Report};
use analysis::units::real;
use nccl_events::archive::path_of_ranges;

use super::cells::{compared, of, rank, share, text, time};
use crate::sheet::{self, Cell, Sheet};

pub(super) const NO_PHASES: &str = "no ranges of the program were recorded: that takes a program that names ranges through \
    NVTX, and NVTX_INJECTION64_PATH, which nccl-otf2 run sets unless another tool has it";
pub(super) const NO_STEPS: &str = "no range around operations repeats three times or more on all processes and lasts \
    as long as its operations: name one around a whole step, or choose one with --step";
pub(super) const NO_COMMUNICATORS: &str =
    "no calls of NCCL were recorded through NVTX: that takes NVTX_INJECTION64_PATH, which nccl-otf2 run sets";
/// The path of operations that were called outside of ranges.
const OUTSIDE: &str = "(outside of ranges)";

/// Cuts paths after `levels` ranges, and sums the phases that then have the same path.
pub(super) fn up_to(phases: Vec<Phase>, levels: u32) -> Vec<Phase> {
    let levels = usize::try_from(levels).unwrap_or(usize::MAX);
    let mut sums: BTreeMap<Vec<String>, Phase> = BTreeMap::new();
    for phase in phases {
        let is_inside = phase.path.len() > levels;
        let path: Vec<String> = phase.path.iter().take(levels).cloned().collect();
        let sum = sums.entry(path.clone()).or_insert_with(|| Phase { path, ..Phase::default() });
        // The time of a range contains that of ranges inside it.
        if !is_inside {
            sum.ranges += phase.ranges;
            sum.ranges_ns += phase.ranges_ns;
        }
        sum.operations += phase.operations;
        sum.bytes = sum.bytes.saturating_add(phase.bytes);
        sum.budget += phase.budget;
    }
    let mut phases: Vec<Phase> = sums.into_values().collect();
    nccl_events::sort::sort_by_key(&mut phases, |phase| {
        std::cmp::Reverse((phase.budget.operations_ns, phase.ranges_ns))
    });
    phases
}

pub(super) fn phases(report: &Report) -> Sheet {
    Sheet::of(
        "phases: operations by the ranges of the program that they were called in",
        &report.phases,
        &[
            ("phase", |it| text(if it.path.is_empty() { OUTSIDE.to_owned() } else { path_of_ranges(&it.path) })),
            ("ranges", |it| Cell::Count(it.ranges)),
            ("time", |it| time(it.ranges_ns)),
            ("operations", |it| Cell::Count(it.operations)),
            ("in_operations", |it| time(it.budget.operations_ns)),
            ("waiting", |it| compared(&it.budget, it.budget.waiting_ns)),
            ("transfer", |it| compared(&it.budget, it.budget.transfer_ns)),
            ("unclear", |it| compared(&it.budget, it.budget.unclear_ns)),
            ("bytes", |it| Cell::Bytes(it.bytes)),
            ("rate", |it| rate(it.bytes, it.budget.operations_ns)),
        ],
    )
}

fn rate(bytes: u64, ns: u64) -> Cell {
    if ns == 0 { Cell::None } else { Cell::Rate(real(bytes) * 1e9 / real(ns)) }
}

pub(super) fn steps(report: &Report) -> Sheet {
    let steps = report.steps.iter().flat_map(|steps| &steps.steps);
    let mut sheet = Sheet::of(
        "steps of the program: time on the slowest rank, and what operations called in the step cost",
        steps.map(|step| (report, step)),
        &[
            ("step", |(_, it)| Cell::Count(it.number)),
            ("time", |(_, it)| time(it.duration_ns)),
            ("fastest", |(_, it)| time(it.shortest_ns)),
            ("communication", |(_, it)| share(it.budget.operations_ns, it.ranks_ns)),
            ("waiting", |(_, it)| share(it.budget.waiting_ns, it.ranks_ns)),
            ("transfer", |(_, it)| share(it.budget.transfer_ns, it.ranks_ns)),
            ("begin", |(_, it)| time(it.start_ns)),
            ("+slowest_rank", |(report, it)| of(it.slowest, |number| text(rank(report, number)))),
        ],
    );
    sheet.remark = report.steps.as_ref().map(|steps| {
        let median = sheet::text(&of(steps.duration_ns, |it| Cell::Time(it.median)));
        let trend = steps.trend_ns_per_step.map_or_else(String::new, |trend| {
            let what = if trend < 0.0 { "shorter" } else { "longer" };
            format!("; each {} {what} than the one before", sheet::text(&Cell::Time(trend.abs())))
        });
        format!("a step is {:?}: median {median}{trend}", sheet::shortened(&steps.name, 60))
    });
    sheet
}

pub(super) fn communicators(report: &Report) -> Sheet {
    Sheet::of(
        "calls that make and end communicators",
        &report.communicator_calls,
        &[
            ("call", |it| text(&it.function)),
            ("communicator", |it| text(&it.communicator)),
            ("ranks", |it| Cell::Count(it.ranks)),
            ("unfinished", |it| Cell::Count(it.unfinished)),
            ("begin", |it| time(it.start_ns)),
            ("time", |it| time(it.duration_ns)),
            ("first_to_last", |it| time(it.skew_ns)),
            ("last_rank", |it| of(it.last_rank.map(u64::from), Cell::Count)),
            ("last_process", |it| text(&it.last_process)),
        ],
    )
}
