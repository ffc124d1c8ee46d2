//! What times are split into, and how samples are summarised.

use serde::Serialize;

/// What the time of all ranks in matched collectives went into. The parts add up to `operations_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// Time in operations, summed over ranks; where operations of a rank overlap it counts once.
    pub operations_ns: u64,
    /// Of that, waiting for a rank that came later.
    pub waiting_ns: u64,
    /// Of that, from the arrival of the last rank to the end.
    pub transfer_ns: u64,
    /// Of that, what the clocks or the way of timing do not allow to split.
    pub unclear_ns: u64,
}

/// Quantiles of a sample, by linear interpolation between the nearest two, as numpy does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// Half are below.
    pub median: f64,
    /// 95 % are below.
    pub p95: f64,
    /// 99 % are below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// The sum.
    pub total: f64,
}
