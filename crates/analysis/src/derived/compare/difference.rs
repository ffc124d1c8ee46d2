//! The difference between a quantile of two runs, with a confidence interval.
//!
//! Collectives of one run are not independent: a congested minute slows all of them. So each run is cut into sections
//! in time order. The spread of the share of values below the quantile, over the sections, bounds the true quantile
//! between two sample quantiles (Woodruff's interval), for any distribution, even one with two peaks. The intervals of
//! two runs are combined into that of the difference (Zou and Donner's MOVER).

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::derived::maths::sample::{quantile, real};
use crate::report::{Difference, Outcome};

pub(super) const LEAST: usize = 50;

/// A difference whose interval can be computed only once the number of all intervals is known.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    a: Side,
    b: Side,
    error_ns: Option<u64>,
}

#[derive(Clone, Debug)]
struct Side {
    sorted: Vec<f64>,
    q: f64,
    value: f64,
    /// Standard error of the share of values below `value`.
    deviation: f64,
    freedom: f64,
}

impl Side {
    /// `values` are in time order.
    fn of(values: &[f64], q: f64) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let value = quantile(&sorted, q);
        let share = |part: &[f64]| {
            let below = part.iter().filter(|it| **it <= value).count();
            real(below as u64) / real(part.len().max(1) as u64)
        };
        let (length, sections) = (values.len(), (values.len() / 20).clamp(10, 30));
        let parts = (0..sections).map(|at| &values[at * length / sections..(at + 1) * length / sections]);
        let all = share(values);
        let squares: f64 = parts.map(|part| (share(part) - all).powi(2)).sum();
        let sections = real(sections as u64);
        Self { sorted, q, value, deviation: (squares / (sections * (sections - 1.0))).sqrt(), freedom: sections - 1.0 }
    }

    /// The interval that misses the true value with probability `miss`; `None` if it would exceed the sample.
    fn interval(&self, miss: f64) -> Option<[f64; 2]> {
        let t = StudentsT::new(0.0, 1.0, self.freedom).ok()?.inverse_cdf(1.0 - miss / 2.0);
        let half = if self.deviation > 0.0 { t * self.deviation } else { 0.0 };
        let is_inside = self.sorted.len() >= LEAST && self.q - half > 0.0 && self.q + half < 1.0;
        is_inside.then(|| [self.q - half, self.q + half].map(|q| quantile(&self.sorted, q)))
    }
}

impl Estimate {
    /// Both samples are in time order.
    pub(super) fn of(a: &[f64], b: &[f64], q: f64, error_ns: Option<u64>) -> Option<Self> {
        (!a.is_empty() && !b.is_empty()).then(|| Self { a: Side::of(a, q), b: Side::of(b, q), error_ns })
    }

    pub(super) fn is_exact(&self) -> bool {
        self.a.sorted.len().min(self.b.sorted.len()) >= LEAST
    }

    /// The difference with the interval that misses the true value with probability `miss`.
    pub(super) fn difference(&self, miss: f64) -> Difference {
        let (a, b) = (self.a.value, self.b.value);
        let difference_ns = b - a;
        let interval_ns = self.a.interval(miss).zip(self.b.interval(miss)).map(|([a_low, a_high], [b_low, b_high])| {
            // No operation takes less than no time.
            let low = difference_ns - (b - b_low).hypot(a_high - a);
            [low.max(-a), difference_ns + (b_high - b).hypot(a - a_low)]
        });
        let outcome = match (interval_ns, self.error_ns.map(real)) {
            (Some([low, _]), Some(error)) if low > error => Outcome::Slower,
            (Some([_, high]), Some(error)) if high < -error => Outcome::Faster,
            (Some(_), Some(_)) => Outcome::NoDifference,
            _ => Outcome::Unclear,
        };
        let of_a = |ns: f64| (a > 0.0).then(|| ns / a);
        let bounds = interval_ns.zip(self.error_ns.map(real));
        Difference {
            a_ns: a,
            b_ns: b,
            difference_ns,
            share: of_a(difference_ns),
            interval_ns,
            error_ns: self.error_ns,
            resolution: bounds.and_then(|([low, high], error)| of_a((high - low) / 2.0 + error)),
            slower_at_most: bounds.and_then(|([_, high], error)| of_a(high + error)),
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nearly half of A's values are a thousand times the others, so its median may be at either level.
    #[test]
    fn no_run_is_faster_by_more_than_all_of_its_time() {
        let a: Vec<f64> = (0..200_u32).map(|at| if at * 7 % 20 < 9 { 10_000.0 } else { 10.0 }).collect();
        let uneven: Vec<f64> = a.iter().enumerate().map(|(at, it)| if at % 40 < 6 { 10_000.0 } else { *it }).collect();
        let found = Estimate::of(&uneven, &[10.0; 200], 0.5, Some(0)).expect("values").difference(0.05);
        let [low_ns, _] = found.interval_ns.expect("an interval");
        assert!(low_ns < 0.0 && low_ns >= -found.a_ns, "{found:?}");
    }
}
