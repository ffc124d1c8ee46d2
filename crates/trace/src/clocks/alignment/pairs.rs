//! The constraints between two hosts, and what they leave at the ends of the pieces.

use super::bounds::{Ends, Marks};
use super::curves::Curves;
use super::repair::Need;

/// The marks of a pair of hosts, by piece.
pub(super) struct PairMarks {
    pub(super) pair: (usize, usize),
    pub(super) pieces: Vec<Marks>,
    pub(super) piece: f64,
}

impl PairMarks {
    /// Least and most difference at every knot, and by how much marks contradict each other.
    pub(super) fn at_knots(&self, curves: &Curves) -> (Vec<(f64, f64)>, f64) {
        let mut known = vec![Ends::OPEN.first; self.pieces.len() + 1];
        let mut slack = 0.0_f64;
        let drifts: Vec<(f64, f64)> = (0..self.pieces.len())
            .map(|piece| curves.drift(self.pair, piece))
            .collect();
        for (at, (marks, &drift)) in self.pieces.iter().zip(&drifts).enumerate() {
            let ends = marks.ends(self.piece, drift);
            slack = slack.max(ends.slack);
            for (knot, (least, most)) in [(at, ends.first), (at + 1, ends.last)] {
                if let Some(known) = known.get_mut(knot) {
                    *known = (known.0.max(least), known.1.min(most));
                }
            }
        }
        // What is known at one knot bounds the next, however little traffic there is between.
        let reach = |from: (f64, f64), to: &mut (f64, f64), drift: (f64, f64)| {
            to.0 = to.0.max(from.0 + drift.0 * self.piece);
            to.1 = to.1.min(from.1 + drift.1 * self.piece);
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

    pub(super) fn needs(&self) -> impl Iterator<Item = Need> {
        let (first, second) = self.pair;
        self.pieces
            .iter()
            .enumerate()
            .flat_map(move |(knot, marks)| {
                let need = move |mark: &(f64, f64), earlier, later, most| Need {
                    earlier,
                    later,
                    knot,
                    part: (mark.0 / self.piece).clamp(0.0, 1.0),
                    most,
                };
                let upper = marks.upper.iter();
                let lower = marks.lower.iter();
                upper
                    .map(move |mark| need(mark, first, second, mark.1))
                    .chain(lower.map(move |mark| need(mark, second, first, -mark.1)))
            })
    }
}
