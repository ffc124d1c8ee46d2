//! The correction of one host's clock, and how well it is known.

use crate::piecewise::{Beyond, Knot, Piecewise, unsigned};

/// What a host's clock is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relation {
    /// Nothing says how it relates to others both ways: the system clock is used, moved by a constant where
    /// traffic one way asks for it.
    #[default]
    System,
    Reference,
    /// It is known within bounds.
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
    /// The boot whose clock it is put on: its own where it is believed.
    pub reference: usize,
    /// From readings, CLOCK_REALTIME ns of the host, to the common clock; with one knot the clock stays as it is. The
    /// uncertainty bounds how far the corrected clock can be from the reference's.
    pub map: Piecewise,
    /// Mean drift that is corrected, in 10⁻⁹.
    pub drift_ppb: i64,
    pub constraints: u64,
    pub violations: u64,
    pub worst_violation_ns: u64,
}

impl Correction {
    pub fn common_ns(&self, ns: u64) -> u64 {
        unsigned(self.map.nearest(ns.into()))
    }

    /// Readings and what to add to them, linear in between; none: the clock stays as it is.
    pub fn knots(&self) -> impl Iterator<Item = (u64, i64)> {
        let knots = match self.map.knots() {
            [_] => &[],
            knots => knots,
        };
        knots.iter().map(|&knot| (unsigned(knot.0), added(knot)))
    }

    /// What is added at the first knot: what is stated.
    pub fn first_ns(&self) -> i64 {
        self.knots().next().map_or(0, |(_, added)| added)
    }

    /// Moves the clock by a constant. `span`: its first and last reading.
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
