//! Constraints on the clocks of hosts, the steps of the method that `hosts` outlines, and the correction that results.
//!
//! How early and late each host's clock can be at a moment is a matter of shortest paths (a simple temporal problem):
//!
//! ```text
//!   clock(B) − clock(A) ≤ 30 ns      A ──30──► B        latest(h)   = shortest path from the reference to h
//!   clock(C) − clock(B) ≤ 20 ns      B ──20──► C        earliest(h) = − shortest path from h to the reference
//! ```
//!
//! The earliest values of all hosts satisfy every difference; so do the latest, and the middle, since differences are
//! linear. A negative cycle is a contradiction: all differences then get the same, least sufficient slack.

use std::collections::{BTreeMap, VecDeque};

use crate::fit::least_slack;
use crate::piecewise::{Beyond, Knot, Piecewise, unsigned};
use nccl_events::sort::Gather;

/// `clock[to] − clock[from] ≤ most`, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) most: f64,
}

/// How early and late each clock can be.
#[derive(Clone, Debug, Default)]
pub(super) struct Extent {
    pub(super) earliest: Vec<f64>,
    pub(super) latest: Vec<f64>,
    /// Added to every difference; 0 if they do not contradict each other.
    pub(super) slack: f64,
}

impl Extent {
    pub(super) fn middle(&self, host: usize) -> f64 {
        let earliest = self.earliest.get(host).copied().unwrap_or(0.0);
        let latest = self.latest.get(host).copied().unwrap_or(0.0);
        match (earliest.is_finite(), latest.is_finite()) {
            (true, true) => f64::midpoint(earliest, latest),
            (true, false) => earliest,
            (false, true) => latest,
            (false, false) => 0.0,
        }
    }
}

/// Differences below this are rounding, ns.
const ROUNDING: f64 = 1e-3;
/// Contradictions between clocks are never larger than their whole range, ns.
const MOST_SLACK: f64 = 1e18;

/// Finds how early and late each of `hosts` clocks can be relative to that of `reference`.
pub(super) fn extent(hosts: usize, reference: usize, differences: &[Difference]) -> Extent {
    let with = |slack: f64| {
        let latest = shortest(hosts, reference, differences, slack, false)?;
        let earliest = shortest(hosts, reference, differences, slack, true)?;
        Some(Extent { earliest: earliest.iter().map(|distance| -distance).collect(), latest, slack })
    };
    least_slack(MOST_SLACK, with).unwrap_or_else(|| Extent {
        earliest: vec![0.0; hosts],
        latest: vec![0.0; hosts],
        slack: MOST_SLACK,
    })
}

/// Bellman-Ford; `None` if there is a negative cycle.
fn shortest(
    hosts: usize,
    reference: usize,
    differences: &[Difference],
    slack: f64,
    backwards: bool,
) -> Option<Vec<f64>> {
    let mut distances = vec![f64::INFINITY; hosts];
    let mut parents: Vec<usize> = (0..hosts).collect();
    *distances.get_mut(reference)? = 0.0;
    for _ in 0..=hosts {
        let mut changed = false;
        for difference in differences {
            let (from, to) =
                if !backwards { (difference.from, difference.to) } else { (difference.to, difference.from) };
            let distance = distances.get(from)? + difference.most + slack;
            let known = distances.get_mut(to)?;
            if distance < *known - ROUNDING {
                *known = distance;
                *parents.get_mut(to)? = from;
                changed = true;
            }
        }
        if !changed {
            return Some(distances);
        }
        if distances.get(reference).is_some_and(|own| *own < 0.0) || is_round(&parents) {
            return None;
        }
    }
    None
}

/// Whether the parents form a cycle, which reveals negative cycles early.
fn is_round(parents: &[usize]) -> bool {
    // 0: not visited, n: visited on the n-th walk.
    let mut walked = vec![0_usize; parents.len()];
    for start in 0..parents.len() {
        let mut at = start;
        while let Some(seen) = walked.get_mut(at) {
            if *seen == start + 1 {
                return parents.get(at).is_some_and(|parent| *parent != at);
            }
            if *seen != 0 {
                break;
            }
            *seen = start + 1;
            match parents.get(at) {
                Some(&parent) if parent != at => at = parent,
                _ => break,
            }
        }
    }
    false
}

// Hildreth's method moves clocks to the nearest ones that satisfy all constraints: successive projection onto each
// constraint, accumulating its moves. This is the last step: lines between the middles at the ends of pieces can
// violate a constraint inside a piece if several hosts share bounds.

/// A constraint on the differences at both ends of a piece: interpolated between the ends, the clock of `later` minus
/// that of `earlier` is at most `most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnotConstraint {
    pub(super) earlier: usize,
    pub(super) later: usize,
    /// The knot at the first end; the next knot is the other end.
    pub(super) knot: usize,
    /// Weight of the other end: 0 … 1.
    pub(super) part: f64,
    pub(super) most: f64,
}

/// Rounding to whole ns at both ends, twice, and of each time.
const MARGIN_NS: f64 = 3.0;
const CLOSE_NS: f64 = 0.5;
/// Limit on the passes over all constraints. Remaining violations are stated.
const MOST_PASSES: usize = 500;

/// Moves the clocks (by host, then knot), but that of `reference`, as little as needed. Returns whether any was moved.
pub(super) fn repair(clocks: &mut [Vec<f64>], reference: usize, needs: &[KnotConstraint]) -> bool {
    let mut moved = false;
    let mut pushed = vec![0.0_f64; needs.len()];
    for _ in 0..MOST_PASSES {
        let mut worst = 0.0_f64;
        for (need, pushed) in needs.iter().zip(&mut pushed) {
            let over = need.over(clocks) + MARGIN_NS;
            if over <= 0.0 && *pushed <= 0.0 {
                continue;
            }
            let weights = (1.0 - need.part).powi(2) + need.part.powi(2);
            let fixed = need.earlier == reference || need.later == reference;
            let norm = weights * if fixed { 1.0 } else { 2.0 };
            let push = (over / norm).max(-*pushed);
            *pushed += push;
            worst = worst.max(over);
            moved = true;
            need.push(clocks, reference, push);
        }
        if worst <= CLOSE_NS {
            break;
        }
    }
    moved
}

impl KnotConstraint {
    fn ends(&self, clocks: &[Vec<f64>]) -> Option<(f64, f64)> {
        let (earlier, later) = (clocks.get(self.earlier)?, clocks.get(self.later)?);
        Some((later.get(self.knot)? - earlier.get(self.knot)?, later.get(self.knot + 1)? - earlier.get(self.knot + 1)?))
    }

    fn over(&self, clocks: &[Vec<f64>]) -> f64 {
        let Some((first, last)) = self.ends(clocks) else {
            return f64::NEG_INFINITY;
        };
        (1.0 - self.part) * first + self.part * last - self.most
    }

    fn push(&self, clocks: &mut [Vec<f64>], reference: usize, push: f64) {
        for (host, side) in [(self.earlier, 1.0), (self.later, -1.0)] {
            if host == reference {
                continue;
            }
            for (knot, weight) in [(self.knot, 1.0 - self.part), (self.knot + 1, self.part)] {
                if let Some(clock) = clocks.get_mut(host).and_then(|clock| clock.get_mut(knot)) {
                    *clock += side * weight * push;
                }
            }
        }
    }
}

/// The relation of a host's clock to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relation {
    /// No bounds in both directions: the system clock is used, shifted by a constant if one-way traffic requires it.
    #[default]
    System,
    Reference,
    /// The clock is known within bounds.
    Bounded,
}

impl Relation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Reference => "reference",
            Self::Bounded => "bounded",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correction {
    pub relation: Relation,
    /// The boot whose clock this clock is mapped to: the reference host of the component.
    pub reference: usize,
    /// From readings, CLOCK_REALTIME ns of the host, to the common clock; a single knot means no correction. The
    /// uncertainty bounds the distance of the corrected clock from the reference's.
    pub map: Piecewise,
    /// Mean corrected drift, in 10⁻⁹.
    pub drift_ppb: i64,
    pub constraints: u64,
    pub violations: u64,
    pub worst_violation_ns: u64,
}

impl Correction {
    pub fn common_ns(&self, ns: u64) -> u64 {
        unsigned(self.map.nearest(ns.into()))
    }

    /// Readings and the offsets to add, linear in between; empty if the clock is not corrected.
    pub fn knots(&self) -> impl Iterator<Item = (u64, i64)> {
        let knots = match self.map.knots() {
            [_] => &[],
            knots => knots,
        };
        knots.iter().map(|&knot| (unsigned(knot.0), added(knot)))
    }

    /// The offset at the first knot, which the archive states.
    pub fn first_ns(&self) -> i64 {
        self.knots().next().map_or(0, |(_, added)| added)
    }

    /// Shifts the clock by a constant. `span`: its first and last reading.
    pub(super) fn shift(&mut self, by_ns: i64, span: (u64, u64)) {
        if by_ns == 0 || span.0 > span.1 {
            return;
        }
        if self.map.knots().len() < 2 {
            let ends = [i128::from(span.0), i128::from(span.1) + 1];
            let knots = ends.map(|ns| (ns, ns)).to_vec();
            self.map = Piecewise::new(knots, Beyond::Nearest).unwrap_or_default();
        }
        self.map.shift(by_ns.into());
    }
}

fn added(knot: Knot) -> i64 {
    i64::try_from(knot.1 - knot.0).unwrap_or(0)
}

// A constant for each host makes times of different hosts comparable: clocks may be years apart. Its error is up to the
// drift over the run, plus the shortest delays.

/// The lead of a pair's second clock over the first.
#[derive(Clone, Copy, Debug, Default)]
struct LeadBounds {
    at_most: Option<i128>,
    at_least: Option<i128>,
}

impl LeadBounds {
    fn guess(self) -> i128 {
        match (self.at_least, self.at_most) {
            (Some(low), Some(high)) => low + (high - low) / 2,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => 0,
        }
    }
}

/// The lead of each host's clock over the first's, by index in `hosts`. Traffic must connect them, maybe indirectly.
pub(super) fn ahead(hosts: &[usize], constraints: &[Constraint]) -> Vec<i64> {
    let places: BTreeMap<usize, usize> = hosts.iter().copied().zip(0..).gather();
    let mut pairs: BTreeMap<(usize, usize), LeadBounds> = BTreeMap::new();
    for constraint in constraints {
        let places = [constraint.earlier.boot, constraint.later.boot].map(|boot| places.get(&boot).copied());
        let [Some(earlier), Some(later)] = places else {
            continue;
        };
        let room = i128::from(constraint.later.ns) - i128::from(constraint.earlier.ns);
        let pair = pairs.entry((earlier.min(later), earlier.max(later))).or_default();
        if earlier < later {
            pair.at_most = Some(pair.at_most.map_or(room, |most| most.min(room)));
        } else {
            pair.at_least = Some(pair.at_least.map_or(-room, |least| least.max(-room)));
        }
    }
    let mut neighbours: Vec<Vec<(usize, i128)>> = vec![Vec::new(); hosts.len()];
    for (&(a, b), pair) in &pairs {
        for (from, to, guess) in [(a, b, pair.guess()), (b, a, -pair.guess())] {
            if let Some(neighbours) = neighbours.get_mut(from) {
                neighbours.push((to, guess));
            }
        }
    }
    let mut ahead: Vec<Option<i128>> = vec![None; hosts.len()];
    if let Some(first) = ahead.first_mut() {
        *first = Some(0);
    }
    let mut queue = VecDeque::from([0]);
    while let Some(host) = queue.pop_front() {
        let here = ahead.get(host).copied().flatten().unwrap_or(0);
        for &(to, guess) in neighbours.get(host).map_or(&[][..], Vec::as_slice) {
            if let Some(there) = ahead.get_mut(to).filter(|there| there.is_none()) {
                *there = Some(here + guess);
                queue.push_back(to);
            }
        }
    }
    let ahead = ahead.into_iter();
    ahead.map(|known| i64::try_from(known.unwrap_or(0)).unwrap_or(0)).collect()
}

/// The host whose clock is the (first) median: most clocks then change least, and an outlier does not move the others.
pub(super) fn middle(ahead: &[i64]) -> usize {
    let mut order: Vec<usize> = (0..ahead.len()).collect();
    nccl_events::sort::sort_by_key(&mut order, |&host| (ahead.get(host).copied(), host));
    let middles = [order.len().saturating_sub(1) / 2, order.len() / 2];
    middles.map(|at| order.get(at).copied()).into_iter().flatten().min().unwrap_or(0)
}

/// A reading of a host's clock: CLOCK_REALTIME of the host's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// Number of the host's boot, which identifies the clock.
    pub boot: usize,
    pub ns: u64,
}

/// A constraint on two hosts' clocks: one moment was not after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    pub earlier: Reading,
    pub later: Reading,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent_of_hosts(hosts: usize, differences: &[(usize, usize, f64)]) -> Extent {
        let difference = |&(from, to, most)| Difference { from, to, most };
        extent(hosts, 0, &differences.iter().map(difference).collect::<Vec<_>>())
    }

    #[test]
    fn a_ring_bounds_both_ways_and_a_contradiction_gets_the_least_slack() {
        // Each clock is 100 ahead of the previous one, known to 5; the last constraint closes the ring.
        let ring = extent_of_hosts(3, &[(0, 1, 105.0), (1, 2, 105.0), (2, 0, -195.0)]);
        assert_eq!((ring.earliest, ring.latest), (vec![0.0, 90.0, 195.0], vec![0.0, 105.0, 210.0]));
        assert!(ring.slack < 1e-9);
        let slack = extent_of_hosts(2, &[(0, 1, 100.0), (1, 0, -400.0)]).slack;
        assert!((150.0..154.0).contains(&slack), "{slack}");
    }
}
