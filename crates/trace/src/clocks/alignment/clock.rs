//! The correction of one host's clock, as OTF2's readers apply it.

/// What a host's clock is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relation {
    /// Nothing says how it relates to others both ways: the system's clock is believed, moved by a constant where
    /// traffic one way asks for it.
    #[default]
    Believed,
    /// Others are compared with it.
    Reference,
    /// It is known within bounds.
    Bounded,
}

impl Relation {
    /// Its name in statements.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Believed => "believed",
            Self::Reference => "reference",
            Self::Bounded => "bounded",
        }
    }
}

/// A correction at one reading; between two it is linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knot {
    /// The reading, CLOCK_REALTIME ns of the host.
    pub ns: u64,
    /// What to add to it.
    pub correction_ns: i64,
}

/// How the clock of one host is corrected, and how well it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correction {
    /// What it is compared with.
    pub relation: Relation,
    /// The boot whose clock it is put on: its own where it is believed.
    pub reference: u32,
    /// The corrections, by reading; none: the clock stays as it is.
    pub knots: Vec<Knot>,
    /// Mean drift that is corrected, in 10⁻⁹.
    pub drift_ppb: i64,
    /// How far off the corrected clock can be from the reference's; `None` where nothing bounds it.
    pub uncertainty_ns: Option<u64>,
    /// Constraints that it is part of.
    pub constraints: u64,
    /// Those of them that do not hold.
    pub violations: u64,
    /// By how much at most.
    pub worst_violation_ns: u64,
}

impl Correction {
    /// What to add to a reading. The same arithmetic as that of OTF2's readers.
    #[must_use]
    pub fn correction_ns(&self, ns: u64) -> i64 {
        let (Some(first), Some(last)) = (self.knots.first(), self.knots.last()) else {
            return 0;
        };
        let after = self.knots.partition_point(|knot| knot.ns < ns);
        let pair = match after {
            0 => self.knots.get(..2),
            _ => self.knots.get(after - 1..=after),
        };
        let pair = pair.or_else(|| self.knots.get(self.knots.len().checked_sub(2)?..));
        let Some([from, to]) = pair else {
            return if ns < first.ns {
                first.correction_ns
            } else {
                last.correction_ns
            };
        };
        let run = super::approximate(i128::from(to.ns) - i128::from(from.ns));
        let rise = i128::from(to.correction_ns) - i128::from(from.correction_ns);
        let slope = super::approximate(rise) / run;
        let along = super::approximate(i128::from(ns) - i128::from(from.ns));
        from.correction_ns
            .saturating_add(super::whole((slope * along).round_ties_even()))
    }

    /// What a reading is on the common clock.
    #[must_use]
    pub fn common_ns(&self, ns: u64) -> u64 {
        ns.saturating_add_signed(self.correction_ns(ns))
    }

    /// The correction at the first knot: what is stated.
    #[must_use]
    pub fn first_ns(&self) -> i64 {
        self.knots.first().map_or(0, |knot| knot.correction_ns)
    }

    /// Moves the clock by a constant.
    pub(super) fn shift(&mut self, by_ns: i64, span: (u64, u64)) {
        if by_ns == 0 || span.0 > span.1 {
            return;
        }
        if self.knots.is_empty() {
            self.knots = [span.0, span.1.saturating_add(1)]
                .map(|ns| Knot {
                    ns,
                    correction_ns: 0,
                })
                .into();
        }
        for knot in &mut self.knots {
            knot.correction_ns = knot.correction_ns.saturating_add(by_ns);
        }
    }
}
