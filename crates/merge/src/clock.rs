//! Converts the clock of a recorded process to the clock of the merged archive.
//!
//! ```text
//!  CLOCK_MONOTONIC ns ──anchors──▶ ticks of Score-P's timer ──Score-P's clock offsets──▶ ticks of its trace
//!  (our event files)               of the same process        (interpolated as readers do)
//! ```
//!
//! Both steps are piecewise linear, and so is their composition: written as OTF2 clock offsets, it is applied by
//! readers, and no event changes. All computations use integers.

use std::collections::BTreeSet;

use clocks::piecewise::{Beyond, Knot, Piecewise, advancing};
use nccl_events::schema::Anchor;
use nccl_events::sort::Gather;
use otf2::ClockOffset;

pub(crate) const NS_PER_SECOND: i128 = 1_000_000_000;

/// Fractions of a tick, so that a timer with microsecond resolution does not lose nanoseconds before the last step.
const PARTS: i128 = 1000;

/// The nearest tick that OTF2 can represent.
pub(crate) fn saturated(tick: i128) -> u64 {
    u64::try_from(tick.max(0)).unwrap_or(u64::MAX)
}

/// Divides by a positive number and rounds to the nearest integer.
fn divided(product: i128, by: i128) -> i128 {
    (product + by / 2).div_euclid(by)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The time stamp counter, or CNTVCT.
    Counter,
    /// CLOCK_MONOTONIC_RAW, nanoseconds.
    MonotonicRaw,
    /// CLOCK_REALTIME, microseconds.
    Realtime,
}

impl Timer {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "tsc",
            Self::MonotonicRaw => "clock_gettime",
            Self::Realtime => "gettimeofday",
        }
    }

    /// The timer's reading at an anchor, in [`PARTS`] of a tick.
    fn parts(self, anchor: &Anchor) -> i128 {
        match self {
            Self::Counter => i128::from(anchor.ticks) * PARTS,
            Self::MonotonicRaw => i128::from(anchor.monotonic_raw_ns) * PARTS,
            Self::Realtime => i128::from(anchor.realtime_ns),
        }
    }
}

/// CLOCK_MONOTONIC to the local ticks of Score-P's timer; `None` with fewer than two usable anchors. A wall clock that
/// was set back cannot be followed: the line continues to the anchor where the clock is ahead again.
pub(crate) fn local_curve(timer: Timer, anchors: &[Anchor]) -> Option<Piecewise> {
    let knots = anchors.iter().map(|anchor| (i128::from(anchor.monotonic_ns), timer.parts(anchor)));
    Piecewise::new(advancing(knots), Beyond::Whole)
}

/// The clock offsets of a location in time order. A single offset has no effect.
pub(crate) fn effective(mut offsets: Vec<ClockOffset>) -> Vec<ClockOffset> {
    nccl_events::sort::sort_by_key(&mut offsets, |offset| offset.time);
    offsets.dedup_by_key(|offset| offset.time);
    if offsets.len() < 2 { Vec::new() } else { offsets }
}

/// The clock offsets that map the times of a process to Score-P's trace, given the `correction` from local ticks to the
/// trace's. The process's events lie within `covered`.
pub(crate) fn composed(local: &Piecewise, correction: &[ClockOffset], covered: (u64, u64)) -> Vec<ClockOffset> {
    let parts = correction.iter().map(knot).map(|(time, to)| (time * PARTS, to * PARTS));
    let corrected = Piecewise::new(parts.collect(), Beyond::Nearest);
    let trace_ticks = |ns: i128| {
        let parts = local.nearest(ns);
        divided(corrected.as_ref().map_or(parts, |curve| curve.nearest(parts)), PARTS)
    };
    let corrections = correction.iter().map(|offset| local.inverse(i128::from(offset.time) * PARTS));
    offsets(knots_within(covered, xs(local).chain(corrections)), trace_ticks)
}

fn xs(curve: &Piecewise) -> impl Iterator<Item = i128> {
    curve.knots().iter().map(|(x, _)| *x)
}

/// The bends between two times, and the two times themselves: at least two knots.
fn knots_within((first, last): (u64, u64), bends: impl Iterator<Item = i128>) -> BTreeSet<i128> {
    let (first, last) = (i128::from(first), i128::from(last.max(first + 1)));
    bends.filter(|at| (first..=last).contains(at)).chain([first, last]).gather()
}

/// CLOCK_MONOTONIC to the time of NCCL's archive, in ns; `None` with fewer than two offsets.
pub(crate) fn common_curve(offsets: &[ClockOffset]) -> Option<Piecewise> {
    Piecewise::new(offsets.iter().map(knot).collect(), Beyond::Nearest)
}

/// A time, and the time to which readers correct it.
fn knot(offset: &ClockOffset) -> Knot {
    let time = i128::from(offset.time);
    (time, time + i128::from(offset.offset))
}

/// The clock offsets that map the ticks of one Score-P timer, within `span`, to those of another. Each timer has two
/// curves: from its process's time to its ticks, and from that time to the common time.
pub(crate) fn onto(
    (local, common): (&Piecewise, &Piecewise),
    (first_local, first_common): (&Piecewise, &Piecewise),
    span: (u64, u64),
) -> Vec<ClockOffset> {
    let ticks = |tick: i128| {
        let ns = common.nearest(local.inverse(tick * PARTS));
        divided(first_local.nearest(first_common.inverse(ns)), PARTS)
    };
    let first_times = xs(first_local).chain(xs(first_common));
    let times = first_times.map(|ns| common.inverse(first_common.nearest(ns))).chain(xs(local)).chain(xs(common));
    offsets(knots_within(span, times.map(|ns| divided(local.nearest(ns), PARTS))), ticks)
}

/// The clock offsets that place the common time of NCCL's archive in a trace: `from_ns` becomes `to_ticks`.
pub(crate) fn guessed(ours: &[ClockOffset], from_ns: i128, to_ticks: u64, ticks_per_second: u64) -> Vec<ClockOffset> {
    let Some(common) = common_curve(ours) else {
        return Vec::new();
    };
    offsets(xs(&common).gather(), |ns| {
        let later_ns = common.nearest(ns) - from_ns;
        i128::from(to_ticks) + divided(later_ns * i128::from(ticks_per_second), NS_PER_SECOND)
    })
}

/// A knot before 0, or 2⁶³ ticks off, belongs to no event and is left out.
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

/// A time as readers correct it.
pub(crate) fn applied(offsets: &[ClockOffset], time: u64) -> i128 {
    let time = i128::from(time);
    common_curve(offsets).map_or(time, |curve| curve.nearest(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS_PER_SECOND: i128 = 2_445_450_361;

    /// A machine: all clocks are linear in its uptime in ns, except CLOCK_MONOTONIC, whose rate NTP changes at 60 s.
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

    fn anchors() -> [Anchor; 3] {
        [10, 60, 110].map(|second| anchor(second * NS_PER_SECOND))
    }

    fn covered() -> (u64, u64) {
        (anchor(11 * NS_PER_SECOND).monotonic_ns, anchor(109 * NS_PER_SECOND).monotonic_ns)
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
            let offsets = composed(&local, &[], covered());
            for uptime_ns in (11..109).map(|second| second * NS_PER_SECOND + 123_456_789) {
                let there = anchor(uptime_ns);
                let off = (applied(&offsets, there.monotonic_ns) - i128::from(truth(&there))).abs();
                // Rounding of the anchors to ns is 2.4 ticks here, and rounding of the truth is one.
                assert!(off <= 4, "{timer:?} {uptime_ns}: off by {off}");
            }
        }
    }

    #[test]
    fn score_p_corrects_and_so_do_we() {
        let local = local_curve(Timer::MonotonicRaw, &anchors()).expect("enough anchors");
        // Three offsets: a bend in the middle, and time before the first and after the last.
        let corrections = [(20, 4569), (50, -3713), (100, 88_000)].map(|(at, by)| offset(at * NS_PER_SECOND, by));
        let offsets = composed(&local, &corrections, covered());
        for uptime in (11..109).map(|at| at * NS_PER_SECOND + 5) {
            let there = anchor(uptime);
            let truth = applied(&corrections, there.monotonic_raw_ns);
            let off = (applied(&offsets, there.monotonic_ns) - truth).abs();
            assert!(off <= 3, "{uptime}: off by {off}");
        }
        assert_eq!(effective(corrections[..1].to_vec()), []);
    }

    #[test]
    fn too_little_is_no_clock() {
        assert_eq!(local_curve(Timer::Counter, &anchors()[..1]), None);
        assert_eq!(local_curve(Timer::Counter, &[anchors()[0], anchors()[0]]), None, "it stands still");
    }

    #[test]
    fn a_guess_keeps_the_distances() {
        let ours = [offset(1000, 500), offset(2_000_001_000, 700)];
        let offsets = guessed(&ours, 1500, 10_000, 2_000_000_000);
        assert_eq!(applied(&offsets, 1000), 10_000);
        assert_eq!(applied(&offsets, 2_000_001_000), 10_000 + 2 * (2_000_000_000 + 200));
    }
}
