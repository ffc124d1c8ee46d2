//! GPU globaltimer to host time, by bounds, for each communicator rank (one rank is one GPU).
//!
//! ```text
//!   host:  KernelLaunch start ────────────────┐            ┌──── the callback that brings the stamp
//!                             ≤ kernel runs ≤ │  on GPU: g │ ≤
//!   so:    launch − g  ≤  offset  ≤  callback − g        for every stamp g
//! ```
//!
//! One constant offset: the middle between the highest lower and the lowest upper bound. Bounds that
//! contradict each other (a drifting GPU clock in a long run, a stream that was recorded elsewhere and
//! replayed) leave the upper bound, and the archive says so.

use serde::{Deserialize, Serialize};

use super::assembly::Assembly;
use super::correlate::Correlation;
use super::place::{index, place};
use crate::event::state;
use crate::journal::record::Fields;

/// How a GPU's clock was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuCalibration {
    /// No stamps.
    #[default]
    None,
    /// Between a lower and an upper bound; the residual is half their distance.
    Bounded,
    /// Stamps, but no launch to bound them from below.
    UpperOnly,
    /// The bounds contradict each other by the residual; the upper one is used.
    Inconsistent,
}

/// The clock of one communicator rank's GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuClock {
    /// How it was found.
    pub calibration: GpuCalibration,
    /// What to add to a GPU stamp to get CLOCK_MONOTONIC ns.
    pub offset_ns: i64,
    /// How far off it can be, see [`GpuCalibration`]; 0 where unknown.
    pub residual_ns: u64,
}

impl GpuClock {
    /// The host time of a GPU stamp.
    #[must_use]
    pub fn host_ns(&self, gpu_ns: u64) -> u64 {
        let host = i128::from(gpu_ns) + i128::from(self.offset_ns);
        u64::try_from(host.max(0)).unwrap_or(u64::MAX)
    }
}

/// The GPU stamps of a kernel channel that make sense: start, stop.
#[must_use]
pub fn stamps(start_gpu_ns: u64, stop_gpu_ns: u64) -> Option<(u64, u64)> {
    (start_gpu_ns != 0 && stop_gpu_ns >= start_gpu_ns).then_some((start_gpu_ns, stop_gpu_ns))
}

#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    lower: Option<i128>,
    upper: Option<i128>,
}

impl Bounds {
    fn not_above(&mut self, offset: i128) {
        self.upper = Some(self.upper.map_or(offset, |upper| upper.min(offset)));
    }

    fn not_below(&mut self, offset: i128) {
        self.lower = Some(self.lower.map_or(offset, |lower| lower.max(offset)));
    }

    fn clock(self) -> GpuClock {
        let (calibration, offset, residual) = match (self.lower, self.upper) {
            (_, None) => return GpuClock::default(),
            (None, Some(upper)) => (GpuCalibration::UpperOnly, upper, 0),
            (Some(lower), Some(upper)) if lower <= upper => {
                let half = (upper - lower) / 2;
                (GpuCalibration::Bounded, upper - half, upper - lower - half)
            }
            (Some(lower), Some(upper)) => (GpuCalibration::Inconsistent, upper, lower - upper),
        };
        GpuClock {
            calibration,
            offset_ns: i64::try_from(offset).unwrap_or(0),
            residual_ns: u64::try_from(residual).unwrap_or(u64::MAX),
        }
    }
}

/// The GPU clocks of a process, by place of the context. Times must be nanoseconds already.
#[must_use]
pub fn gpu_clocks(assembly: &Assembly, correlation: &Correlation) -> Vec<GpuClock> {
    let mut bounds = vec![Bounds::default(); assembly.contexts.len()];
    for (at, operation) in assembly.operations.iter().enumerate() {
        let Fields::KernelCh { gpu_ns, .. } = operation.fields else {
            continue;
        };
        let Some((start_gpu_ns, stop_gpu_ns)) = stamps(gpu_ns, operation.value) else {
            continue;
        };
        let context = assembly.find_context(operation.context);
        let Some(bound) = context.and_then(|at| bounds.get_mut(index(at))) else {
            continue;
        };
        bound.not_above(i128::from(operation.start) - i128::from(start_gpu_ns));
        if let Some(told) = assembly.state_time(place(at), state::KERNEL_CH_STOP) {
            bound.not_above(i128::from(told) - i128::from(stop_gpu_ns));
        }
        let launch = correlation
            .activity_of(assembly.find(operation.parent))
            .and_then(|activity| assembly.operation(activity.launch));
        if let Some(launch) = launch {
            bound.not_below(i128::from(launch.start) - i128::from(start_gpu_ns));
        }
    }
    bounds.into_iter().map(Bounds::clock).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_bounds() {
        let mut bounds = Bounds::default();
        bounds.not_above(1000);
        bounds.not_above(900);
        bounds.not_below(700);
        bounds.not_below(100);
        let clock = bounds.clock();
        assert_eq!(clock.calibration, GpuCalibration::Bounded);
        assert_eq!((clock.offset_ns, clock.residual_ns), (800, 100));
        assert_eq!(clock.host_ns(50), 850);
    }

    #[test]
    fn bounds_that_contradict_leave_the_upper_one() {
        let mut bounds = Bounds::default();
        bounds.not_above(-500);
        bounds.not_below(20);
        let clock = bounds.clock();
        assert_eq!(clock.calibration, GpuCalibration::Inconsistent);
        assert_eq!((clock.offset_ns, clock.residual_ns), (-500, 520));
        assert_eq!(clock.host_ns(100), 0);
    }

    #[test]
    fn stamps_that_make_no_sense() {
        assert_eq!(stamps(0, 5), None);
        assert_eq!(stamps(6, 5), None);
        assert_eq!(stamps(6, 0), None);
        assert_eq!(stamps(6, 6), Some((6, 6)));
    }
}
