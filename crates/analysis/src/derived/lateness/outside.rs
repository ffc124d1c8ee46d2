//! Which ranks spend more time outside operations than others, and whether chance explains the difference.
//!
//! Ranks that work together wait for the one that is outside operations longest. That rank is late; its victims, which
//! wait for each other in turn, are not. The job's time is cut into blocks at the ends of collectives. If no rank is at
//! fault, each rank of a block is equally likely to be the one outside longest. Chernoff's bound limits the probability
//! that a rank then has as much as observed, or more; the bound needs no permutations and is deterministic. Long times
//! are cut off, so that a single one neither hides a rank that is always late nor makes a rank look late; three cuts
//! are tried. Ranks that are found are removed, and the others are tested again.

use crate::derived::filter::Filter;
use crate::derived::instances::Instances;
use crate::derived::maths::sample::{quantile, real};
use crate::derived::messages::{Blame, Messages};
use crate::parallel::in_parallel;
use crate::tables::Tables;

/// A rank is named only if the probability that chance names any rank of a job is lower than this.
pub(in crate::derived) const IMPROBABLE: f64 = 1e-3;
const CUTS: [f64; 3] = [0.5, 0.9, 1.0];
/// More blocks add no power, and something that delays a rank for a while would count once per block.
const MOST_BLOCKS: usize = 64;
/// With fewer collectives of the largest communicator, blocks are equal parts of the time.
const LEAST_COLLECTIVES: usize = 4;
/// Repeats of a rank up to this many standard deviations above the mean of a random order are taken for chance.
const DEVIATIONS: f64 = 2.0;
/// Maximum number of rounds in which ranks that were found are removed.
const ROUNDS: usize = 8;
/// A rank that is longest outside in this share of consecutive blocks is late for a time, not by chance.
const SPELL: f64 = 0.3;

#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Outside {
    /// By rank of the job: time outside, between its first and last operation; `None` without operations.
    pub(in crate::derived) ns: Vec<Option<u64>>,
    pub(in crate::derived) pauses: Vec<u64>,
    boundaries: Vec<u64>,
    /// By rank of the job: upper bound on the probability that chance keeps any rank outside so much longer.
    p_values: Vec<f64>,
}

impl Outside {
    pub(in crate::derived) fn of(tables: &Tables, filter: &Filter, instances: &Instances, messages: &Messages) -> Self {
        let count = tables.members.job_ranks.len();
        let spans: Vec<Option<(u64, u64)>> = (0..count).map(|rank| span(filter, messages, rank)).collect();
        let outside_ns =
            |rank: usize, from_ns: u64, to_ns: u64| (to_ns - from_ns) - messages.inside[rank].within(from_ns, to_ns);
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

    /// The p-values, which also cover others waiting so long for any rank by chance: ranks that wait for each other in
    /// ways that are not recorded are outside operations meanwhile.
    pub(in crate::derived) fn p_values_of(&self, blame: &Blame) -> Vec<f64> {
        let count = self.p_values.len();
        let blocks = in_parallel(self.boundaries.windows(2), |block| {
            let of_rank = blame.ranks.iter().zip(&self.ns).map(|(awaited, outside)| {
                let [from, to] = [0, 1].map(|at| awaited.operations.partition_point(|it| it.came_ns < block[at]));
                let waited_ns: u64 = awaited.operations[from..to].iter().map(|it| it.ns).sum();
                outside.map(|_| real(waited_ns))
            });
            of_rank.collect()
        });
        let blamed = p_values(&blocks, count);
        let both = self.p_values.iter().zip(blamed);
        // Two tests, either of which can be improbable by chance.
        both.map(|(outside, blamed)| (2.0 * outside.min(blamed)).min(1.0)).collect()
    }

    /// The ranks whose excess chance does not explain.
    pub(in crate::derived) fn late(&self) -> Vec<bool> {
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
    ends.extend(instances.all.iter().filter(|it| it.is_comparable()).map(|it| (it.communicator, it.arrivals.end_ns)));
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
fn beyond_others(mut of_rank: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let mut sorted: Vec<f64> = of_rank.iter().copied().flatten().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let others = sorted.get(sorted.len().saturating_sub(1) / 4).copied().unwrap_or(0.0);
    of_rank.iter_mut().flatten().for_each(|value| *value = (*value - others).max(0.0));
    of_rank
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

/// How many blocks correspond to one independent block, because a delay may last for several. The estimate counts how
/// often the same rank is longest outside twice in a row, beyond what a random order gives; few blocks show nothing.
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
    let pairs = sum(|it| it * (it - 1.0));
    let mean = pairs / all;
    // The second moment: pairs of neighbours that share an element, and pairs that do not.
    let overlapping = 2.0 * sum(|it| it * (it - 1.0) * (it - 2.0));
    let apart =
        sum(|it| it * (it - 1.0) * (it - 2.0) * (it - 3.0)) + pairs * pairs - sum(|it| (it * (it - 1.0)).powi(2));
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
    // The bound holds for any tilt; the best tilt tried is at most a little worse than the optimum.
    let tilts: Vec<f64> = (-8..=24).map(|step| 2_f64.powf(f64::from(step) / 2.0)).collect();
    let cumulants = in_parallel(tilts, |tilt| {
        let of_block = |block: &Vec<Option<f64>>| {
            let values: Vec<f64> = kept(block).into_iter().map(scaled).collect();
            // Relative to the largest value, so that the exponentials neither overflow nor all become 0.
            let most = values.iter().copied().fold(0.0, f64::max);
            let sum: f64 = values.iter().map(|value| (tilt * (value - most)).exp()).sum();
            if values.is_empty() { 0.0 } else { (sum / real(values.len() as u64)).ln() + tilt * most }
        };
        (tilt, blocks.iter().map(of_block).sum::<f64>())
    });
    let bound = |own: &f64| cumulants.iter().map(|(tilt, cumulant)| cumulant - tilt * own).fold(0.0, f64::min);
    own.iter().map(bound).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
