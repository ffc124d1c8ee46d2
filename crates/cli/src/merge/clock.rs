//! From the clock of a recorded process to the clock of the merged archive.
//!
//! ```text
//!  CLOCK_MONOTONIC ns ──anchors──▶ ticks of Score-P's timer ──Score-P's clock offsets──▶ ticks of its trace
//!  (our event files)               of the same process        (interpolated as readers do)
//! ```
//!
//! Both steps are lines between knots, and so is what they are together: written as OTF2 clock offsets, readers apply
//! it without a change of any event. All in integers.

use std::collections::BTreeSet;

use clocks::piecewise::{Beyond, Knot, Piecewise, advancing};
use otf2::ClockOffset;
use schema::Anchor;

/// Parts of a tick, so that a timer of microseconds does not lose the nanoseconds before the last step.
const PARTS: i128 = 1000;

/// Divided by a positive number and rounded to the nearest.
fn divided(product: i128, by: i128) -> i128 {
    (product + by / 2).div_euclid(by)
}

/// Which clock Score-P's timer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The time stamp counter, or CNTVCT.
    Counter,
    /// CLOCK_MONOTONIC_RAW, nanoseconds.
    MonotonicRaw,
    /// CLOCK_REALTIME, microseconds.
    Realtime,
}

impl Timer {
    /// How Score-P calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "tsc",
            Self::MonotonicRaw => "clock_gettime",
            Self::Realtime => "gettimeofday",
        }
    }

    /// What the timer showed at an anchor, in parts of a tick.
    fn parts(self, anchor: &Anchor) -> i128 {
        match self {
            Self::Counter => i128::from(anchor.ticks) * PARTS,
            Self::MonotonicRaw => i128::from(anchor.monotonic_raw_ns) * PARTS,
            Self::Realtime => i128::from(anchor.realtime_ns),
        }
    }
}

/// Our CLOCK_MONOTONIC to the local ticks of Score-P's timer; `None` with fewer than two usable anchors. A wall clock
/// that was set back cannot be followed: the line goes on to where it is ahead again.
pub(super) fn local_curve(timer: Timer, anchors: &[Anchor]) -> Option<Piecewise> {
    let anchors = anchors.iter();
    let knots = anchors.map(|anchor| (i128::from(anchor.monotonic_ns), timer.parts(anchor)));
    Piecewise::new(advancing(knots), Beyond::Whole)
}

/// Score-P's correction: local ticks to those of its trace, in parts of a tick. As readers do it, one offset alone
/// has no effect.
#[derive(Clone, Debug)]
pub(super) struct Correction(Vec<ClockOffset>);

impl Correction {
    /// By the clock offsets of a location.
    pub(super) fn new(offsets: &[ClockOffset]) -> Self {
        let mut sorted = offsets.to_vec();
        sorted.sort_by_key(|offset| offset.time);
        sorted.dedup_by_key(|offset| offset.time);
        Self(if sorted.len() < 2 { Vec::new() } else { sorted })
    }

    /// The offsets, where they have an effect.
    pub(super) fn offsets(&self) -> Option<&[ClockOffset]> {
        (!self.0.is_empty()).then_some(&*self.0)
    }

    fn curve(&self) -> Option<Piecewise> {
        let knots = self.0.iter().map(knot);
        let knots = knots.map(|(time, to)| (time * PARTS, to * PARTS));
        Piecewise::new(knots.collect(), Beyond::Nearest)
    }
}

/// The clock offsets that bring the times of a process onto Score-P's trace. `covered` are the times between which its
/// events are.
pub(super) fn composed(local: &Piecewise, correction: &Correction, covered: (u64, u64)) -> Vec<ClockOffset> {
    let corrected = correction.curve();
    let trace_ticks = |ns: i128| {
        let parts = local.nearest(ns);
        let parts = corrected.as_ref().map_or(parts, |curve| curve.nearest(parts));
        divided(parts, PARTS)
    };
    let (first, last) = (i128::from(covered.0), i128::from(covered.1.max(covered.0 + 1)));
    let bends = local.knots().iter().map(|(ns, _)| *ns);
    let corrections = correction.0.iter();
    let corrections = corrections.map(|offset| local.inverse(i128::from(offset.time) * PARTS));
    let mut knots: BTreeSet<i128> = bends.chain(corrections).filter(|ns| (first..=last).contains(ns)).collect();
    knots.extend([first, last]);
    offsets(knots, trace_ticks)
}

/// Our time to the one that NCCL's archive has for all hosts, in nanoseconds; `None` with fewer than two offsets.
pub(super) fn common_curve(offsets: &[ClockOffset]) -> Option<Piecewise> {
    Piecewise::new(offsets.iter().map(knot).collect(), Beyond::Nearest)
}

/// A time, and what readers make of it.
fn knot(offset: &ClockOffset) -> Knot {
    let time = i128::from(offset.time);
    (time, time + i128::from(offset.offset))
}

/// The clock offsets that bring the ticks of one of Score-P's timers onto those of another: each has a curve from
/// the time of its process, and the time of that one to a common one. `span` are the ticks that are covered.
pub(super) fn onto(
    (local, common): (&Piecewise, &Piecewise),
    (first_local, first_common): (&Piecewise, &Piecewise),
    span: (u64, u64),
) -> Vec<ClockOffset> {
    let ticks = |tick: i128| {
        let ns = common.nearest(local.inverse(tick * PARTS));
        divided(first_local.nearest(first_common.inverse(ns)), PARTS)
    };
    let own_times = |curve: &Piecewise| curve.knots().iter().map(|(ns, _)| *ns).collect::<Vec<_>>();
    let first_times = own_times(first_local).into_iter().chain(own_times(first_common));
    let bends = first_times.map(|ns| common.inverse(first_common.nearest(ns)));
    let bends = bends.chain(own_times(local)).chain(own_times(common));
    let (first, last) = (i128::from(span.0), i128::from(span.1.max(span.0 + 1)));
    let mut knots: BTreeSet<i128> =
        bends.map(|ns| divided(local.nearest(ns), PARTS)).filter(|tick| (first..=last).contains(tick)).collect();
    knots.extend([first, last]);
    offsets(knots, ticks)
}

/// The clock offsets that lay our own common time onto another trace's, by a guess: at `from_ns` it is `to_ticks`.
pub(super) fn guessed(ours: &[ClockOffset], from_ns: i128, to_ticks: u64, ticks_per_second: u64) -> Vec<ClockOffset> {
    let Some(common) = common_curve(ours) else {
        return Vec::new();
    };
    let times = common.knots().iter().map(|(time, _)| *time).collect();
    offsets(times, |ns| {
        let later_ns = common.nearest(ns) - from_ns;
        i128::from(to_ticks) + divided(later_ns * i128::from(ticks_per_second), 1_000_000_000)
    })
}

fn offsets(knots: BTreeSet<i128>, ticks: impl Fn(i128) -> i128) -> Vec<ClockOffset> {
    let offset = |ns: i128| {
        Some(ClockOffset {
            time: u64::try_from(ns).ok()?,
            offset: i64::try_from(ticks(ns) - ns).ok()?,
            standard_deviation: 0.0,
        })
    };
    knots.into_iter().filter_map(offset).collect()
}

/// What readers make of a time.
pub(super) fn applied(offsets: &[ClockOffset], time: u64) -> i128 {
    let time = i128::from(time);
    common_curve(offsets).map_or(time, |curve| curve.nearest(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS_PER_SECOND: i128 = 2_445_450_361;

    /// A machine: all clocks are lines of its uptime in ns, but CLOCK_MONOTONIC, which NTP bends at 60 s.
    fn anchor(uptime_ns: i128) -> Anchor {
        let slewed_ns = (uptime_ns - 60_000_000_000).max(0) * 30 / 1_000_000;
        let number = |number: i128| u64::try_from(number).expect("a time");
        Anchor {
            ticks: number(uptime_ns * TICKS_PER_SECOND / 1_000_000_000),
            monotonic_ns: number(uptime_ns + slewed_ns),
            monotonic_raw_ns: number(uptime_ns + 77),
            realtime_ns: number(uptime_ns + slewed_ns + 1_700_000_000_000_000_000),
        }
    }

    fn anchors() -> Vec<Anchor> {
        [10, 60, 110].map(|second| anchor(second * 1_000_000_000)).into()
    }

    fn offset(time: i128, offset: i64) -> ClockOffset {
        ClockOffset { time: u64::try_from(time).expect("a time"), offset, standard_deviation: 0.0 }
    }

    #[test]
    fn every_timer_is_met_to_a_tick() {
        for (timer, truth) in [
            (Timer::Counter, (|a: &Anchor| a.ticks) as fn(&Anchor) -> u64),
            (Timer::MonotonicRaw, |a| a.monotonic_raw_ns),
            (Timer::Realtime, |a| a.realtime_ns / 1000),
        ] {
            let local = local_curve(timer, &anchors()).expect("enough anchors");
            let covered = (anchor(11_000_000_000).monotonic_ns, anchor(109_000_000_000).monotonic_ns);
            let offsets = composed(&local, &Correction::new(&[]), covered);
            for uptime_ns in (11..109).map(|second| second * 1_000_000_000 + 123_456_789) {
                let there = anchor(uptime_ns);
                let got = applied(&offsets, there.monotonic_ns);
                let off = (got - i128::from(truth(&there))).abs();
                // Rounding of the anchors to ns is 2.4 ticks here, and one of the truth's.
                assert!(off <= 4, "{timer:?} {uptime_ns}: off by {off}");
            }
        }
    }

    #[test]
    fn score_p_corrects_and_so_do_we() {
        let local = local_curve(Timer::MonotonicRaw, &anchors()).expect("enough anchors");
        let second = 1_000_000_000;
        // Three offsets: a bend in the middle, and time before the first and after the last.
        let corrections = [offset(20 * second, 4569), offset(50 * second, -3713), offset(100 * second, 88_000)];
        let correction = Correction::new(&corrections);
        let covered = (anchor(11 * second).monotonic_ns, anchor(109 * second).monotonic_ns);
        let offsets = composed(&local, &correction, covered);
        for uptime in (11..109).map(|at| at * second + 5) {
            let there = anchor(uptime);
            let raw = there.monotonic_raw_ns;
            let truth = applied(&corrections, raw);
            let off = (applied(&offsets, there.monotonic_ns) - truth).abs();
            assert!(off <= 3, "{uptime}: off by {off}");
        }
        let single = Correction::new(&corrections[..1]);
        assert_eq!(composed(&local, &single, covered), composed(&local, &Correction::new(&[]), covered));
    }

    #[test]
    fn too_little_is_no_clock() {
        assert_eq!(local_curve(Timer::Counter, &anchors()[..1]), None);
        let stands_still = [anchors()[0], anchors()[0]];
        assert_eq!(local_curve(Timer::Counter, &stands_still), None);
    }

    #[test]
    fn a_guess_keeps_the_distances() {
        let ours = [offset(1000, 500), offset(2_000_001_000, 700)];
        let offsets = guessed(&ours, 1500, 10_000, 2_000_000_000);
        assert_eq!(applied(&offsets, 1000), 10_000);
        assert_eq!(applied(&offsets, 2_000_001_000), 10_000 + 2 * (2_000_000_000 + 200));
    }
}
