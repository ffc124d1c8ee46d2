//! Maps GPU times to CLOCK_MONOTONIC ns: NCCL's stamps by bounds ([`stamps`]), CUPTI's and events' by [`samples`].

pub mod samples;
pub mod stamps;

use serde::{Deserialize, Serialize};

use super::piecewise::{Piecewise, unsigned};

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
