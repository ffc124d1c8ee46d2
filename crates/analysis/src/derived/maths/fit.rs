//! Latency and rate by regression of time on bytes.

use super::sample::real;
use crate::report::Fit;

/// A regression with weights 1/t²: all steps count alike, by how far off they are in proportion. Without weights large
/// messages decide the latency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regression {
    points: u64,
    weight: f64,
    /// Weighted means.
    x: f64,
    t: f64,
    /// Weighted sums of products of differences from the means (Welford): sizes may differ little.
    xx: f64,
    xt: f64,
    tt: f64,
}

impl Regression {
    /// Adds a step of `bytes` that took `ns`.
    pub fn add(&mut self, bytes: u64, ns: u64) {
        let (x, t) = (real(bytes), real(ns.max(1)));
        let weight = 1.0 / (t * t);
        self.points += 1;
        self.weight += weight;
        let (from_x, from_t) = (x - self.x, t - self.t);
        self.x += from_x * weight / self.weight;
        self.t += from_t * weight / self.weight;
        self.xx += weight * from_x * (x - self.x);
        self.xt += weight * from_x * (t - self.t);
        self.tt += weight * from_t * (t - self.t);
    }

    /// The line; none of no points.
    #[must_use]
    pub fn fit(&self) -> Option<Fit> {
        if self.points == 0 {
            return None;
        }
        if self.xx <= 0.0 {
            return Some(Fit { points: self.points, latency_ns: self.t, rate: None, r_squared: None });
        }
        let slope = self.xt / self.xx;
        Some(Fit {
            points: self.points,
            latency_ns: self.t - slope * self.x,
            rate: (slope > 0.0).then(|| 1e9 / slope),
            r_squared: (self.tt > 0.0).then(|| (self.xt * self.xt / (self.xx * self.tt)).min(1.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found() {
        let mut line = Regression::default();
        for bytes in [0_u64, 1_000, 64_000, 1_000_000] {
            line.add(bytes, 5_000 + bytes / 2);
        }
        let fit = line.fit().expect("points");
        assert!((fit.latency_ns - 5_000.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.rate.expect("a slope") - 2e9).abs() < 1.0, "{fit:?}");
        assert!(fit.r_squared.expect("sizes") > 1.0 - 1e-9, "{fit:?}");
        let mut point = Regression::default();
        point.add(10, 7);
        point.add(10, 7);
        assert_eq!(point.fit().expect("points").rate, None);
    }
}
