//! Quantiles and deviations of samples.

use crate::report::Quantiles;
pub(in crate::derived) use crate::units::{real, whole};

/// A quantile of sorted values, by linear interpolation between the nearest two.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in memory")]
pub(in crate::derived) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = real(last as u64) * q;
    let below = place.floor() as usize;
    let (a, b) = (sorted[below], sorted[(below + 1).min(last)]);
    a + (b - a) * (place - place.floor())
}

pub(in crate::derived) fn quantiles(mut values: Vec<f64>) -> Option<Quantiles> {
    values.sort_unstable_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    Some(Quantiles {
        count: values.len() as u64,
        min,
        median: quantile(&values, 0.5),
        p95: quantile(&values, 0.95),
        p99: quantile(&values, 0.99),
        max,
        total: values.iter().sum(),
    })
}

/// The median; 0 for an empty slice.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    quantile(values, 0.5)
}

/// The median, and the standard deviation of normal noise with the same median absolute deviation.
pub(in crate::derived) fn center(values: &[f64]) -> (f64, f64) {
    let center = median(&mut values.to_vec());
    let mut deviations: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    (center, 1.4826 * median(&mut deviations))
}
