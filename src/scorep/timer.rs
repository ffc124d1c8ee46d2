//! Score-P's clock: which one it is, and what it shows at a tick of ours.

use journal::clock::{self, ClockPair, TickSource};

/// A clock that Score-P can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The counter that we read, too.
    Same,
    /// The processor's counter, where we read the system's clock.
    Counter,
    /// CLOCK_REALTIME in microseconds.
    RealtimeUs,
    /// CLOCK_MONOTONIC_RAW in nanoseconds.
    MonotonicRawNs,
}

/// Score-P's clock against ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    kind: Kind,
    anchor: Anchor,
}

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Anchor {
    ours: u64,
    theirs: u64,
}

/// The conversion between two instants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    from: Anchor,
    to: Anchor,
}

impl Timer {
    /// The clock that showed `last_timestamp` a while ago: of those that are later now, the one that is closest. They
    /// count from different events, years apart or since boot in different units.
    pub(super) fn of(last_timestamp: u64) -> Option<Self> {
        let pair = ClockPair::read();
        let mut candidates = vec![
            (Kind::RealtimeUs, pair.realtime_ns / 1000),
            (Kind::MonotonicRawNs, pair.monotonic_raw_ns),
        ];
        match clock::select() {
            TickSource::Monotonic => candidates.extend(counter().map(|now| (Kind::Counter, now))),
            TickSource::Tsc | TickSource::Cntvct => candidates.push((Kind::Same, pair.ticks)),
        }
        let later = candidates
            .into_iter()
            .filter(|(_, now)| *now >= last_timestamp);
        let (kind, theirs) = later
            .filter(|(_, now)| last_timestamp > 0 && now - last_timestamp < MOST_TICKS)
            .min_by_key(|(_, now)| now - last_timestamp)?;
        let anchor = Anchor {
            ours: pair.ticks,
            theirs,
        };
        Some(Self { kind, anchor })
    }

    /// The conversion for times since this was made until now.
    pub(super) fn until_now(&self) -> Conversion {
        Conversion {
            from: self.anchor,
            to: self.now(),
        }
    }

    fn now(&self) -> Anchor {
        let pair = ClockPair::read();
        let theirs = match self.kind {
            Kind::Same => pair.ticks,
            Kind::Counter => counter().unwrap_or(self.anchor.theirs),
            Kind::RealtimeUs => pair.realtime_ns / 1000,
            Kind::MonotonicRawNs => pair.monotonic_raw_ns,
        };
        Anchor {
            ours: pair.ticks,
            theirs,
        }
    }
}

/// No measurement is this long: a day of the fastest counter there is.
const MOST_TICKS: u64 = 86_400 * 10_000_000_000;

/// The processor's counter, whether we trust it or not.
fn counter() -> Option<u64> {
    clock::processor_counter()
}

impl Conversion {
    /// What Score-P's clock showed when ours showed this.
    pub(super) fn theirs(&self, ours: u64) -> u64 {
        let (from, to) = (self.from, self.to);
        let length = i128::from(to.ours) - i128::from(from.ours);
        let since = i128::from(ours) - i128::from(from.ours);
        let rise = i128::from(to.theirs) - i128::from(from.theirs);
        // Right after the setup there is no rate yet; then everything is now.
        let passed = since.saturating_mul(rise).checked_div(length).unwrap_or(0);
        u64::try_from(i128::from(from.theirs) + passed).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_known_by_what_it_showed() {
        clock::select();
        let pair = ClockPair::read();
        let kind = |shown| Timer::of(shown).map(|timer| timer.kind);
        assert_eq!(kind(pair.realtime_ns / 1000), Some(Kind::RealtimeUs));
        assert_eq!(kind(pair.monotonic_raw_ns), Some(Kind::MonotonicRawNs));
        if clock::select() == TickSource::Monotonic {
            assert_eq!(kind(u64::MAX), None);
        } else {
            assert_eq!(kind(pair.ticks), Some(Kind::Same));
        }
        assert_eq!((kind(0), kind(u64::MAX)), (None, None));
    }

    #[test]
    fn times_are_converted_by_both_ends() {
        let anchor = |ours, theirs| Anchor { ours, theirs };
        let conversion = Conversion {
            from: anchor(1000, 50),
            to: anchor(3000, 150),
        };
        assert_eq!(conversion.theirs(1000), 50);
        assert_eq!(conversion.theirs(2000), 100);
        assert_eq!(conversion.theirs(900), 45);
        let same = Conversion {
            from: anchor(7, 7),
            to: anchor(1 << 60, 1 << 60),
        };
        assert_eq!(same.theirs(123_456_789_012), 123_456_789_012);
    }
}
