//! Clocks as curves: straight on pieces of time of equal length.

use super::bounds::ANY_DRIFT;
use super::clock::Knot;
use super::paths::Extent;
use super::{MOST_DRIFT, approximate, whole};

/// Contradictions below this are rounding, ns.
pub(super) const NEGLIGIBLE: f64 = 64.0;

/// Clocks on pieces: by host, then by knot, how far ahead they are beside the rough constant.
#[derive(Clone, Debug, Default)]
pub(super) struct Curves {
    pub(super) pieces: usize,
    pub(super) piece: f64,
    pub(super) middle: Vec<Vec<f64>>,
    pub(super) extents: Vec<Extent>,
    /// The contradictions that had to be smoothed.
    pub(super) slack: f64,
}

impl Curves {
    pub(super) fn flat(hosts: usize, pieces: usize, length: f64) -> Self {
        Self {
            pieces,
            piece: length / approximate_count(pieces),
            middle: vec![vec![0.0; pieces + 1]; hosts],
            ..Self::default()
        }
    }

    /// The common time at which a host's clock shows this.
    pub(super) fn common(&self, host: usize, reading: f64) -> f64 {
        let Some(clock) = self.middle.get(host) else {
            return reading;
        };
        let knot = |at: usize| {
            let time = self.piece * approximate_count(at);
            (time + clock.get(at).copied().unwrap_or(0.0), time)
        };
        let (mut low, mut high) = (0, self.pieces);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if knot(middle).0 <= reading {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (from, to) = (knot(low), knot(low + 1));
        from.1 + (reading - from.0) * (to.1 - from.1) / (to.0 - from.0)
    }

    /// What this and no more is known of the drift of the second host against the first on a piece.
    pub(super) fn drift(&self, hosts: (usize, usize), piece: usize) -> (f64, f64) {
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
        // Where bounds contradict each other nothing is known better.
        if least.is_finite() && most.is_finite() && least < most && self.slack < NEGLIGIBLE {
            (least.max(ANY_DRIFT.0), most.min(ANY_DRIFT.1))
        } else {
            ANY_DRIFT
        }
    }
}

impl Curves {
    /// No clock drifts like this: constraints that contradict each other gave its knots. A constant does less harm.
    pub(super) fn straighten(&mut self) {
        let most = 2.0 * MOST_DRIFT * self.piece;
        for clock in &mut self.middle {
            let wild = |two: &[f64]| matches!(two, [from, to] if (to - from).abs() > most);
            if clock.windows(2).any(wild) {
                let mean = clock.iter().sum::<f64>() / approximate_count(clock.len());
                clock.fill(mean);
            }
        }
    }

    /// Beyond the constraints: as before, where a drift is shown; where none is, none.
    pub(super) fn extend(
        &self,
        knots: &mut Vec<Knot>,
        host: usize,
        reference: usize,
        span: (u64, u64),
    ) {
        let is_shown = |piece: usize| {
            let (least, most) = self.drift((reference, host), piece);
            least > 0.0 || most < 0.0
        };
        let (begin, end) = (span.0.saturating_sub(1), span.1.saturating_add(1));
        let along = |from: Knot, to: Knot, ns: u64, is_shown: bool| {
            if !is_shown {
                return from.correction_ns;
            }
            let run = approximate(i128::from(to.ns) - i128::from(from.ns));
            let rise = approximate(i128::from(to.correction_ns) - i128::from(from.correction_ns));
            let beyond = approximate(i128::from(ns) - i128::from(from.ns));
            from.correction_ns
                .saturating_add(whole(beyond * rise / run))
        };
        if let [first, second, ..] = *knots.as_slice()
            && begin < first.ns
        {
            let correction_ns = along(first, second, begin, is_shown(0));
            knots.insert(
                0,
                Knot {
                    ns: begin,
                    correction_ns,
                },
            );
        }
        if let [.., before, last] = *knots.as_slice()
            && end > last.ns
        {
            let shown = is_shown(self.pieces.saturating_sub(1));
            let correction_ns = along(last, before, end, shown);
            knots.push(Knot {
                ns: end,
                correction_ns,
            });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a small number of pieces")]
pub(super) fn approximate_count(pieces: usize) -> f64 {
    pieces as f64
}
