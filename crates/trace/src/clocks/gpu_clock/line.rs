//! The straight line that keeps all bounds of a GPU's clock; where there is none, [`bent`] has several.
//!
//! ```text
//!  offset │   ▾     ▾  ▾        ▾ callback − stamp         A line is the pair of its offsets (p, q) at the first and
//!         │ p̂┌ ─ ─ ─ ─ ─ ─ ─ ─ ┐q̂                          the last stamp. Each bound and the limit of the drift
//!         │  ┤═════════════════├  the line                 cut a half-plane off; what is left is a convex polygon,
//!         │ p̌└ ─ ─ ─ ─ ─ ─ ─ ─ ┘q̌                          and the truth is in it.
//!         │    ▴    ▴      ▴     launch − stamp
//!         └──┴─────────────────┴── GPU timer
//! ```
//!
//! The middle of the polygon's bounding box is in the polygon (each bound weighs p and q with positive weights
//! that add up to 1), and no line of the polygon is further from it than half a side of the box at the first
//! and the last stamp, and so anywhere between them. So the residual is a bound, not an estimate. A fit by least
//! squares would have no such bound, and delays are not symmetric.
//!
//! Where the bounds say nothing about the drift (a short run) it is taken for 0: any other is less likely. The
//! residual still allows for it.

use super::{GpuCalibration, GpuClock, Knot, bent};

/// The most that a GPU's timer drifts against CLOCK_MONOTONIC: quartzes are good for some 50 ppm, and NTP slews
/// the host's clock by up to 500 ppm only when it sets it right.
pub(super) const MOST_DRIFT: f64 = 200e-6;

/// The coarsest steps that the timer is known to go in, ns; some go in steps of 32 ns.
pub(super) const COARSEST_STEP_NS: u64 = 1024;

/// How far off the times of kernels may be beyond what is known of their clock: tried one after the other.
const SLACKS_NS: [u64; 6] = [0, 1_000, 4_000, 16_000, 128_000, 1_000_000];

/// How much rounding may add up to: both ends to whole ns, and the value between them.
const ROUNDING_NS: u64 = 2;

/// A pair of times in ns: stamp of the GPU's timer, CLOCK_MONOTONIC of the host.
type Pair = (u64, u64);

/// What is known of the host times of a GPU's stamps.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    lower: Vec<Pair>,
    upper: Vec<Pair>,
    /// By the times of kernels on the host's clock: closer, and as good as that clock's samples.
    kernel_lower: Vec<Pair>,
    kernel_upper: Vec<Pair>,
}

impl Bounds {
    /// This stamp was taken at this host time or before.
    pub(super) fn not_after(&mut self, gpu_ns: u64, host_ns: u64) {
        self.upper.push((gpu_ns, host_ns));
    }

    /// This stamp was taken at this host time or later.
    pub(super) fn not_before(&mut self, gpu_ns: u64, host_ns: u64) {
        self.lower.push((gpu_ns, host_ns));
    }

    /// This stamp was taken after its kernel had begun, by the host's clock.
    pub(super) fn after_kernel_began(&mut self, gpu_ns: u64, host_ns: u64) {
        self.kernel_lower.push((gpu_ns, host_ns));
    }

    /// This stamp was taken before its kernel ended, by the host's clock.
    pub(super) fn before_kernel_ended(&mut self, gpu_ns: u64, host_ns: u64) {
        self.kernel_upper.push((gpu_ns, host_ns));
    }

    /// Takes in what is known of other stamps of the same GPU.
    pub(super) fn add(&mut self, other: &Self) {
        self.lower.extend(&other.lower);
        self.upper.extend(&other.upper);
        self.kernel_lower.extend(&other.kernel_lower);
        self.kernel_upper.extend(&other.kernel_upper);
    }

    /// Whether there are no stamps.
    pub(super) fn is_empty(&self) -> bool {
        self.upper.is_empty()
    }

    /// The clock. What callbacks say is the host's own and holds; kernels are given as much slack as it takes to fit it,
    /// up to a millisecond.
    pub(super) fn clock(&self) -> GpuClock {
        let kernels = (self.kernel_lower.len() + self.kernel_upper.len()) as u64;
        let without = self.line();
        if kernels == 0 {
            return without;
        }
        let quality = |clock: &GpuClock| {
            let all = GpuCalibration::ALL.iter();
            all.take_while(|known| **known != clock.calibration).count()
        };
        let fits = |clock: &GpuClock| {
            matches!(
                clock.calibration,
                GpuCalibration::Bounded | GpuCalibration::Bent
            ) && quality(clock) <= quality(&without)
        };
        let with_kernels = SLACKS_NS.iter().map(|&kernel_slack_ns| GpuClock {
            kernel_bounds: kernels,
            kernel_slack_ns,
            ..self.with_kernels(kernel_slack_ns).line()
        });
        let found = with_kernels.into_iter().find(fits);
        found.unwrap_or(GpuClock {
            kernels_contradict: true,
            ..without
        })
    }

    /// All bounds, those by kernels wider by so much.
    fn with_kernels(&self, slack_ns: u64) -> Self {
        let lower = self.kernel_lower.iter();
        let lower = lower.map(|&(gpu_ns, host_ns)| (gpu_ns, host_ns.saturating_sub(slack_ns)));
        let upper = self.kernel_upper.iter();
        let upper = upper.map(|&(gpu_ns, host_ns)| (gpu_ns, host_ns.saturating_add(slack_ns)));
        Self {
            lower: self.lower.iter().copied().chain(lower).collect(),
            upper: self.upper.iter().copied().chain(upper).collect(),
            ..Self::default()
        }
    }

    /// The clock by callbacks, or what has been put there.
    fn line(&self) -> GpuClock {
        let stamps = || self.lower.iter().chain(&self.upper).map(|pair| pair.0);
        let (Some(first), Some(last)) = (stamps().min(), stamps().max()) else {
            return GpuClock::default();
        };
        let offset = |&(gpu, host): &Pair| i128::from(host) - i128::from(gpu);
        let Some(upper) = self.upper.iter().map(offset).min() else {
            return GpuClock::default();
        };
        let knot = |after: f64, offset: i128| Knot {
            gpu_ns: first.saturating_add(u64::try_from(whole(after)).unwrap_or(0)),
            offset_ns: i64::try_from(offset).unwrap_or(0),
        };
        let clock = |calibration, knots, residual: i128| GpuClock {
            calibration,
            knots,
            residual_ns: u64::try_from(residual).unwrap_or(u64::MAX),
            bounds: (self.lower.len() as u64, self.upper.len() as u64),
            ..GpuClock::default()
        };
        let constant = |calibration, offset: i128, residual: i128| {
            clock(calibration, vec![knot(0.0, offset)], residual)
        };
        let Some(lower) = self.lower.iter().map(offset).max() else {
            return constant(GpuCalibration::UpperOnly, upper, 0);
        };
        let step = step_ns(stamps());
        // Small numbers: offsets in ns since the epoch do not fit an f64.
        let near = |pair: &Pair, slack: u64| Near {
            after: approximate(i128::from(pair.0.abs_diff(first))),
            offset: approximate(offset(pair) - upper - i128::from(slack)),
        };
        let lowers: Vec<Near> = self.lower.iter().map(|pair| near(pair, step)).collect();
        let uppers: Vec<Near> = self.upper.iter().map(|pair| near(pair, 0)).collect();
        let span = last - first;
        let span = approximate(span.into());
        let rounded = |residual: f64| whole(residual.ceil()) + i128::from(step + ROUNDING_NS);
        if let Some(fit) = fit(&lowers, &uppers, span) {
            let ends = [(0.0, fit.first), (span, fit.last)];
            let knots = ends.map(|(after, offset)| knot(after, upper + whole(offset)));
            return clock(
                GpuCalibration::Bounded,
                knots.to_vec(),
                rounded(fit.residual),
            );
        }
        if let Some(bent) = bent::fit(&lowers, &uppers) {
            let knots = bent.knots.iter();
            let knots = knots.map(|near| knot(near.after, upper + whole(near.offset)));
            return clock(
                GpuCalibration::Bent,
                knots.collect(),
                rounded(bent.residual),
            );
        }
        constant(GpuCalibration::Inconsistent, upper, lower - upper)
    }
}

/// The steps that the timer goes in, as far as the stamps show it: the event was up to one step after its
/// stamp.
fn step_ns(mut stamps: impl Iterator<Item = u64>) -> u64 {
    let first = stamps.next().unwrap_or(0);
    let step = stamps.fold(0, |step, stamp| common_divisor(step, stamp.abs_diff(first)));
    if step == 0 {
        COARSEST_STEP_NS
    } else {
        step.min(COARSEST_STEP_NS)
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while let Some(rest) = a.checked_rem(b) {
        (a, b) = (b, rest);
    }
    a
}

#[expect(
    clippy::cast_precision_loss,
    reason = "differences of times: exact up to 104 days, and the residual allows for rounding"
)]
fn approximate(ns: i128) -> f64 {
    ns as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounds to whole ns on purpose; a cast keeps to the limits of the type"
)]
fn whole(ns: f64) -> i128 {
    ns.round() as i128
}

/// A bound, relative to the first stamp and a common offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    /// How long after the first stamp.
    pub(super) after: f64,
    /// The offset, against the common one.
    pub(super) offset: f64,
}

/// Offsets at the first and the last stamp, and how far off the truth can be from their line.
#[derive(Clone, Copy, Debug)]
struct Fit {
    first: f64,
    last: f64,
    residual: f64,
}

/// Offsets at the first and the last stamp: a line.
pub(crate) type Line = (f64, f64);

/// Comparisons allow for the rounding of numbers up to some hours in ns.
pub(super) const TOLERANCE_NS: f64 = 0.01;

/// Cuts a half-plane off a convex polygon: `excess` is linear, and positive outside.
pub(crate) fn cut(polygon: &mut Vec<Line>, excess: impl Fn(Line) -> f64) {
    if polygon.iter().all(|&line| excess(line) <= TOLERANCE_NS) {
        return;
    }
    let mut left = Vec::with_capacity(polygon.len() + 1);
    let next = polygon.iter().cycle().skip(1);
    for (&from, &to) in polygon.iter().zip(next) {
        let (before, after) = (excess(from), excess(to));
        if before <= TOLERANCE_NS {
            left.push(from);
        }
        if (before <= TOLERANCE_NS) != (after <= TOLERANCE_NS) {
            let part = (before / (before - after)).clamp(0.0, 1.0);
            left.push((
                from.0 + part * (to.0 - from.0),
                from.1 + part * (to.1 - from.1),
            ));
        }
    }
    *polygon = left;
}

pub(crate) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

fn fit(lowers: &[Near], uppers: &[Near], span: f64) -> Option<Fit> {
    let drift = MOST_DRIFT * span;
    let reach = |bound: &Near| MOST_DRIFT * bound.after;
    let lowest = range(lowers.iter().map(|bound| bound.offset - reach(bound))).1;
    let highest = range(uppers.iter().map(|bound| bound.offset + reach(bound))).0;
    if lowest > highest {
        return None;
    }
    let mut polygon = vec![
        (lowest, lowest - drift),
        (highest, highest - drift),
        (highest, highest + drift),
        (lowest, lowest + drift),
    ];
    let at = |bound: &Near, line: Line| {
        let part = if span > 0.0 { bound.after / span } else { 0.0 };
        (1.0 - part) * line.0 + part * line.1
    };
    for bound in uppers {
        cut(&mut polygon, |line| at(bound, line) - bound.offset);
    }
    for bound in lowers {
        cut(&mut polygon, |line| bound.offset - at(bound, line));
    }
    if polygon.is_empty() {
        return None;
    }
    let (p_low, p_high) = range(polygon.iter().map(|line| line.0));
    let (q_low, q_high) = range(polygon.iter().map(|line| line.1));
    let (least, most) = range(polygon.iter().map(|line| line.1 - line.0));
    let middle = |low: f64, high: f64| low + (high - low) / 2.0;
    let mut line = (middle(p_low, p_high), middle(q_low, q_high));
    // Nothing is known of the drift: none.
    let lower = range(lowers.iter().map(|bound| bound.offset)).1;
    let upper = range(uppers.iter().map(|bound| bound.offset)).0;
    let is_open = least <= -drift + TOLERANCE_NS && most >= drift - TOLERANCE_NS;
    if is_open && lower <= upper {
        line = (middle(lower, upper), middle(lower, upper));
    }
    let off = |value: f64, low: f64, high: f64| (value - low).max(high - value);
    Some(Fit {
        first: line.0,
        last: line.1,
        residual: off(line.0, p_low, p_high).max(off(line.1, q_low, q_high)),
    })
}

#[cfg(test)]
mod tests;
