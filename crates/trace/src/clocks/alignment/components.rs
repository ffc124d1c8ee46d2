//! Which hosts' clocks bound each other both ways: the strongly connected components of the constraints.
//!
//! Inside one, every clock is known within bounds. Between two, constraints go one way only: they say that one is
//! not later than the other, and no more. Then the system's clocks are believed, unless they contradict that.

use super::{Constraint, Correction};
use crate::tables::place::index;

/// The components, and of which each host is.
#[derive(Debug, Default)]
pub(super) struct Components {
    /// The hosts of each, ascending; the largest component first, then by first host.
    pub(super) all: Vec<Vec<usize>>,
    of: Vec<usize>,
}

/// Finds the components.
pub(super) fn components(boots: usize, constraints: &[Constraint]) -> Components {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); boots];
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); boots];
    let mut pairs: Vec<(usize, usize)> = constraints
        .iter()
        .map(|one| (index(one.earlier.boot), index(one.later.boot)))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    for (from, to) in pairs {
        if let (Some(out), Some(into)) = (out.get_mut(from), into.get_mut(to)) {
            out.push(to);
            into.push(from);
        }
    }
    // Kosaraju: in the order of leaving the graph, then backwards along its edges.
    let mut order = Vec::with_capacity(boots);
    let mut seen = vec![false; boots];
    for boot in 0..boots {
        visit(boot, &out, &mut seen, &mut order);
    }
    let mut seen = vec![false; boots];
    let mut all = Vec::new();
    for &boot in order.iter().rev() {
        let mut members = Vec::new();
        visit(boot, &into, &mut seen, &mut members);
        if !members.is_empty() {
            members.sort_unstable();
            all.push(members);
        }
    }
    all.sort_by_key(|members| (usize::MAX - members.len(), members.first().copied()));
    let mut of = vec![0; boots];
    for (component, members) in all.iter().enumerate() {
        for &boot in members {
            if let Some(slot) = of.get_mut(boot) {
                *slot = component;
            }
        }
    }
    Components { all, of }
}

/// Depth first, without recursion: hosts are left in this order.
fn visit(start: usize, edges: &[Vec<usize>], seen: &mut [bool], left: &mut Vec<usize>) {
    let mut stack = vec![(start, 0)];
    match seen.get_mut(start) {
        Some(seen) if !*seen => *seen = true,
        _ => return,
    }
    while let Some((boot, next)) = stack.last_mut() {
        let Some(&to) = edges.get(*boot).and_then(|edges| edges.get(*next)) else {
            left.push(*boot);
            stack.pop();
            continue;
        };
        *next += 1;
        if let Some(seen) = seen.get_mut(to).filter(|seen| !**seen) {
            *seen = true;
            stack.push((to, 0));
        }
    }
}

/// A component's shift is at most another's and this.
#[derive(Clone, Copy, Debug)]
struct Limit {
    component: usize,
    other: usize,
    ns: i64,
}

impl Components {
    /// Moves components by constants where the constraints between them ask for it; the largest stays.
    pub(super) fn shift(
        &self,
        clocks: &mut [Correction],
        constraints: &[Constraint],
        spans: &[(u64, u64)],
    ) {
        if self.all.len() < 2 {
            return;
        }
        let limits = self.limits(clocks, constraints);
        let shifts = shifts(self.all.len(), &limits);
        for ((clock, component), span) in clocks.iter_mut().zip(&self.of).zip(spans) {
            let by_ns = shifts.get(*component).copied().unwrap_or(0);
            clock.shift(by_ns, *span);
        }
    }

    fn limits(&self, clocks: &[Correction], constraints: &[Constraint]) -> Vec<Limit> {
        let mut limits: Vec<Limit> = Vec::new();
        for constraint in constraints {
            let (earlier, later) = (index(constraint.earlier.boot), index(constraint.later.boot));
            let (Some(&component), Some(&other)) = (self.of.get(earlier), self.of.get(later))
            else {
                continue;
            };
            let (Some(first), Some(second)) = (clocks.get(earlier), clocks.get(later)) else {
                continue;
            };
            if component != other {
                let room = i128::from(second.common_ns(constraint.later.ns))
                    - i128::from(first.common_ns(constraint.earlier.ns));
                limits.push(Limit {
                    component,
                    other,
                    ns: i64::try_from(room).unwrap_or(i64::MAX),
                });
            }
        }
        limits.sort_unstable_by_key(|limit| (limit.component, limit.other, limit.ns));
        limits.dedup_by_key(|limit| (limit.component, limit.other));
        limits
    }
}

/// The shifts nearest to none: what the first component leaves of each, then what they leave of each other.
/// Components have no cycles between them, so there are always some.
fn shifts(components: usize, limits: &[Limit]) -> Vec<i64> {
    let mut highest = vec![i64::MAX; components];
    let mut lowest = vec![i64::MIN; components];
    for slot in [&mut highest, &mut lowest] {
        if let Some(first) = slot.first_mut() {
            *first = 0;
        }
    }
    relax(components, || {
        let mut changed = false;
        for limit in limits {
            let from = highest.get(limit.other).copied().unwrap_or(i64::MAX);
            if from != i64::MAX
                && let Some(highest) = highest.get_mut(limit.component)
                && from.saturating_add(limit.ns) < *highest
            {
                *highest = from.saturating_add(limit.ns);
                changed = true;
            }
            let from = lowest.get(limit.component).copied().unwrap_or(i64::MIN);
            if from != i64::MIN
                && let Some(lowest) = lowest.get_mut(limit.other)
                && from.saturating_sub(limit.ns) > *lowest
            {
                *lowest = from.saturating_sub(limit.ns);
                changed = true;
            }
        }
        changed
    });
    let ranges = lowest.iter().zip(&highest);
    let mut shifts: Vec<i64> = ranges.map(|(&low, &high)| 0.max(low).min(high)).collect();
    relax(components, || {
        let mut changed = false;
        for limit in limits {
            let from = shifts.get(limit.other).copied().unwrap_or(0);
            if let Some(shift) = shifts.get_mut(limit.component)
                && from.saturating_add(limit.ns) < *shift
            {
                *shift = from.saturating_add(limit.ns);
                changed = true;
            }
        }
        changed
    });
    shifts
}

/// Until nothing changes; a chain of components is no longer than there are.
fn relax(components: usize, mut pass: impl FnMut() -> bool) {
    for _ in 0..=components {
        if !pass() {
            return;
        }
    }
}
