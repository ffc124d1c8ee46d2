//! What is derived from ranges that the program names, and from NCCL's calls that only NVTX shows: operations by range,
//! the steps of the program, the range a rank was in while others waited for it, and how long communicators took to
//! make and end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::read::archive::Trace;
use crate::read::{Call, NO_SEQUENCE, NONE, Range, Tables};
use crate::results;
use crate::results::{Budget, CausePhase, CommunicatorCall, Phase, PhaseRank};
use crate::statistics::collectives::Filter;
use crate::statistics::numeric::{DisjointIntervals, certain_trend, length, median, quantiles, union};
use crate::units::{real, whole};
use nccl_events::Progress;
use nccl_events::archive::{PATH_SEPARATOR, RegionClass};
use nccl_events::collective::is_of_communicators;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef, RegionRef};

/// The names of ranges in a text of `nvtx.ranges`, outermost first.
pub(super) fn names_of(path: &str) -> Vec<String> {
    path.split(PATH_SEPARATOR).map(str::to_owned).collect()
}

/// The threads whose ranges are attributed to a rank.
enum Threads {
    /// All threads of a process that has a single rank and a single thread with ranges.
    Process(LocationGroupRef),
    /// The threads that call NCCL for the rank. Other threads of the process may serve another rank, or be idle.
    Callers(BTreeSet<LocationRef>),
}

impl Threads {
    fn new(trace: &Trace, tables: &Tables, rank: u32) -> Option<Self> {
        let ranks = &tables.members.job_ranks;
        let process = ranks.get(large(rank))?.process;
        let own = (0..).zip(tables.operations.event.iter()).filter(|(row, _)| tables.job_rank(*row) == rank);
        let callers: BTreeSet<_> = own.filter_map(|(_, event)| Some(tables.enqueued.get(&event)?.by)).gather();
        let with_ranges: BTreeSet<_> = tables.ranges.location.iter().copied().gather();
        let process_threads = with_ranges.iter().filter(|thread| trace.process(trace.group(**thread)) == process);
        let has_one_rank = ranks.iter().filter(|other| other.process == process).count() == 1;
        let is_alone = has_one_rank && callers.is_disjoint(&with_ranges) && process_threads.count() == 1;
        Some(if is_alone { Self::Process(process) } else { Self::Callers(callers) })
    }

    fn has(&self, trace: &Trace, location: LocationRef) -> bool {
        match self {
            Self::Process(process) => trace.process(trace.group(location)) == *process,
            Self::Callers(callers) => callers.contains(&location),
        }
    }
}

/// Reads the program's ranges, and the calls that create or destroy communicators, if the archive has ranges.
pub(super) fn add(tables: &mut Tables, trace: &Trace, progress: &dyn Progress) -> otf2::Result<()> {
    let others = &trace.statements.counts.others;
    if others.ranges_user + others.ranges_nccl + others.ranges_reported == 0 {
        return Ok(());
    }
    tables.add_threads(trace, |region| is_communicator_call(trace, region), progress)
}

fn process(trace: &Trace, thread: LocationRef) -> LocationGroupRef {
    trace.process(trace.group(thread))
}

/// A range is only taken for the step if it occurs at least this often.
const LEAST: usize = 3;

/// The steps of each thread. A process may have several threads with steps, each for another rank.
type RangesByThread = BTreeMap<LocationRef, Vec<Range>>;

/// A step of the program on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramStep {
    pub thread: LocationRef,
    pub region: RegionRef,
    /// That of its name; without one, how many came before it.
    pub number: u64,
    pub start_ns: u64,
    pub stop_ns: u64,
}

/// The steps of the program, a range that repeats on all its processes: the k-th step of each thread.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    region: Option<RegionRef>,
    /// Whether the filter names the range.
    is_named: bool,
    threads: RangesByThread,
    /// The thread of each rank of the job.
    of_rank: Vec<Option<LocationRef>>,
}

impl Steps {
    /// Finds the range that the filter names. Without a name, finds the outermost range around operations that repeats
    /// on all processes with ranges; of several, the one with the most time.
    pub(crate) fn find(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let processes = |threads: &mut dyn Iterator<Item = &LocationRef>| -> BTreeSet<LocationGroupRef> {
            threads.map(|thread| process(trace, *thread)).gather()
        };
        let mut candidates: BTreeMap<RegionRef, RangesByThread> = BTreeMap::new();
        let all = processes(&mut tables.ranges.location.iter());
        for range in tables.ranges.rows() {
            candidates.entry(range.region).or_default().entry(range.location).or_default().push(range);
        }
        let texts = tables.paths.texts();
        let paths: BTreeSet<&u32> = tables.operations.path.iter().gather();
        let paths = paths.into_iter().filter_map(|path| texts.get(large(*path)));
        let around: BTreeSet<&str> = paths.flat_map(|text| text.split(PATH_SEPARATOR)).gather();
        let depth = |range: &Range| texts.get(large(range.path)).map_or(0, |text| text.matches(PATH_SEPARATOR).count());
        let rank = |(region, threads): &(RegionRef, RangesByThread)| {
            let all_ranges = || threads.values().flatten();
            let time: u64 = all_ranges().map(|range| range.stop_ns.saturating_sub(range.start_ns)).sum();
            let depth = all_ranges().map(depth).min().unwrap_or(0);
            (Reverse(depth), time, Reverse(*region))
        };
        let is_step = |(region, threads): &(RegionRef, RangesByThread)| match &filter.step {
            Some(name) => trace.region_name(*region) == *name,
            None => {
                around.contains(trace.region_name(*region).as_str())
                    && processes(&mut threads.iter().filter(|(_, ranges)| ranges.len() >= LEAST).map(|thread| thread.0))
                        == all
            }
        };
        let Some((region, mut threads)) = candidates.into_iter().filter(is_step).max_by_key(rank) else {
            return Self::default();
        };
        for ranges in threads.values_mut() {
            nccl_events::sort::sort_by_key(ranges, |range| range.start_ns);
            // A range nested in a range of the same name is no step of its own.
            let mut end_ns = 0;
            ranges.retain(|range| {
                let is_outermost = range.start_ns >= end_ns;
                end_ns = end_ns.max(range.stop_ns);
                is_outermost
            });
        }
        // Numbers that do not rise are ids, not numbers of steps.
        if !threads.values().all(|ranges| ranges.is_sorted_by(|a, b| a.number < b.number)) {
            threads.values_mut().flatten().for_each(|range| range.number = NO_SEQUENCE);
        }
        let own = |rank| {
            let own = Threads::new(trace, tables, rank)?;
            threads.keys().copied().find(|thread| own.has(trace, *thread))
        };
        let of_rank = (0..small(tables.members.job_ranks.len())).map(own).collect();
        Self { region: Some(region), is_named: filter.step.is_some(), threads, of_rank }
    }

    pub(crate) fn count(&self) -> usize {
        self.threads.values().map(Vec::len).max().unwrap_or(0)
    }

    /// The steps of each rank of the job, in time order.
    pub(crate) fn of_ranks(&self) -> Vec<Vec<ProgramStep>> {
        let steps = |thread: &Option<LocationRef>| {
            let ranges = thread.as_ref().and_then(|thread| self.threads.get(thread)).into_iter().flatten();
            let step = |(at, range): (u64, &Range)| ProgramStep {
                thread: range.location,
                region: range.region,
                number: if range.number == NO_SEQUENCE { at } else { range.number },
                start_ns: range.start_ns,
                stop_ns: range.stop_ns,
            };
            (0..).zip(ranges).map(step).collect()
        };
        self.of_rank.iter().map(steps).collect()
    }

    /// The step of a rank at a time.
    pub(crate) fn at(&self, rank: usize, time_ns: u64) -> Option<usize> {
        let ranges = self.threads.get(&(*self.of_rank.get(rank)?)?)?;
        let at = ranges.partition_point(|range| range.start_ns <= time_ns).checked_sub(1)?;
        (time_ns < ranges[at].stop_ns).then_some(at)
    }

    /// The steps that lie within the filter's time. Operations of other steps are missing or incomplete.
    pub(crate) fn report(&self, trace: &Trace, filter: &Filter, budgets: &[Budget]) -> Option<results::Steps> {
        let name = trace.region_name(self.region?);
        let is_in_time = |ns| filter.wants_time(ns, ns);
        let is_inside = |at: &usize| {
            let mut ranges = self.threads.values().filter_map(|ranges| ranges.get(*at));
            ranges.all(|range| is_in_time(range.start_ns) && is_in_time(range.stop_ns))
        };
        let steps: Vec<results::Step> = (0..self.count()).filter(is_inside).map(|at| self.step(at, budgets)).collect();
        // A range that is shorter than its operations only launches them: its length is not that of a step.
        let launches = steps.iter().filter(|step| step.budget.operations_ns > step.ranks_ns).count();
        if steps.is_empty() || !self.is_named && launches > steps.len() / 2 {
            return None;
        }
        let durations: Vec<f64> = steps.iter().map(|step| real(step.duration_ns)).collect();
        // The step's index takes the place of the time in ns, so the slope is per 10⁹ steps.
        let places: Vec<(u64, f64)> = (0..).zip(durations.iter().copied()).collect();
        let trend_ns_per_step = certain_trend(&places).map(|slope| slope / 1e9);
        let processes =
            self.threads.keys().map(|location| process(trace, *location)).gather::<BTreeSet<_>>().len() as u64;
        Some(results::Steps { name, processes, duration_ns: quantiles(durations), trend_ns_per_step, steps })
    }

    fn step(&self, at: usize, budgets: &[Budget]) -> results::Step {
        let length = |range: &Range| range.stop_ns.saturating_sub(range.start_ns);
        let thread_ranges = || self.threads.iter().filter_map(|(thread, ranges)| Some((*thread, *ranges.get(at)?)));
        let slowest = thread_ranges().max_by_key(|(_, range)| length(range));
        let longest_ns = slowest.map(|(_, range)| length(&range));
        let is_alone = thread_ranges().filter(|(_, range)| Some(length(range)) == longest_ns).count() == 1;
        let number = slowest.map(|(_, range)| range.number).filter(|number| *number != NO_SEQUENCE);
        // Like the budgets, count a thread once for each of its ranks.
        let range_of_rank = |thread: &Option<LocationRef>| self.threads.get(thread.as_ref()?)?.get(at);
        let rank_of_thread = |thread| self.of_rank.iter().position(|own| *own == Some(thread));
        results::Step {
            number: number.unwrap_or(at as u64),
            start_ns: thread_ranges().map(|(_, range)| range.start_ns).min().unwrap_or(0),
            duration_ns: slowest.map_or(0, |(_, range)| length(&range)),
            shortest_ns: thread_ranges().map(|(_, range)| length(&range)).min().unwrap_or(0),
            slowest: slowest.filter(|_| is_alone).and_then(|(thread, _)| Some(small(rank_of_thread(thread)?))),
            ranks_ns: self.of_rank.iter().filter_map(range_of_rank).map(length).sum(),
            budget: budgets.get(at).copied().unwrap_or_default(),
        }
    }
}

/// A range is only named if it has at least this share of the time.
const LEAST_SHARE: f64 = 0.5;

/// Time in ns by path of ranges, including ranges inside.
type Inclusive = BTreeMap<Vec<String>, u64>;

impl Tables {
    /// The innermost range that a rank was in for at least half of `times`.
    pub fn during(&self, trace: &Trace, rank: u32, times: Vec<(u64, u64)>) -> Option<CausePhase> {
        let (inclusive_ns, whole_ns) = self.inclusive(trace, rank, times)?;
        innermost(inclusive_ns, whole_ns)
    }

    /// The innermost range with at least half of the time by which `times` of the rank exceed those of another rank.
    pub fn longer_during(
        &self,
        trace: &Trace,
        (rank, times): (u32, Vec<(u64, u64)>),
        (other, times_of_other): (u32, Vec<(u64, u64)>),
    ) -> Option<CausePhase> {
        let (mut inclusive_ns, whole_ns) = self.inclusive(trace, rank, times)?;
        let (other_times, whole_of_other_ns) = self.inclusive(trace, other, times_of_other)?;
        for (path, ns) in &mut inclusive_ns {
            *ns = ns.saturating_sub(other_times.get(path).copied().unwrap_or(0));
        }
        innermost(inclusive_ns, whole_ns.saturating_sub(whole_of_other_ns))
    }

    /// The part of a rank's `times` in each path of ranges, and the length of `times`, in ns.
    fn inclusive(&self, trace: &Trace, rank: u32, times: Vec<(u64, u64)>) -> Option<(Inclusive, u64)> {
        if self.ranges.is_empty() {
            return None;
        }
        let threads = Threads::new(trace, self, rank)?;
        let times = union(times);
        let whole_ns = length(&times);
        let times = DisjointIntervals::new(&times);
        let mut own_ns: BTreeMap<u32, u64> = BTreeMap::new();
        // The ranges of a thread are sorted by end, so nested ranges precede the range around them.
        let mut inside: Vec<(u64, u64)> = Vec::new();
        let mut before = None;
        for range in self.ranges.rows().filter(|range| threads.has(trace, range.location)) {
            if before.replace(range.location) != Some(range.location) {
                inside.clear();
            }
            let within_ns = times.covered_ns(range.start_ns, range.stop_ns);
            let mut inside_ns = 0;
            while let Some((_, ns)) = inside.pop_if(|(start_ns, _)| *start_ns >= range.start_ns) {
                inside_ns += ns;
            }
            *own_ns.entry(range.path).or_default() += within_ns.saturating_sub(inside_ns);
            inside.push((range.start_ns, within_ns));
        }
        // Add the time of each path to all paths that enclose it.
        let texts = self.paths.texts();
        let mut inclusive_ns = Inclusive::new();
        for (path, ns) in own_ns {
            let names = names_of(texts.get(large(path))?);
            for depth in 1..=names.len() {
                *inclusive_ns.entry(names[..depth].to_vec()).or_default() += ns;
            }
        }
        Some((inclusive_ns, whole_ns))
    }
}

fn innermost(inclusive_ns: Inclusive, whole_ns: u64) -> Option<CausePhase> {
    let share = |ns: u64| real(ns) / real(whole_ns.max(1));
    let most = inclusive_ns.into_iter().filter(|(_, ns)| *ns > 0 && share(*ns) >= LEAST_SHARE);
    let (path, ns) = most.max_by_key(|(path, ns)| (path.len(), *ns))?;
    Some(CausePhase { path, share: share(ns).min(1.0) })
}

/// The calls of each rank of a process, in the order of time.
type CallsByRank = BTreeMap<(LocationGroupRef, u32), Vec<Call>>;

/// Whether a region is a call that all ranks of a communicator make to create or end one.
pub(super) fn is_communicator_call(trace: &Trace, region: RegionRef) -> bool {
    let Some(region) = trace.region(region) else {
        return false;
    };
    region.class == RegionClass::Api && is_of_communicators(region.name)
}

/// How long communicators took to make and end, and which rank called last: one row for each call that ranks make
/// together, of one function and communicator, the k-th of each process.
pub(crate) fn communicator_calls(trace: &Trace, tables: &Tables, filter: &Filter) -> Vec<CommunicatorCall> {
    let mut calls: Vec<Call> = tables.calls.rows().filter(|call| is_communicator_call(trace, call.function)).collect();
    nccl_events::sort::sort_by_key(&mut calls, |call| (call.start_ns, call.location, call.stop_ns));
    let mut made: BTreeMap<(RegionRef, u32), CallsByRank> = BTreeMap::new();
    for call in calls {
        let process = trace.process(trace.group(call.location));
        let rank_calls = made.entry((call.function, call.comm)).or_default().entry((process, call.rank)).or_default();
        rank_calls.push(call);
    }
    let texts = tables.paths.texts();
    let mut found = Vec::new();
    for ((function, comm), ranks) in &made {
        for turn in 0..ranks.values().map(Vec::len).max().unwrap_or(0) {
            let calls = || ranks.values().filter_map(|calls| calls.get(turn));
            let (Some(first), Some(last)) =
                (calls().min_by_key(|call| call.start_ns), calls().max_by_key(|call| call.start_ns))
            else {
                continue;
            };
            found.push(CommunicatorCall {
                function: trace.region_name(*function),
                communicator: texts.get(large(*comm)).cloned().unwrap_or_default(),
                ranks: calls().count() as u64,
                unfinished: calls().filter(|call| call.is_unfinished).count() as u64,
                start_ns: first.start_ns,
                duration_ns: calls().map(|call| call.stop_ns.saturating_sub(call.start_ns)).max().unwrap_or(0),
                skew_ns: last.start_ns - first.start_ns,
                last_rank: Some(last.rank).filter(|rank| *rank != NONE),
                last_process: trace.group_name(trace.process(trace.group(last.location))).to_owned(),
            });
        }
    }
    found.retain(|call| filter.wants_time(call.start_ns, call.start_ns + call.duration_ns));
    // Texts, because the numbers of communicators differ between two readings of an archive.
    nccl_events::sort::sort_by(&mut found, |a, b| {
        let of = |call: &CommunicatorCall| (call.start_ns, call.skew_ns, call.duration_ns, call.last_rank);
        of(a).cmp(&of(b)).then_with(|| (&a.function, &a.communicator).cmp(&(&b.function, &b.communicator)))
    });
    found
}

/// Operations by the ranges of the program that their calls were in. `budgets` are by the number of the path. Sorted by
/// the time in operations, the longest first.
/// The rank that spends more time in a range than the others, by more than two ranks usually differ.
fn longest(times_ns: BTreeMap<u32, u64>) -> Option<PhaseRank> {
    const LEAST_MORE: f64 = 0.02;
    let (rank, ns) = times_ns.iter().max_by_key(|(_, ns)| **ns).map(|(rank, ns)| (*rank, *ns))?;
    let others = times_ns.into_iter().filter(|(other, _)| *other != rank);
    let mut others: Vec<f64> = others.map(|(_, ns)| real(ns)).collect();
    let others_ns = (!others.is_empty()).then(|| median(&mut others))?;
    (real(ns) > (1.0 + LEAST_MORE) * others_ns).then(|| PhaseRank { rank, ns, others_ns: whole(others_ns) })
}

pub(crate) fn phases(trace: &Trace, tables: &Tables, filter: &Filter, budgets: &[Budget], steps: &Steps) -> Vec<Phase> {
    let texts = tables.paths.texts();
    let mut phases: Vec<Phase> = texts.iter().map(|text| Phase { path: names_of(text), ..Phase::default() }).collect();
    if tables.ranges.is_empty() && tables.operations.path.iter().all(|path| *path == NONE) {
        return Vec::new();
    }
    // The last element stands for operations outside of ranges.
    let outside = phases.len();
    phases.push(Phase::default());
    let ranks = steps.of_rank.iter().zip(0..).filter_map(|(thread, rank)| Some(((*thread)?, rank)));
    let rank_of: BTreeMap<LocationRef, u32> = ranks.gather();
    let mut times_ns: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); texts.len()];
    for range in tables.ranges.rows().filter(|range| filter.wants_time(range.start_ns, range.stop_ns)) {
        if let Some(phase) = phases.get_mut(large(range.path)) {
            let ns = range.stop_ns.saturating_sub(range.start_ns);
            phase.ranges += 1;
            phase.ranges_ns += ns;
            if let Some(rank) = rank_of.get(&range.location) {
                *times_ns[large(range.path)].entry(*rank).or_default() += ns;
            }
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
    for (phase, times_ns) in phases.iter_mut().zip(times_ns) {
        phase.longest = longest(times_ns);
    }
    // Remove numbers that are not paths: names of communicators share the numbering.
    phases.retain(|phase| phase.ranges + phase.operations > 0);
    nccl_events::sort::sort_by(&mut phases, |a, b| {
        let of = |phase: &Phase| (phase.budget.operations_ns, phase.ranges_ns);
        of(b).cmp(&of(a)).then_with(|| a.path.cmp(&b.path))
    });
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_for_each_of_its_ranks() {
        let [shared_thread, loader] = [1, 2].map(LocationRef::new);
        let range = |location, stop_ns| {
            let region = RegionRef::new(0);
            Range { location, region, start_ns: 10, stop_ns, number: NO_SEQUENCE, path: 0, is_unfinished: false }
        };
        let threads = [(shared_thread, vec![range(shared_thread, 110)]), (loader, vec![range(loader, 60)])];
        let of_rank = vec![Some(shared_thread), Some(shared_thread), None];
        let steps = Steps { region: None, is_named: false, threads: threads.into(), of_rank };
        let step = steps.step(0, &[]);
        assert_eq!((step.ranks_ns, step.duration_ns, step.slowest), (200, 100, Some(0)));
    }
}
