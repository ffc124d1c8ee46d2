//! Whether others wait for a rank by more than chance has it, and how much of it is beyond chance.
//!
//! If no rank is at fault, any rank of a collective may come last, each with the same probability: what is waited in it
//! falls on any of them. How probable it is that a rank then has as much as it has, or more, is bounded by Chernoff's
//! bound: it needs no permutations, and is always the same. Long waits are cut, so that one of them hides no rank that
//! is late all the time, and makes none look so; three cuts are tried. The ranks that are found are taken out with the
//! collectives that they came last to, and the others are tested again.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::derived::maths::sample::{median, real, whole};
use crate::tables::{NONE, large};

/// A rank is named where chance alone names one in fewer than one of this many jobs.
pub(in crate::derived) const IMPROBABLE: f64 = 1e-3;
/// Waits are cut at these quantiles.
const CUTS: [f64; 3] = [0.5, 0.9, 1.0];
/// Waits that differ by less than this share are one.
const RESOLUTION: f64 = 0.02;
/// Repeats of a rank up to this many standard deviations above the mean of a random order are chance.
const DEVIATIONS: f64 = 2.0;
/// How often ranks that are found are taken out.
const ROUNDS: usize = 8;

/// A collective in which a rank came last by more than the clocks' error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) communicator: u32,
    pub(super) time_ns: u64,
    /// The rank of the job that came last; [`NONE`] where it is the root that others wait for, but not the last of all.
    pub(super) last: u32,
    /// How many could have come last.
    pub(super) ranks: u32,
    /// What all waited in it that this rank is to blame for.
    pub(super) waiting_ns: u64,
}

/// What a rank is to blame for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blame {
    /// An upper bound of the probability that chance alone makes others wait this long for any rank.
    pub(super) p_value: f64,
    /// What others waited for it, without what they wait for a rank by chance.
    pub(super) lost_ns: u64,
}

/// Blames ranks. `of_rank` has for each rank the trials in which it could have come last.
pub(super) fn blame(trials: &[Option<Trial>], of_rank: &[Vec<u32>]) -> Vec<Blame> {
    let inflation = inflation(trials);
    let mut found: Vec<Option<f64>> = vec![None; of_rank.len()];
    let mut blames = vec![Blame { p_value: 1.0, lost_ns: 0 }; of_rank.len()];
    for _ in 0..ROUNDS {
        // How many that were found take part in each.
        let mut taken = vec![0_u32; trials.len()];
        for (rank, _) in found.iter().enumerate().filter(|(_, cut)| cut.is_some()) {
            of_rank[rank].iter().for_each(|trial| taken[large(*trial)] += 1);
        }
        let is_out = |trial: &Trial| trial.last != NONE && found[large(trial.last)].is_some();
        let tested =
            of_rank.par_iter().enumerate().filter(|(rank, _)| found[*rank].is_none()).map(|(rank, numbers)| {
                let mut sample = Sample::default();
                for number in numbers {
                    if let Some(trial) = trials[large(*number)].filter(|it| !is_out(it)) {
                        let ranks = trial.ranks.saturating_sub(taken[large(*number)]).max(1);
                        sample.add(ranks, trial.waiting_ns, large(trial.last) == rank);
                    }
                }
                (rank, sample.test(inflation, of_rank.len()))
            });
        let tested: Vec<(usize, Test)> = tested.collect();
        let mut is_new = false;
        for (rank, Test { p_value, cut_ns }) in tested {
            blames[rank].p_value = p_value;
            if p_value < IMPROBABLE {
                found[rank] = Some(cut_ns);
                is_new = true;
            }
        }
        if !is_new {
            break;
        }
    }
    let numbers: Vec<f64> = of_rank.iter().map(|numbers| real(numbers.len() as u64)).collect();
    let all = caused(trials, of_rank.len(), f64::INFINITY);
    blames.par_iter_mut().enumerate().for_each(|(rank, blame)| {
        let cut_ns = found[rank].unwrap_or(f64::INFINITY);
        let cut = cut_ns.is_finite().then(|| caused(trials, of_rank.len(), cut_ns));
        let caused = cut.as_ref().unwrap_or(&all);
        // What others wait for a rank that was not found.
        let others = (0..caused.len()).filter(|it| *it != rank && found[*it].is_none() && numbers[*it] > 0.0);
        let chance = median(&mut others.map(|it| caused[it] / numbers[it]).collect::<Vec<f64>>());
        blame.lost_ns = whole(caused[rank] - chance * numbers[rank]);
    });
    blames
}

/// What others waited for each rank, with waits cut.
fn caused(trials: &[Option<Trial>], ranks: usize, cut_ns: f64) -> Vec<f64> {
    let mut sums = vec![0.0; ranks];
    for trial in trials.iter().flatten().filter(|it| it.last != NONE) {
        sums[large(trial.last)] += real(trial.waiting_ns).min(cut_ns);
    }
    sums
}

/// By how many times fewer independent collectives there are than collectives: what makes a rank late may last for
/// several. The estimate rests on how often the same rank comes last twice in a row, beyond what a random order gives;
/// with few collectives that is no evidence.
fn inflation(trials: &[Option<Trial>]) -> f64 {
    let mut all: Vec<&Trial> = trials.iter().flatten().filter(|it| it.last != NONE).collect();
    all.par_sort_unstable_by_key(|it| (it.communicator, it.time_ns));
    let (mut repeats, mut expected, mut variance, mut pairs) = (0.0, 0.0, 0.0, 0.0);
    for of_communicator in all.chunk_by(|a, b| a.communicator == b.communicator) {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for trial in of_communicator {
            *counts.entry(trial.last).or_default() += 1;
        }
        let same = of_communicator.windows(2).filter(|pair| matches!(pair, [a, b] if a.last == b.last)).count();
        repeats += real(same as u64);
        let (mean, its_variance) = repeats_of_any_order(&counts.into_values().map(real).collect::<Vec<f64>>());
        expected += mean;
        variance += its_variance;
        pairs += real(of_communicator.len().saturating_sub(1) as u64);
    }
    let beyond = repeats - expected - DEVIATIONS * variance.sqrt();
    let correlation = if pairs > expected { beyond / (pairs - expected) } else { 0.0 };
    let correlation = correlation.clamp(0.0, 0.99);
    (1.0 + correlation) / (1.0 - correlation)
}

/// Mean and variance of the number of equal neighbours in a random order; `counts` has how often each value occurs.
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

/// The trials of a rank: by how many could have come last, and by the logarithm of the waiting, how many there are and
/// to how many it came last.
#[derive(Debug, Default)]
struct Sample(BTreeMap<(u32, u32), (u64, u64)>);

/// Trials that are alike.
#[derive(Clone, Copy, Debug)]
struct Alike {
    ranks: f64,
    waiting: f64,
    count: f64,
}

struct Test {
    p_value: f64,
    /// Where waits were cut in the test that shows most of them not to be chance.
    cut_ns: f64,
}

impl Sample {
    fn add(&mut self, ranks: u32, waiting_ns: u64, is_last: bool) {
        let step = u32::try_from(whole(real(waiting_ns.max(1)).ln() / RESOLUTION)).unwrap_or(u32::MAX);
        let (count, last) = self.0.entry((ranks, step)).or_default();
        *count += 1;
        *last += u64::from(is_last);
    }

    fn test(&self, inflation: f64, ranks: usize) -> Test {
        let mut by_step: BTreeMap<u32, u64> = BTreeMap::new();
        for ((_, step), (count, _)) in &self.0 {
            *by_step.entry(*step).or_default() += count;
        }
        let all = real(by_step.values().sum());
        let cut = |quantile: f64| {
            let mut below = 0.0;
            let step = by_step.iter().find(|(_, count)| {
                below += real(**count);
                below >= quantile * all
            });
            step.map(|(step, _)| *step)
        };
        let mut best = Test { p_value: 1.0, cut_ns: 0.0 };
        for cut in CUTS.into_iter().filter_map(cut) {
            // Of the longest one; nothing is left to be more than this.
            let scaled = |step: u32| (RESOLUTION * (f64::from(step.min(cut)) - f64::from(cut))).exp();
            let alike = self.0.iter().map(|((ranks, step), (count, _))| Alike {
                ranks: f64::from(*ranks),
                waiting: scaled(*step),
                count: real(*count),
            });
            let alike: Vec<Alike> = alike.collect();
            let own: f64 = self.0.iter().map(|((_, step), (_, last))| scaled(*step) * real(*last)).sum();
            let tests = real((ranks * CUTS.len()) as u64);
            let p_value = ((bound(&alike, own) / inflation).exp() * tests).min(1.0);
            // Of several that show it, the one that leaves most of the waiting.
            if p_value < IMPROBABLE || p_value < best.p_value {
                let is_longest = Some(cut) == by_step.last_key_value().map(|(step, _)| *step);
                let cut_ns = if is_longest { f64::INFINITY } else { (RESOLUTION * f64::from(cut)).exp() };
                best = Test { p_value: p_value.min(best.p_value), cut_ns };
            }
        }
        best
    }
}

/// The logarithm of Chernoff's bound on the probability that a rank which comes last to each trial by chance has so
/// much waiting or more.
fn bound(trials: &[Alike], own: f64) -> f64 {
    let mean: f64 = trials.iter().map(|it| it.count * it.waiting / it.ranks).sum();
    if own <= mean {
        return 0.0;
    }
    let tilted = |tilt: f64| -> f64 {
        let one = |it: &Alike| it.count * it.waiting / (1.0 + (it.ranks - 1.0) * (-tilt * it.waiting).exp());
        trials.iter().map(one).sum()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while high < 512.0 && tilted(high) < own {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if tilted(middle) < own {
            low = middle;
        } else {
            high = middle;
        }
    }
    let one = |it: &Alike| it.count * ((low * it.waiting).exp_m1() / it.ranks).ln_1p();
    (trials.iter().map(one).sum::<f64>() - low * own).min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials of eight ranks, as `(last, waiting)`.
    fn blamed(trials: impl IntoIterator<Item = (u32, u64)>) -> Vec<Blame> {
        let made = (0..)
            .zip(trials)
            .map(|(time_ns, (last, waiting_ns))| Some(Trial { communicator: 0, time_ns, last, ranks: 8, waiting_ns }));
        let trials: Vec<Option<Trial>> = made.collect();
        let all: Vec<u32> = (0..).take(trials.len()).collect();
        blame(&trials, &vec![all; 8])
    }

    fn at_random(ns: u64) -> u32 {
        u32::try_from(ns / 8 * 5 % 8).expect("small")
    }

    fn named(blames: &[Blame]) -> Vec<usize> {
        (0..blames.len()).filter(|rank| blames[*rank].p_value < IMPROBABLE).collect()
    }

    #[test]
    fn seven_long_waits_of_22_are_not_chance() {
        let waits = (0..22).map(|at| if at % 3 == 1 { (7, 105_000) } else { (at % 7, 17_000) });
        let found = blamed(waits);
        assert_eq!(named(&found), [7]);
        // The others cause two or three short ones each.
        assert!((700_000 - 51_000..=735_000 - 34_000).contains(&found[7].lost_ns), "{:?}", found[7]);
    }

    #[test]
    fn one_outlier_is_chance_and_hides_nobody() {
        let even = (0..80).map(|at| (at % 8, 1_000 + u64::from(at)));
        let found = blamed(even.clone().chain([(3, 50_000_000)]));
        assert_eq!(named(&found), [0_usize; 0]);
        let late = even.map(|(last, ns)| if last == 5 { (at_random(ns), ns) } else { (1, ns) });
        let found = blamed(late.chain([(3, 50_000_000)]));
        assert_eq!(named(&found), [1]);
        assert!((60_000..80_000).contains(&found[1].lost_ns), "{:?}", found[1]);
    }

    #[test]
    fn a_second_rank_is_found_behind_the_first() {
        let waits = (0..400).map(|at| match at % 4 {
            0 | 1 => (2, 10_000),
            2 => (6, 9_000),
            _ => (at / 4 * 7 % 8, 1_000),
        });
        let found = blamed(waits);
        assert_eq!(named(&found), [2, 6]);
    }

    /// A few that others cause before the rank begins to be late are no reason to doubt it.
    #[test]
    fn a_rank_that_is_always_last_but_at_the_beginning_is_late() {
        let found = blamed((0..16).map(|at| (if at < 2 { 0 } else { 5 }, 1_000)));
        assert_eq!(named(&found), [5]);
    }

    #[test]
    fn repeats_of_any_order_are_those_of_all_orders() {
        // Of the 4 orders of a b b b, two have two repeats and two have one. The 2 orders of a b have none.
        assert_eq!(repeats_of_any_order(&[1.0, 3.0]), (1.5, 0.25));
        assert_eq!(repeats_of_any_order(&[1.0, 1.0]), (0.0, 0.0));
        assert_eq!(repeats_of_any_order(&[5.0]), (4.0, 0.0));
    }

    #[test]
    fn a_rank_that_is_last_ten_times_in_a_row_was_late_once() {
        // Each ten have the rank that chance gives: 14 of 60 for rank 4.
        let lasts = (0..60).map(|at| if at % 9 < 2 { 4 } else { at * 5 % 8 });
        let found = blamed(lasts.flat_map(|last| vec![(last, 1_000); 10]));
        assert_eq!(named(&found), [0_usize; 0], "{found:?}");
    }
}
