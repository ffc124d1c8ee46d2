//! The job, the parts of its time, and summaries of samples.

use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
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

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Run {
    pub anchor: String,
    pub nccl_versions: Vec<String>,
    /// Kinds of recorded events, named as in `NCCL_OTF2_EVENTS`.
    pub recorded: Vec<String>,
    pub commands: Vec<String>,
    /// Start, in ns since 1970, beyond the exact range of a double; null if the archive does not state it.
    pub start_ns: Option<u64>,
    pub duration_ns: u64,
    pub hosts: Vec<String>,
    pub processes: u64,
    pub events: u64,
    pub operations: u64,
    /// Collectives matched across their ranks.
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
    /// Printed in place of connections if a run has no steps.
    pub const CONNECTIONS_NOT_MEASURED: &str =
        "connections were not measured, which takes a network and NCCL_OTF2_EVENTS=standard,ProxyStep";
}

/// How all ranks spent their time in operations that pass the filter, were measured and had ended. The parts add up to
/// `operations_ns`, to which every share of lost time refers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Budget {
    /// Time in operations, summed over ranks: for each rank, the length of the union of its operations' intervals.
    pub operations_ns: u64,
    pub waiting_ns: u64,
    /// The part from the arrival of the last rank to the end.
    pub transfer_ns: u64,
    /// The part that the clocks or the kind of timing do not allow to split.
    pub unclear_ns: u64,
    /// The part in operations that are not compared across ranks: of a single rank, or unmatched.
    pub not_compared_ns: u64,
}

impl AddAssign for Budget {
    fn add_assign(&mut self, more: Self) {
        self.operations_ns += more.operations_ns;
        self.waiting_ns += more.waiting_ns;
        self.transfer_ns += more.transfer_ns;
        self.unclear_ns += more.unclear_ns;
        self.not_compared_ns += more.not_compared_ns;
    }
}

/// The bus bandwidth of another measurement, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Baseline {
    /// At the size of the class, interpolated between the measured sizes.
    pub busbw: f64,
    /// The class's median, and that of its transfer alone where arrivals are comparable, divided by `busbw`.
    pub share: f64,
    /// Whether `share` is that of the transfer alone.
    pub is_transfer: bool,
}

/// Quantiles of a sample, linearly interpolated between the two nearest values, as numpy does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Quantiles {
    pub count: u64,
    pub min: f64,
    pub median: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
    pub total: f64,
}
