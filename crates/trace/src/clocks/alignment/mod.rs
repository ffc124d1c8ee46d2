//! One clock for hosts whose clocks differ: corrections from what cannot be otherwise.
//!
//! ```text
//!  constraints        this moment on host A was not after that one on host B    (matching)
//!    └ components     hosts with traffic both ways, round about too             (components)
//!       └ rough       a constant for each host, to compare times at all         (rough)
//!          └ bounds   for each pair of hosts: the lines that all constraints leave   (bounds)
//!             └ paths for each host: earliest and latest, over all ways from the reference  (paths)
//!                └ repair   the middle, moved as little as its lines ask for    (repair)
//! ```
//!
//! The method, and where it comes from, is `docs/CLOCKS.md`. Nothing here knows NCCL or OTF2.

mod bounds;
mod clock;
mod components;
mod curves;
mod fit;
pub mod matching;
mod pairs;
mod paths;
mod repair;
mod rough;
pub mod rows;
pub mod statement;
mod traffic;

use crate::tables::place::{index, place};

pub use clock::{Correction, Knot, Relation};

/// The most that two hosts' clocks drift against each other: quartzes are good for some 50 ppm each, and NTP slews
/// by up to 500 ppm while it sets a clock right.
const MOST_DRIFT: f64 = 600e-6;

/// A reading of a host's clock: CLOCK_REALTIME as the host's kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// Whose clock: the number of the host's boot.
    pub boot: u32,
    /// What it showed, ns.
    pub ns: u64,
}

/// One moment was not after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    /// What came first.
    pub earlier: Reading,
    /// What cannot have come before it.
    pub later: Reading,
}

/// The clocks of all hosts, brought together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alignment {
    /// By number of the boot.
    pub clocks: Vec<Correction>,
    /// Constraints between hosts.
    pub constraints: u64,
    /// Those that do not hold.
    pub violations: u64,
    /// By how much at most, ns.
    pub worst_violation_ns: u64,
}

/// Finds the corrections of the hosts' clocks. `spans` has the first and last reading of each host.
///
/// The result depends on the constraints alone, not on their order.
#[must_use]
pub fn align(spans: &[(u64, u64)], mut constraints: Vec<Constraint>) -> Alignment {
    let boots = spans.len();
    constraints.retain(|constraint| {
        let (earlier, later) = (index(constraint.earlier.boot), index(constraint.later.boot));
        earlier != later && earlier < boots && later < boots
    });
    constraints.sort_unstable();
    constraints.dedup();
    let components = components::components(boots, &constraints);
    let mut clocks = vec![Correction::default(); boots];
    for component in &components.all {
        for (boot, clock) in fit::fit(component, spans, &constraints) {
            if let Some(slot) = clocks.get_mut(boot) {
                *slot = clock;
            }
        }
    }
    components.shift(&mut clocks, &constraints, spans);
    let mut alignment = Alignment {
        clocks,
        constraints: constraints.len() as u64,
        ..Alignment::default()
    };
    alignment.judge(&constraints);
    alignment
}

impl Alignment {
    /// What a reading is on the common clock.
    #[must_use]
    pub fn common_ns(&self, reading: Reading) -> u64 {
        let clock = self.clocks.get(index(reading.boot));
        clock.map_or(reading.ns, |clock| clock.common_ns(reading.ns))
    }

    /// Counts what does not hold.
    fn judge(&mut self, constraints: &[Constraint]) {
        for constraint in constraints {
            let earlier = self.common_ns(constraint.earlier);
            let over = earlier.saturating_sub(self.common_ns(constraint.later));
            for boot in [constraint.earlier.boot, constraint.later.boot] {
                if let Some(clock) = self.clocks.get_mut(index(boot)) {
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

/// Differences of times as they are computed with: exact up to 104 days.
#[expect(
    clippy::cast_precision_loss,
    reason = "differences of times: exact up to 104 days, and stated uncertainties allow for rounding"
)]
fn approximate(ns: i128) -> f64 {
    ns as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounds to whole ns on purpose; a cast keeps to the limits of the type"
)]
fn whole(ns: f64) -> i64 {
    ns.round() as i64
}

/// The number of a boot.
fn number(boot: usize) -> u32 {
    place(boot)
}

#[cfg(test)]
mod tests;
