//! Maps GPU times to CLOCK_MONOTONIC nanoseconds: NCCL's stamps of the GPU's timer by bounds ([`stamps`]), times of
//! CUPTI and of CUDA events by samples ([`samples`]).

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
    /// Between lower and upper bounds; no mapped stamp is further off than the residual.
    Bounded,
    /// Between lower and upper bounds, by several lines: the timer changed its pace. The same residual.
    Piecewise,
    /// Stamps, but no launch to bound them from below.
    UpperOnly,
    /// The bounds contradict each other by the residual; the upper one is used.
    Inconsistent,
}

impl GpuCalibration {
    /// All that a clock of a GPU with stamps can be.
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

/// How well a GPU's clock is known; written into the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuQuality {
    pub calibration: GpuCalibration,
    /// How far off a mapped stamp can be, see [`GpuCalibration`]; 0 where unknown.
    pub residual_ns: u64,
    /// By how many ns in a second the host's clock is faster than the GPU's timer, from the first knot to the last.
    pub drift_ppb: i64,
    pub lines: u64,
    /// How many bounds from below and from above it was found by.
    pub bounds: (u64, u64),
    /// How many of those are times of kernels, from CUPTI or CUDA events.
    pub kernel_bounds: u64,
    /// How much further off those were allowed to be than their clock is known, to fit what callbacks say.
    pub kernel_slack_ns: u64,
    /// There were such, but they contradict what callbacks say, and were not used.
    pub kernels_contradict: bool,
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

    /// The last host time at which the stamp can have been taken; `None` unless one line keeps all bounds.
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
