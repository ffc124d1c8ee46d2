//! The clock of a process, as far as it is known: its own clock pairs, or ours until it has two.

use std::collections::VecDeque;

use clocks::ticks::HostClock;
use journal::clock::{self, ClockPair, TickSource};

/// The last pairs that are kept: what is summed up is seconds old.
const MOST_PAIRS: usize = 256;

/// What the ticks of a source of this host are now.
pub(crate) fn ticks_now(source: TickSource) -> Option<u64> {
    match source {
        TickSource::Monotonic => Some(clock::monotonic_ns()),
        source if source == clock::select() => Some(clock::ticks()),
        _ => clock::processor_counter(),
    }
}

/// What our clocks show, by the ticks of a source of this host.
fn pair_now(source: TickSource) -> Option<ClockPair> {
    match source {
        TickSource::Monotonic => None,
        source if source == clock::select() => Some(ClockPair::read()),
        _ => clock::processor_counter().map(|ticks| {
            let monotonic_ns = clock::monotonic_ns();
            let realtime_ns = clock::realtime_ns();
            ClockPair { ticks, monotonic_ns, realtime_ns, monotonic_raw_ns: monotonic_ns, uncertainty_ticks: 0 }
        }),
    }
}

/// The clock of a process.
#[derive(Debug)]
pub(crate) struct ProcessClock {
    source: TickSource,
    pairs: VecDeque<ClockPair>,
    /// Ours, the first and the last.
    ours: [Option<ClockPair>; 2],
    is_changed: bool,
    clock: HostClock,
}

impl ProcessClock {
    pub(crate) fn new(source: TickSource, since: Option<ClockPair>) -> Self {
        Self {
            source,
            pairs: VecDeque::new(),
            ours: [since, None],
            is_changed: true,
            clock: HostClock::new(source, &[]),
        }
    }

    /// A pair that the process recorded.
    pub(crate) fn add(&mut self, pair: ClockPair) {
        let at = self.pairs.partition_point(|known| known.ticks <= pair.ticks);
        self.pairs.insert(at, pair);
        if self.pairs.len() > MOST_PAIRS {
            self.pairs.pop_front();
        }
        self.is_changed = true;
    }

    /// Takes in what is known by now.
    pub(crate) fn update(&mut self) {
        if self.pairs.len() < 2 {
            self.ours[1] = pair_now(self.source);
            let ours: Vec<ClockPair> = self.ours.iter().flatten().copied().collect();
            self.clock = HostClock::new(self.source, &ours);
        } else if self.is_changed {
            self.clock = HostClock::new(self.source, self.pairs.make_contiguous());
        }
        self.is_changed = false;
    }

    /// CLOCK_MONOTONIC of a tick.
    pub(crate) fn host(&self) -> &HostClock {
        &self.clock
    }

    /// How far off its times can be.
    pub(crate) fn error_ns(&self) -> u64 {
        self.clock.quality.residual_ns + self.clock.quality.uncertainty_ns
    }

    /// CLOCK_REALTIME of CLOCK_MONOTONIC.
    pub(crate) fn realtime_ns(&self, monotonic_ns: u64) -> u64 {
        let ours = self.ours.iter().flatten().last();
        match self.pairs.back().or(ours) {
            Some(pair) => pair.realtime_ns.saturating_add(monotonic_ns).saturating_sub(pair.monotonic_ns),
            None => clock::realtime_ns().saturating_sub(clock::monotonic_ns().saturating_sub(monotonic_ns)),
        }
    }
}
