//! Moves clocks to the nearest ones that satisfy all constraints (Hildreth's method: successive projection onto each
//! constraint, accumulating its moves).
//!
//! This is the last step: lines between the middles at the ends of pieces can violate a constraint inside a piece if
//! several hosts share bounds.

/// A constraint on the differences at both ends of a piece: interpolated between the ends, the clock of `later` minus
/// that of `earlier` is at most `most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) earlier: usize,
    pub(super) later: usize,
    /// The knot at the first end; the next knot is the other end.
    pub(super) knot: usize,
    /// Weight of the other end: 0 … 1.
    pub(super) part: f64,
    pub(super) most: f64,
}

/// Rounding to whole ns at both ends, twice, and of each time.
const MARGIN_NS: f64 = 3.0;
const CLOSE_NS: f64 = 0.5;
/// Limit on the passes over all constraints. Remaining violations are stated.
const MOST_PASSES: usize = 500;

/// Moves the clocks (by host, then knot), but that of `reference`, as little as needed. Returns whether any was moved.
pub(super) fn repair(clocks: &mut [Vec<f64>], reference: usize, needs: &[Need]) -> bool {
    let mut moved = false;
    let mut pushed = vec![0.0_f64; needs.len()];
    for _ in 0..MOST_PASSES {
        let mut worst = 0.0_f64;
        for (need, pushed) in needs.iter().zip(&mut pushed) {
            let over = need.over(clocks) + MARGIN_NS;
            if over <= 0.0 && *pushed <= 0.0 {
                continue;
            }
            let weights = (1.0 - need.part).powi(2) + need.part.powi(2);
            let fixed = need.earlier == reference || need.later == reference;
            let norm = weights * if fixed { 1.0 } else { 2.0 };
            let push = (over / norm).max(-*pushed);
            *pushed += push;
            worst = worst.max(over);
            moved = true;
            need.push(clocks, reference, push);
        }
        if worst <= CLOSE_NS {
            break;
        }
    }
    moved
}

impl Need {
    fn ends(&self, clocks: &[Vec<f64>]) -> Option<(f64, f64)> {
        let (earlier, later) = (clocks.get(self.earlier)?, clocks.get(self.later)?);
        Some((later.get(self.knot)? - earlier.get(self.knot)?, later.get(self.knot + 1)? - earlier.get(self.knot + 1)?))
    }

    fn over(&self, clocks: &[Vec<f64>]) -> f64 {
        let Some((first, last)) = self.ends(clocks) else {
            return f64::NEG_INFINITY;
        };
        (1.0 - self.part) * first + self.part * last - self.most
    }

    fn push(&self, clocks: &mut [Vec<f64>], reference: usize, push: f64) {
        for (host, side) in [(self.earlier, 1.0), (self.later, -1.0)] {
            if host == reference {
                continue;
            }
            for (knot, weight) in [(self.knot, 1.0 - self.part), (self.knot + 1, self.part)] {
                if let Some(clock) = clocks.get_mut(host).and_then(|clock| clock.get_mut(knot)) {
                    *clock += side * weight * push;
                }
            }
        }
    }
}
