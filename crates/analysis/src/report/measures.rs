//! What times are split into, and how samples are summarised.

use serde::Serialize;

/// What the time of all ranks in operations went into: those that were measured and had ended, after the filter. The
/// parts add up to `operations_ns`, of which every share of lost time is a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// Time of all ranks in operations: for each rank the length of the union of its operations' intervals.
    pub operations_ns: u64,
    /// Of that, waiting for a rank that came later.
    pub waiting_ns: u64,
    /// Of that, from the arrival of the last rank to the end.
    pub transfer_ns: u64,
    /// Of that, what the clocks or the way of timing do not allow to split.
    pub unclear_ns: u64,
    /// Of that, operations that are not compared over ranks: collectives of a single rank, and those that could not be
    /// matched.
    pub not_compared_ns: u64,
}

/// Quantiles of a sample, by linear interpolation between the nearest two, as numpy does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub count: u64,
    pub min: f64,
    pub median: f64,
    /// 95 % are below.
    pub p95: f64,
    /// 99 % are below.
    pub p99: f64,
    pub max: f64,
    pub total: f64,
}
