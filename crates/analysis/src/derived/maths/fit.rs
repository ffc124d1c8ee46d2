//! Latency and rate by a regression of time on bytes.

use super::sample::real;
use crate::report::Fit;

/// Fewer points always form a line.
const LEAST_POINTS: u64 = 3;
/// A line with a lower r² yields neither a latency nor a rate.
const LEAST_R_SQUARED: f64 = 0.5;

/// A regression with weights 1/t²: relative errors count, so that large messages do not dominate the latency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regression {
    points: u64,
    weight: f64,
    x: f64,
    t: f64,
    /// Weighted sums of products of differences from the means (Welford), because sizes may differ little.
    xx: f64,
    xt: f64,
    tt: f64,
}

impl Regression {
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

    pub fn fit(&self) -> Option<Fit> {
        if self.points == 0 {
            return None;
        }
        if self.xx <= 0.0 {
            return Some(Fit { points: self.points, latency_ns: None, rate: None, r_squared: None });
        }
        let slope = self.xt / self.xx;
        let r_squared = (self.tt > 0.0).then(|| (self.xt * self.xt / (self.xx * self.tt)).min(1.0));
        // Equal times for several sizes also form a line.
        let is_line = self.points >= LEAST_POINTS && r_squared.is_none_or(|it| it >= LEAST_R_SQUARED);
        let latency_ns = self.t - slope * self.x;
        Some(Fit {
            points: self.points,
            latency_ns: (is_line && latency_ns >= 0.0).then_some(latency_ns),
            rate: (is_line && slope > 0.0).then(|| 1e9 / slope),
            r_squared,
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
        assert!((fit.latency_ns.expect("a line") - 5_000.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.rate.expect("a slope") - 2e9).abs() < 1.0, "{fit:?}");
        assert!(fit.r_squared.expect("sizes") > 1.0 - 1e-9, "{fit:?}");
        let mut point = Regression::default();
        point.add(10, 7);
        point.add(10, 7);
        let fit = point.fit().expect("points");
        assert_eq!((fit.latency_ns, fit.rate), (None, None), "one size says nothing of latency");
        let mut steep = Regression::default();
        steep.add(100, 10);
        steep.add(200, 40);
        assert_eq!(steep.fit().expect("points").rate, None, "two points always form a line");
        steep.add(300, 70);
        assert!(steep.fit().is_some_and(|it| it.rate.is_some() && it.latency_ns.is_none()), "no time is negative");
        let mut cloud = Regression::default();
        for at in 0..100_u64 {
            cloud.add(1_000 + at * 7 % 13, 5_000 + at * 977 % 4_001);
        }
        let fit = cloud.fit().expect("points");
        assert!(fit.r_squared.is_some_and(|it| it < 0.1), "{fit:?}");
        assert_eq!((fit.latency_ns, fit.rate), (None, None), "{fit:?}");
    }
}
