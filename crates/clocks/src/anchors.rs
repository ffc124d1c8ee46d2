//! Chooses a process's few clock pairs that an archive needs for merging with a trace on another clock (Score-P).
//!
//! The first and the last pair are anchors. Others become anchors, farthest first, until every pair is within
//! [`TOLERANCE_NS`] of the lines between anchors for each clock, or there are [`MOST`]. They are a location group's.

use std::collections::{BTreeSet, BinaryHeap};

use journal::clock::ClockPair;
use schema::Anchor;

/// Largest distance of a pair from the line between the anchors around it.
pub const TOLERANCE_NS: u64 = 100;
const MOST: usize = 64;

const fn anchor(pair: &ClockPair) -> Anchor {
    Anchor {
        ticks: pair.ticks,
        monotonic_ns: pair.monotonic_ns,
        monotonic_raw_ns: pair.monotonic_raw_ns,
        realtime_ns: pair.realtime_ns,
    }
}

/// Chooses the anchors from the pairs of a process, which are sorted by ticks.
pub fn of(pairs: &[ClockPair]) -> Vec<Anchor> {
    let mut all: Vec<Anchor> = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().map(anchor) {
        let advances = |last: &Anchor| last.ticks < pair.ticks && last.monotonic_ns < pair.monotonic_ns;
        if all.last().is_none_or(advances) {
            all.push(pair);
        }
    }
    let Some(last) = all.len().checked_sub(1) else {
        return Vec::new();
    };
    let mut kept = BTreeSet::from([0, last]);
    let mut gaps: BinaryHeap<Gap> = Gap::between(&all, 0, last).into_iter().collect();
    while kept.len() < MOST
        && let Some(gap) = gaps.pop().filter(|gap| gap.off_ns > TOLERANCE_NS)
    {
        kept.insert(gap.farthest);
        gaps.extend(Gap::between(&all, gap.from, gap.farthest));
        gaps.extend(Gap::between(&all, gap.farthest, gap.to));
    }
    kept.into_iter().filter_map(|at| all.get(at).copied()).collect()
}

/// The pairs between two anchors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gap {
    /// Distance of the farthest pair from the lines.
    off_ns: u64,
    farthest: usize,
    from: usize,
    to: usize,
}

impl Gap {
    fn between(all: &[Anchor], from: usize, to: usize) -> Option<Self> {
        let (first, last) = (all.get(from)?, all.get(to)?);
        let between = (from + 1..to).filter_map(|at| Some((off_ns(first, last, all.get(at)?), at)));
        let (off_ns, farthest) = between.max()?;
        Some(Self { off_ns, farthest, from, to })
    }
}

fn off_ns(first: &Anchor, last: &Anchor, anchor: &Anchor) -> u64 {
    let off = |x: fn(&Anchor) -> u64, y: fn(&Anchor) -> u64| {
        let run = i128::from(x(last)) - i128::from(x(first));
        let rise = i128::from(y(last)) - i128::from(y(first));
        let part = i128::from(x(anchor)) - i128::from(x(first));
        let line = i128::from(y(first)) + (rise * part).checked_div(run).unwrap_or(0);
        u64::try_from((i128::from(y(anchor)) - line).unsigned_abs()).unwrap_or(u64::MAX)
    };
    let monotonic = off(|it| it.ticks, |it| it.monotonic_ns);
    let raw = off(|it| it.monotonic_ns, |it| it.monotonic_raw_ns);
    let realtime = off(|it| it.monotonic_ns, |it| it.realtime_ns);
    monotonic.max(raw).max(realtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One pair per second; the rate changes at the seconds in `bent_at`.
    fn pairs(seconds: u64, bent_at: &[u64]) -> Vec<ClockPair> {
        let (mut monotonic_ns, mut pairs) = (5_000_000_000, Vec::new());
        let mut rate = 1_000_000_000;
        for second in 0..seconds {
            pairs.push(ClockPair {
                ticks: second * 2_445_000_000,
                monotonic_ns,
                realtime_ns: monotonic_ns + 1_700_000_000_000_000_000,
                monotonic_raw_ns: monotonic_ns + 1000,
                uncertainty_ticks: 50,
            });
            if bent_at.contains(&second) {
                rate += 20_000;
            }
            monotonic_ns += rate;
        }
        pairs
    }

    /// The seconds at which anchors are.
    fn kept(pairs: &[ClockPair]) -> Vec<u64> {
        of(pairs).iter().map(|anchor| anchor.ticks / 2_445_000_000).collect()
    }

    #[test]
    fn bends_and_steps_are_kept() {
        assert_eq!(kept(&pairs(1000, &[])), [0, 999]);
        assert_eq!(kept(&pairs(1, &[])), [0]);
        assert_eq!(kept(&[]), [0; 0]);
        assert_eq!(kept(&pairs(1000, &[100, 500])), [0, 100, 500, 999]);
        let many: Vec<u64> = (0..1000).step_by(3).collect();
        assert_eq!(kept(&pairs(1000, &many)).len(), MOST);
        let mut step = pairs(100, &[]);
        step[50..].iter_mut().for_each(|pair| pair.realtime_ns += 1_000_000);
        assert_eq!(kept(&step), [0, 49, 50, 99]);
    }
}
