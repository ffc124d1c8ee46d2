//! What a job was.

use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    pub anchor: String,
    pub nccl_versions: Vec<String>,
    /// Kinds of events that were recorded, as `NCCL_OTF2_EVENTS` calls them.
    pub recorded: Vec<String>,
    pub commands: Vec<String>,
    /// The beginning, in ns since 1970: larger than a double holds exactly; null where the archive does not say.
    pub start_ns: Option<u64>,
    /// From the first event to the last.
    pub duration_ns: u64,
    pub hosts: Vec<String>,
    pub processes: u64,
    /// OTF2 events in the archive.
    pub events: u64,
    pub operations: u64,
    /// Collectives that were matched over their ranks.
    pub instances: u64,
    /// Those of them of which arrivals can be compared.
    pub comparable: u64,
    pub has_kernels: bool,
    /// Whether kernels that are not NCCL's were recorded.
    pub has_other_kernels: bool,
    /// Whether network transfers were recorded.
    pub has_transfers: bool,
    /// Whether steps of network transfers were recorded.
    pub has_steps: bool,
}

impl Run {
    /// What is said of connections where a run has no steps.
    pub const CONNECTIONS_NOT_MEASURED: &str =
        "connections were not measured, which takes a network and NCCL_OTF2_EVENTS=standard,ProxyStep";
}
