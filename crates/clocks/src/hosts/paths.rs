//! Finds how early and late each host's clock can be at a moment: shortest paths (a simple temporal problem).
//!
//! ```text
//!   clock(B) − clock(A) ≤ 30 ns      A ──30──► B        latest(h)   = shortest path from the reference to h
//!   clock(C) − clock(B) ≤ 20 ns      B ──20──► C        earliest(h) = − shortest path from h to the reference
//! ```
//!
//! The earliest values of all hosts satisfy every difference; so do the latest, and the middle, since differences are
//! linear. A negative cycle is a contradiction: all differences then get the same, least sufficient slack.

use crate::fit::least_slack;

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
            let (from, to) = match backwards {
                false => (difference.from, difference.to),
                true => (difference.to, difference.from),
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(hosts: usize, differences: &[(usize, usize, f64)]) -> Extent {
        let difference = |&(from, to, most)| Difference { from, to, most };
        extent(hosts, 0, &differences.iter().map(difference).collect::<Vec<_>>())
    }

    #[test]
    fn a_ring_bounds_both_ways_and_a_contradiction_gets_the_least_slack() {
        // Each clock is 100 ahead of the previous one, known to 5; the last constraint closes the ring.
        let ring = of(3, &[(0, 1, 105.0), (1, 2, 105.0), (2, 0, -195.0)]);
        assert_eq!((ring.earliest, ring.latest), (vec![0.0, 90.0, 195.0], vec![0.0, 105.0, 210.0]));
        assert!(ring.slack < 1e-9);
        let slack = of(2, &[(0, 1, 100.0), (1, 0, -400.0)]).slack;
        assert!((150.0..154.0).contains(&slack), "{slack}");
    }
}
