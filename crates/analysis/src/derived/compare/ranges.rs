//! Ranges of the program in both runs: how long each takes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nccl_events::sort::Gather;
use otf2::LocationRef;

use super::difference::{Estimate, LEAST};
use crate::derived::filter::Filter;
use crate::derived::maths::sample::{real, whole};
use crate::derived::program::names_of;
use crate::report::{Outcome, RangeChange};
use crate::tables::Tables;
use nccl_events::ids::index as large;

/// Every range that is compared widens the intervals of all: only those that took longest in A are.
const MOST: usize = 16;

/// By path: durations in time order, the k-th that of the k-th range of each thread, in the mean.
pub(super) type Durations = BTreeMap<String, Vec<f64>>;

pub(super) fn durations(tables: &Tables, filter: &Filter) -> Durations {
    let mut sums: BTreeMap<u32, Vec<(f64, u64)>> = BTreeMap::new();
    let mut places: BTreeMap<(u32, LocationRef), usize> = BTreeMap::new();
    let wanted = tables.ranges.rows().filter(|it| !it.is_unfinished && filter.wants_time(it.start_ns, it.stop_ns));
    for range in wanted {
        let place = places.entry((range.path, range.location)).or_default();
        let of_path = sums.entry(range.path).or_default();
        of_path.resize(of_path.len().max(*place + 1), (0.0, 0));
        of_path[*place].0 += real(range.stop_ns.saturating_sub(range.start_ns));
        of_path[*place].1 += 1;
        *place += 1;
    }
    let texts = tables.paths.texts();
    let named = sums.into_iter().filter_map(|(path, sums)| Some((texts.get(large(path))?.clone(), sums)));
    named.map(|(path, sums)| (path, sums.into_iter().map(|(ns, threads)| ns / real(threads)).collect())).gather()
}

/// A range of both runs.
pub(super) struct Pair<'a> {
    path: &'a str,
    counts: [u64; 2],
    estimate: Estimate,
}

/// The ranges of both runs that are frequent enough for an interval.
pub(super) fn pairs<'a>(a: &'a Durations, b: &Durations) -> Vec<Pair<'a>> {
    let both = a.iter().filter_map(|(path, of_a)| Some((whole(of_a.iter().sum()), path, of_a, b.get(path)?)));
    let mut both: Vec<_> = both.filter(|(.., of_a, of_b)| of_a.len().min(of_b.len()) >= LEAST).collect();
    nccl_events::sort::sort_by_key(&mut both, |(total_ns, ..)| Reverse(*total_ns));
    both.truncate(MOST);
    // A duration is the difference of two times of one clock, which has no error here.
    let pairs = both.into_iter().filter_map(|(_, path, of_a, of_b)| {
        let counts = [of_a.len() as u64, of_b.len() as u64];
        Some(Pair { path, counts, estimate: Estimate::of(of_a, of_b, 0.5, Some(0))? })
    });
    pairs.collect()
}

/// Those that differ first, by what the difference costs B.
pub(super) fn changes(pairs: &[Pair<'_>], miss: f64) -> Vec<RangeChange> {
    let changes = pairs.iter().map(|pair| RangeChange {
        path: names_of(pair.path),
        a: pair.counts[0],
        b: pair.counts[1],
        median: pair.estimate.difference(miss),
    });
    let mut changes: Vec<RangeChange> = changes.collect();
    nccl_events::sort::sort_by_key(&mut changes, |it| {
        let is_shown = matches!(it.median.outcome, Outcome::Slower | Outcome::Faster);
        Reverse((is_shown, whole((it.median.difference_ns * real(it.b)).abs())))
    });
    changes
}
