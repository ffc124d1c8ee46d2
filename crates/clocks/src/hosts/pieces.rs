//! Clocks that are straight on pieces of equal length, and the differences of two hosts that constraints allow there.

use super::paths::Extent;
use super::repair::Need;
use crate::fit::{Bounds, OPEN, Point, Range};

/// Contradictions below this are rounding, ns.
pub(super) const NEGLIGIBLE: f64 = 64.0;

/// Largest drift between two hosts' clocks: quartzes are accurate to some 50 ppm, and NTP slews by up to 500 ppm.
pub(super) const MOST_DRIFT: f64 = 600e-6;

/// The range of the drift of one clock against another.
const ANY_DRIFT: Range = (-MOST_DRIFT, MOST_DRIFT);

/// Piecewise straight clocks: by host, then by knot, the lead relative to the rough constant.
#[derive(Clone, Debug, Default)]
pub(super) struct Curves {
    pub(super) pieces: usize,
    pub(super) piece: f64,
    pub(super) middle: Vec<Vec<f64>>,
    /// By knot: how early and late each clock can be.
    pub(super) extents: Vec<Extent>,
    /// The slack needed for contradictions.
    pub(super) slack: f64,
}

impl Curves {
    pub(super) fn flat(hosts: usize, pieces: usize, length: f64) -> Self {
        Self { pieces, piece: length / count(pieces), middle: vec![vec![0.0; pieces + 1]; hosts], ..Self::default() }
    }

    pub(super) fn time(&self, knot: usize) -> f64 {
        self.piece * count(knot)
    }

    /// The common time at which a host's clock shows `reading`.
    pub(super) fn common(&self, host: usize, reading: f64) -> f64 {
        let Some(clock) = self.middle.get(host) else {
            return reading;
        };
        let shows = |knot: usize| self.time(knot) + clock.get(knot).copied().unwrap_or(0.0);
        let (mut low, mut high) = (0, self.pieces);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if shows(middle) <= reading {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (from, to) = (shows(low), shows(low + 1));
        self.time(low) + (reading - from) * (self.time(low + 1) - self.time(low)) / (to - from)
    }

    /// The range of the drift of the second host against the first on a piece.
    pub(super) fn drift(&self, hosts: (usize, usize), piece: usize) -> Range {
        let difference = |knot: usize| {
            let extent = self.extents.get(knot)?;
            let (first, second) = hosts;
            Some((
                extent.earliest.get(second)? - extent.latest.get(first)?,
                extent.latest.get(second)? - extent.earliest.get(first)?,
            ))
        };
        let (Some(first), Some(last)) = (difference(piece), difference(piece + 1)) else {
            return ANY_DRIFT;
        };
        let slope = |from: f64, to: f64| (to - from) / self.piece;
        let (least, most) = (slope(first.1, last.0), slope(first.0, last.1));
        // Contradicting bounds give no information.
        if least.is_finite() && most.is_finite() && least < most && self.slack < NEGLIGIBLE {
            (least.max(ANY_DRIFT.0), most.min(ANY_DRIFT.1))
        } else {
            ANY_DRIFT
        }
    }

    /// No clock drifts this fast: such knots come from contradicting constraints. A constant does less harm.
    pub(super) fn straighten(&mut self) {
        let most = 2.0 * MOST_DRIFT * self.piece;
        for clock in &mut self.middle {
            let wild = |two: &[f64]| matches!(two, [from, to] if (to - from).abs() > most);
            if clock.windows(2).any(wild) {
                let mean = clock.iter().sum::<f64>() / count(clock.len());
                clock.fill(mean);
            }
        }
    }
}

/// Bounds on the lead of the second host's clock over the first's, by piece; `x` is the common time in the piece.
pub(super) struct PairBounds {
    pub(super) pair: (usize, usize),
    pub(super) pieces: Vec<Bounds>,
}

impl PairBounds {
    /// Least and greatest difference at every knot, and how much bounds contradict each other.
    pub(super) fn at_knots(&self, curves: &Curves) -> (Vec<Range>, f64) {
        let mut known = vec![OPEN; self.pieces.len() + 1];
        let mut slack = 0.0_f64;
        let drifts: Vec<Range> = (0..self.pieces.len()).map(|piece| curves.drift(self.pair, piece)).collect();
        for (at, (bounds, &drift)) in self.pieces.iter().zip(&drifts).enumerate() {
            let ends = bounds.ends(curves.piece, drift);
            slack = slack.max(ends.slack);
            for (knot, (least, most)) in [(at, ends.first), (at + 1, ends.last)] {
                if let Some(known) = known.get_mut(knot) {
                    *known = (known.0.max(least), known.1.min(most));
                }
            }
        }
        // A range at one knot limits the next one, however little traffic is between them.
        let reach = |from: Range, to: &mut Range, drift: Range| {
            to.0 = to.0.max(from.0 + drift.0 * curves.piece);
            to.1 = to.1.min(from.1 + drift.1 * curves.piece);
        };
        for (at, &drift) in drifts.iter().enumerate() {
            if let Some([from, to]) = known.get_mut(at..at + 2) {
                reach(*from, to, drift);
            }
        }
        for (at, &drift) in drifts.iter().enumerate().rev() {
            if let Some([to, from]) = known.get_mut(at..at + 2) {
                reach(*from, to, (-drift.1, -drift.0));
            }
        }
        for (least, most) in &mut known {
            if least > most {
                slack = slack.max((*least - *most) / 2.0);
                let middle = f64::midpoint(*least, *most);
                (*least, *most) = (middle, middle);
            }
        }
        (known, slack)
    }

    /// The bounds as conditions on the two clocks. `piece` is the length of a piece.
    pub(super) fn needs(&self, piece: f64) -> impl Iterator<Item = Need> {
        let (first, second) = self.pair;
        self.pieces.iter().enumerate().flat_map(move |(knot, bounds)| {
            let need = move |bound: &Point, earlier, later, most| Need {
                earlier,
                later,
                knot,
                part: (bound.x / piece).clamp(0.0, 1.0),
                most,
            };
            let upper = bounds.upper.iter().map(move |bound| need(bound, first, second, bound.y));
            upper.chain(bounds.lower.iter().map(move |bound| need(bound, second, first, -bound.y)))
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a small number of pieces")]
pub(super) fn count(pieces: usize) -> f64 {
    pieces as f64
}
