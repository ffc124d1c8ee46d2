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
//! * [`Bounds::piecewise`] returns several joined lines where no single line keeps all bounds ([`PiecewiseFit`]).
//! * [`Bounds::ends`] returns the box itself, with the least slack if bounds contradict each other.

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
pub struct EndRanges {
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
    pub fn ends(&self, length: f64, slopes: Range) -> EndRanges {
        least_slack(FAR, |slack| self.ends_with(length, slopes, slack)).unwrap_or(EndRanges {
            first: OPEN,
            last: OPEN,
            slack: 0.0,
        })
    }

    fn ends_with(&self, length: f64, slopes: Range, slack: f64) -> Option<EndRanges> {
        let polygon = self.lines(length, (-FAR, FAR), slopes, slack);
        let known = |(low, high): Range| {
            let is_far = |value: f64| value.abs() > FAR / 2.0;
            (if is_far(low) { OPEN.0 } else { low }, if is_far(high) { OPEN.1 } else { high })
        };
        (!polygon.is_empty()).then(|| EndRanges {
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
    nccl_events::sort::sort_by(points, |a, b| a.x.total_cmp(&b.x).then((side * a.y).total_cmp(&(side * b.y))));
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

// A few joined lines, where the drift changed:
//
//   y │    ▾   ▾      ▾           The tube: the range of the value at each bound, from all bounds together and the
//     │  ════════╤════╗▾          drift limit. A line continues as far as it can; the next begins at its end.
//     │    ▴  ▴   ▴    ╚══
//     │           knot  ▴
//     └──────────────────── x
//
// Each knot is in the middle of the range where the bend can be, or two knots are at its ends. The value at a knot is
// in the middle of what all bounds before and after allow, so the lines are within all bounds. The residual does not
// assume that the truth consists of lines: it is the distance to the farther side of the tube.

/// Joined lines, and the largest distance to the truth.
#[derive(Clone, Debug)]
pub struct PiecewiseFit {
    pub knots: Vec<Point>,
    /// Largest distance to the truth at any bound.
    pub residual: f64,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    x: f64,
    low: f64,
    high: f64,
}

impl Gap {
    fn narrow(&mut self, low: f64, high: f64) {
        self.low = self.low.max(low);
        self.high = self.high.min(high);
    }

    /// Narrows the gap by a neighbour, given the limit of the drift.
    fn reach(&mut self, neighbour: Option<Self>, drift: f64) {
        if let Some(neighbour) = neighbour {
            let reach = drift * (self.x - neighbour.x).abs();
            self.narrow(neighbour.low - reach, neighbour.high + reach);
        }
    }

    const fn range(&self) -> Range {
        (self.low, self.high)
    }
}

impl Bounds {
    /// Joined lines within all bounds, with slopes of at most `drift` up or down; `None` if the bounds contradict.
    pub fn piecewise(&self, drift: f64) -> Option<PiecewiseFit> {
        let tube = Tube::new(self, drift)?;
        let (places, ranges) = tube.places()?;
        let knots: Vec<Point> = places
            .iter()
            .zip(&ranges)
            .filter_map(|(&at, &range)| {
                let x = tube.gaps.get(at)?.x;
                let y = middle(range);
                Some(Point { x, y })
            })
            .collect();
        let mut residual = 0.0_f64;
        for (pair, ends) in knots.windows(2).zip(places.windows(2)) {
            let (&[from, to], &[begin, end]) = (pair, ends) else {
                continue;
            };
            for gap in tube.gaps.get(begin..=end)? {
                let part = (gap.x - from.x) / (to.x - from.x);
                let value = from.y + part * (to.y - from.y);
                residual = residual.max(gap.high - value).max(value - gap.low);
            }
        }
        Some(PiecewiseFit { knots, residual })
    }
}

/// The gaps at all bounds, in order.
struct Tube {
    gaps: Vec<Gap>,
    drift: f64,
}

/// Whether a line must begin where the previous one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    Joined,
    Free,
}

impl Tube {
    /// `None` if bounds contradict each other.
    fn new(bounds: &Bounds, drift: f64) -> Option<Self> {
        let gap = |point: &Point, (low, high): Range| Gap { x: point.x, low, high };
        let lower = bounds.lower.iter();
        let lower = lower.map(|point| gap(point, (point.y, f64::INFINITY)));
        let upper = bounds.upper.iter();
        let upper = upper.map(|point| gap(point, (f64::NEG_INFINITY, point.y)));
        let mut gaps: Vec<Gap> = lower.chain(upper).collect();
        nccl_events::sort::sort_by(&mut gaps, |a, b| a.x.total_cmp(&b.x));
        gaps.dedup_by(|next, gap| {
            let same = next.x <= gap.x;
            if same {
                gap.narrow(next.low, next.high);
            }
            same
        });
        let mut before = None;
        for gap in &mut gaps {
            gap.reach(before, drift);
            before = Some(*gap);
        }
        before = None;
        for gap in gaps.iter_mut().rev() {
            gap.reach(before, drift);
            before = Some(*gap);
        }
        let holds = |gap: &Gap| gap.low <= gap.high + TOLERANCE;
        gaps.iter().all(holds).then_some(Self { gaps, drift })
    }

    /// The tube with reversed `x`.
    fn mirrored(&self) -> Self {
        let gaps = self.gaps.iter().rev();
        Self { gaps: gaps.map(|gap| Gap { x: -gap.x, ..*gap }).collect(), drift: self.drift }
    }

    /// The lines through all gaps from `begin` to `end` that start within `from`.
    fn lines(&self, begin: usize, end: usize, from: Range) -> Option<Vec<(f64, f64)>> {
        let gaps = self.gaps.get(begin..=end)?;
        let (first, last) = (gaps.first()?.x, gaps.last()?.x);
        let points = |y: fn(&Gap) -> f64| {
            let points = gaps.iter().map(move |gap| Point { x: gap.x - first, y: y(gap) });
            points.collect()
        };
        let bounds = Bounds { lower: points(|gap| gap.low), upper: points(|gap| gap.high) };
        Some(bounds.lines(last - first, from, (-self.drift, self.drift), 0.0))
    }

    /// The last gap that a line starting at `begin` can reach, and the range of values there.
    fn reach(&self, begin: usize, from: Range) -> Option<(usize, Range)> {
        let try_to = |end: usize| {
            let lines = self.lines(begin, end, from)?;
            let to = range(lines.iter().map(|line| line.1));
            (!lines.is_empty()).then_some(to)
        };
        let last = self.gaps.len().checked_sub(1)?;
        let mut good = (begin + 1, try_to(begin + 1)?);
        let mut step = 1;
        let mut bad = last + 1;
        while good.0 < last && good.0 + 1 < bad {
            let end = if bad > last {
                step *= 2;
                (begin + step).min(last)
            } else {
                usize::midpoint(good.0, bad)
            };
            match try_to(end) {
                Some(to) => good = (end, to),
                None => bad = end,
            }
        }
        Some(good)
    }

    /// Where lines end, if each is as long as possible, from the front.
    fn knots(&self, joint: Joint) -> Option<Vec<usize>> {
        let mut knots = vec![0];
        let mut at = (0, self.gaps.first()?.range());
        while at.0 + 1 < self.gaps.len() {
            at = self.reach(at.0, at.1)?;
            if joint == Joint::Free {
                at.1 = self.gaps.get(at.0)?.range();
            }
            knots.push(at.0);
        }
        Some(knots)
    }

    /// For each knot, the range of values that allows lines through all gaps.
    fn ranges(&self, knots: &[usize]) -> Option<Vec<Range>> {
        let mut ranges = vec![self.gaps.get(*knots.first()?)?.range()];
        let mut all = Vec::with_capacity(knots.len());
        for pair in knots.windows(2) {
            let &[begin, end] = pair else { continue };
            let lines = self.lines(begin, end, *ranges.last()?)?;
            if lines.is_empty() {
                return None;
            }
            ranges.push(range(lines.iter().map(|line| line.1)));
            all.push(lines);
        }
        // Backwards: narrows each range to what the later ones allow.
        for (at, lines) in all.iter_mut().enumerate().rev() {
            let &(low, high) = ranges.get(at + 1)?;
            cut(lines, |line| line.1 - high);
            cut(lines, |line| low - line.1);
            *ranges.get_mut(at)? = range(lines.iter().map(|line| line.0));
        }
        let holds = |range: &Range| range.0 <= range.1 + TOLERANCE;
        ranges.iter().all(holds).then_some(ranges)
    }

    /// Knots, and the range of values at each: in the middle of where each bend can be; else two for each bend; else
    /// the knots of lines joined from the front, which always exist.
    fn places(&self) -> Option<(Vec<usize>, Vec<Range>)> {
        let ends = self.knots(Joint::Free)?;
        let last = self.gaps.len().checked_sub(1)?;
        let begins: Vec<usize> = self.mirrored().knots(Joint::Free)?;
        let begins: Vec<usize> = begins.iter().rev().map(|at| last - at).collect();
        let bends = ends.iter().zip(&begins);
        let mut middle: Vec<usize> = bends.map(|(&end, &begin)| usize::midpoint(end, begin)).collect();
        middle.dedup();
        let mut both: Vec<usize> = ends.iter().chain(&begins).copied().collect();
        nccl_events::sort::sort(&mut both);
        both.dedup();
        let found = [middle, both].into_iter().find_map(|knots| {
            let ranges = self.ranges(&knots)?;
            Some((knots, ranges))
        });
        found.or_else(|| {
            let joined = self.knots(Joint::Joined)?;
            let ranges = self.ranges(&joined)?;
            Some((joined, ranges))
        })
    }
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
