//! All results derived from an archive, as plain data: `stats --json` prints them, `report` embeds them.
//!
//! Times are nanoseconds from the start of the trace, durations are nanoseconds, sizes are bytes, bandwidths are bytes
//! per second. *Lost* time is summed over all ranks. Lost times of different causes overlap and do not add up.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

mod report;
mod verdict;

pub use crate::results::report::{
    Baseline, Budget, CausePhase, Change, CommunicatorCall, Completeness, CriticalPath, Delay, Fit, Graph,
    GraphChannel, Heat, Link, LinkKey, Matching, Member, Nic, Overlap, PathKind, PathPart, Phase, PhaseRank, Quantiles,
    Rank, Run, Statement, Step, Steps, Topology, TopologyGpu, TopologyHost, Waits, Why,
};
pub use crate::results::verdict::{
    Anomaly, Answer, Cause, CauseKind, Compared, Comparison, Difference, Finding, Group, Kind, Limit, Outcome,
    RangeChange, Verdict,
};

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this format: 1. Fields may be added; the version changes if a field changes or is removed.
    pub format: u32,
    pub run: Run,
    pub verdict: Verdict,
    pub budget: Budget,
    /// The part of it in warm-up: in the first collective of each function on a communicator, if more follow. No share
    /// of lost time has it, and neither do `ranks` and `operations`.
    pub warm_up: Budget,
    /// The causes of lost time, largest loss first.
    pub causes: Vec<Cause>,
    /// Operations that took far longer than others of their class, largest loss first; at most 100.
    pub anomalies: Vec<Anomaly>,
    pub communicators: Vec<Communicator>,
    /// By function, communicator and size class.
    pub operations: Vec<OperationClass>,
    /// The ranks of the job. Other tables name a rank by its index here.
    pub ranks: Vec<Rank>,
    pub lateness: Heat,
    pub pairs: Vec<Link>,
    pub channels: Vec<Link>,
    /// Hosts and channels, from NCCL's topology dumps; null if NCCL wrote none (`nccl-otf2 run --topology on`).
    pub topology: Option<Topology>,
    /// The network interfaces of the hosts; empty without topology.
    pub nics: Vec<Nic>,
    /// Bytes sent with `ncclSend`, by sender and receiver.
    pub messages: Vec<Messages>,
    /// By the ranges of the program (NVTX) that calls were in; empty if none was recorded.
    pub phases: Vec<Phase>,
    /// The steps of the program; null if no range repeats on all processes.
    pub steps: Option<Steps>,
    /// Calls that make and end communicators; empty if NVTX was not recorded.
    pub communicator_calls: Vec<CommunicatorCall>,
    /// Overlap with other kernels; null if those were not recorded.
    pub overlap: Option<Vec<Overlap>>,
    /// The critical path; null if only a communicator or function was analysed, or if nothing ended.
    pub critical_path: Option<CriticalPath>,
    pub clocks: Clocks,
    pub completeness: Completeness,
    /// Sentences on what this NCCL release does not report.
    pub unreported: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Communicator {
    pub name: String,
    /// The name that it shares with all communicators of its shape, such as `tp 0 … (16 × 8 ranks)`; `name` if there is
    /// no other: as many ranks, the same functions, and names that differ in numbers only.
    pub shape: String,
    /// NCCL's, as its log has it; empty if unknown.
    pub id: String,
    pub ranks: u32,
    pub recorded: u32,
    /// For each rank of the communicator, its index in [`Report::ranks`]; null if it was not recorded.
    pub members: Vec<Option<u32>>,
}

/// The operations of one function, communicator and size class (from one power of two to the next).
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct OperationClass {
    pub function: String,
    pub communicator: u32,
    pub bytes_min: u64,
    pub bytes_max: u64,
    pub count: u64,
    pub unfinished: u64,
    /// Number of ended operations by kind of timing (`cupti`, `event`, `kernelch`, …).
    pub timing: BTreeMap<String, u64>,
    /// Duration of the operations that ended, in ns.
    pub duration_ns: Option<Quantiles>,
    /// Algorithm bandwidth including waiting, as nccl-tests defines it; null if the timing does not allow one.
    pub algbw: Option<Quantiles>,
    /// Bus bandwidth including waiting, one value per operation of a rank.
    pub busbw: Option<Quantiles>,
    /// Bus bandwidth of the transfer alone, from the last arrival to the end: one value per operation of a rank, like
    /// `busbw`, for collectives with comparable arrivals.
    pub transfer_busbw: Option<Quantiles>,
    /// Median of the bus bandwidth that NCCL's model allows for the algorithm and protocol used; null without topology.
    pub expected_busbw: Option<f64>,
    /// `transfer_busbw`, else `busbw`, ÷ `expected_busbw`.
    pub expected_share: Option<f64>,
    /// `NVLS`, `network`: what reduced besides GPUs, so that the bus bandwidth may exceed that of the links.
    pub reduced_by: Vec<String>,
    /// Matched collectives with comparable arrivals.
    pub comparable: u64,
    /// Skew of these collectives: from the first arrival to the last, in ns.
    pub skew_ns: Option<Quantiles>,
    pub budget: Budget,
    /// What another measurement gives for the class; null without one (`--baseline`).
    pub baseline: Option<Baseline>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Messages {
    pub communicator: u32,
    /// The sender: index in [`Report::ranks`]; null if it was not recorded.
    pub from: Option<u32>,
    pub to: Option<u32>,
    pub count: u64,
    pub bytes: u64,
    /// How long the receiver waited in receives for the sender to arrive, in ns.
    pub late_sender_ns: u64,
    /// How long the sender waited in sends for the receiver to arrive, in ns.
    pub late_receiver_ns: u64,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Clocks {
    /// Maximum error between the arrivals of two ranks; null if it is unknown for some ranks.
    pub uncertainty_ns: Option<u64>,
    /// Ranks whose arrivals cannot be compared with others, because their clock's error is unknown.
    pub unknown: Vec<u32>,
    pub sentence: String,
}
