//! What the program did, by the ranges that it names through NVTX.

use schemars::JsonSchema;
use serde::Serialize;

use super::measures::{Budget, Quantiles};

/// The ranges of one name within the same ranges, and what was called in them, not in ranges inside them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Phase {
    /// The names of the ranges around it and its own, outermost first; empty: outside of ranges.
    pub path: Vec<String>,
    /// How often the range was recorded, on all threads.
    pub ranges: u64,
    /// Its time summed over threads, ranges inside included.
    pub ranges_ns: u64,
    /// Operations of its calls, counted on every rank.
    pub operations: u64,
    /// Bytes of these operations.
    pub bytes: u64,
    /// How ranks spent their time in these operations.
    pub budget: Budget,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Steps {
    /// The name of the range that is a step.
    pub name: String,
    pub processes: u64,
    /// Durations of the steps: of each that of the slowest thread, in ns.
    pub duration_ns: Option<Quantiles>,
    /// By how much a step is longer than the one before, in ns: the median of slopes; null for fewer than 30 steps.
    pub trend_ns_per_step: Option<f64>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Step {
    /// The number in the range's name; its place if the name has none.
    pub number: u64,
    /// When the first thread began it.
    pub start_ns: u64,
    /// How long the slowest thread took; a process may have several threads that take steps, each for a rank.
    pub duration_ns: u64,
    /// How long the fastest thread took.
    pub shortest_ns: u64,
    /// The rank of the slowest thread: index in [`super::Report::ranks`]; null if unknown.
    pub slowest: Option<u32>,
    /// The step's time, summed over the ranks whose thread is known.
    pub ranks_ns: u64,
    /// How ranks spent their time in operations that were enqueued in the step.
    pub budget: Budget,
}

/// A call on all ranks of a communicator that makes or ends it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CommunicatorCall {
    pub function: String,
    /// The communicator's name, or its id; empty if it is unknown.
    pub communicator: String,
    pub ranks: u64,
    /// When the first rank called.
    pub start_ns: u64,
    /// How many of the calls had not returned when the recording ended.
    pub unfinished: u64,
    /// How long the longest call took.
    pub duration_ns: u64,
    /// From the first call to the last.
    pub skew_ns: u64,
    /// The rank, in that communicator, that called last; null if it is unknown.
    pub last_rank: Option<u32>,
    /// The process of that rank.
    pub last_process: String,
}
