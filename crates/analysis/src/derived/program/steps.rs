//! The steps of the program: a range that repeats on all its processes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use nccl_events::archive::PATH_SEPARATOR;
use otf2::{LocationGroupRef, RegionRef};

use crate::archive::Trace;
use crate::derived::filter::Filter;
use crate::derived::maths::change::trend;
use crate::derived::maths::sample::{quantiles, real};
use crate::report::{self, Budget};
use crate::tables::{NO_SEQUENCE, Range, Tables, large, small};

/// A range that fewer steps have is not taken for one.
const LEAST: usize = 3;

/// The k-th step of each process.
#[derive(Debug, Default)]
pub(in crate::derived) struct Steps {
    region: Option<RegionRef>,
    processes: BTreeMap<LocationGroupRef, Vec<Range>>,
    /// The process of each rank of the job.
    of_rank: Vec<LocationGroupRef>,
}

impl Steps {
    /// The steps of the range that the filter names; else of the outermost range around operations that repeats on all
    /// processes that have ranges, of the longest one if there are several.
    pub(in crate::derived) fn find(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let mut candidates: BTreeMap<RegionRef, BTreeMap<LocationGroupRef, Vec<Range>>> = BTreeMap::new();
        let mut all = BTreeSet::new();
        for range in tables.ranges.rows() {
            let process = trace.process(trace.group(range.location));
            all.insert(process);
            candidates.entry(range.region).or_default().entry(process).or_default().push(range);
        }
        let texts = tables.paths.texts();
        let around: BTreeSet<&str> = tables
            .operations
            .path
            .iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter_map(|path| texts.get(large(*path)))
            .flat_map(|text| text.split(PATH_SEPARATOR))
            .collect();
        let depth = |range: &Range| texts.get(large(range.path)).map_or(0, |text| text.matches(PATH_SEPARATOR).count());
        let rank = |(region, processes): &(RegionRef, BTreeMap<LocationGroupRef, Vec<Range>>)| {
            let all_ranges = || processes.values().flatten();
            let time: u64 = all_ranges().map(|it| it.stop_ns.saturating_sub(it.start_ns)).sum();
            let depth = all_ranges().map(depth).min().unwrap_or(0);
            (Reverse(depth), time, Reverse(*region))
        };
        let is_step = |(region, processes): &(RegionRef, BTreeMap<LocationGroupRef, Vec<Range>>)| match &filter.step {
            Some(name) => trace.region_name(*region) == *name,
            None => {
                around.contains(trace.region_name(*region).as_str())
                    && processes.len() == all.len()
                    && processes.values().all(|ranges| ranges.len() >= LEAST)
            }
        };
        let Some((region, mut processes)) = candidates.into_iter().filter(is_step).max_by_key(rank) else {
            return Self::default();
        };
        for ranges in processes.values_mut() {
            ranges.sort_by_key(|range| range.start_ns);
        }
        let of_rank = tables.members.job_ranks.iter().map(|rank| rank.process).collect();
        Self { region: Some(region), processes, of_rank }
    }

    pub(in crate::derived) fn count(&self) -> usize {
        self.processes.values().map(Vec::len).max().unwrap_or(0)
    }

    /// The step of a rank's process at a time.
    pub(in crate::derived) fn at(&self, rank: usize, time_ns: u64) -> Option<usize> {
        let ranges = self.processes.get(self.of_rank.get(rank)?)?;
        let at = ranges.partition_point(|range| range.start_ns <= time_ns).checked_sub(1)?;
        (time_ns < ranges[at].stop_ns).then_some(at)
    }

    pub(in crate::derived) fn report(
        &self,
        trace: &Trace,
        tables: &Tables,
        budgets: &[Budget],
    ) -> Option<report::Steps> {
        let name = trace.region_name(self.region?);
        let steps: Vec<report::program::Step> = (0..self.count()).map(|at| self.step(tables, at, budgets)).collect();
        let durations: Vec<f64> = steps.iter().map(|step| real(step.duration_ns)).collect();
        // By place instead of by time: the slope is for 10⁹ steps.
        let places: Vec<(u64, f64)> = (0..).zip(durations.iter().copied()).collect();
        let trend_ns_per_step = trend(&places).map(|slope| slope / 1e9);
        let processes = self.processes.len() as u64;
        Some(report::Steps { name, processes, duration_ns: quantiles(durations), trend_ns_per_step, steps })
    }

    fn step(&self, tables: &Tables, at: usize, budgets: &[Budget]) -> report::program::Step {
        let length = |range: &Range| range.stop_ns.saturating_sub(range.start_ns);
        let of_processes = || self.processes.iter().filter_map(|(process, ranges)| Some((*process, *ranges.get(at)?)));
        let slowest = of_processes().max_by_key(|(_, range)| length(range));
        let number = slowest.map(|(_, range)| range.number).filter(|number| *number != NO_SEQUENCE);
        let of_process = |process| tables.members.job_ranks.iter().position(|rank| rank.process == process);
        report::program::Step {
            number: number.unwrap_or(at as u64),
            start_ns: of_processes().map(|(_, range)| range.start_ns).min().unwrap_or(0),
            duration_ns: slowest.map_or(0, |(_, range)| length(&range)),
            shortest_ns: of_processes().map(|(_, range)| length(&range)).min().unwrap_or(0),
            slowest: slowest.and_then(|(process, _)| Some(small(of_process(process)?))),
            processes_ns: of_processes().map(|(_, range)| length(&range)).sum(),
            budget: budgets.get(at).copied().unwrap_or_default(),
        }
    }
}
