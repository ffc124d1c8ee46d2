//! The clock of a process that still runs: its ticks in nanoseconds of CLOCK_MONOTONIC, by the clock pairs read so far.
//!
//! A tick is converted with the pairs that the process recorded before it, whenever the conversion happens. So reading
//! a journal again gives the same times.

use std::collections::VecDeque;

use crate::ticks::TickClock;
use journal::clock;
use journal::clock::{ClockPair, TickSource};

/// The rate is measured across this many pairs.
const FOR_PACE: usize = 8;
/// Lines kept of the past, one per second, and the limit when pairs are read long before events.
const LINES: usize = 256;
const MOST_LINES: usize = 1 << 14;

/// The present ticks of a source on this host.
pub fn ticks_now(source: TickSource) -> Option<u64> {
    match source {
        TickSource::Monotonic => Some(clock::monotonic_ns()),
        source if source == clock::select() => Some(clock::ticks()),
        _ => clock::processor_counter(),
    }
}

/// A present reading of this process's clocks, with the ticks of a source on this host.
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

/// A line through a clock pair, at the rate since an earlier pair.
#[derive(Clone, Copy, Debug)]
struct Line {
    ticks: u64,
    ns: u64,
    run: u64,
    rise: u64,
    /// Half the time that reading the pair took.
    reading_ns: u64,
    /// Distance of the pair from the previous line.
    residual_ns: u64,
    error_ns: u64,
}

impl Line {
    const IDENTITY: Self = Self { ticks: 0, ns: 0, run: 1, rise: 1, reading_ns: 0, residual_ns: 0, error_ns: 0 };

    /// `None` if time did not advance.
    fn new(from: &ClockPair, to: &ClockPair) -> Option<Self> {
        let run = to.ticks.checked_sub(from.ticks).filter(|run| *run > 0)?;
        let rise = to.monotonic_ns.checked_sub(from.monotonic_ns).filter(|rise| *rise > 0)?;
        let line = Self { ticks: to.ticks, ns: to.monotonic_ns, run, rise, ..Self::IDENTITY };
        let reading_ns = line.length_ns(to.uncertainty_ticks.max(from.uncertainty_ticks) / 2);
        Some(Self { reading_ns, error_ns: reading_ns, ..line })
    }

    #[inline]
    fn length_ns(&self, ticks: u64) -> u64 {
        match ticks.checked_mul(self.rise) {
            Some(product) => product / self.run,
            None => u64::try_from(u128::from(ticks) * u128::from(self.rise) / u128::from(self.run)).unwrap_or(u64::MAX),
        }
    }

    fn ns(&self, ticks: u64) -> u64 {
        match ticks.checked_sub(self.ticks) {
            Some(since) => self.ns.saturating_add(self.length_ns(since)),
            None => self.ns.saturating_sub(self.length_ns(self.ticks - ticks)),
        }
    }
}

/// The clock of a process: converts its ticks to nanoseconds of CLOCK_MONOTONIC. A tick is converted with the clock
/// pairs that the process recorded before it, never later ones.
#[derive(Debug)]
pub struct RunningClock {
    source: TickSource,
    pairs: VecDeque<ClockPair>,
    /// Each line applies from its tick on.
    lines: VecDeque<Line>,
    /// The follower's own first and last pairs, used until the process has recorded two.
    ours: [Option<ClockPair>; 2],
    by_ours: Line,
}

impl RunningClock {
    /// `since` is a pair that the follower read some time ago.
    pub fn new(source: TickSource, since: Option<ClockPair>) -> Self {
        Self { source, pairs: VecDeque::new(), lines: VecDeque::new(), ours: [since, None], by_ours: Line::IDENTITY }
    }

    /// Adds a pair that the process recorded. Pairs must come in order.
    pub fn add(&mut self, pair: ClockPair) {
        if self.pairs.back().is_some_and(|last| pair.ticks <= last.ticks || pair.monotonic_ns <= last.monotonic_ns) {
            return;
        }
        if let Some(line) = self.pairs.front().and_then(|from| Line::new(from, &pair)) {
            let residual_ns = self.lines.back().map_or(0, |last| last.ns(pair.ticks).abs_diff(pair.monotonic_ns));
            let recent = self.lines.iter().rev().take(FOR_PACE);
            let (reading_ns, worst_ns) = recent
                .fold((line.reading_ns, residual_ns), |(reading_ns, residual_ns), it| {
                    (reading_ns.max(it.reading_ns), residual_ns.max(it.residual_ns))
                });
            self.lines.push_back(Line { residual_ns, error_ns: reading_ns + worst_ns, ..line });
        }
        self.pairs.push_back(pair);
        if self.pairs.len() > FOR_PACE {
            self.pairs.pop_front();
        }
        if self.lines.len() > MOST_LINES {
            self.lines.pop_front();
        }
    }

    /// Drops lines that are no longer needed: no event before these ticks is still to come.
    pub fn update(&mut self, before: u64) {
        while self.lines.len() > LINES && self.lines.get(1).is_some_and(|next| next.ticks <= before) {
            self.lines.pop_front();
        }
        if self.lines.is_empty() {
            self.ours[1] = pair_now(self.source);
            if let [Some(from), Some(to)] = &self.ours {
                self.by_ours = Line::new(from, to).unwrap_or(self.by_ours);
            }
        }
    }

    fn line(&self, ticks: u64) -> &Line {
        if self.source == TickSource::Monotonic {
            return &Line::IDENTITY;
        }
        let after = match self.lines.back() {
            Some(last) if last.ticks <= ticks => self.lines.len(),
            _ => self.lines.partition_point(|line| line.ticks <= ticks),
        };
        self.lines.get(after.saturating_sub(1)).unwrap_or(&self.by_ours)
    }

    pub fn ns(&self, ticks: u64) -> u64 {
        self.line(ticks).ns(ticks)
    }

    /// The error of a time in ns; `None` before the process has recorded two clock pairs.
    pub fn error_ns(&self, ns: u64) -> Option<u64> {
        if self.source == TickSource::Monotonic {
            return Some(0);
        }
        let after = self.lines.partition_point(|line| line.ns <= ns);
        Some(self.lines.get(after.saturating_sub(1))?.error_ns)
    }

    /// Reads many ticks, most of which are close to the previous one.
    pub const fn reader(&self) -> RunningReader<'_> {
        RunningReader { clock: self, line: Line::IDENTITY, from: 1, until: 0 }
    }

    pub fn before(&self, ticks: u64, ns: u64) -> u64 {
        let line = self.line(ticks);
        let length = u128::from(ns) * u128::from(line.run) / u128::from(line.rise);
        ticks.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX))
    }

    pub fn ticks_of(&self, ns: u64) -> u64 {
        u64::MAX - self.before(u64::MAX, ns)
    }

    pub fn realtime_ns(&self, monotonic_ns: u64) -> u64 {
        match self.pairs.back().or(self.ours.iter().flatten().last()) {
            Some(pair) => pair.realtime_ns.saturating_add(monotonic_ns).saturating_sub(pair.monotonic_ns),
            None => clock::realtime_ns().saturating_sub(clock::monotonic_ns().saturating_sub(monotonic_ns)),
        }
    }
}

/// Reads a [`RunningClock`], with the line of the last tick.
#[derive(Debug)]
pub struct RunningReader<'a> {
    clock: &'a RunningClock,
    line: Line,
    /// The line applies from here,
    from: u64,
    /// and up to here.
    until: u64,
}

impl TickClock for RunningReader<'_> {
    #[inline]
    fn nanoseconds(&mut self, ticks: u64) -> u64 {
        if !(self.from..=self.until).contains(&ticks) {
            let lines = &self.clock.lines;
            let after = lines.partition_point(|line| line.ticks <= ticks);
            self.line = *self.clock.line(ticks);
            self.from = if after < 2 { 0 } else { self.line.ticks };
            self.until = lines.get(after.max(1)).map_or(u64::MAX, |next| next.ticks.saturating_sub(1));
        }
        self.line.ns(ticks)
    }
}

#[cfg(test)]
mod tests {
    use crate::running::*;

    fn pair(ticks: u64, monotonic_ns: u64) -> ClockPair {
        ClockPair { ticks, monotonic_ns, realtime_ns: 0, monotonic_raw_ns: 0, uncertainty_ticks: 40 }
    }

    /// 2 ticks per ns; from the third pair on the system's clock is 100 ns ahead.
    fn clock(pairs: usize) -> RunningClock {
        let mut clock = RunningClock::new(TickSource::Tsc, None);
        let all = [pair(10_000, 5_000), pair(20_000, 10_000), pair(40_000, 20_100), pair(60_000, 30_100)];
        all.into_iter().take(pairs).for_each(|pair| clock.add(pair));
        clock
    }

    #[test]
    fn a_time_does_not_depend_on_later_pairs() {
        for ticks in [0, 10_000, 19_998, 20_000, 39_999] {
            assert_eq!((clock(2).ns(ticks), clock(2).error_ns(ticks / 2)), (ticks / 2, Some(10)));
            assert_eq!((clock(4).ns(ticks), clock(4).error_ns(ticks / 2)), (ticks / 2, Some(10)));
        }
        assert_eq!((clock(3).ns(40_000), clock(3).error_ns(20_100)), (20_100, Some(110)));
        assert_eq!(clock(4).ns(59_999), clock(3).ns(59_999));
        assert_eq!(clock(2).before(39_999, 10_000), 19_999);
    }

    #[test]
    fn clock_lines_survive_until_backlog_is_read() {
        let mut clock = RunningClock::new(TickSource::Tsc, None);
        // The n-th second lasts n ns.
        let at = |second: u64| pair(second * 1_000, (1..=second).sum());
        (1..2_000).for_each(|second| clock.add(at(second)));
        clock.update(10_000);
        assert_eq!(clock.ns(10_000), at(10).monotonic_ns);
        clock.update(1_999_000);
        assert_ne!(clock.ns(10_000), at(10).monotonic_ns);
        assert_eq!(clock.ns(1_900_000), at(1_900).monotonic_ns);
    }
}
