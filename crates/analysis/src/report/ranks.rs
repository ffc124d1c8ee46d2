//! Who comes late.

use serde::Serialize;

use super::measures::Budget;

/// A rank of the job: what runs on one GPU of one process, under all its communicators.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rank {
    /// The number in the communicator that has all ranks, else the launcher's rank, else the group's name.
    pub name: String,
    pub number: Option<u32>,
    pub process: String,
    pub host: String,
    pub members: Vec<Member>,
    /// How far its arrivals can be off against those of ranks on the same host; none where that is not known.
    pub uncertainty_ns: Option<u64>,
    pub budget: Budget,
    /// Comparable collectives it took part in.
    pub instances: u64,
    /// How often it was the last by more than the clocks' uncertainty, of collectives after the first.
    pub last: u64,
    /// How often chance would have made it the last.
    pub last_expected: f64,
    /// Upper bound on the probability that by chance any rank spends so much longer outside of operations than others,
    /// or is waited for so long. Below 0.001 the rank is late.
    pub p_value: f64,
    /// How long others waited for it in collectives, summed over them, in ns.
    pub caused_ns: u64,
    /// How long others would not have waited if it had come with the last but one, summed over them, in ns.
    pub caused_alone_ns: u64,
    /// Of `caused_ns`, what it came later because it had itself waited or transferred for longer before.
    pub inherited_ns: u64,
    /// How long others waited in receives because it had not come to send, summed over them, in ns.
    pub late_sender_ns: u64,
    /// How long others waited in sends because it had not come to receive, summed over them, in ns.
    pub late_receiver_ns: u64,
    /// How long others waited for it in the end, in collectives and in messages, summed over them, in ns: where they
    /// waited for a rank that had waited for it, that is among it. While several late ranks are missing, each has an
    /// equal share.
    pub awaited_ns: u64,
    /// Of `awaited_ns`, what is because it was outside of operations for longer than those that waited.
    pub lost_ns: u64,
    /// How much later it came than the median of the ranks, in ns.
    pub lateness_ns: f64,
    /// How that develops, by the median of slopes between parts of the run, in ns per second.
    pub trend_ns_per_s: Option<f64>,
    pub change: Option<Change>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Member {
    pub communicator: u32,
    pub rank: u32,
    pub location: u64,
}

/// A value that changed once while the job ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    pub at_ns: u64,
    pub before: f64,
    pub after: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Heat {
    /// The first bin begins here.
    pub from_ns: u64,
    pub bin_ns: u64,
    /// By rank and bin: mean ns that it came later than the median rank; null without comparable operations.
    pub ranks: Vec<Vec<Option<f64>>>,
}
