//! Finds a few joined lines where no single line is within all bounds, because the drift changed.
//!
//! ```text
//!   y │    ▾   ▾      ▾           The tube: the range of the value at each bound, from all bounds together and the
//!     │  ════════╤════╗▾          drift limit. A line continues as far as it can; the next begins at its end.
//!     │    ▴  ▴   ▴    ╚══
//!     │           knot  ▴
//!     └──────────────────── x
//! ```
//!
//! Each knot is in the middle of the range where the bend can be, or two knots are at its ends. The value at a knot is
//! in the middle of what all bounds before and after allow, so the lines are within all bounds. The residual does not
//! assume that the truth consists of lines: it is the distance to the farther side of the tube.

use super::{Bounds, Point, Range, TOLERANCE, cut, middle, range};

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
        let tube = Tube::of(self, drift)?;
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
    fn of(bounds: &Bounds, drift: f64) -> Option<Self> {
        let gap = |point: &Point, (low, high): Range| Gap { x: point.x, low, high };
        let lower = bounds.lower.iter();
        let lower = lower.map(|point| gap(point, (point.y, f64::INFINITY)));
        let upper = bounds.upper.iter();
        let upper = upper.map(|point| gap(point, (f64::NEG_INFINITY, point.y)));
        let mut gaps: Vec<Gap> = lower.chain(upper).collect();
        small_sort::sort_by(&mut gaps, |a, b| a.x.total_cmp(&b.x));
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
        small_sort::sort(&mut both);
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
