//! Which ranks are late, how often, by how much, and since when; which ranks spend more time outside operations than
//! others; and how much of others' waiting is due to that.

use crate::read::archive::{Trace, in_parallel};
use crate::read::{JobRank, Tables};
use crate::results::{Change, Heat, Member, Rank};
use crate::statistics::collectives::{Filter, Instance, Instances, is_awaited, is_root};
use crate::statistics::messages::{Blame, Messages, WaitSums, WaitsForRank};
use crate::statistics::numeric::{change, median, quantile, trend};
use crate::statistics::waiting::Waiting;
use crate::units::{real, whole};
use nccl_events::collective::Flow;
use nccl_events::ids::index as large;

const BINS: u64 = 120;

struct Arrival {
    instance: u32,
    time_ns: u64,
    /// Relative to the median of the ranks.
    late_ns: f64,
    is_awaited: bool,
}

pub(super) struct Lateness {
    pub(super) ranks: Vec<Rank>,
    pub(super) heat: Heat,
}

impl Lateness {
    pub(super) fn new(
        trace: &Trace,
        tables: &Tables,
        instances: &Instances,
        waiting: &Waiting,
        late: &[CausedWaiting],
        length_ns: u64,
    ) -> Self {
        let rows = rows(tables, instances);
        let bin_ns = length_ns.div_ceil(BINS).max(1);
        let ranks = tables.members.job_ranks.iter().zip(&rows).enumerate();
        let made = in_parallel(ranks, |(number, (rank, rows))| {
            let arrivals = arrivals(tables, instances, rows);
            let heat = heat(&arrivals, bin_ns);
            let counted = TimesLast::new(tables, instances, &arrivals, number);
            (rank_lateness(trace, tables, waiting, (number, rank), &arrivals, (counted, &late[number])), heat)
        });
        let (ranks, heat) = made.into_iter().unzip();
        Self { ranks, heat: Heat { from_ns: 0, bin_ns, ranks: heat } }
    }
}

/// Whether lateness in an instance counts. It does not in a first collective, in which NCCL delays ranks by connecting
/// them.
fn counts(instance: &Instance) -> bool {
    instance.is_comparable() && !instance.is_warm_up
}

/// How often a rank was last by more than the clocks' error, and how often chance would make it last.
#[derive(Clone, Copy, Debug, Default)]
struct TimesLast {
    last: u64,
    expected: f64,
}

impl TimesLast {
    fn new(tables: &Tables, instances: &Instances, arrivals: &[Arrival], rank: usize) -> Self {
        let mut found = Self::default();
        for arrival in arrivals.iter().filter(|arrival| arrival.is_awaited) {
            let instance = &instances.all[large(arrival.instance)];
            let Some(last) = instance.last else {
                continue;
            };
            let rows = instances.operations(instance);
            let ranks = match instance.flow {
                Flow::ToRoot => rows.len().saturating_sub(1),
                Flow::AllToAll | Flow::FromRoot => rows.len(),
            };
            found.expected += 1.0 / real(ranks.max(1) as u64);
            let starts = || rows.iter().map(|row| tables.operations.start_ns[large(*row)]);
            // Others wait for a root that sends, also where another rank arrives after it. Then it was not last.
            let is_last = !matches!(instance.flow, Flow::FromRoot) || starts().max() <= Some(instance.arrivals.last_ns);
            found.last += u64::from(is_last && large(tables.members.row(last).job_rank) == rank);
        }
        found
    }
}

/// The operations of each rank of the job whose arrivals count.
fn rows(tables: &Tables, instances: &Instances) -> Vec<Vec<u32>> {
    let mut rows = vec![Vec::new(); tables.members.job_ranks.len()];
    for instance in instances.all.iter().filter(|instance| counts(instance)) {
        for row in instances.operations(instance) {
            // If a root sends the data, only the root's lateness counts.
            if !matches!(instance.flow, Flow::FromRoot) || is_root(tables, &tables.operations.row(large(*row))) {
                rows[large(tables.job_rank(*row))].push(*row);
            }
        }
    }
    rows
}

/// The arrivals of a rank in time order.
fn arrivals(tables: &Tables, instances: &Instances, rows: &[u32]) -> Vec<Arrival> {
    let arrival = |row: &u32| {
        let (number, operation) = (instances.instance_of_operation(*row)?, tables.operations.row(large(*row)));
        let (instance, time_ns) = (&instances.all[large(number)], operation.start_ns);
        let late_ns = real(time_ns) - real(instance.arrivals.median_ns);
        let is_awaited = is_awaited(instance.flow, is_root(tables, &operation));
        Some(Arrival { instance: number, time_ns, late_ns, is_awaited })
    };
    let mut arrivals: Vec<Arrival> = rows.iter().filter_map(arrival).collect();
    arrivals.sort_unstable_by_key(|arrival| (arrival.time_ns, arrival.instance));
    arrivals
}

fn rank_lateness(
    trace: &Trace,
    tables: &Tables,
    waiting: &Waiting,
    (number, rank): (usize, &JobRank),
    arrivals: &[Arrival],
    (counted, late): (TimesLast, &CausedWaiting),
) -> Rank {
    let members = || rank.members.iter().map(|row| tables.members.row(*row));
    let (caused_ns, caused_alone_ns) = waiting.caused[number];
    let series: Vec<(u64, f64)> = arrivals.iter().map(|arrival| (arrival.time_ns, arrival.late_ns)).collect();
    let errors = rank.members.iter().map(|row| tables.members.own_error_ns(*row, false, false));
    let uncertainty_ns = errors.max().flatten();
    Rank {
        name: name(trace, rank),
        number: rank.number,
        process: trace.group_name(rank.process).to_owned(),
        host: trace.host_name(rank.process).unwrap_or_default().to_owned(),
        members: members()
            .map(|member| Member {
                communicator: member.communicator,
                rank: member.rank,
                location: member.location.get(),
            })
            .collect(),
        uncertainty_ns,
        budget: waiting.ranks[number],
        instances: arrivals.len() as u64,
        last: counted.last,
        last_expected: counted.expected,
        p_value: late.p_value,
        caused_ns,
        caused_alone_ns,
        inherited_ns: caused_ns.saturating_sub(late.waited.collectives_ns),
        late_sender_ns: late.waited.receives_ns,
        late_receiver_ns: late.waited.sends_ns,
        awaited_ns: late.waited.all_ns(),
        lost_ns: late.lost_ns,
        lateness_ns: median(&mut arrivals.iter().map(|arrival| arrival.late_ns).collect::<Vec<f64>>()),
        trend_ns_per_s: trend(&series),
        change: change(&series).filter(|change| is_measurable(change, uncertainty_ns)),
        why: None,
    }
}

/// Whether a change is larger than the clocks' error, and than 1 ns, the unit in which they count.
fn is_measurable(change: &Change, uncertainty_ns: Option<u64>) -> bool {
    (change.after - change.before).abs() >= real(uncertainty_ns.unwrap_or(0).max(1))
}

fn name(trace: &Trace, rank: &JobRank) -> String {
    match rank.number {
        Some(number) => format!("rank {number}"),
        None if rank.group == rank.process => trace.group_name(rank.group).to_owned(),
        None => format!("{} of {}", trace.group_name(rank.group), trace.group_name(rank.process)),
    }
}

fn heat(arrivals: &[Arrival], bin_ns: u64) -> Vec<Option<f64>> {
    let bins = usize::try_from(BINS).unwrap_or(1);
    let mut sums = vec![(0.0, 0_u64); bins];
    for arrival in arrivals {
        let sum = &mut sums[usize::try_from(arrival.time_ns / bin_ns).unwrap_or(bins).min(bins - 1)];
        sum.0 += arrival.late_ns;
        sum.1 += 1;
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / real(count))).collect()
}

/// A rank is named only if the probability that chance names any rank of a job is lower than this.
pub(crate) const IMPROBABLE: f64 = 1e-3;
const CUTS: [f64; 3] = [0.5, 0.9, 1.0];
/// More blocks would not find more late ranks, and a delay that lasts for several blocks would count in each of them.
const MOST_BLOCKS: usize = 64;
/// Blocks end with collectives of the largest communicator; if it has no more than these, blocks have equal lengths.
const LEAST_COLLECTIVES: usize = 4;
/// The same rank can be longest outside twice in a row by chance. The number of such pairs counts as chance up to this
/// many standard deviations above the mean of a random order.
const DEVIATIONS: f64 = 2.0;
/// Maximum number of rounds in which ranks that were found are removed.
const ROUNDS: usize = 8;
/// A rank that is longest outside in this share of all blocks, in a row, is late for a while, not by chance.
const SPELL: f64 = 0.3;

/// How long ranks are outside operations, and whether chance explains that some are there longer than others.
///
/// Ranks that work together wait for the one that is outside operations longest. That rank is late; its victims, which
/// wait for each other in turn, are not. The job's time is cut into blocks at the ends of collectives. If no rank is at
/// fault, each rank of a block is equally likely to be the one outside longest. Chernoff's bound limits the probability
/// that a rank then has as much as observed, or more; the bound needs no permutations and is deterministic. Long times
/// are cut off, so that a single one neither hides a rank that is always late nor makes a rank look late; three cuts
/// are tried. Ranks that are found are removed, and the others are tested again.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeOutsideNccl {
    /// By rank of the job: time outside, between its first and last operation; `None` without operations.
    pub(crate) ns: Vec<Option<u64>>,
    pub(crate) pauses: Vec<u64>,
    boundaries: Vec<u64>,
    /// By rank of the job: chance keeps any rank outside so much longer with at most this probability.
    p_values: Vec<f64>,
}

impl TimeOutsideNccl {
    pub(crate) fn new(tables: &Tables, filter: &Filter, instances: &Instances, messages: &Messages) -> Self {
        let count = tables.members.job_ranks.len();
        let spans: Vec<Option<(u64, u64)>> = (0..count).map(|rank| span(filter, messages, rank)).collect();
        let outside_ns = |rank: usize, from_ns: u64, to_ns: u64| {
            (to_ns - from_ns) - messages.inside[rank].covered_ns(from_ns, to_ns)
        };
        let boundaries = boundaries(tables, instances, messages, &spans);
        let blocks = in_parallel(boundaries.windows(2), |block| {
            let of_rank = spans.iter().enumerate().map(|(rank, span)| {
                let (first_ns, last_ns) = (*span)?;
                let (from_ns, to_ns) = (block[0].max(first_ns), block[1].min(last_ns));
                // A rank present for less than half of the block is not compared.
                (to_ns > from_ns && 2 * (to_ns - from_ns) >= block[1] - block[0])
                    .then(|| real(outside_ns(rank, from_ns, to_ns)))
            });
            beyond_others(of_rank.collect())
        });
        let known = spans.iter().enumerate();
        Self {
            ns: known.map(|(rank, span)| span.map(|(from_ns, to_ns)| outside_ns(rank, from_ns, to_ns))).collect(),
            pauses: (0..count).map(|rank| messages.inside[rank].len() as u64).collect(),
            p_values: p_values(&blocks, count),
            boundaries,
        }
    }

    /// The p-values, also by how long others waited for each rank. The time outside is not enough: ranks that wait for
    /// each other in ways that are not recorded are outside operations meanwhile.
    pub(crate) fn p_values_of(&self, blame: &Blame) -> Vec<f64> {
        let count = self.p_values.len();
        let blocks = in_parallel(self.boundaries.windows(2), |block| {
            let of_rank = blame.ranks.iter().zip(&self.ns).map(|(awaited, outside)| {
                let [from, to] =
                    [0, 1].map(|at| awaited.operations.partition_point(|operation| operation.came_ns < block[at]));
                let waited_ns: u64 = awaited.operations[from..to].iter().map(|operation| operation.ns).sum();
                outside.map(|_| real(waited_ns))
            });
            of_rank.collect()
        });
        let blamed = p_values(&blocks, count);
        let both = self.p_values.iter().zip(blamed);
        // The better of two tests counts. That gives chance two attempts, so its probability is doubled.
        both.map(|(outside, blamed)| (2.0 * outside.min(blamed)).min(1.0)).collect()
    }

    /// For each rank, whether it is outside operations for longer than chance explains.
    pub(crate) fn late(&self) -> Vec<bool> {
        self.p_values.iter().map(|p_value| *p_value < IMPROBABLE).collect()
    }
}

/// From a rank's first selected operation to its last.
fn span(filter: &Filter, messages: &Messages, rank: usize) -> Option<(u64, u64)> {
    let (first_ns, last_ns) = messages.inside[rank].span()?;
    let (from_ns, to_ns) = (filter.from_ns.unwrap_or(0), filter.to_ns.unwrap_or(u64::MAX));
    let (first_ns, last_ns) = (first_ns.max(from_ns), last_ns.min(to_ns));
    (first_ns < last_ns).then_some((first_ns, last_ns))
}

/// Where the time is cut: at the ends of the largest communicator's collectives, which all its ranks wait for.
fn boundaries(tables: &Tables, instances: &Instances, messages: &Messages, spans: &[Option<(u64, u64)>]) -> Vec<u64> {
    let mut ends: Vec<(u32, u64)> = Vec::new();
    ends.extend(
        instances
            .all
            .iter()
            .filter(|instance| instance.is_comparable())
            .map(|instance| (instance.communicator, instance.arrivals.end_ns)),
    );
    ends.sort_unstable();
    let largest = ends
        .chunk_by(|a, b| a.0 == b.0)
        .filter(|ends| ends.len() > LEAST_COLLECTIVES)
        .max_by_key(|ends| (tables.members.recorded(ends[0].0), ends.len()));
    let all: Vec<u64> = match largest {
        Some(ends) => ends.iter().map(|(_, ns)| *ns).collect(),
        None => {
            let first_ns = spans.iter().flatten().map(|span| span.0).min().unwrap_or(0);
            let last_ns = spans.iter().flatten().map(|span| span.1).max().unwrap_or(0);
            let mut pauses: Vec<u64> = (0..spans.len()).map(|rank| messages.inside[rank].len() as u64).collect();
            pauses.sort_unstable();
            let count = pauses.get(pauses.len() / 2).copied().unwrap_or(0).clamp(1, MOST_BLOCKS as u64);
            (0..=count).map(|at| first_ns + (last_ns - first_ns) * at / count).collect()
        }
    };
    let each = (all.len().saturating_sub(1)).div_ceil(MOST_BLOCKS).max(1);
    all.into_iter().step_by(each).collect()
}

/// By how much each rank exceeds the lower quartile of the ranks.
fn beyond_others(mut rank_values: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let mut sorted: Vec<f64> = rank_values.iter().copied().flatten().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let others = sorted.get(sorted.len().saturating_sub(1) / 4).copied().unwrap_or(0.0);
    rank_values.iter_mut().flatten().for_each(|value| *value = (*value - others).max(0.0));
    rank_values
}

/// For each rank, an upper bound on the probability that chance alone gives any rank as much.
fn p_values(blocks: &[Vec<Option<f64>>], ranks: usize) -> Vec<f64> {
    let longest: Vec<Option<usize>> = blocks.iter().map(|block| longest(block)).collect();
    let inflation = inflation(&longest);
    let has_spell: Vec<bool> = (0..ranks).map(|rank| has_spell(&longest, rank)).collect();
    let mut found = vec![1.0; ranks];
    let mut is_out = vec![false; ranks];
    for _ in 0..ROUNDS {
        let bounds = CUTS.map(|cut| bounds(blocks, &is_out, cut));
        let mut is_new = false;
        for rank in (0..ranks).filter(|rank| !is_out[*rank]).collect::<Vec<usize>>() {
            let bound = bounds.iter().map(|bounds| bounds[rank]).fold(0.0, f64::min);
            let inflation = if has_spell[rank] { 1.0 } else { inflation };
            found[rank] = ((bound / inflation).exp() * real((ranks * CUTS.len()) as u64)).min(1.0);
            if found[rank] < IMPROBABLE {
                (is_out[rank], is_new) = (true, true);
            }
        }
        if !is_new {
            break;
        }
    }
    found
}

fn longest(block: &[Option<f64>]) -> Option<usize> {
    let values = block.iter().enumerate().filter_map(|(rank, value)| Some((rank, (*value)?)));
    let longest = values.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (longest.1 > 0.0).then_some(longest.0)
}

fn has_spell(longest: &[Option<usize>], rank: usize) -> bool {
    let spells = longest.chunk_by(|a, b| a == b).filter(|spell| spell[0] == Some(rank));
    spells.map(<[_]>::len).max().is_some_and(|most| real(most as u64) >= SPELL * real(longest.len() as u64))
}

/// How many blocks count as one, because one delay may last for several. It is estimated from how often the same rank
/// is longest outside twice in a row, beyond what a random order gives.
fn inflation(longest: &[Option<usize>]) -> f64 {
    let all: Vec<usize> = longest.iter().copied().flatten().collect();
    let mut sorted = all.clone();
    nccl_events::sort::sort(&mut sorted);
    let counts: Vec<f64> = sorted.chunk_by(|a, b| a == b).map(|same| real(same.len() as u64)).collect();
    if all.len() < 2 {
        return 1.0;
    }
    let repeats = real(all.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64);
    let (expected, variance) = repeats_of_any_order(&counts);
    let pairs = real(all.len() as u64 - 1);
    let beyond = repeats - expected - DEVIATIONS * variance.sqrt();
    let correlation = if pairs > expected { beyond / (pairs - expected) } else { 0.0 };
    let correlation = correlation.clamp(0.0, 0.99);
    (1.0 + correlation) / (1.0 - correlation)
}

/// Mean and variance of the number of equal neighbours in a random order; `counts` says how often each value occurs.
fn repeats_of_any_order(counts: &[f64]) -> (f64, f64) {
    let all: f64 = counts.iter().sum();
    let sum = |of: fn(f64) -> f64| counts.iter().map(|count| of(*count)).sum::<f64>();
    let pairs = sum(|value| value * (value - 1.0));
    let mean = pairs / all;
    // For the variance: two pairs of neighbours may have an element in common (`overlapping`), or not (`apart`).
    let overlapping = 2.0 * sum(|value| value * (value - 1.0) * (value - 2.0));
    let apart = sum(|value| value * (value - 1.0) * (value - 2.0) * (value - 3.0)) + pairs * pairs
        - sum(|value| (value * (value - 1.0)).powi(2));
    let both = if all > 1.0 { (overlapping + apart) / (all * (all - 1.0)) } else { 0.0 };
    (mean, (mean + both - mean * mean).max(0.0))
}

/// For each rank, the logarithm of Chernoff's bound on the probability of reaching its total or more, if a rank draws
/// one of each block's values with equal probability. Excluded ranks do not count.
fn bounds(blocks: &[Vec<Option<f64>>], is_out: &[bool], cut: f64) -> Vec<f64> {
    let kept = |block: &[Option<f64>]| {
        block.iter().zip(is_out).filter(|(_, is_out)| !**is_out).filter_map(|(value, _)| *value).collect::<Vec<f64>>()
    };
    let mut most: Vec<f64> = blocks.iter().map(|block| kept(block).into_iter().fold(0.0, f64::max)).collect();
    most.sort_unstable_by(f64::total_cmp);
    let cut = quantile(&most, cut);
    if cut <= 0.0 {
        return vec![0.0; is_out.len()];
    }
    let scaled = |value: f64| value.min(cut) / cut;
    let mut own = vec![0.0; is_out.len()];
    for block in blocks {
        own.iter_mut().zip(block).for_each(|(own, value)| *own += value.map_or(0.0, scaled));
    }
    // Chernoff's bound holds for every value of its parameter, the tilt. The best of these is nearly the best of all.
    let tilts: Vec<f64> = (-8..=24).map(|step| 2_f64.powf(f64::from(step) / 2.0)).collect();
    let cumulants = in_parallel(tilts, |tilt| {
        let value_of_block = |block: &Vec<Option<f64>>| {
            let values: Vec<f64> = kept(block).into_iter().map(scaled).collect();
            // The largest value is subtracted first, or exponentials could overflow, or all be 0.
            let most = values.iter().copied().fold(0.0, f64::max);
            let sum: f64 = values.iter().map(|value| (tilt * (value - most)).exp()).sum();
            if values.is_empty() { 0.0 } else { (sum / real(values.len() as u64)).ln() + tilt * most }
        };
        (tilt, blocks.iter().map(value_of_block).sum::<f64>())
    });
    let bound = |own: &f64| cumulants.iter().map(|(tilt, cumulant)| cumulant - tilt * own).fold(0.0, f64::min);
    own.iter().map(bound).collect()
}

/// Where chance may explain it, a rank is late only if it is outside for longer than others by this many of its mean
/// pauses.
const CUT: u64 = 4;
/// A wait is divided among the ranks that were waited for. Shares below the longest divided by this are
/// rounding errors.
const SMALL_PART: u64 = 64;

/// How long others waited for a rank, and the part of that which is due to its lateness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CausedWaiting {
    pub(crate) waited: WaitSums,
    /// How long others waited because this rank came later than ranks usually do.
    pub(crate) lost_ns: u64,
    /// How much longer than the waiting ranks this rank was outside operations.
    pub(crate) more_ns: u64,
    pub(crate) times: u64,
    pub(crate) ranks: u64,
    pub(crate) p_value: f64,
}

impl CausedWaiting {
    /// Whether chance does not explain that others waited.
    pub(crate) fn is_certain(&self) -> bool {
        self.p_value < IMPROBABLE && self.lost_ns > 0
    }
}

/// For each rank of the job, the waiting it caused. Where data flows from rank to rank, ranks wait for the data without
/// being late: a rank is late if it spends more time outside operations than the ranks that wait for it.
pub(crate) fn late(outside: &TimeOutsideNccl, blame: &Blame) -> Vec<CausedWaiting> {
    let p_values = outside.p_values_of(blame);
    blame
        .ranks
        .iter()
        .enumerate()
        .map(|(rank, awaited)| caused_waiting(outside, rank, awaited, p_values[rank]))
        .collect()
}

fn caused_waiting(outside: &TimeOutsideNccl, rank: usize, awaited: &WaitsForRank, p_value: f64) -> CausedWaiting {
    let ranks = waited(awaited);
    let mut others: Vec<f64> = ranks.iter().filter_map(|other| outside.ns[large(*other)]).map(real).collect();
    let own_ns = outside.ns[rank].filter(|_| !others.is_empty());
    let more_ns = own_ns.map_or(0, |own_ns| whole((real(own_ns) - median(&mut others)).max(0.0)));
    // Some ranks are recorded for longer than others, and all pause while communicators are made. Neither makes a rank
    // late in many blocks, so a small p-value is enough.
    let is_more =
        p_value < IMPROBABLE || more_ns >= CUT.saturating_mul(own_ns.unwrap_or(0) / outside.pauses[rank].max(1));
    let most_ns = if is_more { more_ns.saturating_mul(ranks.len() as u64) } else { 0 };
    CausedWaiting {
        waited: awaited.sum,
        lost_ns: awaited.sum.all_ns().min(most_ns),
        more_ns,
        times: awaited.operations.len() as u64,
        ranks: ranks.len() as u64,
        p_value,
    }
}

/// The ranks that waited, except those whose share is only a rounding error.
fn waited(awaited: &WaitsForRank) -> Vec<u32> {
    let longest_ns = awaited.by.values().copied().max().unwrap_or(0);
    awaited.by.iter().filter(|(_, ns)| **ns > longest_ns / SMALL_PART).map(|(rank, _)| *rank).collect()
}

#[cfg(test)]
mod tests {
    mod lateness {
        use crate::results::Change;
        use crate::statistics::lateness::is_measurable;

        #[test]
        fn a_change_from_0_ns_to_0_ns_is_none() {
            let to = |after| Change { at_ns: 5, before: 0.1, after };
            assert!(!is_measurable(&to(0.4), None) && is_measurable(&to(2.0), Some(0)));
            assert!(!is_measurable(&to(900.0), Some(1_000)) && is_measurable(&to(-2_000.0), Some(1_000)));
        }
    }

    mod outside {
        use crate::statistics::lateness::*;

        /// Blocks of eight ranks, in each of which one rank is outside for longer.
        fn named(blocks: impl IntoIterator<Item = (usize, f64)>) -> Vec<usize> {
            let made = blocks.into_iter().map(|(late, more)| {
                beyond_others((0..8).map(|rank| Some(1_000.0 + if rank == late { more } else { 0.0 })).collect())
            });
            let p_values = p_values(&made.collect::<Vec<_>>(), 8);
            (0..8).filter(|rank| p_values[*rank] < IMPROBABLE).collect()
        }

        #[test]
        fn one_outlier_is_chance_and_hides_nobody() {
            let even = (0..64).map(|at: u32| (at as usize % 8, f64::from(1_000 + at)));
            assert_eq!(named(even.clone().chain([(3, 5e7)])), [0_usize; 0]);
            let late = (0..64).map(|at| (if at % 8 == 5 { at / 8 * 5 % 8 } else { 1 }, 1_000.0 + real(at as u64)));
            assert_eq!(named(late.chain([(3, 5e7)])), [1]);
        }

        #[test]
        fn repeats_of_any_order_are_those_of_all_orders() {
            // Of the 4 orders of a b b b, two have two repeats and two have one. The 2 orders of a b have none.
            assert_eq!(repeats_of_any_order(&[1.0, 3.0]), (1.5, 0.25));
            assert_eq!(repeats_of_any_order(&[1.0, 1.0]), (0.0, 0.0));
            assert_eq!(repeats_of_any_order(&[5.0]), (4.0, 0.0));
        }
    }
}
