//! The steps of the program: a range that repeats on all its processes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use nccl_events::archive::PATH_SEPARATOR;
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef, RegionRef};

use super::Threads;
use crate::archive::Trace;
use crate::derived::filter::Filter;
use crate::derived::maths::change::certain_trend;
use crate::derived::maths::sample::{quantiles, real};
use crate::report::{self, Budget};
use crate::tables::{NO_SEQUENCE, Range, Tables};
use nccl_events::ids::{index as large, index_u32 as small};

fn process(trace: &Trace, thread: LocationRef) -> LocationGroupRef {
    trace.process(trace.group(thread))
}

/// A range that fewer steps have is not taken for one.
const LEAST: usize = 3;

/// A thread's steps; a process may have several threads that take steps, each for a rank.
type OfThreads = BTreeMap<LocationRef, Vec<Range>>;

/// The k-th step of each thread.
#[derive(Debug, Default)]
pub(in crate::derived) struct Steps {
    region: Option<RegionRef>,
    /// The filter names the range.
    is_named: bool,
    threads: OfThreads,
    /// The thread of each rank of the job.
    of_rank: Vec<Option<LocationRef>>,
}

impl Steps {
    /// The steps of the range that the filter names; else of the outermost range around operations that repeats on all
    /// processes that have ranges, of the longest one if there are several.
    pub(in crate::derived) fn find(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let processes = |threads: &mut dyn Iterator<Item = &LocationRef>| -> BTreeSet<LocationGroupRef> {
            threads.map(|thread| process(trace, *thread)).gather()
        };
        let mut candidates: BTreeMap<RegionRef, OfThreads> = BTreeMap::new();
        let all = processes(&mut tables.ranges.location.iter());
        for range in tables.ranges.rows() {
            candidates.entry(range.region).or_default().entry(range.location).or_default().push(range);
        }
        let texts = tables.paths.texts();
        let paths: BTreeSet<&u32> = tables.operations.path.iter().gather();
        let paths = paths.into_iter().filter_map(|path| texts.get(large(*path)));
        let around: BTreeSet<&str> = paths.flat_map(|text| text.split(PATH_SEPARATOR)).gather();
        let depth = |range: &Range| texts.get(large(range.path)).map_or(0, |text| text.matches(PATH_SEPARATOR).count());
        let rank = |(region, threads): &(RegionRef, OfThreads)| {
            let all_ranges = || threads.values().flatten();
            let time: u64 = all_ranges().map(|it| it.stop_ns.saturating_sub(it.start_ns)).sum();
            let depth = all_ranges().map(depth).min().unwrap_or(0);
            (Reverse(depth), time, Reverse(*region))
        };
        let is_step = |(region, threads): &(RegionRef, OfThreads)| match &filter.step {
            Some(name) => trace.region_name(*region) == *name,
            None => {
                around.contains(trace.region_name(*region).as_str())
                    && processes(&mut threads.iter().filter(|(_, ranges)| ranges.len() >= LEAST).map(|it| it.0)) == all
            }
        };
        let Some((region, mut threads)) = candidates.into_iter().filter(is_step).max_by_key(rank) else {
            return Self::default();
        };
        for ranges in threads.values_mut() {
            nccl_events::sort::sort_by_key(ranges, |range| range.start_ns);
            // A range inside another one of its name belongs to that step.
            let mut end_ns = 0;
            ranges.retain(|range| {
                let is_outermost = range.start_ns >= end_ns;
                end_ns = end_ns.max(range.stop_ns);
                is_outermost
            });
        }
        // Numbers that do not rise do not count the steps: they are ids.
        if !threads.values().all(|ranges| ranges.is_sorted_by(|a, b| a.number < b.number)) {
            threads.values_mut().flatten().for_each(|range| range.number = NO_SEQUENCE);
        }
        let own = |rank| {
            let own = Threads::of(trace, tables, rank)?;
            threads.keys().copied().find(|thread| own.has(trace, *thread))
        };
        let of_rank = (0..small(tables.members.job_ranks.len())).map(own).collect();
        Self { region: Some(region), is_named: filter.step.is_some(), threads, of_rank }
    }

    pub(in crate::derived) fn count(&self) -> usize {
        self.threads.values().map(Vec::len).max().unwrap_or(0)
    }

    /// The step of a rank at a time.
    pub(in crate::derived) fn at(&self, rank: usize, time_ns: u64) -> Option<usize> {
        let ranges = self.threads.get(&(*self.of_rank.get(rank)?)?)?;
        let at = ranges.partition_point(|range| range.start_ns <= time_ns).checked_sub(1)?;
        (time_ns < ranges[at].stop_ns).then_some(at)
    }

    /// The steps within the time of the filter: of others it has no operations, or not all.
    pub(in crate::derived) fn report(
        &self,
        trace: &Trace,
        filter: &Filter,
        budgets: &[Budget],
    ) -> Option<report::Steps> {
        let name = trace.region_name(self.region?);
        let is_in_time = |ns| filter.wants_time(ns, ns);
        let is_inside = |at: &usize| {
            let mut ranges = self.threads.values().filter_map(|ranges| ranges.get(*at));
            ranges.all(|range| is_in_time(range.start_ns) && is_in_time(range.stop_ns))
        };
        let steps: Vec<report::Step> = (0..self.count()).filter(is_inside).map(|at| self.step(at, budgets)).collect();
        // A range that ends before most of its operations do only launches them: its length is not a step's.
        let launches = steps.iter().filter(|step| step.budget.operations_ns > step.ranks_ns).count();
        if steps.is_empty() || !self.is_named && launches > steps.len() / 2 {
            return None;
        }
        let durations: Vec<f64> = steps.iter().map(|step| real(step.duration_ns)).collect();
        // By place instead of by time: the slope is for 10⁹ steps.
        let places: Vec<(u64, f64)> = (0..).zip(durations.iter().copied()).collect();
        let trend_ns_per_step = certain_trend(&places).map(|slope| slope / 1e9);
        let processes = self.threads.keys().map(|it| process(trace, *it)).gather::<BTreeSet<_>>().len() as u64;
        Some(report::Steps { name, processes, duration_ns: quantiles(durations), trend_ns_per_step, steps })
    }

    fn step(&self, at: usize, budgets: &[Budget]) -> report::Step {
        let length = |range: &Range| range.stop_ns.saturating_sub(range.start_ns);
        let of_threads = || self.threads.iter().filter_map(|(thread, ranges)| Some((*thread, *ranges.get(at)?)));
        let slowest = of_threads().max_by_key(|(_, range)| length(range));
        let number = slowest.map(|(_, range)| range.number).filter(|number| *number != NO_SEQUENCE);
        // As budgets count: a thread counts for each of its ranks, and not if it has none.
        let of_rank = |thread: &Option<LocationRef>| self.threads.get(thread.as_ref()?)?.get(at);
        let of_thread = |thread| self.of_rank.iter().position(|own| *own == Some(thread));
        report::Step {
            number: number.unwrap_or(at as u64),
            start_ns: of_threads().map(|(_, range)| range.start_ns).min().unwrap_or(0),
            duration_ns: slowest.map_or(0, |(_, range)| length(&range)),
            shortest_ns: of_threads().map(|(_, range)| length(&range)).min().unwrap_or(0),
            slowest: slowest.and_then(|(thread, _)| Some(small(of_thread(thread)?))),
            ranks_ns: self.of_rank.iter().filter_map(of_rank).map(length).sum(),
            budget: budgets.get(at).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_for_each_of_its_ranks() {
        let [of_two, loader] = [1, 2].map(LocationRef::new);
        let range = |location, stop_ns| {
            let region = RegionRef::new(0);
            Range { location, region, start_ns: 10, stop_ns, number: NO_SEQUENCE, path: 0, is_unfinished: false }
        };
        let threads = [(of_two, vec![range(of_two, 110)]), (loader, vec![range(loader, 60)])];
        let of_rank = vec![Some(of_two), Some(of_two), None];
        let steps = Steps { region: None, is_named: false, threads: threads.into(), of_rank };
        let step = steps.step(0, &[]);
        assert_eq!((step.ranks_ns, step.duration_ns, step.slowest), (200, 100, Some(0)));
    }
}
