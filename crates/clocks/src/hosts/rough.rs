//! Finds a constant for each host that makes times of different hosts comparable: clocks may be years apart. Its error
//! is up to the drift over the run, plus the shortest delays.

use std::collections::{BTreeMap, VecDeque};

use super::constraint::Constraint;
use small_sort::Gather;

/// The lead of a pair's second clock over the first.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    at_most: Option<i128>,
    at_least: Option<i128>,
}

impl Ahead {
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
    let mut pairs: BTreeMap<(usize, usize), Ahead> = BTreeMap::new();
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
    small_sort::sort_by_key(&mut order, |&host| (ahead.get(host).copied(), host));
    let middles = [order.len().saturating_sub(1) / 2, order.len() / 2];
    middles.map(|at| order.get(at).copied()).into_iter().flatten().min().unwrap_or(0)
}
