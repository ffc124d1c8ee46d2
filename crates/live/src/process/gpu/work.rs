//! When GPUs did what launches gave them, by CUPTI and by CUDA events.

use std::collections::VecDeque;

use clocks::gpu::samples::SampleClocks;
use clocks::ticks::HostClock;
use journal::format::record::Symbol;
use nccl_events::archive::Timing;
use nccl_events::gpu::{ClockSample, GpuClock, GpuRecord};
use tables::interval::Interval;

use crate::process::newest::Newest;

/// So many samples of clocks are kept, and times of so many launches: what is summed up is seconds old.
const MOST_SAMPLES: usize = 256;
const MOST_LAUNCHES: usize = 1 << 12;

/// From when to when, on the clock of a device.
#[derive(Clone, Copy, Debug)]
struct Span {
    ordinal: u32,
    start_ns: u64,
    end_ns: u64,
    uncertainty_ns: u64,
}

impl Span {
    fn widen(self, other: Self) -> Self {
        Self { start_ns: self.start_ns.min(other.start_ns), end_ns: self.end_ns.max(other.end_ns), ..self }
    }
}

/// When a launch ran.
#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    by_cupti: Option<Span>,
    by_events: Option<Span>,
}

/// What GPUs did for a process.
#[derive(Debug)]
pub(crate) struct GpuWork {
    samples: VecDeque<(u64, ClockSample)>,
    launches: Newest<Ran>,
    clocks: SampleClocks,
    is_changed: bool,
}

impl Default for GpuWork {
    fn default() -> Self {
        let launches = Newest::new(MOST_LAUNCHES);
        Self { samples: VecDeque::new(), launches, clocks: SampleClocks::default(), is_changed: false }
    }
}

impl GpuWork {
    pub(crate) fn add(&mut self, ticks: u64, launch: u64, record: &GpuRecord<Symbol>) {
        let span = |ordinal, start_ns, end_ns, uncertainty_ns| Span { ordinal, start_ns, end_ns, uncertainty_ns };
        let (clock, span) = match record {
            GpuRecord::Clock(sample) => {
                self.samples.push_back((ticks, *sample));
                if self.samples.len() > MOST_SAMPLES {
                    self.samples.pop_front();
                }
                self.is_changed = true;
                return;
            }
            GpuRecord::Kernel(kernel) => (GpuClock::Cupti, span(kernel.device, kernel.start_ns, kernel.end_ns, 0)),
            GpuRecord::Copy(copy) => (GpuClock::Cupti, span(copy.device, copy.start_ns, copy.end_ns, 0)),
            GpuRecord::LaunchTime(time) => {
                (GpuClock::Events, span(time.ordinal, time.start_ns, time.end_ns, time.uncertainty_ns.into()))
            }
            _ => return,
        };
        // One that still runs has no end.
        if launch != 0 && span.start_ns != 0 && span.end_ns != 0 {
            let ran = self.launches.get_or(launch, Ran::default);
            let by = if clock == GpuClock::Cupti { &mut ran.by_cupti } else { &mut ran.by_events };
            *by = Some(by.map_or(span, |known| known.widen(span)));
        }
    }

    /// Whether it is to be expected that a launch is timed, and is not yet.
    pub(crate) fn awaits(&self, launch: u64) -> bool {
        !self.samples.is_empty() && self.launches.get(launch).is_none()
    }

    /// Finds the clocks again where there are new samples.
    pub(crate) fn fit(&mut self, host: &HostClock) {
        if std::mem::take(&mut self.is_changed) {
            let samples = self.samples.iter().map(|&(ticks, sample)| {
                let host_ns = host.nanoseconds(ticks);
                let until_ns = host.nanoseconds(ticks.saturating_add(sample.uncertainty_ticks));
                (host_ns, ClockSample { uncertainty_ticks: until_ns.saturating_sub(host_ns), ..sample })
            });
            self.clocks = SampleClocks::of(samples);
        }
    }

    /// When a launch ran, and how far off that can be. `is_shared` says whether it ran several operations.
    pub(crate) fn ran(&self, launch: u64, is_shared: bool) -> Option<(Interval, u64)> {
        let ran = self.launches.get(launch)?;
        let by_cupti = ran.by_cupti.map(|span| (span, GpuClock::Cupti, Timing::Cupti));
        let by_events = ran.by_events.map(|span| (span, GpuClock::Events, Timing::Event));
        let placed = [by_cupti, by_events].into_iter().flatten().find_map(|(span, clock, timing)| {
            Some((span, timing, self.clocks.place(clock, span.ordinal, span.start_ns, span.end_ns)?))
        });
        let (span, timing, (from, to)) = placed?;
        let error_ns = from.uncertainty_ns.max(to.uncertainty_ns) + span.uncertainty_ns;
        let (start, end) = (from.host_ns, to.host_ns);
        Some((Interval { start, end, timing, unfinished: false, moved_ns: 0, is_shared }, error_ns))
    }
}
