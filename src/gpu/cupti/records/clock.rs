//! Samples of CUPTI's clock, on which the times in its records are.
//!
//! The clock is `CLOCK_REALTIME`, unless another tool in the process replaces it, at any time: PyTorch's profiler does.
//! So the plugin assumes nothing, and samples the clock as long as the session lasts.

use std::time::Duration;

use journal::clock;
use nccl_events::gpu::{ALL_DEVICES, ClockSample, GpuClock};

/// A clock whose rate differs by more than this is not a system clock.
const ODD_PPM: u64 = 1000;
/// Samples closer than this give no useful rate.
const SHORTEST: Duration = Duration::from_millis(900);

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) ticks: u64,
    pub(super) sample: ClockSample,
}

/// Takes several samples and returns the best; `None` if CUPTI does not answer.
pub(super) fn sample(timestamp_ns: impl Fn() -> Option<u64>) -> Option<Sample> {
    let mut best: Option<Sample> = None;
    for _ in 0..5 {
        let before = clock::ticks();
        let gpu_ns = timestamp_ns()?;
        let half = clock::ticks().saturating_sub(before).div_ceil(2);
        let is_better = best.is_none_or(|best| half < best.sample.uncertainty_ticks);
        if is_better {
            best = Some(Sample {
                ticks: before + half,
                sample: ClockSample { clock: GpuClock::Cupti, ordinal: ALL_DEVICES, gpu_ns, uncertainty_ticks: half },
            });
        }
    }
    best
}

#[derive(Debug, Default)]
pub(super) struct Rate {
    last: Option<(u64, u64)>,
    odd_in_a_row: u8,
    is_reported: bool,
}

impl Rate {
    /// Compares a reading with one of `CLOCK_MONOTONIC`. True once, when the rate shows that the clock was replaced.
    /// This needs two odd rates, because a step of the system clock causes one.
    pub(super) fn is_foreign(&mut self, monotonic_ns: u64, gpu_ns: u64) -> bool {
        let Some((last_monotonic, last_gpu)) = self.last else {
            self.last = Some((monotonic_ns, gpu_ns));
            return false;
        };
        let passed = monotonic_ns.saturating_sub(last_monotonic);
        if u128::from(passed) < SHORTEST.as_nanos() {
            return false;
        }
        self.last = Some((monotonic_ns, gpu_ns));
        let shown = i128::from(gpu_ns) - i128::from(last_gpu);
        let off = (shown - i128::from(passed)).unsigned_abs();
        if off > u128::from(passed) * u128::from(ODD_PPM) / 1_000_000 {
            self.odd_in_a_row = self.odd_in_a_row.saturating_add(1);
        } else {
            self.odd_in_a_row = 0;
        }
        let is_odd = self.odd_in_a_row >= 2 && !self.is_reported;
        self.is_reported |= is_odd;
        is_odd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn only_a_clock_with_another_rate_is_reported_and_once() {
        let step = |n| if n >= 3 { 5 * SECOND } else { 0 };
        // NTP slews by at most 500 ppm.
        type Clock<'a> = &'a dyn Fn(u64) -> u64;
        let clocks: [(&str, Clock<'_>, &[u64]); 3] = [
            ("another rate", &|n| n * SECOND * 29 / 10, &[2]),
            ("a step of the system's clock", &|n| n * SECOND + step(n), &[]),
            ("a slewed clock", &|n| n * SECOND * 10_005 / 10_000, &[]),
        ];
        for (what, clock, expected) in clocks {
            let mut rate = Rate::default();
            let reported: Vec<u64> = (0..8).filter(|&n| rate.is_foreign(n * SECOND, clock(n))).collect();
            assert_eq!(reported, expected, "{what}");
        }
    }

    #[test]
    fn the_shortest_reading_counts() {
        let calls = std::cell::Cell::new(0);
        let sample = sample(|| {
            calls.set(calls.get() + 1);
            if calls.get() != 3 {
                std::thread::sleep(Duration::from_millis(2));
            }
            Some(calls.get())
        })
        .unwrap();
        assert_eq!(sample.sample.gpu_ns, 3);
        assert!(super::sample(|| None).is_none());
    }
}
