//! Maps GPU times to the host's CLOCK_MONOTONIC, in ns: the times of CUPTI and of CUDA events by samples
//! ([`SampleClock`]), NCCL's stamps of a GPU's timer by bounds ([`StampBounds`]).

use std::collections::BTreeMap;

use crate::fit::{Bounds, Point, approximate, whole};
use crate::piecewise::{Beyond, Knot, Piecewise, Slope, unsigned};
use nccl_events::gpu::{ALL_DEVICES, ClockSample, GpuClock as GpuClockSample};
use serde::{Deserialize, Serialize};

/// How a GPU's clock was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuCalibration {
    #[default]
    None,
    /// Between lower and upper bounds; the residual is the largest error of a mapped stamp.
    Bounded,
    /// Between lower and upper bounds, by several lines: the timer changed its rate. Residual as for `Bounded`.
    Piecewise,
    /// Stamps, but no launch to bound them from below.
    UpperOnly,
    /// The bounds contradict each other by the residual; the upper ones are used.
    Inconsistent,
}

impl GpuCalibration {
    /// All calibrations of a GPU clock with stamps.
    pub const ALL: [Self; 4] = [Self::Bounded, Self::Piecewise, Self::UpperOnly, Self::Inconsistent];

    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Bounded => "BOUNDED",
            Self::Piecewise => "PIECEWISE",
            Self::UpperOnly => "UPPER_ONLY",
            Self::Inconsistent => "INCONSISTENT",
        }
    }
}

/// The quality of a GPU's clock; written into the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuQuality {
    pub calibration: GpuCalibration,
    /// See [`GpuCalibration`]; 0 if unknown.
    pub residual_ns: u64,
    /// How much faster the host's clock is than the GPU's timer, in ns per second, from first to last knot.
    pub drift_ppb: i64,
    pub lines: u64,
    /// Number of lower and upper bounds used.
    pub bounds: (u64, u64),
    /// Number of these bounds that are times of kernels, from CUPTI or CUDA events.
    pub kernel_bounds: u64,
    /// How far kernel bounds were widened, beyond the error of their clock, to agree with callbacks.
    pub kernel_slack_ns: u64,
    /// Kernel times contradicted the callbacks, and were not used.
    pub kernels_contradict: bool,
}

impl GpuQuality {
    /// Largest error of a mapped stamp; `None` unless it is bounded on both sides.
    pub fn error_ns(&self) -> Option<u64> {
        matches!(self.calibration, GpuCalibration::Bounded | GpuCalibration::Piecewise).then_some(self.residual_ns)
    }
}

/// The clock of a communicator rank's GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuClock {
    map: Piecewise,
    pub quality: GpuQuality,
}

impl GpuClock {
    fn new(map: Piecewise, calibration: GpuCalibration, residual_ns: u64) -> Self {
        let quality = GpuQuality {
            calibration,
            residual_ns,
            drift_ppb: drift_ppb(&map),
            lines: map.knots().len() as u64 - 1,
            ..GpuQuality::default()
        };
        Self { map, quality }
    }

    pub fn host_ns(&self, gpu_ns: u64) -> u64 {
        unsigned(self.map.at(gpu_ns.into()))
    }

    /// The latest host time at which the stamp can have been taken; `None` unless one line is within all bounds.
    pub fn latest_ns(&self, gpu_ns: u64) -> Option<u64> {
        let is_line = self.quality.calibration == GpuCalibration::Bounded;
        let residual = self.map.uncertainty.filter(|_| is_line)?;
        Some(self.host_ns(gpu_ns).saturating_add(residual))
    }
}

fn drift_ppb(map: &Piecewise) -> i64 {
    let (Some(first), Some(last)) = (map.knots().first(), map.knots().last()) else {
        return 0;
    };
    let span = last.0 - first.0;
    let drift = last.1 - first.1 - span;
    let ppb = (drift * 1_000_000_000).checked_div(span).unwrap_or(0);
    i64::try_from(ppb).unwrap_or(0)
}

// Samples are readings of a clock at known host times:
//
//  host │              ×╱       between two samples: their line
//       │        ╱×╱╱           beyond the first and the last: the usual rate
//       │   ╱╱×    ┆step        a step (the system's clock was set): a time in it is on the line before or after;
//       │ ╱×                    if it can be on both, the middle of the two is used
//       └──────────────── GPU
//
// A clock that was set back shows times twice. Such a time has no host time, unless both candidates are close
// together. The stated uncertainty is the sum of the largest uncertainty of a sample, the largest distance of a sample
// from the line of its neighbours, and half the distance between two candidates.

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
pub struct HostTime {
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
    pub fn from_samples(mut samples: Vec<Sample>) -> Self {
        nccl_events::sort::sort_by_key(&mut samples, |sample| (sample.host_ns, sample.gpu_ns));
        let all = samples.len() as u64;
        samples.dedup_by_key(|sample| sample.host_ns);
        let uncertainties = samples.iter().map(|sample| sample.uncertainty_ns);
        let mut clock = Self::default();
        clock.quality.samples = samples.len() as u64;
        clock.quality.unusable = all - samples.len() as u64;
        clock.quality.uncertainty_ns = uncertainties.max().unwrap_or(0);
        if let Some(pace) = Pace::from_samples(&samples) {
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
        for window in samples.windows(3) {
            if let &[before, at, after] = window
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
    pub fn place(&self, gpu_ns: u64) -> Option<HostTime> {
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
            .then(|| HostTime { host_ns: first + doubt / 2, uncertainty_ns: doubt.div_ceil(2) + known })
    }
}

/// The rate of a clock while it is not set: nanoseconds of the host per nanosecond of the clock.
#[derive(Clone, Copy)]
struct Pace(Slope);

impl Pace {
    /// The median over all pairs of samples, or only over those near the host's rate, if any. `None` below two samples.
    fn from_samples(samples: &[Sample]) -> Option<Self> {
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
        nccl_events::sort::sort_by(&mut paces, |Self(a), Self(b)| {
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
    pub all: BTreeMap<(GpuClockSample, u32), SampleClock>,
}

impl SampleClocks {
    /// Makes the clocks from samples with their host times; the samples' uncertainties must be in nanoseconds, too.
    pub fn from_samples(all: impl Iterator<Item = (u64, ClockSample)>) -> Self {
        let mut samples: BTreeMap<(GpuClockSample, u32), Vec<Sample>> = BTreeMap::new();
        for (host_ns, sample) in all {
            let clock_samples = samples.entry((sample.clock, sample.ordinal)).or_default();
            clock_samples.push(Sample { host_ns, gpu_ns: sample.gpu_ns, uncertainty_ns: sample.uncertainty_ticks });
        }
        let clocks = samples.into_iter();
        let clocks = clocks.map(|(clock, samples)| (clock, SampleClock::from_samples(samples)));
        Self { all: clocks.collect() }
    }

    /// When a device's clock showed these two times, if both are known and in order.
    pub fn place(&self, clock: GpuClockSample, ordinal: u32, start: u64, end: u64) -> Option<(HostTime, HostTime)> {
        let own = self.all.get(&(clock, ordinal));
        let clock = own.or_else(|| self.all.get(&(clock, ALL_DEVICES)))?;
        let (start, end) = (clock.place(start)?, clock.place(end)?);
        (start.host_ns <= end.host_ns).then_some((start, end))
    }
}

// NCCL's stamps have bounds only: the GPU's timer and the host's clock are never read together.
//
//   host:  KernelLaunch start ────────────────┐            ┌──── the callback that brings the stamp
//                             ≤ kernel runs ≤ │  on GPU: g │ ≤
//   so:    launch − g  ≤  offset(g)  ≤  callback − g        for every stamp g
//
// Kernel times from CUPTI or CUDA events give tighter bounds: kernel start − g ≤ offset(g) for its first stamp,
// offset(g) ≤ kernel end − g for its last. The offset is one line in g within the bounds; else several joined lines;
// else the upper bound alone. The stated residual is a bound of the error, not an estimate.

/// Largest drift of a GPU's timer against CLOCK_MONOTONIC: quartzes are accurate to some 50 ppm, and NTP slews the
/// host's clock by up to 500 ppm only while correcting it.
const MOST_DRIFT: f64 = 200e-6;

/// The coarsest known step of the timer, ns; some timers have steps of 32 ns.
const COARSEST_STEP_NS: u64 = 1024;

/// How far kernel times may be off beyond the known error of their clock: tried in this order.
const SLACKS_NS: [u64; 6] = [0, 1_000, 4_000, 16_000, 128_000, 1_000_000];

/// Total rounding error: both ends to whole ns, and the value between them.
const ROUNDING_NS: u64 = 2;

/// A pair of times in ns: stamp of the GPU's timer, CLOCK_MONOTONIC of the host.
type StampPair = (u64, u64);

/// Host times of a GPU's stamps: each was taken at a time or later (`lower`), or before (`upper`).
#[derive(Clone, Debug, Default)]
pub struct StampBounds {
    lower: Vec<StampPair>,
    upper: Vec<StampPair>,
    /// From kernel times on the host's clock: tighter, and as accurate as that clock's samples.
    kernel_lower: Vec<StampPair>,
    kernel_upper: Vec<StampPair>,
}

impl StampBounds {
    pub fn not_after(&mut self, gpu_ns: u64, host_ns: u64) {
        self.upper.push((gpu_ns, host_ns));
    }

    pub fn not_before(&mut self, gpu_ns: u64, host_ns: u64) {
        self.lower.push((gpu_ns, host_ns));
    }

    pub fn after_kernel_began(&mut self, gpu_ns: u64, host_ns: u64) {
        self.kernel_lower.push((gpu_ns, host_ns));
    }

    pub fn before_kernel_ended(&mut self, gpu_ns: u64, host_ns: u64) {
        self.kernel_upper.push((gpu_ns, host_ns));
    }

    /// Adds the bounds of other stamps of the same GPU.
    pub fn add(&mut self, other: &Self) {
        self.lower.extend(&other.lower);
        self.upper.extend(&other.upper);
        self.kernel_lower.extend(&other.kernel_lower);
        self.kernel_upper.extend(&other.kernel_upper);
    }

    pub fn is_empty(&self) -> bool {
        self.upper.is_empty()
    }

    /// The bounds of the latest stamps, `most` of each sort.
    pub fn last(&self, most: usize) -> Self {
        let last = |bounds: &[StampPair]| {
            let mut bounds = bounds.to_vec();
            nccl_events::sort::sort(&mut bounds);
            bounds.split_off(bounds.len().saturating_sub(most))
        };
        Self {
            lower: last(&self.lower),
            upper: last(&self.upper),
            kernel_lower: last(&self.kernel_lower),
            kernel_upper: last(&self.kernel_upper),
        }
    }

    /// The clock. Bounds from callbacks always hold; those from kernels are widened by up to 1 ms until they agree.
    pub fn clock(&self) -> GpuClock {
        let kernels = (self.kernel_lower.len() + self.kernel_upper.len()) as u64;
        let mut without = fitted(&self.lower, &self.upper);
        if kernels == 0 {
            return without;
        }
        let rank = |clock: &GpuClock| {
            let mut all = GpuCalibration::ALL.iter();
            all.position(|known| *known == clock.quality.calibration)
        };
        let kept = |clock: &GpuClock| {
            let calibration = clock.quality.calibration;
            matches!(calibration, GpuCalibration::Bounded | GpuCalibration::Piecewise)
                && (rank(&without).is_none() || rank(clock) <= rank(&without))
        };
        for slack_ns in SLACKS_NS {
            let wider = |all: &[StampPair], kernels: &[StampPair], wider: fn(u64, u64) -> u64| {
                let kernels = kernels.iter();
                let kernels = kernels.map(|&(gpu, host)| (gpu, wider(host, slack_ns)));
                all.iter().copied().chain(kernels).collect::<Vec<StampPair>>()
            };
            let lower = wider(&self.lower, &self.kernel_lower, u64::saturating_sub);
            let upper = wider(&self.upper, &self.kernel_upper, u64::saturating_add);
            let mut clock = fitted(&lower, &upper);
            if kept(&clock) {
                clock.quality.kernel_bounds = kernels;
                clock.quality.kernel_slack_ns = slack_ns;
                return clock;
            }
        }
        without.quality.kernels_contradict = true;
        without
    }
}

fn fitted(lower: &[StampPair], upper: &[StampPair]) -> GpuClock {
    let mut clock = fit(lower, upper).unwrap_or_default();
    if clock.quality.calibration != GpuCalibration::None {
        clock.quality.bounds = (lower.len() as u64, upper.len() as u64);
    }
    clock
}

fn fit(lower: &[StampPair], upper: &[StampPair]) -> Option<GpuClock> {
    let stamps = || lower.iter().chain(upper).map(|pair| pair.0);
    let (origin, last) = (stamps().min()?, stamps().max()?);
    let offset = |&(gpu, host): &StampPair| i128::from(host) - i128::from(gpu);
    let most = upper.iter().map(offset).min()?;
    let constant = || Piecewise::offset((origin.into(), i128::from(origin) + most));
    let Some(least) = lower.iter().map(offset).max() else {
        return Some(GpuClock::new(constant(), GpuCalibration::UpperOnly, 0));
    };
    let step = step_ns(stamps());
    let near = |pair: &StampPair, slack: u64| Point {
        x: approximate(i128::from(pair.0.abs_diff(origin))),
        y: approximate(offset(pair) - most - i128::from(slack)),
    };
    let bounds = Bounds {
        lower: lower.iter().map(|pair| near(pair, step)).collect(),
        upper: upper.iter().map(|pair| near(pair, 0)).collect(),
    };
    let clock = |calibration, knots: &[Point], residual: f64| {
        let knots = knots.iter().map(|knot| {
            let gpu_ns = i128::from(origin) + whole(knot.x);
            (gpu_ns, gpu_ns + most + whole(knot.y))
        });
        let knots: Vec<_> = knots.collect();
        let one = knots.first().copied();
        let map = Piecewise::new(knots, Beyond::Nearest).or(one.map(Piecewise::offset))?;
        let residual_ns = whole(residual.ceil()) + i128::from(step + ROUNDING_NS);
        let residual_ns = u64::try_from(residual_ns).unwrap_or(u64::MAX);
        Some(GpuClock::new(map.within(residual_ns), calibration, residual_ns))
    };
    let span = approximate((last - origin).into());
    if let Some(fit) = bounds.line(span, MOST_DRIFT) {
        let ends = [(0.0, fit.first), (span, fit.last)].map(|(x, y)| Point { x, y });
        return clock(GpuCalibration::Bounded, &ends, fit.residual);
    }
    if let Some(piecewise) = bounds.piecewise(MOST_DRIFT) {
        return clock(GpuCalibration::Piecewise, &piecewise.knots, piecewise.residual);
    }
    let contradiction = u64::try_from(least - most).unwrap_or(u64::MAX);
    Some(GpuClock::new(constant(), GpuCalibration::Inconsistent, contradiction))
}

/// The step of the timer, as far as the stamps show it. An event happens up to one step after its stamp.
fn step_ns(mut stamps: impl Iterator<Item = u64>) -> u64 {
    let first = stamps.next().unwrap_or(0);
    let step = stamps.fold(0, |step, stamp| common_divisor(step, stamp.abs_diff(first)));
    if step == 0 { COARSEST_STEP_NS } else { step.min(COARSEST_STEP_NS) }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while let Some(rest) = a.checked_rem(b) {
        (a, b) = (b, rest);
    }
    a
}

#[cfg(test)]
mod stamp_tests;
#[cfg(test)]
mod tests;
