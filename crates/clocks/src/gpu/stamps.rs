//! Maps NCCL's stamps of a GPU's timer to host time by bounds: the two clocks are never read together.
//!
//! ```text
//!   host:  KernelLaunch start ────────────────┐            ┌──── the callback that brings the stamp
//!                             ≤ kernel runs ≤ │  on GPU: g │ ≤
//!   so:    launch − g  ≤  offset(g)  ≤  callback − g        for every stamp g
//! ```
//!
//! Kernel times from CUPTI or CUDA events give tighter bounds: kernel start − g ≤ offset(g) for its first stamp,
//! offset(g) ≤ kernel end − g for its last. The offset is one line in g within the bounds; else several joined lines;
//! else the upper bound alone. The stated residual is a bound of the error, not an estimate.

use super::{GpuCalibration, GpuClock};
use crate::fit::{Bounds, Point, approximate, whole};
use crate::piecewise::{Beyond, Piecewise};

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
type Pair = (u64, u64);

/// Host times of a GPU's stamps: each was taken at a time or later (`lower`), or before (`upper`).
#[derive(Clone, Debug, Default)]
pub struct StampBounds {
    lower: Vec<Pair>,
    upper: Vec<Pair>,
    /// From kernel times on the host's clock: tighter, and as accurate as that clock's samples.
    kernel_lower: Vec<Pair>,
    kernel_upper: Vec<Pair>,
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
            let wider = |all: &[Pair], kernels: &[Pair], wider: fn(u64, u64) -> u64| {
                let kernels = kernels.iter();
                let kernels = kernels.map(|&(gpu, host)| (gpu, wider(host, slack_ns)));
                all.iter().copied().chain(kernels).collect::<Vec<Pair>>()
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

fn fitted(lower: &[Pair], upper: &[Pair]) -> GpuClock {
    let mut clock = fit(lower, upper).unwrap_or_default();
    if clock.quality.calibration != GpuCalibration::None {
        clock.quality.bounds = (lower.len() as u64, upper.len() as u64);
    }
    clock
}

fn fit(lower: &[Pair], upper: &[Pair]) -> Option<GpuClock> {
    let stamps = || lower.iter().chain(upper).map(|pair| pair.0);
    let (origin, last) = (stamps().min()?, stamps().max()?);
    let offset = |&(gpu, host): &Pair| i128::from(host) - i128::from(gpu);
    let most = upper.iter().map(offset).min()?;
    let constant = || Piecewise::offset((origin.into(), i128::from(origin) + most));
    let Some(least) = lower.iter().map(offset).max() else {
        return Some(GpuClock::new(constant(), GpuCalibration::UpperOnly, 0));
    };
    let step = step_ns(stamps());
    let near = |pair: &Pair, slack: u64| Point {
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
mod tests;
