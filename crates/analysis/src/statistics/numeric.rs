//! Numeric methods: unions of time intervals, changes and trends of a value over time, latency and rate by a regression
//! of time on bytes, quantiles and deviations of samples.

use crate::read::{Column as _, NarrowColumn};
use crate::results::{Change, Fit, Quantiles};

pub(crate) use crate::units::real;

pub fn union(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    intervals.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, stop) in intervals {
        match joined.last_mut() {
            Some((_, end)) if start <= *end => *end = (*end).max(stop),
            _ => joined.push((start, stop)),
        }
    }
    joined
}

pub fn length(intervals: &[(u64, u64)]) -> u64 {
    intervals.iter().map(|(start, stop)| stop.saturating_sub(*start)).sum()
}

/// Disjoint sorted intervals, with queries for how much of a range they cover.
#[derive(Clone, Debug, Default)]
pub(crate) struct DisjointIntervals {
    starts_ns: Vec<u64>,
    lengths_ns: NarrowColumn,
    /// The total length of the intervals before each block of [`BLOCK`] intervals.
    before_ns: Vec<u64>,
}

/// A sum is stored for every 16 intervals, to save memory: adding up fewer takes less time than finding the place.
const BLOCK: usize = 16;

impl DisjointIntervals {
    pub(crate) fn new(intervals: &[(u64, u64)]) -> Self {
        let mut found = Self { starts_ns: intervals.iter().map(|(start, _)| *start).collect(), ..Self::default() };
        found.lengths_ns.reserve(intervals.len());
        let mut sum_ns = 0;
        for (at, (start, stop)) in intervals.iter().enumerate() {
            if at % BLOCK == 0 {
                found.before_ns.push(sum_ns);
            }
            sum_ns += stop - start;
            found.lengths_ns.push(stop - start);
        }
        found
    }

    pub(crate) fn at(&self, at: usize) -> (u64, u64) {
        (self.starts_ns[at], self.starts_ns[at] + self.lengths_ns.get(at))
    }

    fn until(&self, until_ns: u64) -> u64 {
        let Some(last) = self.starts_ns.partition_point(|start| *start < until_ns).checked_sub(1) else {
            return 0;
        };
        let (start, stop) = self.at(last);
        let block_sum: u64 = (last / BLOCK * BLOCK..last).map(|at| self.lengths_ns.get(at)).sum();
        self.before_ns[last / BLOCK] + block_sum + until_ns.min(stop) - start
    }

    pub(crate) fn covered_ns(&self, from_ns: u64, until_ns: u64) -> u64 {
        self.until(until_ns) - self.until(from_ns)
    }
}

/// Total overlap of two lists of disjoint sorted intervals.
pub(crate) fn overlap(a: &[(u64, u64)], b: &[(u64, u64)]) -> u64 {
    let (mut at, mut other, mut sum) = (0, 0, 0);
    while let (Some(first), Some(second)) = (a.get(at), b.get(other)) {
        sum += first.1.min(second.1).saturating_sub(first.0.max(second.0));
        if first.1 < second.1 {
            at += 1;
        } else {
            other += 1;
        }
    }
    sum
}

/// The parts of `a` that `b` does not cover; the intervals of each are disjoint and sorted.
pub(crate) fn subtract(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut first = 0;
    for (start, stop) in a {
        first += b[first..].partition_point(|(_, end)| end <= start);
        let mut from = *start;
        for (begin, end) in b[first..].iter().take_while(|(begin, _)| begin < stop) {
            if *begin > from {
                left.push((from, *begin));
            }
            from = *end;
        }
        if from < *stop {
            left.push((from, *stop));
        }
    }
    left
}

/// Maximum number of pieces of a series. Pieces have equally many points; each is represented by its median.
const PIECES: usize = 40;
/// A piece with fewer points has no usable median.
const LEAST_PIECE_POINTS: usize = 5;
/// Minimum number of pieces on each side of a change.
const LEAST_PIECES: usize = 3;
/// A change exceeds noise by this factor. In one of a thousand series, noise alone gets above 4.5.
const SIGNIFICANT: f64 = 7.0;

struct Piece {
    start_ns: u64,
    middle_ns: f64,
    median: f64,
}

fn pieces(points: &[(u64, f64)]) -> Vec<Piece> {
    let number = (points.len() / LEAST_PIECE_POINTS).min(PIECES);
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
pub(crate) fn change(points: &[(u64, f64)]) -> Option<Change> {
    let pieces = pieces(points);
    let count = pieces.len();
    let mean = |pieces: &[Piece]| pieces.iter().map(|piece| piece.median).sum::<f64>() / real(pieces.len() as u64);
    let scores = (LEAST_PIECES..=count.checked_sub(LEAST_PIECES)?).map(|at| {
        let (left, right) = pieces.split_at(at);
        let weight = real((left.len() * right.len()) as u64) / real(count as u64);
        ((mean(left) - mean(right)).abs() * weight.sqrt(), at)
    });
    let (score, at) = scores.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (left, right) = pieces.split_at(at);
    let medians = |pieces: &[Piece]| pieces.iter().map(|piece| piece.median).collect::<Vec<f64>>();
    let (before, noise_before) = center(&medians(left));
    let (after, noise_after) = center(&medians(right));
    let noise = noise_before.max(noise_after).max(1e-6 * before.abs().max(after.abs()));
    (score > SIGNIFICANT * noise && score > 0.0).then(|| {
        let at_ns = refine(points, right.first().map_or(0, |piece| piece.start_ns), count, (before, after));
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
pub(crate) fn trend(points: &[(u64, f64)]) -> Option<f64> {
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
pub(crate) fn certain_trend(points: &[(u64, f64)]) -> Option<f64> {
    const DEVIATIONS: f64 = 2.58;
    let pieces = pieces(points);
    let count = real(pieces.len() as u64);
    let pairs = pieces.iter().enumerate().flat_map(|(at, a)| pieces[at + 1..].iter().map(move |b| b.median - a.median));
    let order: f64 = pairs.filter(|rise| *rise != 0.0).map(f64::signum).sum();
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    trend(points).filter(|_| order.abs() > DEVIATIONS * deviation)
}

/// Fewer points lie on a line, whatever their times are.
const LEAST_LINE_POINTS: u64 = 3;
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
        // Where all times are equal, r² is not defined, and the points are on a line.
        let is_line = self.points >= LEAST_LINE_POINTS && r_squared.is_none_or(|value| value >= LEAST_R_SQUARED);
        let latency_ns = self.t - slope * self.x;
        Some(Fit {
            points: self.points,
            latency_ns: (is_line && latency_ns >= 0.0).then_some(latency_ns),
            rate: (is_line && slope > 0.0).then(|| 1e9 / slope),
            r_squared,
        })
    }
}

/// A quantile of sorted values, by linear interpolation between the nearest two.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in memory")]
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = real(last as u64) * q;
    let below = place.floor() as usize;
    let (a, b) = (sorted[below], sorted[(below + 1).min(last)]);
    a + (b - a) * (place - place.floor())
}

pub(crate) fn quantiles(mut values: Vec<f64>) -> Option<Quantiles> {
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
pub(crate) fn center(values: &[f64]) -> (f64, f64) {
    let center = median(&mut values.to_vec());
    let mut deviations: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    (center, 1.4826 * median(&mut deviations))
}

#[cfg(test)]
mod tests {
    mod union {
        use crate::statistics::numeric::*;

        #[test]
        fn what_is_covered_within_a_time() {
            let covered = DisjointIntervals::new(&[(2, 4), (4, 5), (10, 20)]);
            let found = [(0, 30), (3, 12), (5, 10), (12, 15), (25, 30)].map(|(from, to)| covered.covered_ns(from, to));
            assert_eq!(found, [13, 4, 0, 3, 0]);
            let many = DisjointIntervals::new(
                &(0..100).map(|at| (10 * at, 10 * at + 1 + at % 2)).collect::<Vec<(u64, u64)>>(),
            );
            assert_eq!([many.covered_ns(5, 505), many.covered_ns(170, 171), many.covered_ns(0, 2_000)], [75, 1, 150]);
        }

        #[test]
        fn time_counts_once() {
            let a = union(vec![(5, 9), (0, 3), (2, 4), (9, 10)]);
            assert_eq!(a, [(0, 4), (5, 10)]);
            assert_eq!(length(&a), 9);
            assert_eq!(overlap(&a, &[(3, 6), (8, 20)]), 1 + 1 + 2);
            assert_eq!(subtract(&a, &[(3, 6), (8, 9)]), [(0, 3), (6, 8), (9, 10)]);
            assert_eq!(subtract(&[(0, 9), (10, 12), (20, 30)], &[(1, 2), (8, 25)]), [(0, 1), (2, 8), (25, 30)]);
        }
    }

    mod change {
        use crate::statistics::numeric::*;

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

    mod fit {
        use crate::statistics::numeric::*;

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
            assert!(
                steep.fit().is_some_and(|fit| fit.rate.is_some() && fit.latency_ns.is_none()),
                "no time is negative"
            );
            let mut cloud = Regression::default();
            for at in 0..100_u64 {
                cloud.add(1_000 + at * 7 % 13, 5_000 + at * 977 % 4_001);
            }
            let fit = cloud.fit().expect("points");
            assert!(fit.r_squared.is_some_and(|value| value < 0.1), "{fit:?}");
            assert_eq!((fit.latency_ns, fit.rate), (None, None), "{fit:?}");
        }
    }
}
