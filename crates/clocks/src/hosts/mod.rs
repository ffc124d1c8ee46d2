//! Finds one clock for hosts whose clocks differ, from constraints: a moment on one host was not after a moment on
//! another.
//!
//! ```text
//!  components   hosts with constraints both ways, even indirectly: each component is solved separately (here)
//!   └ ahead     a constant for each host, which makes times comparable (constraints)
//!      └ pieces for each pair and piece of time: the differences that all constraints allow (solve, fit::Bounds)
//!         └ extent  for each host: earliest and latest, over all paths from the reference; the middle is the estimate
//!            └ repair   moved as little as the lines between the middles require (constraints)
//! ```
//!
//! θ(h) is the time by which host h's clock is ahead. A constraint between a reading x of A and a reading y of B is
//! θ(B) − θ(A) ≤ y − x at the common time of x.
//!
//! 1. The reference is the host whose clock is in the middle of its component: a clock that is far off moves no other.
//! 2. On a piece of time the difference of two clocks is a straight line: a point in the plane of its values at both
//!    ends. Constraints and the limit of the drift (600 ppm) cut off half-planes; the box of the polygon that is left
//!    bounds the values. This is the method of the convex hull \[1\], in the form of \[2\] and \[3\]; \[4\] uses it for
//!    traces of kernels.
//! 3. These bounds are a simple temporal problem \[5\]: shortest paths from and to the reference give each host's
//!    largest and smallest θ. Their middle keeps all differences.
//! 4. Steps 2 and 3 are done four times: each round knows the common times of the constraints and the possible drift
//!    better. The bounds of every round are valid.
//! 5. A line between two middles can still cut a constraint of several hosts. The curves are moved to the nearest ones
//!    that cut none, by Hildreth's method \[6\].
//! 6. If lines contradict constraints (a clock was slewed), there are twice as many pieces, and so on, down to 2 s.
//!
//! The stated uncertainty is half the range between earliest and latest, plus the slack that contradictions require. A
//! clock that would have to drift by more than any clock does is moved by a constant. The controlled logical clock
//! \[7, 8\] goes further: it moves single events until no order is violated, and intervals are no longer measured then.
//!
//! 1. Duda, Harrus, Haddad, Bernard: Estimating global time in distributed systems. ICDCS 1987.
//! 2. Hofmann, Hilgers: Theory and tool for estimating global time in parallel and distributed systems. PDP 1998.
//! 3. Ashton: Algorithms for off-line clock synchronisation. TR COSC 12/95, University of Canterbury, 1995.
//! 4. Poirier, Roy, Dagenais: Accurate offline synchronization of distributed traces using kernel-level events. ACM
//!    SIGOPS Operating Systems Review 44 (3), 2010.
//! 5. Dechter, Meiri, Pearl: Temporal constraint networks. Artificial Intelligence 49, 1991.
//! 6. Hildreth: A quadratic programming procedure. Naval Research Logistics Quarterly 4, 1957.
//! 7. Rabenseifner: The controlled logical clock – a global time for trace based software monitoring of parallel
//!    applications in workstation clusters. PDP 1997.
//! 8. Becker, Rabenseifner, Wolf, Linford: Scalable timestamp synchronization for event traces of message-passing
//!    applications. Parallel Computing 35 (12), 2009.

mod constraints;
mod solve;

pub use crate::hosts::constraints::{Constraint, Correction, Reading, Relation};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alignment {
    pub clocks: Vec<Correction>,
    pub constraints: u64,
    pub violations: u64,
    pub worst_violation_ns: u64,
}

/// Finds the corrections of the hosts' clocks. `spans` has the first and last reading of each host.
///
/// The result depends on the constraints alone, not on their order.
pub fn align(spans: &[(u64, u64)], mut constraints: Vec<Constraint>) -> Alignment {
    let boots = spans.len();
    constraints.retain(|constraint| {
        let (earlier, later) = (constraint.earlier.boot, constraint.later.boot);
        earlier != later && earlier < boots && later < boots
    });
    nccl_events::sort::sort(&mut constraints);
    constraints.dedup();
    let components = components(boots, &constraints);
    let mut clocks = vec![Correction::default(); boots];
    for component in &components.all {
        for (boot, clock) in solve::solve(component, spans, &constraints) {
            if let Some(slot) = clocks.get_mut(boot) {
                *slot = clock;
            }
        }
    }
    components.shift(&mut clocks, &constraints, spans);
    let mut alignment = Alignment { clocks, constraints: constraints.len() as u64, ..Alignment::default() };
    alignment.judge(&constraints);
    alignment
}

impl Alignment {
    pub fn common_ns(&self, reading: Reading) -> u64 {
        let clock = self.clocks.get(reading.boot);
        clock.map_or(reading.ns, |clock| clock.common_ns(reading.ns))
    }

    fn judge(&mut self, constraints: &[Constraint]) {
        for constraint in constraints {
            let earlier = self.common_ns(constraint.earlier);
            let over = earlier.saturating_sub(self.common_ns(constraint.later));
            for boot in [constraint.earlier.boot, constraint.later.boot] {
                if let Some(clock) = self.clocks.get_mut(boot) {
                    clock.constraints += 1;
                    clock.violations += u64::from(over > 0);
                    clock.worst_violation_ns = clock.worst_violation_ns.max(over);
                }
            }
            self.violations += u64::from(over > 0);
            self.worst_violation_ns = self.worst_violation_ns.max(over);
        }
    }
}

// The hosts whose clocks bound each other are the strongly connected components of the constraints.
//
// Inside a component, every clock is known within bounds. Between components, constraints go one way only: one clock is
// not later than the other. Their system clocks are moved only by the constants that this requires.

/// The components, and the component of each host.
#[derive(Debug, Default)]
pub(crate) struct Components {
    /// The hosts of each component, ascending; the largest component first, then by first host.
    pub(crate) all: Vec<Vec<usize>>,
    of: Vec<usize>,
}

pub(crate) fn components(boots: usize, constraints: &[Constraint]) -> Components {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); boots];
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); boots];
    // Sorted by the earlier host, so most duplicates are adjacent.
    for one in constraints {
        let (from, to) = (one.earlier.boot, one.later.boot);
        if let (Some(out), Some(into)) = (out.get_mut(from), into.get_mut(to))
            && out.last() != Some(&to)
        {
            out.push(to);
            into.push(from);
        }
    }
    // Kosaraju's algorithm: depth-first postorder, then backwards along the edges.
    let mut order = Vec::with_capacity(boots);
    let mut seen = vec![false; boots];
    for boot in 0..boots {
        visit(boot, &out, &mut seen, &mut order);
    }
    seen.fill(false);
    let mut all = Vec::new();
    for &boot in order.iter().rev() {
        let mut members = Vec::new();
        visit(boot, &into, &mut seen, &mut members);
        if !members.is_empty() {
            nccl_events::sort::sort(&mut members);
            all.push(members);
        }
    }
    nccl_events::sort::sort_by_key(&mut all, |members| (usize::MAX - members.len(), members.first().copied()));
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

/// Depth-first postorder, without recursion.
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

/// A component's shift is at most the shift of `other` plus `ns`.
#[derive(Clone, Copy, Debug)]
struct Limit {
    component: usize,
    other: usize,
    ns: i64,
}

impl Components {
    /// Shifts components by constants as far as constraints between them require; the largest component stays.
    pub(crate) fn shift(&self, clocks: &mut [Correction], constraints: &[Constraint], spans: &[(u64, u64)]) {
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
        let limit = |one: &Constraint| {
            let (earlier, later) = (one.earlier, one.later);
            let component = *self.of.get(earlier.boot)?;
            let other = *self.of.get(later.boot)?;
            let earlier_ns = clocks.get(earlier.boot)?.common_ns(earlier.ns);
            let later_ns = clocks.get(later.boot)?.common_ns(later.ns);
            let room = i128::from(later_ns) - i128::from(earlier_ns);
            (component != other).then(|| Limit { component, other, ns: i64::try_from(room).unwrap_or(i64::MAX) })
        };
        let mut limits: Vec<Limit> = constraints.iter().filter_map(limit).collect();
        nccl_events::sort::sort_by_key(&mut limits, |limit| (limit.component, limit.other, limit.ns));
        limits.dedup_by_key(|limit| (limit.component, limit.other));
        limits
    }
}

/// The smallest shifts: within the range that the first component leaves each, then adjusted to each other. There are
/// no cycles between components, so a solution exists.
fn shifts(components: usize, limits: &[Limit]) -> Vec<i64> {
    let mut open = vec![i64::MAX; components];
    if let Some(first) = open.first_mut() {
        *first = 0;
    }
    let (mut highest, mut negative) = (open.clone(), open);
    lower(&mut highest, limits);
    // The least shifts are the negated greatest shifts of the mirrored problem.
    let mirrored = limits.iter().map(|limit| Limit { component: limit.other, other: limit.component, ns: limit.ns });
    lower(&mut negative, &mirrored.collect::<Vec<_>>());
    let ranges = negative.iter().zip(&highest);
    let mut shifts: Vec<i64> = ranges.map(|(&negative, &high)| 0.max(negative.saturating_neg()).min(high)).collect();
    lower(&mut shifts, limits);
    shifts
}

/// Lowers values until all limits hold. Chains are no longer than the number of components. `i64::MAX` is no limit.
fn lower(values: &mut [i64], limits: &[Limit]) {
    for _ in 0..=values.len() {
        let mut changed = false;
        for limit in limits {
            let other = values.get(limit.other).copied().unwrap_or(i64::MAX);
            if let Some(value) = values.get_mut(limit.component)
                && other != i64::MAX
                && other.saturating_add(limit.ns) < *value
            {
                *value = other.saturating_add(limit.ns);
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
