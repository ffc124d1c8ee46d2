//! Detects how a value develops over time: a single change, and a slope.

use super::sample::{center, median, real};
use crate::report::Change;

/// Maximum number of pieces of a series. Pieces have equally many points; each is represented by its median.
const PIECES: usize = 40;
/// A piece with fewer points has no usable median.
const LEAST_POINTS: usize = 5;
/// Minimum number of pieces on each side of a change.
const LEAST_PIECES: usize = 3;
/// A change exceeds noise by this factor. The largest of 40 candidates exceeds 4.5 once in a thousand series.
const SIGNIFICANT: f64 = 7.0;

struct Piece {
    start_ns: u64,
    middle_ns: f64,
    median: f64,
}

fn pieces(points: &[(u64, f64)]) -> Vec<Piece> {
    let number = (points.len() / LEAST_POINTS).min(PIECES);
    if number == 0 {
        return Vec::new();
    }
    let pieces = points.chunks(points.len().div_ceil(number));
    let piece = |points: &[(u64, f64)]| {
        let mut values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        let (first, last) = (points.first()?.0, points.last()?.0);
        Some(Piece { start_ns: first, middle_ns: real(first).midpoint(real(last)), median: median(&mut values) })
    };
    pieces.filter_map(piece).collect()
}

/// The point where a value changed once by more than noise explains; the points are in time order.
pub(in crate::derived) fn change(points: &[(u64, f64)]) -> Option<Change> {
    let pieces = pieces(points);
    let count = pieces.len();
    let mean = |pieces: &[Piece]| pieces.iter().map(|it| it.median).sum::<f64>() / real(pieces.len() as u64);
    let scores = (LEAST_PIECES..=count.checked_sub(LEAST_PIECES)?).map(|at| {
        let (left, right) = pieces.split_at(at);
        let weight = real((left.len() * right.len()) as u64) / real(count as u64);
        ((mean(left) - mean(right)).abs() * weight.sqrt(), at)
    });
    let (score, at) = scores.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (left, right) = pieces.split_at(at);
    let medians = |pieces: &[Piece]| pieces.iter().map(|it| it.median).collect::<Vec<f64>>();
    let (before, noise_before) = center(&medians(left));
    let (after, noise_after) = center(&medians(right));
    let noise = noise_before.max(noise_after).max(1e-6 * before.abs().max(after.abs()));
    (score > SIGNIFICANT * noise && score > 0.0).then(|| {
        let at_ns = refine(points, right.first().map_or(0, |it| it.start_ns), count, (before, after));
        Change { at_ns, before, after }
    })
}

/// The point at which values become closer to `after` than to `before`.
fn refine(points: &[(u64, f64)], at_ns: u64, pieces: usize, (before, after): (f64, f64)) -> u64 {
    let at = points.partition_point(|(time, _)| *time < at_ns);
    let reach = points.len().div_ceil(pieces);
    let near = &points[at.saturating_sub(reach)..(at + reach).min(points.len())];
    // How much better each point fits `before` than `after`; the sum is largest at the change.
    let gain = near.iter().map(|(_, value)| (value - after).abs() - (value - before).abs());
    let sums = gain.scan(0.0, |sum, gain| {
        *sum += gain;
        Some(*sum)
    });
    let best = sums.enumerate().filter(|(_, sum)| *sum > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    near.get(best.map_or(0, |(at, _)| at + 1)).or(near.last()).map_or(at_ns, |(time, _)| *time)
}

/// The median of the slopes between pieces (Theil and Sen), per second; `None` with too few points.
pub(in crate::derived) fn trend(points: &[(u64, f64)]) -> Option<f64> {
    let pieces = pieces(points);
    if pieces.len() < 2 * LEAST_PIECES {
        return None;
    }
    let mut slopes = Vec::new();
    for (at, a) in pieces.iter().enumerate() {
        let later = pieces[at + 1..].iter().filter(|b| b.middle_ns > a.middle_ns);
        slopes.extend(later.map(|b| (b.median - a.median) / (b.middle_ns - a.middle_ns) * 1e9));
    }
    (!slopes.is_empty()).then(|| median(&mut slopes))
}

/// [`trend`], if chance alone makes such an order of the pieces in fewer than 1 of 100 series (Mann and Kendall).
pub(in crate::derived) fn certain_trend(points: &[(u64, f64)]) -> Option<f64> {
    const DEVIATIONS: f64 = 2.58;
    let pieces = pieces(points);
    let count = real(pieces.len() as u64);
    let pairs = pieces.iter().enumerate().flat_map(|(at, a)| pieces[at + 1..].iter().map(move |b| b.median - a.median));
    let order: f64 = pairs.filter(|rise| *rise != 0.0).map(f64::signum).sum();
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    trend(points).filter(|_| order.abs() > DEVIATIONS * deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(at: u64) -> f64 {
        // Weyl's sequence is evenly distributed on 0 … 1.
        (real(at) * 0.618_033_988_75).fract()
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        let points: Vec<(u64, f64)> =
            (0..500).map(|at| (at * 10, noise(at) + if at < 203 { 0.0 } else { 2.0 })).collect();
        let found = change(&points).expect("a change");
        assert!((2000..=2060).contains(&found.at_ns), "{found:?}");
        assert!((found.after - found.before - 2.0).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn noise_is_no_change() {
        let points: Vec<(u64, f64)> = (0..500).map(|at| (at * 10, noise(at))).collect();
        assert_eq!(change(&points), None);
        assert!(trend(&points).expect("a slope").abs() < 1e5);
        let rising: Vec<(u64, f64)> = (0..500).map(|at| (at * 1_000_000_000, noise(at) + real(at) * 3.0)).collect();
        assert!((trend(&rising).expect("a slope") - 3.0).abs() < 0.05);
        assert_eq!((certain_trend(&points), certain_trend(&rising)), (None, trend(&rising)));
    }
}
