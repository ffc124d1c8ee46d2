//! Bandwidths by size.

use std::collections::BTreeMap;

use analysis::units::real;

/// How far outside of the measured sizes the nearest one stands for a size.
const OUTSIDE: u64 = 2;

/// The best bandwidth that was measured for each size.
#[derive(Debug)]
pub(crate) struct Curve(BTreeMap<u64, f64>);

impl Curve {
    pub(crate) fn of(measured: impl Iterator<Item = (u64, f64)>) -> Self {
        let mut best = BTreeMap::new();
        for (bytes, rate) in measured.filter(|(bytes, rate)| *bytes > 0 && rate.is_finite() && *rate > 0.0) {
            let known = best.entry(bytes).or_insert(rate);
            *known = rate.max(*known);
        }
        Self(best)
    }

    /// The bandwidth at a size: a straight line between the two nearest sizes, of the logarithms of both.
    pub(crate) fn at(&self, bytes: u64) -> Option<f64> {
        let below = self.0.range(..=bytes).next_back();
        let above = self.0.range(bytes..).next();
        match (below, above) {
            (Some((least, low)), Some((most, high))) if least < most => {
                let place = (real(bytes) / real(*least)).ln() / (real(*most) / real(*least)).ln();
                Some(low * (high / low).powf(place))
            }
            (Some((nearest, rate)), None) => (bytes <= nearest.saturating_mul(OUTSIDE)).then_some(*rate),
            (None, Some((nearest, rate))) => (bytes.saturating_mul(OUTSIDE) >= *nearest).then_some(*rate),
            (Some((_, rate)), Some(_)) => Some(*rate),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Curve;

    #[test]
    fn sizes_between_have_a_value_between_and_those_far_outside_none() {
        let curve = Curve::of([(1024, 1.0), (1024, 2.0), (4096, 8.0)].into_iter());
        assert_eq!(
            [511, 512, 1024, 4096, 8192, 8193].map(|at| curve.at(at)),
            [None, Some(2.0), Some(2.0), Some(8.0), Some(8.0), None]
        );
        assert!((curve.at(2048).expect("between") - 4.0).abs() < 1e-9);
        assert_eq!(Curve::of(std::iter::empty()).at(1), None);
    }
}
