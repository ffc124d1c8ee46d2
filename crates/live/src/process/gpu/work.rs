//! Times of launches from CUPTI and from CUDA events.

use std::collections::VecDeque;

use clocks::gpu::{Placed, Sample, SampleClock};
use job::interval::Interval;
use journal::format::Symbol;
use nccl_events::archive::Timing;
use nccl_events::gpu::{ALL_DEVICES, ClockSample, GpuClock, GpuRecord};
use rustc_hash::FxHashMap;

use crate::process::clock::ProcessClock;
use crate::process::kept::Kept;

/// A clock is fitted to this many samples. More of them and launch times are kept: sums come seconds later.
const SAMPLES: usize = 64;
const MOST_SAMPLES: usize = 256;
const MOST_LAUNCHES: usize = 1 << 12;

type ClockKey = (GpuClock, u32);

#[derive(Clone, Copy, Debug)]
struct Span {
    clock: ClockKey,
    /// When it was recorded: samples of its clock may be in another file, read earlier or later.
    ticks: u64,
    start_ns: u64,
    end_ns: u64,
    uncertainty_ns: u64,
}

impl Span {
    fn widen(self, other: Self) -> Self {
        Self { start_ns: self.start_ns.min(other.start_ns), end_ns: self.end_ns.max(other.end_ns), ..other }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    by_cupti: Option<Span>,
    by_events: Option<Span>,
}

#[derive(Debug, Default)]
struct Clock {
    samples: VecDeque<(u64, ClockSample)>,
    all: u64,
    /// The clock fitted to the samples up to this number.
    fitted: (u64, SampleClock),
}

impl Clock {
    fn add(&mut self, ticks: u64, sample: ClockSample) {
        self.all += 1;
        self.samples.push_back((ticks, sample));
        if self.samples.len() > MOST_SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Places a span with samples up to the first one after it, so that times do not depend on when they are queried.
    fn place(&mut self, span: &Span, host: &ProcessClock) -> Option<(Placed, Placed)> {
        let later = self.samples.iter().rev().take_while(|(ticks, _)| *ticks > span.ticks).count().saturating_sub(1);
        let until = self.all - later as u64;
        if self.fitted.0 != until {
            let samples = self.samples.iter().rev().skip(later).take(SAMPLES).map(|(ticks, sample)| {
                let host_ns = host.ns(*ticks);
                let until_ns = host.ns(ticks.saturating_add(sample.uncertainty_ticks));
                Sample { host_ns, gpu_ns: sample.gpu_ns, uncertainty_ns: until_ns.saturating_sub(host_ns) }
            });
            self.fitted = (until, SampleClock::of(samples.collect()));
        }
        let (start, end) = (self.fitted.1.place(span.start_ns)?, self.fitted.1.place(span.end_ns)?);
        (start.host_ns <= end.host_ns).then_some((start, end))
    }
}

#[derive(Debug, Default)]
pub(crate) struct GpuWork {
    launches: Kept<Ran>,
    clocks: FxHashMap<ClockKey, Clock>,
}

impl GpuWork {
    pub(crate) fn add(&mut self, ticks: u64, launch: u64, record: &GpuRecord<Symbol>) {
        let (clock, start_ns, end_ns, uncertainty_ns) = match record {
            GpuRecord::Clock(sample) => {
                self.clocks.entry((sample.clock, sample.ordinal)).or_default().add(ticks, *sample);
                return;
            }
            // CUPTI has one clock for all devices.
            GpuRecord::Kernel(it) => ((GpuClock::Cupti, ALL_DEVICES), it.start_ns, it.end_ns, 0),
            GpuRecord::Copy(it) => ((GpuClock::Cupti, ALL_DEVICES), it.start_ns, it.end_ns, 0),
            GpuRecord::LaunchTime(it) => {
                ((GpuClock::Events, it.ordinal), it.start_ns, it.end_ns, it.uncertainty_ns.into())
            }
            _ => return,
        };
        // A running kernel has no end.
        if launch != 0 && start_ns != 0 && end_ns != 0 {
            let span = Span { clock, ticks, start_ns, end_ns, uncertainty_ns };
            let ran = self.launches.get_or(launch, ticks, Ran::default);
            let by = if clock.0 == GpuClock::Cupti { &mut ran.by_cupti } else { &mut ran.by_events };
            *by = Some(by.map_or(span, |known| known.widen(span)));
            if self.launches.len() > MOST_LAUNCHES
                && let Some(oldest) = self.launches.oldest(u64::MAX)
            {
                self.launches.remove(oldest);
            }
        }
    }

    pub(crate) fn times_launches(&self) -> bool {
        !self.clocks.is_empty()
    }

    pub(crate) fn has_timed(&self, launch: u64) -> bool {
        self.launches.get(launch).is_some()
    }

    /// Whether the time of a launch, or the next sample of its clock, is still expected.
    pub(crate) fn awaits(&self, launch: u64) -> bool {
        let Some(ran) = self.launches.get(launch) else {
            return !self.clocks.is_empty();
        };
        let mut spans = ran.by_cupti.iter().chain(&ran.by_events);
        let last = |span: &Span| Some(self.clocks.get(&span.clock)?.samples.back()?.0);
        spans.any(|span| last(span).is_some_and(|ticks| ticks <= span.ticks))
    }

    /// When a launch ran, with the error. `is_shared`: whether the launch ran several operations.
    pub(crate) fn ran(&mut self, launch: u64, is_shared: bool, host: &ProcessClock) -> Option<(Interval, u64)> {
        let ran = self.launches.get(launch)?;
        let by_cupti = ran.by_cupti.map(|span| (span, Timing::Cupti));
        let by_events = ran.by_events.map(|span| (span, Timing::Event));
        let placed = [by_cupti, by_events].into_iter().flatten().find_map(|(span, timing)| {
            let (from, to) = self.clocks.get_mut(&span.clock)?.place(&span, host)?;
            Some((span, timing, from, to))
        });
        let (span, timing, from, to) = placed?;
        let error_ns = from.uncertainty_ns.max(to.uncertainty_ns) + span.uncertainty_ns;
        let (start, end) = (from.host_ns, to.host_ns);
        Some((Interval { start, end, timing, unfinished: false, moved_ns: 0, is_shared }, error_ns))
    }
}

#[cfg(test)]
mod tests {
    use journal::clock::TickSource;
    use nccl_events::gpu::LaunchTime;

    use super::*;

    /// Samples of a clock and times of launches are in different files. This clock's pace changes with each sample.
    #[test]
    fn times_do_not_depend_on_the_order_of_reading() {
        let sample = |at: u64| {
            let gpu_ns = at + at * at / 1_000_000;
            let sample = ClockSample { clock: GpuClock::Events, ordinal: 0, gpu_ns, uncertainty_ticks: 1 };
            (at, 0, GpuRecord::Clock(sample))
        };
        let time = |at: u64| {
            let [start_ns, end_ns] = [at - 400_000, at - 300_000].map(|ns| ns + ns * ns / 1_000_000);
            let time = LaunchTime { ordinal: 0, stream: 0, start_ns, end_ns, uncertainty_ns: 0 };
            (at, 7, GpuRecord::LaunchTime(time))
        };
        let samples = [1, 2, 3, 4, 5].map(|at| sample(1_000_000 * at));
        let host = ProcessClock::new(TickSource::Monotonic, None);
        let ran = |read_before: usize| {
            let mut work = GpuWork::default();
            let (before, after) = samples.split_at(read_before);
            for (ticks, launch, record) in before.iter().chain([&time(2_500_000)]).chain(after) {
                work.add(*ticks, *launch, record);
            }
            assert!(!work.awaits(7));
            work.ran(7, false, &host).map(|(interval, error_ns)| (interval.start, interval.end, error_ns))
        };
        assert!(ran(2).is_some());
        assert_eq!([0, 1, 3, 5].map(ran), [ran(2); 4]);
    }
}
