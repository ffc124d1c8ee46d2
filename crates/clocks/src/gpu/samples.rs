//! Maps times from CUPTI and CUDA events to host time, by samples: readings of a clock at known host times.
//!
//! ```text
//!  host │              ×╱       between two samples: their line
//!       │        ╱×╱╱           beyond the first and the last: the usual rate
//!       │   ╱╱×    ┆step        a step (the system's clock was set): a time in it is on the line before or after;
//!       │ ╱×                    if it can be on both, the middle of the two is used
//!       └──────────────── GPU
//! ```
//!
//! A clock that was set back shows times twice. Such a time has no host time, unless both candidates are close
//! together. The stated uncertainty is the sum of the largest uncertainty of a sample, the largest distance of a sample
//! from the line of its neighbours, and half the distance between two candidates.

use std::collections::BTreeMap;

use nccl_events::gpu::{ALL_DEVICES, ClockSample, GpuClock};
use serde::{Deserialize, Serialize};

use crate::piecewise::{Beyond, Knot, Piecewise, Slope, unsigned};

/// A reading of a clock. Host times are CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub host_ns: u64,
    pub gpu_ns: u64,
    /// The clock was read at most this long before or after `host_ns`.
    pub uncertainty_ns: u64,
}

impl Sample {
    fn knot(&self) -> Knot {
        (self.gpu_ns.into(), self.host_ns.into())
    }
}

/// The quality of a clock; written into the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampleQuality {
    pub samples: u64,
    /// Samples left out because host time did not advance.
    pub unusable: u64,
    /// Largest distance of a sample from the line of its neighbours, not counting steps.
    pub residual_ns: u64,
    /// The largest uncertainty of a sample.
    pub uncertainty_ns: u64,
    pub steps: u64,
    pub largest_step_ns: u64,
    /// How much faster the clock is than CLOCK_MONOTONIC, in ns per second.
    pub pace_ppb: i64,
}

/// A host time, and its largest error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub host_ns: u64,
    /// Largest error, as far as the samples show.
    pub uncertainty_ns: u64,
}

/// Samples between which the clock was not set.
#[derive(Debug)]
struct Stretch {
    /// From the clock's times to host times.
    map: Piecewise,
    /// Host times of the last sample before and the first one after the stretch, which show other times.
    between: (i128, i128),
}

/// Converts the times of a clock to host times.
#[derive(Debug, Default)]
pub struct SampleClock {
    stretches: Vec<Stretch>,
    pub quality: SampleQuality,
}

/// Clocks of a host are slewed by up to 500 ppm each, together one part in 1000. A larger difference is a step.
const MOST_SLEW: i128 = 1000;
/// Smaller steps do not matter, and inaccurate samples can look like them.
const SMALLEST_STEP_NS: i128 = 2000;
/// A time is unknown if its two candidates for the host time are further apart.
const MOST_DOUBT_NS: u64 = 1_000_000;

impl SampleClock {
    /// Makes the clock from samples in any order.
    pub fn of(mut samples: Vec<Sample>) -> Self {
        small_sort::sort_by_key(&mut samples, |sample| (sample.host_ns, sample.gpu_ns));
        let all = samples.len() as u64;
        samples.dedup_by_key(|sample| sample.host_ns);
        let uncertainties = samples.iter().map(|sample| sample.uncertainty_ns);
        let mut clock = Self::default();
        clock.quality.samples = samples.len() as u64;
        clock.quality.unusable = all - samples.len() as u64;
        clock.quality.uncertainty_ns = uncertainties.max().unwrap_or(0);
        if let Some(pace) = Pace::of(&samples) {
            clock.judge(&samples, pace);
            clock.add_stretches(&samples, pace);
        }
        clock
    }

    fn judge(&mut self, samples: &[Sample], pace: Pace) {
        let quality = &mut self.quality;
        quality.pace_ppb = pace.ppb();
        for pair in samples.windows(2) {
            if let &[from, to] = pair
                && let Some(step) = pace.step(from, to)
            {
                quality.steps += 1;
                quality.largest_step_ns = quality.largest_step_ns.max(step);
            }
        }
        for of_three in samples.windows(3) {
            if let &[before, at, after] = of_three
                && pace.step(before, at).is_none()
                && pace.step(at, after).is_none()
            {
                let line = Pace::between(before, after);
                quality.residual_ns = quality.residual_ns.max(line.off(before, at));
            }
        }
    }

    fn add_stretches(&mut self, samples: &[Sample], pace: Pace) {
        let goes_on = |a: &Sample, b: &Sample| a.gpu_ns < b.gpu_ns && pace.step(*a, *b).is_none();
        let mut before = i128::MIN;
        let mut number = 0;
        for stretch in samples.chunk_by(goes_on) {
            number += stretch.len();
            let next = samples.get(number).map(|sample| sample.knot().1);
            let knots: Vec<Knot> = stretch.iter().map(Sample::knot).collect();
            let Some(&last) = knots.last() else { continue };
            let map = Piecewise::new(knots, Beyond::Slope(pace.0));
            let map = map.unwrap_or_else(|| Piecewise::through(last, pace.0));
            self.stretches.push(Stretch {
                map: map.within(self.quality.uncertainty_ns + self.quality.residual_ns),
                between: (before, next.unwrap_or(i128::MAX)),
            });
            before = last.1;
        }
    }

    /// When the clock showed this time; `None` if never, or if unknown.
    pub fn place(&self, gpu_ns: u64) -> Option<Placed> {
        let mut places: Option<(u64, u64)> = None;
        let mut known = 0;
        for stretch in &self.stretches {
            let place = stretch.map.nearest(gpu_ns.into());
            let (before, after) = stretch.between;
            if (before..=after).contains(&place) {
                let host_ns = unsigned(place);
                let (first, last) = places.unwrap_or((host_ns, host_ns));
                places = Some((first.min(host_ns), last.max(host_ns)));
                known = known.max(stretch.map.uncertainty?);
            }
        }
        let (first, last) = places?;
        let doubt = last - first;
        (doubt <= MOST_DOUBT_NS)
            .then(|| Placed { host_ns: first + doubt / 2, uncertainty_ns: doubt.div_ceil(2) + known })
    }
}

/// The rate of a clock while it is not set: nanoseconds of the host per nanosecond of the clock.
#[derive(Clone, Copy)]
struct Pace(Slope);

impl Pace {
    /// The median over all pairs of samples, or only over those near the host's rate, if any. `None` below two samples.
    fn of(samples: &[Sample]) -> Option<Self> {
        let mut paces: Vec<Self> = samples
            .windows(2)
            .filter_map(|pair| match pair {
                &[from, to] => Some(Self::between(from, to)),
                _ => None,
            })
            .collect();
        let is_host = |Self(pace): &Self| (pace.run - pace.rise).abs() <= pace.rise / MOST_SLEW;
        if paces.iter().any(is_host) {
            paces.retain(is_host);
        }
        small_sort::sort_by(&mut paces, |Self(a), Self(b)| {
            let own = |a: &Slope, b: &Slope| a.run.saturating_mul(b.rise);
            own(a, b).cmp(&own(b, a))
        });
        let pace = paces.get(paces.len() / 2)?;
        (pace.0.run > 0).then_some(*pace)
    }

    /// Host time must advance from one sample to the next.
    fn between(from: Sample, to: Sample) -> Self {
        Self(Slope {
            rise: i128::from(to.host_ns) - i128::from(from.host_ns),
            run: i128::from(to.gpu_ns) - i128::from(from.gpu_ns),
        })
    }

    /// Distance of sample `to` from the line through `from` at this pace.
    fn off(self, from: Sample, to: Sample) -> u64 {
        let Self(Slope { rise, run }) = Self::between(from, to);
        let (shown, expected) = (run.saturating_mul(self.0.rise), rise.saturating_mul(self.0.run));
        let off = shown.saturating_sub(expected).unsigned_abs();
        let off = off.div_ceil(self.0.rise.max(1).unsigned_abs());
        u64::try_from(off).unwrap_or(u64::MAX)
    }

    /// How much the clock was set between two samples, if it was.
    fn step(self, from: Sample, to: Sample) -> Option<u64> {
        let host = i128::from(to.host_ns) - i128::from(from.host_ns);
        let doubt = i128::from(from.uncertainty_ns) + i128::from(to.uncertainty_ns);
        let doubt = (doubt + host / MOST_SLEW).saturating_mul(self.0.run);
        let off = self.off(from, to);
        (i128::from(off) > SMALLEST_STEP_NS + doubt / self.0.rise.max(1)).then_some(off)
    }

    /// How much faster the clock is than the host's, in ns per second, rounded away from 0.
    fn ppb(self) -> i64 {
        let Slope { rise, run } = self.0;
        let ahead = (run - rise).saturating_mul(1_000_000_000);
        let ppb = ahead.unsigned_abs().div_ceil(rise.max(1).unsigned_abs());
        let ppb = i64::try_from(ppb).unwrap_or(i64::MAX);
        if ahead < 0 { -ppb } else { ppb }
    }
}

/// The clocks of a process's GPU times.
#[derive(Debug, Default)]
pub struct SampleClocks {
    /// By clock and device ordinal (or [`ALL_DEVICES`]).
    pub all: BTreeMap<(GpuClock, u32), SampleClock>,
}

impl SampleClocks {
    /// Makes the clocks from samples with their host times; the samples' uncertainties must be in nanoseconds, too.
    pub fn of(all: impl Iterator<Item = (u64, ClockSample)>) -> Self {
        let mut samples: BTreeMap<(GpuClock, u32), Vec<Sample>> = BTreeMap::new();
        for (host_ns, sample) in all {
            let of_clock = samples.entry((sample.clock, sample.ordinal)).or_default();
            of_clock.push(Sample { host_ns, gpu_ns: sample.gpu_ns, uncertainty_ns: sample.uncertainty_ticks });
        }
        let clocks = samples.into_iter();
        let clocks = clocks.map(|(clock, samples)| (clock, SampleClock::of(samples)));
        Self { all: clocks.collect() }
    }

    /// When a device's clock showed these two times, if both are known and in order.
    pub fn place(&self, clock: GpuClock, ordinal: u32, start: u64, end: u64) -> Option<(Placed, Placed)> {
        let own = self.all.get(&(clock, ordinal));
        let clock = own.or_else(|| self.all.get(&(clock, ALL_DEVICES)))?;
        let (start, end) = (clock.place(start)?, clock.place(end)?);
        (start.host_ns <= end.host_ns).then_some((start, end))
    }
}

#[cfg(test)]
mod tests;
