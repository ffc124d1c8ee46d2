//! The GPU's timer on the host's clock, by the last bounds of a communicator rank.

use std::collections::VecDeque;

use clocks::gpu::stamps::StampBounds;
use clocks::gpu::{GpuCalibration, GpuClock};

/// So many bounds from either side are kept: what is summed up is seconds old.
const MOST_BOUNDS: usize = 128;

/// Stamps with host times in ns that they were not before, or not after.
#[derive(Debug, Default)]
pub(crate) struct RecentBounds {
    lower: VecDeque<(u64, u64)>,
    upper: VecDeque<(u64, u64)>,
    is_changed: bool,
    clock: GpuClock,
}

fn keep(bounds: &mut VecDeque<(u64, u64)>, bound: (u64, u64)) {
    bounds.push_back(bound);
    if bounds.len() > MOST_BOUNDS {
        bounds.pop_front();
    }
}

impl RecentBounds {
    pub(crate) fn not_before(&mut self, gpu_ns: u64, host_ns: u64) {
        keep(&mut self.lower, (gpu_ns, host_ns));
        self.is_changed = true;
    }

    pub(crate) fn not_after(&mut self, gpu_ns: u64, host_ns: u64) {
        keep(&mut self.upper, (gpu_ns, host_ns));
        self.is_changed = true;
    }

    /// Fits the clock again where there is something new.
    pub(crate) fn fit(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            let mut bounds = StampBounds::default();
            self.lower.iter().for_each(|&(gpu_ns, host_ns)| bounds.not_before(gpu_ns, host_ns));
            self.upper.iter().for_each(|&(gpu_ns, host_ns)| bounds.not_after(gpu_ns, host_ns));
            self.clock = bounds.clock();
        }
    }

    pub(crate) const fn clock(&self) -> &GpuClock {
        &self.clock
    }

    /// How far off its times can be; none where only one side is known.
    pub(crate) fn error_ns(&self) -> Option<u64> {
        let quality = &self.clock.quality;
        let is_bounded = matches!(quality.calibration, GpuCalibration::Bounded | GpuCalibration::Piecewise);
        is_bounded.then_some(quality.residual_ns)
    }
}
