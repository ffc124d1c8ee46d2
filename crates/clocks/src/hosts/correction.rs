//! The correction of one host's clock, and its uncertainty.

use crate::piecewise::{Beyond, Knot, Piecewise, unsigned};

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
