//! Finds one clock for hosts whose clocks differ, from constraints: a moment on one host was not after a moment on
//! another.
//!
//! ```text
//!  components   hosts with constraints both ways, even indirectly: each component is solved separately
//!   └ rough     a constant for each host, which makes times comparable
//!      └ pieces for each pair and piece of time: the differences that all constraints allow (fit::Bounds)
//!         └ paths   for each host: earliest and latest, over all paths from the reference; the middle is the estimate
//!            └ repair   moved as little as the lines between the middles require
//! ```
//!
//! The stated uncertainty is half the range between earliest and latest, plus the slack that contradictions require.
//! `docs/CLOCKS.md` explains the method and names its sources.

mod components;
mod constraint;
mod correction;
mod paths;
mod pieces;
mod repair;
mod rough;
mod solve;

pub use constraint::{Constraint, Reading};
pub use correction::{Correction, Relation};

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
    small_sort::sort(&mut constraints);
    constraints.dedup();
    let components = components::components(boots, &constraints);
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

#[cfg(test)]
mod tests;
