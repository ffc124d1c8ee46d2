//! Finds lines within bounds: a quantity drifts at a limited rate, and at some points its value has a known lower or
//! upper bound.
//!
//! ```text
//!   y │   ▾     ▾  ▾        ▾ upper bounds    A line is the pair of its values (p, q) at the two ends. Each bound,
//!     │ p̂┌ ─ ─ ─ ─ ─ ─ ─ ─ ┐q̂                 and the limits of the slope, cut a half-plane off; the rest is a
//!     │  ┤═════════════════├  the line        convex polygon (`Bounds::lines`), and the truth is in it.
//!     │ p̌└ ─ ─ ─ ─ ─ ─ ─ ─ ┘q̌
//!     │    ▴    ▴      ▴     lower bounds
//!     └──┴─────────────────┴── x
//! ```
//!
//! * [`Bounds::line`] returns the middle of the polygon's bounding box, and the largest distance to the truth. This
//!   line keeps all bounds, because each bound weighs p and q with positive weights that add up to 1.
//! * [`Bounds::piecewise`] returns several joined lines where no single line keeps all bounds.
//! * [`Bounds::ends`] returns the box itself, with the least slack if bounds contradict each other.

mod piecewise_fit;

pub use piecewise_fit::PiecewiseFit;

/// A bound at `x`, relative to an origin of the caller's as is `y`: a time since 1970 does not fit an `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

pub type Range = (f64, f64);

/// A line, given by its values at the two ends.
type Line = (f64, f64);

/// Bounds on the values of a line; `x` starts at 0.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    pub lower: Vec<Point>,
    pub upper: Vec<Point>,
}

/// A line, and the largest distance to the truth.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// The value at 0.
    pub first: f64,
    /// The value at the other end.
    pub last: f64,
    /// No line within the bounds is further away.
    pub residual: f64,
}

/// The ranges of values at the two ends of lines within bounds.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub first: Range,
    pub last: Range,
    /// How much the bounds had to be widened.
    pub slack: f64,
}

/// Comparisons tolerate the rounding of values up to some hours in ns.
const TOLERANCE: f64 = 0.01;

/// Beyond any bound, but small enough to keep precision.
const FAR: f64 = 1e13;

pub const OPEN: Range = (f64::NEG_INFINITY, f64::INFINITY);

impl Bounds {
    /// The lines from 0 to `length` within all bounds widened by `slack`: a polygon of values at both ends. `start` is
    /// the range of values at 0, `slopes` the range of slopes.
    fn lines(&self, length: f64, start: Range, slopes: Range, slack: f64) -> Vec<Line> {
        let ((low, high), (least, most)) = (start, slopes);
        let mut polygon = vec![
            (low, low + least * length),
            (high, high + least * length),
            (high, high + most * length),
            (low, low + most * length),
        ];
        let at = |x: f64, line: Line| {
            let part = if length > 0.0 { x / length } else { 0.0 };
            (1.0 - part) * line.0 + part * line.1
        };
        for bound in &self.upper {
            cut(&mut polygon, |line| at(bound.x, line) - bound.y - slack);
        }
        for bound in &self.lower {
            cut(&mut polygon, |line| bound.y - slack - at(bound.x, line));
        }
        polygon
    }

    /// The line within all bounds from 0 to `length`, with a slope of at most `drift` up or down; `None` if there is
    /// none. If the bounds do not limit the slope but allow a level line, the line is level.
    pub fn line(&self, length: f64, drift: f64) -> Option<Fit> {
        let reach = |bound: &Point| drift * bound.x;
        let lowest = range(self.lower.iter().map(|bound| bound.y - reach(bound))).1;
        let highest = range(self.upper.iter().map(|bound| bound.y + reach(bound))).0;
        if lowest > highest {
            return None;
        }
        let polygon = self.lines(length, (lowest, highest), (-drift, drift), 0.0);
        if polygon.is_empty() {
            return None;
        }
        let first = range(polygon.iter().map(|line| line.0));
        let last = range(polygon.iter().map(|line| line.1));
        let (least, most) = range(polygon.iter().map(|line| line.1 - line.0));
        let mut line = (middle(first), middle(last));
        let lower = range(self.lower.iter().map(|bound| bound.y)).1;
        let upper = range(self.upper.iter().map(|bound| bound.y)).0;
        let reach = drift * length;
        let is_open = least <= -reach + TOLERANCE && most >= reach - TOLERANCE;
        if is_open && lower <= upper {
            line = (middle((lower, upper)), middle((lower, upper)));
        }
        let off = |value: f64, (low, high): Range| (value - low).max(high - value);
        Some(Fit { first: line.0, last: line.1, residual: off(line.0, first).max(off(line.1, last)) })
    }

    /// The values at both ends of the lines from 0 to `length` with these slopes, within all bounds widened by the
    /// least slack that allows a line.
    pub fn ends(&self, length: f64, slopes: Range) -> Ends {
        least_slack(FAR, |slack| self.ends_with(length, slopes, slack)).unwrap_or(Ends {
            first: OPEN,
            last: OPEN,
            slack: 0.0,
        })
    }

    fn ends_with(&self, length: f64, slopes: Range, slack: f64) -> Option<Ends> {
        let polygon = self.lines(length, (-FAR, FAR), slopes, slack);
        let known = |(low, high): Range| {
            let is_far = |value: f64| value.abs() > FAR / 2.0;
            (if is_far(low) { OPEN.0 } else { low }, if is_far(high) { OPEN.1 } else { high })
        };
        (!polygon.is_empty()).then(|| Ends {
            first: known(range(polygon.iter().map(|line| line.0))),
            last: known(range(polygon.iter().map(|line| line.1))),
            slack,
        })
    }

    /// Removes bounds that others imply: only the corners of their convex hulls count.
    pub fn reduce(&mut self) {
        hull(&mut self.upper, 1.0);
        hull(&mut self.lower, -1.0);
    }
}

/// The result of `attempt` with the least slack up to about `most` that gives one (to within 1, or 1 %).
pub fn least_slack<T>(most: f64, attempt: impl Fn(f64) -> Option<T>) -> Option<T> {
    if let Some(found) = attempt(0.0) {
        return Some(found);
    }
    let (mut too_little, mut enough) = (0.0, 64.0);
    let mut found = loop {
        if let Some(found) = attempt(enough) {
            break found;
        }
        if enough > most {
            return None;
        }
        (too_little, enough) = (enough, enough * 4.0);
    };
    while enough - too_little > 1.0 + enough / 128.0 {
        let middle = too_little + (enough - too_little) / 2.0;
        match attempt(middle) {
            Some(better) => (found, enough) = (better, middle),
            None => too_little = middle,
        }
    }
    Some(found)
}

/// Cuts a half-plane off a convex polygon: `excess` is linear, and positive outside.
fn cut(polygon: &mut Vec<Line>, excess: impl Fn(Line) -> f64) {
    if polygon.iter().all(|&line| excess(line) <= TOLERANCE) {
        return;
    }
    let mut left = Vec::with_capacity(polygon.len() + 1);
    let next = polygon.iter().cycle().skip(1);
    for (&from, &to) in polygon.iter().zip(next) {
        let (before, after) = (excess(from), excess(to));
        if before <= TOLERANCE {
            left.push(from);
        }
        if (before <= TOLERANCE) != (after <= TOLERANCE) {
            let part = (before / (before - after)).clamp(0.0, 1.0);
            left.push((from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1)));
        }
    }
    *polygon = left;
}

fn range(values: impl Iterator<Item = f64>) -> Range {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

fn middle((low, high): Range) -> f64 {
    low + (high - low) / 2.0
}

/// Keeps the corners of the lower hull (`side` 1) or upper hull (−1): a line that passes all corners passes all points.
fn hull(points: &mut Vec<Point>, side: f64) {
    small_sort::sort_by(points, |a, b| a.x.total_cmp(&b.x).then((side * a.y).total_cmp(&(side * b.y))));
    points.dedup_by_key(|point| point.x);
    let mut corners: Vec<Point> = Vec::new();
    for &point in points.iter() {
        while let [.., before, last] = corners.as_slice() {
            let turn = (last.x - before.x) * (point.y - before.y) - (last.y - before.y) * (point.x - before.x);
            if side * turn > 0.0 {
                break;
            }
            corners.pop();
        }
        corners.push(point);
    }
    *points = corners;
}

/// Differences of times as they are computed with.
#[expect(
    clippy::cast_precision_loss,
    reason = "differences of times: exact up to 104 days, and stated uncertainties allow for rounding"
)]
pub fn approximate(ns: i128) -> f64 {
    ns as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounds to whole ns on purpose; a cast keeps to the limits of the type"
)]
pub(crate) fn whole(ns: f64) -> i128 {
    ns.round() as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_around_the_lines_that_fit() {
        let points = |points: &[(f64, f64)]| points.iter().map(|&(x, y)| Point { x, y }).collect();
        let bounds = |lower: &[_], upper: &[_]| Bounds { lower: points(lower), upper: points(upper) };
        let ends = bounds(&[(0.0, 4.0), (100.0, 6.0)], &[(0.0, 10.0), (100.0, 12.0)]).ends(100.0, (-1.0, 1.0));
        assert_eq!((ends.first, ends.last), ((4.0, 10.0), (6.0, 12.0)));
        // The slope limit extends knowledge from known to unknown places.
        let ends = bounds(&[(50.0, 4.0)], &[(50.0, 10.0)]).ends(100.0, (-0.1, 0.1));
        assert_eq!((ends.first, ends.last), ((-1.0, 15.0), (-1.0, 15.0)));
        assert_eq!(bounds(&[], &[(5.0, 4.0)]).ends(100.0, (-0.1, 0.1)).first.0, f64::NEG_INFINITY);
    }
}
