//! Ticks to CLOCK_MONOTONIC nanoseconds: straight lines between the clock pairs.
//!
//! ```text
//!   ns │            ×        × pair (keeper thread, about one a second)
//!      │        ×╱╱          between two pairs: their line
//!      │   ╱╱╱╱              before the first and after the last: the line first → last, because
//!      │ ╱×                  two close pairs give a poor slope
//!      └───────────────ticks
//! ```
//!
//! All in integers, and never backwards: equal ticks give equal times, later ticks never earlier ones.

use serde::{Deserialize, Serialize};

use journal::clock::{ClockPair, TickSource};

/// Where the nanoseconds come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Calibration {
    /// Two or more clock pairs.
    Pairs,
    /// The ticks are CLOCK_MONOTONIC already.
    #[default]
    Monotonic,
    /// A counter with fewer than two pairs: one tick is taken for one nanosecond, which is wrong.
    Assumed,
}

/// How well the clock is known; written into the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockQuality {
    /// Name of the tick source.
    pub source: String,
    /// Where the nanoseconds come from.
    pub calibration: Calibration,
    /// Pairs used.
    pub pairs: u64,
    /// Pairs left out because time did not advance with them.
    pub pairs_unusable: u64,
    /// How far the pairs between the first and the last lie from the line of their neighbours, at most.
    pub residual_ns: u64,
    /// Half of the longest reading of a pair.
    pub uncertainty_ns: u64,
    /// CLOCK_MONOTONIC of the first pair.
    pub first_monotonic_ns: u64,
    /// CLOCK_REALTIME of the first pair.
    pub first_realtime_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    ticks: u64,
    ns: u64,
}

/// Turns the ticks of one process into nanoseconds of its host's CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct HostClock {
    points: Vec<Point>,
    /// How well it does so.
    pub quality: ClockQuality,
}

/// `delta × rise ÷ run` without overflow.
fn scale(delta: u64, rise: u64, run: u64) -> u64 {
    // Nearly always: the pairs are a second apart.
    if let Some(product) = delta.checked_mul(rise) {
        return product.checked_div(run).unwrap_or(0);
    }
    let product = u128::from(delta) * u128::from(rise);
    let scaled = product.checked_div(u128::from(run)).unwrap_or(0);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn between(from: Point, to: Point, ticks: u64) -> u64 {
    let advance = scale(
        ticks.saturating_sub(from.ticks),
        to.ns.saturating_sub(from.ns),
        to.ticks.saturating_sub(from.ticks),
    );
    from.ns.saturating_add(advance)
}

impl HostClock {
    /// Makes the clock from the pairs of one process, sorted by ticks.
    #[must_use]
    pub fn new(source: TickSource, pairs: &[ClockPair]) -> Self {
        let mut points: Vec<Point> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let point = Point {
                ticks: pair.ticks,
                ns: pair.monotonic_ns,
            };
            if points
                .last()
                .is_none_or(|last| last.ticks < point.ticks && last.ns < point.ns)
            {
                points.push(point);
            }
        }
        let mut quality = ClockQuality {
            source: source.name().to_owned(),
            pairs: points.len() as u64,
            pairs_unusable: (pairs.len() - points.len()) as u64,
            first_monotonic_ns: pairs.first().map_or(0, |pair| pair.monotonic_ns),
            first_realtime_ns: pairs.first().map_or(0, |pair| pair.realtime_ns),
            ..ClockQuality::default()
        };
        if source == TickSource::Monotonic {
            quality.calibration = Calibration::Monotonic;
            points.clear();
        } else if points.len() < 2 {
            quality.calibration = Calibration::Assumed;
        } else {
            quality.calibration = Calibration::Pairs;
            quality.residual_ns = residual_ns(&points);
        }
        let clock = Self { points, quality };
        clock.with_uncertainty(pairs)
    }

    fn with_uncertainty(mut self, pairs: &[ClockPair]) -> Self {
        let readings = pairs.iter().map(|pair| pair.uncertainty_ticks);
        let longest = readings.max().unwrap_or(0) / 2;
        self.quality.uncertainty_ns = match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) if last.ticks > first.ticks => {
                scale(longest, last.ns - first.ns, last.ticks - first.ticks)
            }
            _ => longest,
        };
        self
    }

    /// The time at a tick.
    #[must_use]
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        let (Some(&first), Some(&last)) = (self.points.first(), self.points.last()) else {
            return ticks;
        };
        if first.ticks == last.ticks {
            return if ticks < first.ticks {
                first.ns.saturating_sub(first.ticks - ticks)
            } else {
                first.ns.saturating_add(ticks - first.ticks)
            };
        }
        let (rise, run) = (last.ns - first.ns, last.ticks - first.ticks);
        if ticks < first.ticks {
            return first
                .ns
                .saturating_sub(scale(first.ticks - ticks, rise, run));
        }
        if ticks >= last.ticks {
            return last.ns.saturating_add(scale(ticks - last.ticks, rise, run));
        }
        let line = self.line_at(ticks);
        line.map_or(first.ns, |(from, to)| between(from, to, ticks))
    }

    /// The pairs around a tick.
    fn line_at(&self, ticks: u64) -> Option<(Point, Point)> {
        let after = self.points.partition_point(|point| point.ticks <= ticks);
        let from = self.points.get(after.checked_sub(1)?)?;
        Some((*from, *self.points.get(after)?))
    }

    /// The same for many ticks, of which most lie near the one before.
    #[must_use]
    pub const fn reader(&self) -> ClockReader<'_> {
        let nowhere = Point { ticks: 0, ns: 0 };
        ClockReader {
            clock: self,
            from: nowhere,
            to: nowhere,
        }
    }
}

/// Reads a [`HostClock`]: keeps the line of the last tick.
#[derive(Debug)]
pub struct ClockReader<'a> {
    clock: &'a HostClock,
    from: Point,
    to: Point,
}

impl ClockReader<'_> {
    /// As [`HostClock::nanoseconds`].
    #[inline]
    pub fn nanoseconds(&mut self, ticks: u64) -> u64 {
        if (self.from.ticks..self.to.ticks).contains(&ticks) {
            return between(self.from, self.to, ticks);
        }
        if let Some(line) = self.clock.line_at(ticks) {
            (self.from, self.to) = line;
        }
        self.clock.nanoseconds(ticks)
    }
}

fn residual_ns(points: &[Point]) -> u64 {
    let triples = points.windows(3).filter_map(|window| match window {
        [before, point, after] => Some(between(*before, *after, point.ticks).abs_diff(point.ns)),
        _ => None,
    });
    triples.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn lines_between_and_beyond_the_pairs() {
        let pairs = [pair(1000, 500), pair(2000, 1000), pair(4000, 2300)];
        let clock = HostClock::new(TickSource::Tsc, &pairs);
        let times: Vec<u64> = [1000, 1500, 2000, 3000, 4000]
            .iter()
            .map(|&ticks| clock.nanoseconds(ticks))
            .collect();
        assert_eq!(times, [500, 750, 1000, 1650, 2300]);
        let mut reader = clock.reader();
        for ticks in [5000, 0, 1000, 3999, 1999, 2000, 900, 4000, 3000, 1001] {
            assert_eq!(reader.nanoseconds(ticks), clock.nanoseconds(ticks));
        }
        // The line from the first to the last has 0.6 ns a tick.
        assert_eq!(clock.nanoseconds(5000), 2900);
        assert_eq!(clock.nanoseconds(900), 440);
        assert_eq!(clock.quality.calibration, Calibration::Pairs);
        // The line from the first to the third passes the second's tick at 1100.
        assert_eq!(clock.quality.residual_ns, 100);
        assert_eq!(clock.quality.uncertainty_ns, 12);
    }

    #[test]
    fn pairs_that_do_not_advance_are_left_out() {
        let pairs = [pair(1000, 500), pair(1000, 600), pair(3000, 1500)];
        let clock = HostClock::new(TickSource::Tsc, &pairs);
        assert_eq!(clock.quality.pairs_unusable, 1);
        assert_eq!(clock.nanoseconds(2000), 1000);
    }

    #[test]
    fn a_counter_without_pairs_says_so() {
        let clock = HostClock::new(TickSource::Tsc, &[pair(1000, 77)]);
        assert_eq!(clock.quality.calibration, Calibration::Assumed);
        assert_eq!(clock.nanoseconds(1010), 87);
        let system = HostClock::new(TickSource::Monotonic, &[]);
        assert_eq!(system.nanoseconds(1010), 1010);
        assert_eq!(system.quality.calibration, Calibration::Monotonic);
    }

    proptest::proptest! {
        #[test]
        fn time_never_goes_backwards(
            mut points in proptest::collection::vec((0..u64::MAX / 4, 0..u64::MAX / 4), 0..20),
            mut ticks in proptest::collection::vec(0..u64::MAX / 2, 2..50),
        ) {
            points.sort_unstable();
            let pairs: Vec<ClockPair> = points.iter().map(|&(ticks, ns)| pair(ticks, ns)).collect();
            let clock = HostClock::new(TickSource::Tsc, &pairs);
            ticks.sort_unstable();
            let times: Vec<u64> = ticks.iter().map(|&at| clock.nanoseconds(at)).collect();
            assert!(times.is_sorted(), "{times:?}");
        }
    }
}
