//! A monotone map between two integer time scales: straight lines from knot to knot.
//!
//! ```text
//!   y │              ╱ beyond the last knot: the line of `Beyond`
//!     │        ×────×
//!     │   ╱───×     └ knot
//!     │ ╱×          between two knots: their line
//!     └───────────────── x
//! ```
//!
//! All clocks of an archive are such maps: ticks to nanoseconds, GPU times to host time, a host's time to the common
//! one, any of these to Score-P's. Values are computed in integers and never decrease. The creator of a map states the
//! largest error of a value: [`Piecewise::uncertainty`].

pub type Knot = (i128, i128);

/// The line before the first knot and after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// The line through the two knots at this end.
    Nearest,
    /// The line from the first knot to the last: two close knots would give a poor slope.
    Whole,
    Slope(Slope),
}

/// A slope, as a fraction of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slope {
    /// Growth of `y`, 0 or more.
    pub rise: i128,
    /// Growth of `x`, 1 or more.
    pub run: i128,
}

impl Slope {
    const ONE: Self = Self { rise: 1, run: 1 };

    fn between(from: Knot, to: Knot) -> Option<Self> {
        let slope = Self { rise: to.1.checked_sub(from.1)?, run: to.0.checked_sub(from.0)? };
        (slope.run > 0 && slope.rise >= 0).then_some(slope)
    }

    const fn inverse(self) -> Self {
        Self { rise: self.run, run: if self.rise > 0 { self.rise } else { 1 } }
    }

    /// `x × rise ÷ run`, rounded towards 0; exact below 2¹²⁷, then saturating.
    fn times(self, x: i128) -> i128 {
        let (whole, rest) = (x / self.run, x % self.run);
        let rest = rest.saturating_mul(self.rise) / self.run;
        whole.saturating_mul(self.rise).saturating_add(rest)
    }

    /// [`Self::times`], rounded to the nearest integer.
    fn times_nearest(self, x: i128) -> i128 {
        let (whole, rest) = (x.div_euclid(self.run), x.rem_euclid(self.run));
        let rest = rest.saturating_mul(self.rise).saturating_add(self.run / 2) / self.run;
        whole.saturating_mul(self.rise).saturating_add(rest)
    }
}

/// See the [module](self). The default maps every time to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piecewise {
    /// At least one knot; `x` increases, `y` does not decrease.
    knots: Vec<Knot>,
    before: Slope,
    after: Slope,
    /// Largest error of a value; `None` if unbounded.
    pub uncertainty: Option<u64>,
}

impl Default for Piecewise {
    fn default() -> Self {
        Self::offset((0, 0))
    }
}

impl Piecewise {
    /// The map through at least two knots, with `x` increasing and `y` not decreasing; `None` otherwise.
    pub fn new(knots: Vec<Knot>, beyond: Beyond) -> Option<Self> {
        let slope = |pair: &[Knot]| match *pair {
            [from, to] => Slope::between(from, to),
            _ => None,
        };
        let mut slopes = knots.windows(2).map(slope);
        let first = slopes.next()??;
        let last = slopes.try_fold(first, |_, slope| slope)?;
        let (before, after) = match beyond {
            Beyond::Nearest => (first, last),
            Beyond::Whole => {
                let whole = Slope::between(*knots.first()?, *knots.last()?)?;
                (whole, whole)
            }
            Beyond::Slope(slope) => (slope, slope),
        };
        Some(Self { knots, before, after, uncertainty: None })
    }

    pub fn offset(knot: Knot) -> Self {
        Self::through(knot, Slope::ONE)
    }

    pub fn through(knot: Knot, slope: Slope) -> Self {
        Self { knots: vec![knot], before: slope, after: slope, uncertainty: None }
    }

    /// The same map with this uncertainty.
    pub fn within(mut self, uncertainty: u64) -> Self {
        self.uncertainty = Some(uncertainty);
        self
    }

    pub fn knots(&self) -> &[Knot] {
        &self.knots
    }

    /// The value at `x`, rounded down; before the first knot, rounded up.
    pub fn at(&self, x: i128) -> i128 {
        let (from, slope) = self.line(|knot| knot.0 <= x);
        let advance = slope.times(x.saturating_sub(from.0));
        from.1.saturating_add(advance)
    }

    /// The value at `x`, rounded to the nearest.
    pub fn nearest(&self, x: i128) -> i128 {
        let (from, slope) = self.line(|knot| knot.0 <= x);
        let advance = slope.times_nearest(x.saturating_sub(from.0));
        from.1.saturating_add(advance)
    }

    /// The `x` at which the value is `y`, rounded to the nearest.
    pub fn inverse(&self, y: i128) -> i128 {
        let (from, slope) = self.line(|knot| knot.1 <= y);
        let advance = slope.inverse().times_nearest(y.saturating_sub(from.1));
        from.0.saturating_add(advance)
    }

    /// The two knots around `x`; `None` before the first and after the last.
    pub fn around(&self, x: i128) -> Option<(Knot, Knot)> {
        let after = self.knots.partition_point(|knot| knot.0 <= x);
        let from = self.knots.get(after.checked_sub(1)?)?;
        Some((*from, *self.knots.get(after)?))
    }

    pub fn shift(&mut self, by: i128) {
        for knot in &mut self.knots {
            knot.1 = knot.1.saturating_add(by);
        }
    }

    /// A knot and the slope of the line after it: the last knot for which `is_before` holds.
    fn line(&self, is_before: impl Fn(&Knot) -> bool) -> (Knot, Slope) {
        let after = self.knots.partition_point(is_before);
        let from = self.knots.get(after.saturating_sub(1)).copied();
        let from = from.unwrap_or_default();
        let slope = match (after, self.knots.get(after)) {
            (0, _) => self.before,
            (_, None) => self.after,
            (_, Some(to)) => Slope::between(from, *to).unwrap_or(Slope::ONE),
        };
        (from, slope)
    }
}

/// Keeps the points that exceed the last kept point in both coordinates, so that they can be knots of one map.
pub fn advancing(points: impl Iterator<Item = Knot>) -> Vec<Knot> {
    let mut knots: Vec<Knot> = Vec::with_capacity(points.size_hint().0);
    for point in points {
        let advances = |last: &Knot| last.0 < point.0 && last.1 < point.1;
        if knots.last().is_none_or(advances) {
            knots.push(point);
        }
    }
    knots
}

/// Clamps a value to the range of times in an archive.
pub fn unsigned(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_between_and_beyond_the_knots() {
        let map = |beyond| Piecewise::new(vec![(1000, 500), (2000, 1000), (4000, 2300)], beyond).expect("a map");
        let steep = Slope { rise: 3, run: 1 };
        for (beyond, first, last) in
            [(Beyond::Nearest, 450, 2950), (Beyond::Whole, 440, 2900), (Beyond::Slope(steep), 200, 5300)]
        {
            let values = [900, 1000, 1500, 2000, 3000, 4000, 5000].map(|x| map(beyond).at(x));
            assert_eq!(values, [first, 500, 750, 1000, 1650, 2300, last], "{beyond:?}");
            assert_eq!(map(beyond).inverse(1650), 3000);
        }
        let map = map(Beyond::Nearest);
        assert_eq!((map.at(1001), map.nearest(1001)), (500, 501));
        assert_eq!((map.at(-3), map.nearest(-3)), (-1, -1));
        assert_eq!((map.at(-1), map.nearest(-1)), (0, 0));
        assert_eq!(Piecewise::default().at(17), 17);
        assert_eq!(Piecewise::offset((1000, 10)).at(5), -985);
    }

    #[test]
    fn what_does_not_increase_is_no_map() {
        for knots in [vec![(1, 1)], vec![(1, 1), (1, 2)], vec![(1, 2), (2, 1)]] {
            assert_eq!(Piecewise::new(knots, Beyond::Nearest), None);
        }
        let points = [(1, 1), (1, 2), (3, 3), (4, 3), (5, 9)];
        assert_eq!(advancing(points.into_iter()), [(1, 1), (3, 3), (5, 9)]);
    }

    proptest! {
        /// For any knots, however far apart: later times never come earlier, knots are met, and the inverse leads to a
        /// point with the same value.
        #[test]
        fn times_never_go_backwards(
            mut points in prop::collection::vec((0..1_u64 << 63, 0..1_u64 << 63), 2..20),
            beyond in prop::sample::select(vec![Beyond::Nearest, Beyond::Whole]),
            mut times in prop::collection::vec(any::<u64>(), 2..50),
        ) {
            points.sort_unstable();
            let knots = advancing(points.iter().map(|&(x, y)| (x.into(), y.into())));
            prop_assume!(knots.len() > 1);
            let map = Piecewise::new(knots.clone(), beyond).expect("they advance");
            for (x, y) in knots {
                prop_assert_eq!((map.at(x), map.nearest(x), map.inverse(y)), (y, y, x));
            }
            times.sort_unstable();
            let values: Vec<i128> = times.iter().map(|&x| map.at(x.into())).collect();
            prop_assert!(values.is_sorted(), "{:?}", values);
            for (&x, &y) in times.iter().zip(&values) {
                prop_assert!(map.nearest(x.into()).abs_diff(y) <= 1);
            }
        }
    }
}
