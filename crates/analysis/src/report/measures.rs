//! What a job was, what times are split into, and how samples are summarised.

use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overlap {
    pub rank: u32,
    /// Time with at least one kernel of NCCL.
    pub communication_ns: u64,
    /// Time with at least one other kernel.
    pub computation_ns: u64,
    pub overlap_ns: u64,
    /// Time with kernels of NCCL only.
    pub exposed_ns: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    pub anchor: String,
    pub nccl_versions: Vec<String>,
    /// Kinds of events that were recorded, as `NCCL_OTF2_EVENTS` calls them.
    pub recorded: Vec<String>,
    pub commands: Vec<String>,
    /// The beginning, in ns since 1970: larger than a double holds exactly; null where the archive does not say.
    pub start_ns: Option<u64>,
    pub duration_ns: u64,
    pub hosts: Vec<String>,
    pub processes: u64,
    pub events: u64,
    pub operations: u64,
    /// Collectives that were matched over their ranks.
    pub instances: u64,
    /// Instances whose arrivals can be compared.
    pub comparable: u64,
    pub has_kernels: bool,
    /// Whether kernels that are not NCCL's were recorded.
    pub has_other_kernels: bool,
    pub has_transfers: bool,
    pub has_steps: bool,
}

impl Run {
    /// What is said of connections where a run has no steps.
    pub const CONNECTIONS_NOT_MEASURED: &str =
        "connections were not measured, which takes a network and NCCL_OTF2_EVENTS=standard,ProxyStep";
}

/// What the time of all ranks in operations went into: those that were measured and had ended, after the filter. The
/// parts add up to `operations_ns`, of which every share of lost time is a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// Time of all ranks in operations: for each rank the length of the union of its operations' intervals.
    pub operations_ns: u64,
    pub waiting_ns: u64,
    /// Of that, from the arrival of the last rank to the end.
    pub transfer_ns: u64,
    /// Of that, what the clocks or the way of timing do not allow to split.
    pub unclear_ns: u64,
    /// Of that, operations that are not compared over ranks: of a single rank, or not matched.
    pub not_compared_ns: u64,
}

/// Quantiles of a sample, by linear interpolation between the nearest two, as numpy does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub count: u64,
    pub min: f64,
    pub median: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
    pub total: f64,
}
