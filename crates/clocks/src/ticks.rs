//! Maps a process's ticks to its host's CLOCK_MONOTONIC ns, by the clock pairs recorded about once a second, and
//! chooses the few pairs that an archive needs for merging with a trace on another clock. The knots of the map are the
//! pairs. Beyond them the line from the first to the last pair continues. The stated uncertainty is the larger of two
//! numbers: the largest distance of a pair from the line of its neighbours, and half the longest time that reading a
//! pair took.

use std::collections::{BTreeSet, BinaryHeap};

use crate::piecewise::{Beyond, Piecewise, advancing, unsigned};
use journal::clock::{ClockPair, TickSource};
use nccl_events::schema::Anchor;
use serde::{Deserialize, Serialize};

/// The latest time of a clock: 146 years after it began. Twice as much still fits into 63 bits, so neither the offset
/// to the wall clock nor libotf2, which adds it unchecked, wraps. Only damaged records exceed the limit.
pub const LATEST_NS: u64 = 1 << 62;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Calibration {
    /// Two or more clock pairs.
    Pairs,
    /// The ticks already are CLOCK_MONOTONIC.
    #[default]
    Monotonic,
    /// A counter with fewer than two pairs: assumes one nanosecond per tick, which is wrong.
    Assumed,
}

/// The quality of the clock; written into the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockQuality {
    pub source: String,
    pub calibration: Calibration,
    pub pairs: u64,
    /// Pairs left out because time did not advance.
    pub pairs_unusable: u64,
    /// Largest distance of a pair from the line of its neighbours; first and last pair excepted.
    pub residual_ns: u64,
    /// Half the longest time that reading a pair took.
    pub uncertainty_ns: u64,
    pub first_monotonic_ns: u64,
    pub first_realtime_ns: u64,
}

impl ClockQuality {
    /// Largest error of a time; `None` if the length of a tick is unknown.
    pub fn off_ns(&self) -> Option<u64> {
        (self.calibration != Calibration::Assumed).then(|| self.residual_ns.max(self.uncertainty_ns))
    }
}

/// Converts the ticks of one process to nanoseconds of its host's CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct HostClock {
    map: Piecewise,
    pub quality: ClockQuality,
}

impl HostClock {
    /// Makes the clock from the pairs of one process, sorted by ticks.
    pub fn new(source: TickSource, pairs: &[ClockPair]) -> Self {
        let points = pairs.iter().filter(|pair| pair.monotonic_ns <= LATEST_NS);
        let points = points.map(|pair| (i128::from(pair.ticks), i128::from(pair.monotonic_ns)));
        let knots = advancing(points);
        let pairs_used = knots.len();
        let one = knots.first().copied();
        let (calibration, mut map) = match Piecewise::new(knots, Beyond::Whole) {
            _ if source == TickSource::Monotonic => (Calibration::Monotonic, Piecewise::default()),
            Some(map) => (Calibration::Pairs, map),
            None => {
                let map = one.map_or_else(Piecewise::default, Piecewise::offset);
                (Calibration::Assumed, map)
            }
        };
        let first = pairs.first();
        let readings = pairs.iter().map(|pair| pair.uncertainty_ticks);
        let quality = ClockQuality {
            source: source.name().to_owned(),
            calibration,
            pairs: pairs_used as u64,
            pairs_unusable: (pairs.len() - pairs_used) as u64,
            residual_ns: residual_ns(&map),
            uncertainty_ns: length_ns(&map, readings.max().unwrap_or(0) / 2),
            first_monotonic_ns: first.map_or(0, |pair| pair.monotonic_ns),
            first_realtime_ns: first.map_or(0, |pair| pair.realtime_ns),
        };
        map.uncertainty = quality.off_ns();
        Self { map, quality }
    }

    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        unsigned(self.map.at(ticks.into())).min(LATEST_NS)
    }

    /// A reader for many ticks, most of which are close to the previous one.
    pub const fn reader(&self) -> ClockReader<'_> {
        ClockReader { clock: self, ticks: 0, ns: 0, run: 0, rise: 0 }
    }
}

/// Converts the ticks of a process to nanoseconds of its host's CLOCK_MONOTONIC.
pub trait TickClock {
    fn nanoseconds(&mut self, ticks: u64) -> u64;
}

/// Reads a [`HostClock`], caching the line of the last tick.
#[derive(Debug)]
pub struct ClockReader<'a> {
    clock: &'a HostClock,
    ticks: u64,
    ns: u64,
    run: u64,
    rise: u64,
}

impl TickClock for ClockReader<'_> {
    #[inline]
    fn nanoseconds(&mut self, ticks: u64) -> u64 {
        let since = ticks.wrapping_sub(self.ticks);
        if since < self.run
            && let Some(product) = since.checked_mul(self.rise)
        {
            return self.ns + product / self.run;
        }
        if let Some((from, to)) = self.clock.map.around(ticks.into()) {
            (self.ticks, self.ns) = (unsigned(from.0), unsigned(from.1));
            (self.run, self.rise) = (unsigned(to.0 - from.0), unsigned(to.1 - from.1));
        }
        self.clock.nanoseconds(ticks)
    }
}

/// Largest distance of a knot from the line of its neighbours.
fn residual_ns(map: &Piecewise) -> u64 {
    let triples = map.knots().windows(3).filter_map(|window| match *window {
        [before, knot, after] => {
            let line = Piecewise::new(vec![before, after], Beyond::Nearest)?;
            Some(unsigned((line.at(knot.0) - knot.1).abs()))
        }
        _ => None,
    });
    triples.max().unwrap_or(0)
}

/// The duration of this many ticks.
fn length_ns(map: &Piecewise, ticks: u64) -> u64 {
    let after = map.knots().last().map_or(0, |last| last.0);
    unsigned(map.at(after + i128::from(ticks)) - map.at(after))
}

// The pairs that an archive has are anchors: a merge with a trace on another clock (Score-P) needs them. They are a
// property of the process's location group. The first and the last pair are anchors. Others become anchors, farthest
// first, until every pair is within [`TOLERANCE_NS`] of the lines between anchors for each clock, or there are
// [`MOST`].

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
pub fn choose_anchors(pairs: &[ClockPair]) -> Vec<Anchor> {
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
    let monotonic = off(|anchor| anchor.ticks, |anchor| anchor.monotonic_ns);
    let raw = off(|anchor| anchor.monotonic_ns, |anchor| anchor.monotonic_raw_ns);
    let realtime = off(|anchor| anchor.monotonic_ns, |anchor| anchor.realtime_ns);
    monotonic.max(raw).max(realtime)
}

#[cfg(test)]
mod tests {
    mod ticks {
        use crate::ticks::*;

        fn pair(ticks: u64, monotonic_ns: u64) -> ClockPair {
            ClockPair {
                ticks,
                monotonic_ns,
                realtime_ns: monotonic_ns.saturating_add(1_000_000_000_000),
                monotonic_raw_ns: monotonic_ns,
                uncertainty_ticks: 40,
            }
        }

        #[test]
        fn a_reader_reads_what_the_clock_says() {
            let pairs = [pair(1000, 500), pair(2000, 1000), pair(4000, 2300)];
            let clock = HostClock::new(TickSource::Tsc, &pairs);
            let mut reader = clock.reader();
            for ticks in [5000, 0, 1000, 3999, 1999, 2000, 900, 4000, 3000, 1001] {
                assert_eq!(reader.nanoseconds(ticks), clock.nanoseconds(ticks));
            }
            // The line from the first to the last has 0.6 ns per tick.
            assert_eq!(clock.nanoseconds(5000), 2900);
            assert_eq!(clock.nanoseconds(900), 440);
            assert_eq!(clock.quality.calibration, Calibration::Pairs);
            // The line from the first to the third passes the second's tick at 1100.
            assert_eq!(clock.quality.residual_ns, 100);
            assert_eq!(clock.quality.uncertainty_ns, 12);
        }

        #[test]
        fn pairs_that_cannot_be_are_left_out() {
            for (last, ticks, ns) in [(pair(1000, 600), 3000, 1500), (pair(3000, u64::MAX), 4000, 2000)] {
                let clock = HostClock::new(TickSource::Tsc, &[pair(1000, 500), last, pair(2000, 1000)]);
                assert_eq!((clock.quality.pairs_unusable, clock.nanoseconds(ticks)), (1, ns));
                assert_eq!(clock.nanoseconds(u64::MAX), LATEST_NS);
            }
        }

        #[test]
        fn a_counter_without_pairs_says_so() {
            let clock = HostClock::new(TickSource::Tsc, &[pair(1000, 77)]);
            assert_eq!((clock.quality.calibration, clock.nanoseconds(1010)), (Calibration::Assumed, 87));
            let system = HostClock::new(TickSource::Monotonic, &[]);
            assert_eq!((system.quality.calibration, system.nanoseconds(1010)), (Calibration::Monotonic, 1010));
            assert_eq!(system.nanoseconds(u64::MAX), LATEST_NS);
        }
    }

    mod anchors {
        use crate::ticks::*;

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
            choose_anchors(pairs).iter().map(|anchor| anchor.ticks / 2_445_000_000).collect()
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
}
