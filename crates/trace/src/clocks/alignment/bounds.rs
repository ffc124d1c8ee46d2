//! How far the clocks of two hosts can be apart, from all constraints between them.
//!
//! ```text
//!  B − A │  ▾    ▾     ▾   ▾     B's reading later − A's earlier: not more than this
//!        │ ──────────────────    any line between is possible
//!        │   ▴  ▴     ▴          B's earlier − A's later: not less
//!        └──┴─────────────────┴─ common time: the ends of a piece
//! ```
//!
//! Of the marks only the corners of their hulls count. The lines between them are a convex polygon in the plane of
//! (difference at the one end, difference at the other); the sides of its box are what is known at the ends.

use super::MOST_DRIFT;
use crate::clocks::gpu_clock::line::{Line, cut, range};

/// A constraint as it is computed with: readings less each host's rough constant, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed {
    /// Place of the host of the earlier reading.
    pub(super) earlier: usize,
    /// Place of the host of the later one.
    pub(super) later: usize,
    /// The earlier reading.
    pub(super) reading: f64,
    /// The later reading less the earlier one.
    pub(super) room: f64,
}

impl Observed {
    /// The two hosts, the first first.
    pub(super) fn pair(&self) -> (usize, usize) {
        (self.earlier.min(self.later), self.earlier.max(self.later))
    }
}

/// A mark on the difference of two clocks: common time from the beginning of the piece, and the difference.
pub(super) type Mark = (f64, f64);

/// The marks of one piece of time: corners of the hulls only.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// The difference is not more.
    pub(super) upper: Vec<Mark>,
    /// It is not less.
    pub(super) lower: Vec<Mark>,
}

impl Marks {
    /// Forgets what other marks say better.
    pub(super) fn reduce(&mut self) {
        hull(&mut self.upper, 1.0);
        hull(&mut self.lower, -1.0);
    }

    /// The differences at the two ends of a piece of this length that keep all marks, widened by the least slack
    /// that leaves some. `drift`: the least and most slope.
    pub(super) fn ends(&self, length: f64, drift: (f64, f64)) -> Ends {
        if let Some(ends) = self.ends_with(length, drift, 0.0) {
            return ends;
        }
        let (mut too_little, mut enough) = (0.0, 64.0);
        while self.ends_with(length, drift, enough).is_none() && enough < FAR {
            (too_little, enough) = (enough, enough * 4.0);
        }
        while enough - too_little > 1.0 + enough / 128.0 {
            let middle = too_little + (enough - too_little) / 2.0;
            match self.ends_with(length, drift, middle) {
                Some(_) => enough = middle,
                None => too_little = middle,
            }
        }
        let ends = self.ends_with(length, drift, enough);
        ends.unwrap_or(Ends::OPEN)
    }

    fn ends_with(&self, length: f64, drift: (f64, f64), slack: f64) -> Option<Ends> {
        let mut polygon: Vec<Line> = vec![
            (-FAR, -FAR + drift.0 * length),
            (FAR, FAR + drift.0 * length),
            (FAR, FAR + drift.1 * length),
            (-FAR, -FAR + drift.1 * length),
        ];
        let at = |mark: &Mark, line: Line| {
            let part = mark.0 / length;
            (1.0 - part) * line.0 + part * line.1
        };
        for mark in &self.upper {
            cut(&mut polygon, |line| at(mark, line) - mark.1 - slack);
        }
        for mark in &self.lower {
            cut(&mut polygon, |line| mark.1 - slack - at(mark, line));
        }
        if polygon.is_empty() {
            return None;
        }
        let near = |(low, high): (f64, f64)| {
            let low = if low < -FAR / 2.0 {
                f64::NEG_INFINITY
            } else {
                low
            };
            (
                low,
                if high > FAR / 2.0 {
                    f64::INFINITY
                } else {
                    high
                },
            )
        };
        Some(Ends {
            first: near(range(polygon.iter().map(|line| line.0))),
            last: near(range(polygon.iter().map(|line| line.1))),
            slack,
        })
    }
}

/// Farther apart than any two clocks are after the rough constant is taken off, ns; not so far that it costs
/// precision.
const FAR: f64 = 1e13;

/// What is known of a difference at the ends of a piece: least and most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) first: (f64, f64),
    pub(super) last: (f64, f64),
    /// What the marks had to be moved apart by.
    pub(super) slack: f64,
}

impl Ends {
    /// Nothing is known.
    pub(super) const OPEN: Self = Self {
        first: (f64::NEG_INFINITY, f64::INFINITY),
        last: (f64::NEG_INFINITY, f64::INFINITY),
        slack: 0.0,
    };
}

/// The lowest corners of marks (`side` 1), or the highest (−1): a line that is beyond none of them is beyond no
/// mark.
fn hull(marks: &mut Vec<Mark>, side: f64) {
    marks.sort_by(|a, b| {
        a.0.total_cmp(&b.0)
            .then((side * a.1).total_cmp(&(side * b.1)))
    });
    marks.dedup_by_key(|mark| mark.0);
    let mut corners: Vec<Mark> = Vec::new();
    for &mark in marks.iter() {
        while let [.., before, last] = corners.as_slice() {
            let turn = (last.0 - before.0) * (mark.1 - before.1)
                - (last.1 - before.1) * (mark.0 - before.0);
            if side * turn > 0.0 {
                break;
            }
            corners.pop();
        }
        corners.push(mark);
    }
    *marks = corners;
}

/// The least and most drift of one clock against another.
pub(super) const ANY_DRIFT: (f64, f64) = (-MOST_DRIFT, MOST_DRIFT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_corners_count() {
        let mut marks = Marks {
            upper: vec![
                (0.0, 10.0),
                (1.0, 12.0),
                (2.0, 9.0),
                (3.0, 20.0),
                (3.0, 15.0),
            ],
            lower: vec![(0.0, 1.0), (1.0, 4.0), (2.0, 3.0), (3.0, 0.0)],
        };
        marks.reduce();
        assert_eq!(marks.upper, [(0.0, 10.0), (2.0, 9.0), (3.0, 15.0)]);
        assert_eq!(
            marks.lower,
            [(0.0, 1.0), (1.0, 4.0), (2.0, 3.0), (3.0, 0.0)]
        );
    }

    #[test]
    fn a_box_around_the_lines_that_fit() {
        let marks = Marks {
            upper: vec![(0.0, 10.0), (100.0, 12.0)],
            lower: vec![(0.0, 4.0), (100.0, 6.0)],
        };
        let ends = marks.ends(100.0, (-1.0, 1.0));
        assert_eq!((ends.first, ends.last), ((4.0, 10.0), (6.0, 12.0)));
        // A limit of the drift reaches from where something is known to where nothing is.
        let marks = Marks {
            upper: vec![(50.0, 10.0)],
            lower: vec![(50.0, 4.0)],
        };
        let ends = marks.ends(100.0, (-0.1, 0.1));
        assert_eq!((ends.first, ends.last), ((-1.0, 15.0), (-1.0, 15.0)));
    }

    #[test]
    fn contradictions_are_measured() {
        let marks = Marks {
            upper: vec![(50.0, 0.0)],
            lower: vec![(50.0, 1000.0)],
        };
        let slack = marks.ends(100.0, (-0.1, 0.1)).slack;
        assert!((500.0..506.0).contains(&slack), "{slack}");
    }
}
