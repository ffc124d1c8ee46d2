//! Score-P's clock: identifies it, and converts ticks to its time.

use journal::clock::{self, ClockPair, TickSource};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Same,
    /// The processor's counter, while the plugin's ticks come from the system clock.
    Counter,
    RealtimeUs,
    MonotonicRawNs,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    kind: Kind,
    anchor: Anchor,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Anchor {
    ticks: u64,
    scorep: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    from: Anchor,
    to: Anchor,
}

impl Timer {
    /// Finds the clock by an earlier timestamp: among the clocks that are later now, the closest one. The clocks start
    /// at different events or have different units, so they differ by far more than the time since the timestamp.
    pub(super) fn of(last_timestamp: u64) -> Option<Self> {
        let pair = ClockPair::read();
        let mut candidates =
            vec![(Kind::RealtimeUs, pair.realtime_ns / 1000), (Kind::MonotonicRawNs, pair.monotonic_raw_ns)];
        match clock::select() {
            TickSource::Monotonic => candidates.extend(clock::processor_counter().map(|now| (Kind::Counter, now))),
            TickSource::Tsc | TickSource::Cntvct => candidates.push((Kind::Same, pair.ticks)),
        }
        let later = candidates.into_iter().filter(|(_, now)| *now >= last_timestamp);
        let (kind, scorep) = later
            .filter(|(_, now)| last_timestamp > 0 && now - last_timestamp < MOST_TICKS)
            .min_by_key(|(_, now)| now - last_timestamp)?;
        let anchor = Anchor { ticks: pair.ticks, scorep };
        Some(Self { kind, anchor })
    }

    pub(super) fn until_now(&self) -> Conversion {
        Conversion { from: self.anchor, to: self.now() }
    }

    fn now(&self) -> Anchor {
        let pair = ClockPair::read();
        let scorep = match self.kind {
            Kind::Same => pair.ticks,
            Kind::Counter => clock::processor_counter().unwrap_or(self.anchor.scorep),
            Kind::RealtimeUs => pair.realtime_ns / 1000,
            Kind::MonotonicRawNs => pair.monotonic_raw_ns,
        };
        Anchor { ticks: pair.ticks, scorep }
    }
}

/// More ticks than any measurement lasts: one day of the fastest counter.
const MOST_TICKS: u64 = 86_400 * 10_000_000_000;

impl Conversion {
    pub(super) fn scorep_time(&self, ticks: u64) -> u64 {
        let (from, to) = (self.from, self.to);
        let length = i128::from(to.ticks) - i128::from(from.ticks);
        let since = i128::from(ticks) - i128::from(from.ticks);
        let rise = i128::from(to.scorep) - i128::from(from.scorep);
        // Right after the setup there is no rate yet.
        let passed = since.saturating_mul(rise).checked_div(length).unwrap_or(0);
        // Times before the clock's zero are clamped to zero.
        u64::try_from(i128::from(from.scorep) + passed).unwrap_or(0)
    }
}
