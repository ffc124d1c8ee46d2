//! Options for following processes.

use std::time::Duration;

/// Upper bounds of durations in seconds: 5 µs to 10 s, three per decade.
pub const DURATION_BOUNDS: &[f64] =
    &[5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Upper bounds of the classes of durations, in seconds, rising.
    pub duration_bounds: &'static [f64],
    /// Limit on the number of series; further ones are folded into one.
    pub max_series: usize,
    /// Limit on the bytes of journals that one poll reads.
    pub poll_bytes: u64,
    /// An operation is complete when every part that began has ended and no record came for this long.
    pub settle: Duration,
    /// How often to look for new processes in the directory, and whether processes are alive.
    pub scan: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            duration_bounds: DURATION_BOUNDS,
            max_series: 10_000,
            poll_bytes: 8 << 20,
            settle: Duration::from_secs(1),
            scan: Duration::from_secs(1),
        }
    }
}
