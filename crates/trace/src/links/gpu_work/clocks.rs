//! The clocks of a process that GPU times are on.

use std::collections::BTreeMap;

use super::sample_clock::{Placed, Sample, SampleClock};
use crate::tables::assembly::Assembly;
use nccl_events::gpu::{ALL_DEVICES, ClockSample, GpuClock, GpuRecord};

/// By clock and device.
#[derive(Debug, Default)]
pub struct Clocks {
    /// The device is its ordinal, or [`ALL_DEVICES`].
    pub all: BTreeMap<(GpuClock, u32), SampleClock>,
}

impl Clocks {
    /// Those that samples were recorded of. Times must be nanoseconds already.
    #[must_use]
    pub fn of(assembly: &Assembly) -> Self {
        Self::of_samples(assembly.gpu.iter().filter_map(|at| match at.record {
            GpuRecord::Clock(sample) => Some((at.time, sample)),
            _ => None,
        }))
    }

    /// Those of these samples, each with its time on the host's clock; their uncertainty is in nanoseconds, too.
    #[must_use]
    pub fn of_samples(all: impl Iterator<Item = (u64, ClockSample)>) -> Self {
        let mut samples: BTreeMap<(GpuClock, u32), Vec<Sample>> = BTreeMap::new();
        for (host_ns, sample) in all {
            let of_clock = samples.entry((sample.clock, sample.ordinal)).or_default();
            of_clock.push(Sample {
                host_ns,
                gpu_ns: sample.gpu_ns,
                uncertainty_ns: sample.uncertainty_ticks,
            });
        }
        let clocks = samples.into_iter();
        let clocks = clocks.map(|(clock, samples)| (clock, SampleClock::of(samples)));
        Self {
            all: clocks.collect(),
        }
    }

    /// A device's clock.
    fn get(&self, clock: GpuClock, ordinal: u32) -> Option<&SampleClock> {
        let own = self.all.get(&(clock, ordinal));
        own.or_else(|| self.all.get(&(clock, ALL_DEVICES)))
    }

    /// When a device's clock showed these two times, if that can be told and they are in order. Both are off by what
    /// the second one is at most, or the first.
    #[must_use]
    pub fn place(
        &self,
        clock: GpuClock,
        ordinal: u32,
        start: u64,
        end: u64,
    ) -> Option<(Placed, Placed)> {
        let clock = self.get(clock, ordinal)?;
        let (start, end) = (clock.place(start)?, clock.place(end)?);
        (start.host_ns <= end.host_ns).then_some((start, end))
    }
}
