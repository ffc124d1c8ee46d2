//! Explains an analysis: why a late rank is late, and the critical path of the job.
//!
//! ```text
//!  Trace, Analysis ─► HostTimes       when the examined operations were called and launched
//!                      ├► Stages         the stage that delays a late rank: call, launch or GPU
//!                      └► PlannedPath    from the end of the job back through what each operation waited for
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::lateness::recorded::LateOperation;
use crate::reasons::critical_path;
use crate::reasons::critical_path::{HostTimes, HostTimesByOperation, PlannedPath};
use crate::results::{Cause, CausePhase, Delay, Report, Why};
use crate::statistics::collectives::own_error_ns;
use crate::statistics::numeric::{median, quantile};
use crate::statistics::{late_line, reason_line};
use crate::units::{real, whole};
use crate::{Analysis, Filter, Trace};
use nccl_events::ids::index;

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
    let mut rows = BTreeSet::new();
    for late in analysis.late.values().flatten() {
        rows.insert(late.row);
        rows.extend(late.peers.iter().map(|(row, _)| row));
    }
    rows.extend(planned.iter().flat_map(|path| &path.rows));
    let hosts = critical_path::read_host_times(trace, &analysis.tables, &rows)?;
    add_delays(trace, analysis, &hosts);
    if let Some(planned) = planned {
        analysis.report.critical_path = Some(planned.path(trace, analysis, &hosts));
    }
    Ok(())
}

const DELAYS: [Delay; 3] = [Delay::Call, Delay::Launch, Delay::Gpu];
/// A GPU begins an operation this long after its launch, if it has nothing else to do: the quantile of this order.
const PROMPT: f64 = 0.01;

const NO_CALLS: &str = "its calls are not in the archive, or belong to the capture of a CUDA graph";
const NO_LAUNCHES: &str = "its launches are not in the archive";
const CLOCKS: &str = "the delays are within the clocks' error";
const MIXED: &str = "no single stage accounts for half of the time";

/// Adds to each late rank, and to the causes that name it, what delays it.
fn add_delays(trace: &Trace, analysis: &mut Analysis, hosts: &HostTimesByOperation) {
    let stages = Stages::new(analysis, hosts);
    let of_rank = |(rank, late): (&u32, &Vec<LateOperation>)| {
        let mut why = stages.why(late);
        if why.reason == Some(Delay::Call) {
            why.phase = stages.phase(trace, *rank, late);
        }
        (*rank, why)
    };
    let reasons: Vec<(u32, Why)> = analysis.late.iter().map(of_rank).collect();
    for (rank, why) in reasons {
        let is_it = |cause: &Cause| cause.is_late() && cause.rank == Some(rank);
        if let Some(at) = analysis.report.causes.iter().position(is_it) {
            append_reason_to_cause(analysis, at, &why);
        }
        if let Some(rank) = analysis.report.ranks.get_mut(index(rank)) {
            rank.why = Some(why);
        }
    }
}

/// The stages of operations, by the clock of their rank alone.
///
/// ```text
///  what it follows ends     called        launched          begins
///  ├───────── call ─────────┼── launch ───┼───── gpu ───────┤
/// ```
#[derive(Clone, Copy)]
struct Stages<'a> {
    analysis: &'a Analysis,
    hosts: &'a HostTimesByOperation,
    /// From a launch to the beginning of the operation on a free GPU, in ns.
    prompt_ns: u64,
}

/// How long an operation was in each of [`DELAYS`], in ns; `None` if the archive does not say.
type StageTimes = [Option<u64>; 3];

impl<'a> Stages<'a> {
    fn new(analysis: &'a Analysis, hosts: &'a HostTimesByOperation) -> Self {
        let start_ns = |row: u32| analysis.tables.operations.start_ns[index(row)];
        let begins = hosts.iter().filter_map(|(row, times)| start_ns(*row).checked_sub(times.launched_ns?));
        let mut begins: Vec<f64> = begins.map(real).collect();
        begins.sort_unstable_by(f64::total_cmp);
        Self { analysis, hosts, prompt_ns: whole(quantile(&begins, PROMPT)) }
    }

    fn times(&self, row: u32, free_ns: u64) -> StageTimes {
        let HostTimes { called_ns, launched_ns } = self.hosts.get(&row).copied().unwrap_or_default();
        let start_ns = self.analysis.tables.operations.start_ns[index(row)];
        let Some(called_ns) = called_ns else { return [None; 3] };
        let call = called_ns.saturating_sub(free_ns);
        let Some(launched_ns) = launched_ns else { return [Some(call), None, None] };
        let launch = launched_ns.saturating_sub(free_ns.max(called_ns));
        let gpu = start_ns.saturating_sub(free_ns.max(launched_ns.saturating_add(self.prompt_ns)));
        [Some(call), Some(launch), Some(gpu)]
    }

    /// How much longer than its peers a late operation was in each stage.
    fn longer(&self, late: &LateOperation) -> StageTimes {
        let peers: Vec<StageTimes> = late.peers.iter().map(|(row, free_ns)| self.times(*row, *free_ns)).collect();
        let mut longer = self.times(late.row, late.free_ns);
        for (stage, own) in longer.iter_mut().enumerate() {
            let mut times: Vec<f64> = peers.iter().filter_map(|peer| peer[stage].map(real)).collect();
            let usual_ns = if times.is_empty() { 0 } else { whole(median(&mut times)) };
            *own = own.map(|ns| ns.saturating_sub(usual_ns));
        }
        // Sends and receives have no peers: of their stages only the proportions are known.
        let all_ns: u64 = longer.iter().flatten().sum();
        if peers.is_empty() && all_ns > late.later_ns {
            let part = |ns: u64| whole(real(ns) / real(all_ns) * real(late.later_ns));
            longer = longer.map(|ns| ns.map(part));
        }
        longer
    }

    fn why(&self, late: &[LateOperation]) -> Why {
        let (mut sums, mut all_ns) = ([0_u64; 3], 0_u64);
        let mut samples: [Vec<(u64, u64)>; 3] = Default::default();
        let mut lacks: BTreeMap<&str, u64> = BTreeMap::new();
        for operation in late {
            let longer = self.longer(operation);
            let parts = longer.map(Option::unwrap_or_default);
            let known_ns = parts.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
            let whole_ns = known_ns.max(operation.later_ns).max(1);
            let row = self.analysis.tables.operations.row(index(operation.row));
            let error_ns = own_error_ns(&self.analysis.tables.members, &row).unwrap_or(u64::MAX);
            let lack = match longer {
                [None, ..] => Some(NO_CALLS),
                [_, None, _] => Some(NO_LAUNCHES),
                _ if parts.iter().all(|ns| *ns <= error_ns) => Some(CLOCKS),
                _ => None,
            };
            all_ns = all_ns.saturating_add(operation.later_ns);
            let mut unknown_ns = operation.later_ns;
            let is_known = lack != Some(CLOCKS);
            for (stage, ns) in parts.into_iter().enumerate().filter(|_| is_known) {
                let part = u128::from(operation.later_ns) * u128::from(ns) / u128::from(whole_ns);
                let part = u64::try_from(part).unwrap_or(u64::MAX);
                sums[stage] = sums[stage].saturating_add(part);
                unknown_ns = unknown_ns.saturating_sub(part);
                if ns >= whole_ns.div_ceil(2) {
                    samples[stage].push((ns, operation.later_ns));
                }
            }
            if let Some(lack) = lack {
                *lacks.entry(lack).or_default() += unknown_ns;
            }
        }
        let most = (0..3).max_by_key(|stage| sums[*stage]);
        let most = most.filter(|stage| sums[*stage] > 0 && sums[*stage] >= all_ns.div_ceil(2));
        let reason = most.map(|stage| DELAYS[stage]);
        let lack = lacks.into_iter().find(|(_, ns)| *ns >= all_ns.div_ceil(2)).map_or(MIXED, |(lack, _)| lack);
        let [call_ns, launch_ns, gpu_ns] = sums;
        Why {
            reason,
            later_ns: most.and_then(|stage| weighted_median(&mut samples[stage])),
            phase: None,
            call_ns,
            launch_ns,
            gpu_ns,
            unknown_ns: sums.into_iter().fold(all_ns, u64::saturating_sub),
            missing: reason.is_none().then(|| lack.to_owned()),
        }
    }

    /// From when a rank was free to its call.
    fn before_call(&self, row: u32, free_ns: u64) -> Option<(u64, u64)> {
        let called_ns = self.hosts.get(&row)?.called_ns?.min(self.analysis.tables.operations.start_ns[index(row)]);
        (free_ns < called_ns).then_some((free_ns, called_ns))
    }

    /// The range of the program in which a rank is longer than its peer before it calls. One peer of all operations
    /// limits how many threads must be read.
    fn phase(&self, trace: &Trace, rank: u32, late: &[LateOperation]) -> Option<CausePhase> {
        let tables = &self.analysis.tables;
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        let peers = || late.iter().flat_map(|late| &late.peers);
        peers().for_each(|(row, _)| *counts.entry(tables.job_rank(*row)).or_default() += 1);
        let peer = counts.into_iter().max_by_key(|(rank, count)| (*count, Reverse(*rank))).map(|(rank, _)| rank);
        let pairs = late.iter().filter_map(|late| {
            let (row, free_ns) = late.peers.iter().find(|(row, _)| Some(tables.job_rank(*row)) == peer)?;
            Some((self.before_call(late.row, late.free_ns)?, self.before_call(*row, *free_ns)))
        });
        let (own, of_peer): (Vec<_>, Vec<_>) = pairs.unzip();
        match peer.filter(|_| !own.is_empty()) {
            Some(peer) => tables.longer_during(trace, (rank, own), (peer, of_peer.into_iter().flatten().collect())),
            None => {
                let own = late.iter().filter_map(|late| self.before_call(late.row, late.free_ns)).collect();
                tables.during(trace, rank, own)
            }
        }
    }
}

/// The median delay, in ns, weighted by how late operations come, so that many short delays do not hide a few long ones.
/// `samples` are pairs of delay and weight.
fn weighted_median(samples: &mut [(u64, u64)]) -> Option<u64> {
    samples.sort_unstable();
    let all_ns = samples.iter().map(|(_, weight)| *weight).fold(0, u64::saturating_add);
    let mut sum_ns = 0;
    let reaches_half = |(_, weight): &&(u64, u64)| {
        sum_ns = u64::saturating_add(sum_ns, *weight);
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
        verdict.line = late_line(ranks, &late);
        // Behind what the rank takes longer by.
        let evidence = causes[at].evidence.as_ref().and_then(|line| verdict.basis.iter().position(|own| own == line));
        if let (Some(behind), Some(line)) = (evidence, reason_line(rank, why)) {
            verdict.basis.insert(behind + 1, line);
        }
    }
    analysis.report.show_names();
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
