//! The GPU's timer on the host's clock, from the latest bounds of a communicator rank.
//!
//! A kernel is placed by its own bounds and earlier ones. Only kernels decide when the clock is fitted again, so that
//! times do not depend on when they are queried.

use std::collections::VecDeque;

use clocks::gpu::GpuClock;
use clocks::gpu::StampBounds;

/// Limit on the bounds that are kept on either side.
const MOST_BOUNDS: usize = 64;
/// The clock is fitted after each of the `FIRST` operations, then after every `OPERATIONS`, or after `MOST_AGE_NS`.
const FIRST: u64 = 16;
const OPERATIONS: u64 = 64;
const MOST_AGE_NS: u64 = 1_000_000_000;

/// Pairs of a stamp and a host time in ns: the stamp was not before (`lower`) or not after (`upper`) that time.
#[derive(Debug, Default)]
pub(crate) struct RecentBounds {
    lower: VecDeque<(u64, u64)>,
    upper: VecDeque<(u64, u64)>,
    operations: u64,
    fitted_gpu_ns: u64,
    clock: GpuClock,
}

fn keep(bounds: &mut VecDeque<(u64, u64)>, bound: Option<(u64, u64)>) {
    bounds.extend(bound);
    if bounds.len() > MOST_BOUNDS {
        bounds.pop_front();
    }
}

impl RecentBounds {
    /// Adds an operation whose kernel began at this stamp. Operations must come in order.
    pub(crate) fn add(&mut self, gpu_ns: u64, not_before: Option<(u64, u64)>, not_after: Option<(u64, u64)>) {
        keep(&mut self.lower, not_before);
        keep(&mut self.upper, not_after);
        self.operations += 1;
        let is_old = gpu_ns.saturating_sub(self.fitted_gpu_ns) >= MOST_AGE_NS;
        if self.operations <= FIRST || self.operations.is_multiple_of(OPERATIONS) || is_old {
            self.fitted_gpu_ns = gpu_ns;
            self.fit();
        }
    }

    fn fit(&mut self) {
        let mut bounds = StampBounds::default();
        self.lower.iter().for_each(|&(gpu_ns, host_ns)| bounds.not_before(gpu_ns, host_ns));
        self.upper.iter().for_each(|&(gpu_ns, host_ns)| bounds.not_after(gpu_ns, host_ns));
        self.clock = bounds.clock();
    }

    pub(crate) const fn clock(&self) -> &GpuClock {
        &self.clock
    }
}
