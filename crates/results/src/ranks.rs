//! The ranks and their lateness.

use schemars::JsonSchema;
use serde::Serialize;

use super::measures::Budget;
use super::why::Why;

/// A rank of the job: what runs on one GPU of one process, under all its communicators.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Rank {
    /// The rank in the communicator that contains all ranks, else the launcher's rank, else the group's name.
    pub name: String,
    pub number: Option<u32>,
    pub process: String,
    pub host: String,
    pub members: Vec<Member>,
    /// Error of its arrivals relative to ranks on the same host; null if unknown.
    pub uncertainty_ns: Option<u64>,
    pub budget: Budget,
    /// Comparable collectives in which it took part.
    pub instances: u64,
    /// How often it was last by more than the clocks' uncertainty, not counting first collectives.
    pub last: u64,
    /// How often chance would make it last.
    pub last_expected: f64,
    /// Upper bound on the probability that chance makes any rank spend so much longer outside operations than others,
    /// or be waited for so long. Below 0.001 the rank is late.
    pub p_value: f64,
    /// How long others waited for it in collectives, summed over them, in ns.
    pub caused_ns: u64,
    /// How long others would not have waited if it had arrived with the second-last, summed over them, in ns.
    pub caused_alone_ns: u64,
    /// The part of `caused_ns` that is due to its own longer waiting or transferring before.
    pub inherited_ns: u64,
    /// How long others waited in receives for it to reach its send, summed over them, in ns.
    pub late_sender_ns: u64,
    /// How long others waited in sends for it to reach its receive, summed over them, in ns.
    pub late_receiver_ns: u64,
    /// How long others ultimately waited for it, in collectives and messages, summed over them, in ns. Includes waiting
    /// for a rank that had itself waited for this one. Late ranks that are missing at the same time get equal shares.
    pub awaited_ns: u64,
    /// The part of `awaited_ns` due to its spending longer outside operations than the ranks that waited.
    pub lost_ns: u64,
    /// How much later it arrived than the median of the ranks, in ns.
    pub lateness_ns: f64,
    /// Trend of the lateness: median of the slopes between parts of the run, in ns per second.
    pub trend_ns_per_s: Option<f64>,
    pub change: Option<Change>,
    /// What delayed it; null if it is not late.
    pub why: Option<Why>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Member {
    pub communicator: u32,
    pub rank: u32,
    pub location: u64,
}

/// A value that changed once while the job ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    pub at_ns: u64,
    pub before: f64,
    pub after: f64,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Heat {
    /// Start of the first bin.
    pub from_ns: u64,
    pub bin_ns: u64,
    /// By rank and bin: mean lateness relative to the median rank, in ns; null without comparable operations.
    pub ranks: Vec<Vec<Option<f64>>>,
}
