//! Everything that is derived of an archive, as plain data: `stats --json` prints it, `report` embeds it.
//!
//! Times are nanoseconds after the beginning of the trace, durations are nanoseconds, sizes are bytes, bandwidths are
//! bytes per second. *Lost* time is summed over all ranks. Lost times of different causes overlap: they do not add up.

use std::collections::BTreeMap;

use crate::statements::Completeness;
use serde::Serialize;

pub use comparison::{Answer, Compared, Comparison, Difference, Group, Kind, Limit, Outcome};
pub use links::{Fit, Link, LinkKey, Waits};
pub use measures::{Budget, Overlap, Quantiles, Run};
pub use ranks::{Change, Heat, Member, Rank};
pub use verdict::{Anomaly, Cause, CauseKind, Finding, Verdict};

mod comparison;
mod links;
mod measures;
mod ranks;
mod verdict;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this description: 1. Fields may be added; it changes when one changes or goes.
    pub format: u32,
    pub run: Run,
    pub verdict: Verdict,
    pub budget: Budget,
    /// What lost most time, the largest first.
    pub causes: Vec<Cause>,
    /// Operations that took far longer than others of their class, those that lost most first; at most 100.
    pub anomalies: Vec<Anomaly>,
    pub communicators: Vec<Communicator>,
    /// By function, communicator and size class.
    pub operations: Vec<OperationClass>,
    /// The ranks of the job. Other tables name a rank by its index here.
    pub ranks: Vec<Rank>,
    pub lateness: Heat,
    pub pairs: Vec<Link>,
    pub channels: Vec<Link>,
    /// Messages: bytes that a rank sent to another one with `ncclSend`.
    pub messages: Vec<Messages>,
    /// Overlap with other kernels; none where these were not recorded.
    pub overlap: Option<Vec<Overlap>>,
    pub clocks: Clocks,
    pub completeness: Completeness,
    /// What this release of NCCL does not report, in words.
    pub blind_spots: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Communicator {
    pub name: String,
    pub ranks: u32,
    pub recorded: u32,
    /// For each rank of the communicator, the index in [`Report::ranks`]; null where it was not recorded.
    pub members: Vec<Option<u32>>,
}

/// The operations of one function, communicator and size class (from one power of two to the next).
#[derive(Clone, Debug, Default, Serialize)]
pub struct OperationClass {
    pub function: String,
    pub communicator: u32,
    pub bytes_min: u64,
    pub bytes_max: u64,
    pub count: u64,
    pub unfinished: u64,
    /// How many of those that ended were timed by what (`cupti`, `event`, `kernelch`, …).
    pub timing: BTreeMap<String, u64>,
    /// How long those took that ended, in ns.
    pub duration_ns: Option<Quantiles>,
    /// Algorithm bandwidth with waiting, as nccl-tests defines it; none where the timing does not allow one.
    pub algbw: Option<Quantiles>,
    /// Bus bandwidth with waiting, a value for each operation of a rank.
    pub busbw: Option<Quantiles>,
    /// Bus bandwidth of the transfer alone, from the last arrival to the end: a value for each operation of a rank, as
    /// `busbw`, of the collectives of which arrivals can be compared.
    pub transfer_busbw: Option<Quantiles>,
    /// Collectives matched over their ranks of which arrivals can be compared.
    pub comparable: u64,
    /// Their skew: from the first arrival to the last, in ns.
    pub skew_ns: Option<Quantiles>,
    pub budget: Budget,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Messages {
    pub communicator: u32,
    /// The sender: index in [`Report::ranks`]; null where it was not recorded.
    pub from: Option<u32>,
    pub to: Option<u32>,
    pub count: u64,
    pub bytes: u64,
    /// How long the receiver waited in receives until the sender had come, in ns.
    pub late_sender_ns: u64,
    /// How long the sender waited in sends until the receiver had come, in ns.
    pub late_receiver_ns: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Clocks {
    /// How far the arrivals of two ranks can be off against each other at most; none where that is not known for some.
    pub uncertainty_ns: Option<u64>,
    /// Ranks whose arrivals cannot be compared with others', because their clock's error is unknown.
    pub unknown: Vec<u32>,
    pub sentence: String,
}
