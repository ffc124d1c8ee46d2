//! Explains an analysis: why a late rank is late, and the critical path of the job.
//!
//! ```text
//!  Trace, Analysis ─► HostTimes         when the examined operations were called and launched
//!                      ├► LateOperations   the stage that delayed a late rank: call, launch, GPU, previous operation
//!                      └► PlannedPath      from the end of the job back through what each operation waited for
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::read::Operation;
use crate::reasons::critical_path;
use crate::reasons::critical_path::{HostTimes, HostTimesByOperation, PlannedPath};
use crate::results::{Cause, Delay, Report, Why};
use crate::statistics::{late_line, reason_line};
use crate::{Analysis, Filter, Trace, WaitsFor};
use nccl_events::ids::{index, index_u32};
use nccl_events::sort::Gather;

/// Adds to each late rank, and to the causes that name it, what delayed it. Reads calls and launches only if a rank is
/// late. Fails if the archive's events cannot be read.
pub fn add_reasons(trace: &Trace, analysis: &mut Analysis) -> otf2::Result<()> {
    add(trace, analysis, None)
}

/// Like [`add_reasons`], and adds the critical path, unless the filter selects communicators or functions. Reads calls
/// and launches once for both.
pub fn add_reasons_and_path(trace: &Trace, analysis: &mut Analysis, filter: &Filter) -> otf2::Result<()> {
    add(trace, analysis, PlannedPath::new(analysis, filter))
}

fn add(trace: &Trace, analysis: &mut Analysis, planned: Option<PlannedPath>) -> otf2::Result<()> {
    let reasons = LateOperations::find(analysis);
    let mut rows = BTreeSet::new();
    rows.extend(reasons.iter().flat_map(|reasons| &reasons.rows));
    rows.extend(planned.iter().flat_map(|path| &path.rows));
    let hosts = critical_path::read_host_times(trace, &analysis.tables, &rows)?;
    if let Some(reasons) = reasons {
        reasons.add(trace, analysis, &hosts);
    }
    if let Some(planned) = planned {
        analysis.report.critical_path = Some(planned.path(trace, analysis, &hosts));
    }
    Ok(())
}

/// Limit on the examined operations, shared evenly by late ranks, each of which may have [`LEAST`] in any case. The
/// operations that others waited longest for are examined.
const MOST: usize = 2_000;
const LEAST: usize = 100;
/// The verdict has a line of evidence for each of so many late ranks.
const MOST_LINES: usize = 4;
const DELAYS: [Delay; 4] = [Delay::Call, Delay::Launch, Delay::Gpu, Delay::Operation];

/// An operation that came late.
struct LateOperation {
    row: u32,
    /// How long others waited for it.
    waited_ns: u64,
    /// Median arrival of the operations that waited for this one, in ns.
    others_ns: u64,
    /// Clock error of `others_ns` relative to this operation's start; `None` if unknown.
    error_ns: Option<u64>,
}

/// The shortest delays of a rank that is not late. Only longer delays count against a late rank.
#[derive(Clone, Copy, Default)]
struct ShortestDelays {
    call_to_launch_ns: u64,
    launch_to_start_ns: u64,
}

/// The parts of a delay, in the order of [`DELAYS`].
struct DelayParts {
    ns: [u64; 4],
    lacks: Option<&'static str>,
    /// Start and end, in ns, of the rank's time before the call and after both the others' arrival and its own previous
    /// operation.
    until_call: (u64, u64),
}

const NO_CALLS: &str = "its calls are not in the archive, or are those of a CUDA graph's capture";
const NO_LAUNCHES: &str = "its launches are not in the archive";
const CLOCKS: &str = "the delays are within the clocks' error";
const MIXED: &str = "no single stage has half of the time";

/// The late operations, and the operations whose host times must be read to explain them.
///
/// ```text
///  others begin            own operation before ends      called        launched          own operation begins
///  ├──────── operation ────┼──────── call ────────────────┼── launch ───┼───── gpu ───────┤
/// ```
///
/// Each call and launch is taken to be later by the shortest time that a punctual rank needs from there to the start
/// of the operation.
pub(crate) struct LateOperations {
    late: BTreeMap<u32, Vec<LateOperation>>,
    others: Vec<u32>,
    /// Rows of the operations whose calls and launches must be read.
    pub(crate) rows: BTreeSet<u32>,
}

impl LateOperations {
    /// `None` if no rank is late.
    pub(crate) fn find(analysis: &Analysis) -> Option<Self> {
        let late = analysis.awaited.iter().map(|(&rank, awaited)| (rank, often(analysis, awaited)));
        let late: BTreeMap<u32, Vec<LateOperation>> = late.gather();
        if late.is_empty() {
            return None;
        }
        let mut rows: BTreeSet<u32> = late.values().flatten().map(|late| late.row).gather();
        let others = operations_of_punctual_rank(analysis, &late);
        rows.extend(&others);
        Some(Self { late, others, rows })
    }

    /// Adds to each late rank, and to the causes that name it, what delayed it.
    pub(crate) fn add(&self, trace: &Trace, analysis: &mut Analysis, hosts: &HostTimesByOperation) {
        let usual = ShortestDelays::new(analysis, hosts, &self.others);
        let other = self.others.first().map(|row| analysis.tables.job_rank(*row));
        let other_operations = other.map(|rank| own_operations(analysis, rank)).unwrap_or_default();
        for (&rank, late) in &self.late {
            let own = own_operations(analysis, rank);
            let parts = |late: &LateOperation| DelayParts::new(analysis, &own, hosts, usual, late);
            let mut why = weigh_delays(trace, analysis, rank, late, parts);
            let windows = late.iter().filter_map(|late| {
                let mut rows = analysis.counterparts(late.row).into_iter();
                let row = rows.find(|row| Some(analysis.tables.job_rank(*row)) == other)?;
                Some((
                    before_call(analysis, &own, hosts, late.row)?,
                    before_call(analysis, &other_operations, hosts, row)?,
                ))
            });
            let (rank_windows, other_windows): (Vec<_>, Vec<_>) = windows.unzip();
            if let (Some(Delay::Call), Some(other)) = (why.reason, other)
                && !rank_windows.is_empty()
            {
                why.phase = analysis.tables.longer_during(trace, (rank, rank_windows), (other, other_windows));
            }
            let is_it = |cause: &Cause| cause.is_late() && cause.rank == Some(rank);
            if let Some(at) = analysis.report.causes.iter().position(is_it) {
                append_reason_to_cause(analysis, at, &why);
            }
            if let Some(rank) = analysis.report.ranks.get_mut(index(rank)) {
                rank.why = Some(why);
            }
        }
    }
}

fn often(analysis: &Analysis, awaited: &[(u32, u64)]) -> Vec<LateOperation> {
    let mut awaited = awaited.to_vec();
    awaited.sort_by_key(|(_, ns)| Reverse(*ns));
    awaited.truncate((MOST / analysis.awaited.len().max(1)).max(LEAST));
    awaited.into_iter().filter_map(|(row, ns)| LateOperation::new(analysis, row, ns)).collect()
}

impl LateOperation {
    fn new(analysis: &Analysis, row: u32, waited_ns: u64) -> Option<Self> {
        let starts = &analysis.tables.operations.start_ns;
        let mut waited = analysis.counterparts(row);
        waited.retain(|other| {
            starts[index(*other)] < starts[index(row)] && analysis.waits_for(*other, true) != WaitsFor::None
        });
        nccl_events::sort::sort_by_key(&mut waited, |other| starts[index(*other)]);
        let median = *waited.get((waited.len().max(1) - 1) / 2)?;
        let (others_ns, error_ns) = (starts[index(median)], analysis.tables.error_ns(row, median));
        Some(Self { row, waited_ns, others_ns, error_ns })
    }
}

/// The counterparts of the late operations on one punctual rank, the one that takes part most often. One rank limits
/// how many threads must be read.
fn operations_of_punctual_rank(analysis: &Analysis, late: &BTreeMap<u32, Vec<LateOperation>>) -> Vec<u32> {
    let mut by_rank: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in late.values().flatten().flat_map(|late| analysis.counterparts(late.row)) {
        by_rank.entry(analysis.tables.job_rank(row)).or_default().push(row);
    }
    by_rank.retain(|rank, _| !late.contains_key(rank));
    by_rank.into_values().max_by_key(Vec::len).unwrap_or_default()
}

impl ShortestDelays {
    fn new(analysis: &Analysis, hosts: &HostTimesByOperation, others: &[u32]) -> Self {
        let others = || others.iter().filter_map(|row| Some((*row, hosts.get(row)?)));
        let call_to_launch =
            others().filter_map(|(_, times)| Some(times.launched_ns?.saturating_sub(times.called_ns?)));
        let start_ns = |row: u32| analysis.tables.operations.start_ns[index(row)];
        let launch_to_start =
            others().filter_map(|(row, times)| Some(start_ns(row).saturating_sub(times.launched_ns?)));
        Self {
            call_to_launch_ns: call_to_launch.min().unwrap_or(0).min(u64::MAX / 2),
            launch_to_start_ns: launch_to_start.min().unwrap_or(0).min(u64::MAX / 2),
        }
    }
}

/// End and start, in ns, of each measured operation of a rank, sorted by end.
fn own_operations(analysis: &Analysis, rank: u32) -> Vec<(u64, u64)> {
    let tables = &analysis.tables;
    let rows = (0..index_u32(tables.operations.len())).filter(|row| tables.job_rank(*row) == rank);
    let rows = rows.map(|row| tables.operations.row(index(row))).filter(Operation::is_known);
    let mut own: Vec<(u64, u64)> = rows.map(|operation| (operation.stop_ns, operation.start_ns)).collect();
    own.sort_unstable();
    own
}

/// From the end of the rank's previous operation to the call of this one, in ns; `None` if the rank called while the
/// next operation was running.
fn before_call(analysis: &Analysis, own: &[(u64, u64)], hosts: &HostTimesByOperation, row: u32) -> Option<(u64, u64)> {
    let called_ns = hosts.get(&row)?.called_ns?.min(analysis.tables.operations.start_ns[index(row)]);
    let ended = own.partition_point(|(stop_ns, _)| *stop_ns <= called_ns);
    let (ended_ns, _) = own[..ended].last()?;
    let is_inside = own[ended..].first().is_some_and(|(_, start_ns)| *start_ns < called_ns);
    (!is_inside && *ended_ns < called_ns).then_some((*ended_ns, called_ns))
}

impl DelayParts {
    fn new(
        analysis: &Analysis,
        own: &[(u64, u64)],
        hosts: &HostTimesByOperation,
        usual: ShortestDelays,
        late: &LateOperation,
    ) -> Self {
        let start_ns = analysis.tables.operations.start_ns[index(late.row)];
        let HostTimes { called_ns, launched_ns } = hosts.get(&late.row).copied().unwrap_or_default();
        let before = own.partition_point(|(stop_ns, _)| *stop_ns <= start_ns);
        let before_ns = own[..before].last().filter(|(_, begin_ns)| *begin_ns < start_ns).map(|(stop_ns, _)| *stop_ns);
        let at = |ns: Option<u64>, from_ns: u64| ns.unwrap_or(0).clamp(from_ns, start_ns);
        let ended_ns = at(before_ns, late.others_ns);
        let called = called_ns.map(|ns| ns.saturating_add(usual.call_to_launch_ns + usual.launch_to_start_ns));
        let came_ns = at(called, ended_ns);
        let launched_at_ns = at(launched_ns.map(|ns| ns.saturating_add(usual.launch_to_start_ns)), came_ns);
        let mut ns =
            [came_ns - ended_ns, launched_at_ns - came_ns, start_ns - launched_at_ns, ended_ns - late.others_ns];
        let mut lacks = None;
        if launched_ns.is_none() {
            (ns[1], ns[2], lacks) = (0, 0, Some(NO_LAUNCHES));
        }
        if called_ns.is_none() {
            (ns[0], ns[1], lacks) = (0, 0, Some(NO_CALLS));
        }
        // If no stage is longer than the clocks' error, the clocks cannot tell which one delayed the operation.
        let error_ns = late.error_ns.unwrap_or(u64::MAX);
        if ns.iter().all(|ns| *ns <= error_ns) {
            (ns, lacks) = ([0; 4], lacks.or(Some(CLOCKS)));
        }
        let until_call = (ended_ns, called_ns.unwrap_or(0).max(ended_ns).min(start_ns));
        Self { ns, lacks, until_call }
    }
}

/// Sums the delays of a rank's late operations by stage, weighted by how long others waited for each operation.
fn weigh_delays(
    trace: &Trace,
    analysis: &Analysis,
    rank: u32,
    late: &[LateOperation],
    parts: impl Fn(&LateOperation) -> DelayParts,
) -> Why {
    let (mut sums, mut all_ns) = ([0; 4], 0);
    let mut samples: [Vec<(u64, u64)>; 4] = Default::default();
    let mut lacks: BTreeMap<&str, u64> = BTreeMap::new();
    let mut windows = Vec::new();
    for operation in late {
        let parts = parts(operation);
        let start_ns = analysis.tables.operations.start_ns[index(operation.row)];
        let whole_ns = u128::from((start_ns - operation.others_ns).max(1));
        let share = |ns: u64| u128::from(operation.waited_ns) * u128::from(ns) / whole_ns;
        let weighted = parts.ns.map(|ns| u64::try_from(share(ns)).unwrap_or(u64::MAX));
        sums.iter_mut().zip(weighted).for_each(|(sum, ns)| *sum = u64::saturating_add(*sum, ns));
        all_ns = u64::saturating_add(all_ns, operation.waited_ns);
        if let Some(lack) = parts.lacks {
            let lacking = lacks.entry(lack).or_default();
            *lacking = weighted.into_iter().fold(lacking.saturating_add(operation.waited_ns), u64::saturating_sub);
        }
        for (ns, samples) in parts.ns.into_iter().zip(&mut samples).filter(|(ns, _)| u128::from(*ns) * 2 >= whole_ns) {
            samples.push((ns, operation.waited_ns));
        }
        windows.extend((parts.ns[0] > 0).then_some(parts.until_call));
    }
    let most = (0..4).max_by_key(|at| sums[*at]).filter(|at| sums[*at] > 0 && sums[*at] >= all_ns.div_ceil(2));
    let reason = most.map(|at| DELAYS[at]);
    let [call_ns, launch_ns, gpu_ns, operation_ns] = sums;
    let phase = (reason == Some(Delay::Call)).then(|| analysis.tables.during(trace, rank, windows));
    let lack = lacks.into_iter().find(|(_, ns)| *ns >= all_ns.div_ceil(2)).map_or(MIXED, |(lack, _)| lack);
    Why {
        reason,
        later_ns: most.and_then(|at| weighted_median(&mut samples[at])),
        phase: phase.flatten(),
        call_ns,
        launch_ns,
        gpu_ns,
        operation_ns,
        unknown_ns: sums.into_iter().fold(all_ns, u64::saturating_sub),
        missing: reason.is_none().then(|| lack.to_owned()),
    }
}

/// The median delay, in ns, weighted by how long others waited, so that many short delays do not hide a few long ones.
/// `samples` are pairs of delay and waiting.
fn weighted_median(samples: &mut [(u64, u64)]) -> Option<u64> {
    samples.sort_unstable();
    let all_ns = samples.iter().map(|(_, waited_ns)| *waited_ns).fold(0, u64::saturating_add);
    let mut sum_ns = 0;
    let reaches_half = |(_, waited_ns): &&(u64, u64)| {
        sum_ns = u64::saturating_add(sum_ns, *waited_ns);
        sum_ns >= all_ns / 2
    };
    samples.iter().find(reaches_half).map(|(ns, _)| *ns)
}

/// Adds a reason to a cause, and to the lines of the cause and the verdict.
fn append_reason_to_cause(analysis: &mut Analysis, at: usize, why: &Why) {
    let Report { causes, ranks, verdict, .. } = &mut analysis.report;
    causes[at].why = Some(why.clone());
    let Some(rank) = causes[at].rank.and_then(|rank| ranks.get(index(rank))) else { return };
    causes[at].sentence = late_line(std::slice::from_ref(rank), &[&causes[at]]);
    if causes.first().is_some_and(Cause::is_late) {
        let late: Vec<&Cause> = causes.iter().filter(|cause| cause.is_late()).collect();
        verdict.sentence = late_line(ranks, &late);
        let others = late.len().min(MOST_LINES);
        // Behind what ranks take longer by, and what that costs.
        let line = reason_line(rank, why).filter(|_| at < MOST_LINES);
        verdict.basis.splice((others + 1).min(verdict.basis.len())..(others + 1).min(verdict.basis.len()), line);
    }
}

#[cfg(test)]
mod tests {
    use super::weighted_median;

    #[test]
    fn the_few_delays_that_took_the_time_count_more_than_many_short_ones() {
        let mut samples = [(5, 5); 28].to_vec();
        samples.extend([(300, 300); 13]);
        assert_eq!((weighted_median(&mut samples), weighted_median(&mut [])), (Some(300), None));
    }
}
