//! What is wrong, in words and numbers.

use serde::Serialize;

use super::links::LinkKey;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Ranks waited for long in what had not ended when the recording did.
    Unfinished,
    Causes,
    Healthy,
    Unclear,
    /// Nothing that several ranks do together was recorded.
    #[default]
    Nothing,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    pub finding: Finding,
    /// The sentence, with the number it rests on.
    pub sentence: String,
    /// Whether something is missing from the recording: then there may be more.
    pub is_partial: bool,
    /// What it rests on and what it leaves open, a sentence each.
    pub basis: Vec<String>,
    /// What is said of everything but the causes; none where nothing could be judged.
    pub rest: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// It had not ended when the recording did; the rank is behind.
    Unfinished,
    LateRank,
    /// A rank came late to sends: others waited in their receives.
    LateSender,
    /// A rank came late to receives: others waited in their sends.
    LateReceiver,
    /// All transfers from a rank or host to others, or to it, are slow.
    SlowNic,
    SlowPair,
    SlowChannel,
    SlowConnection,
    WaitedForGpu,
    WaitedForPeer,
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Cause {
    pub kind: CauseKind,
    /// The rank that came late or not at all, or whose network interface is slow: index in [`super::Report::ranks`].
    pub rank: Option<u32>,
    /// The host whose network interface is slow.
    pub host: Option<String>,
    pub link: Option<LinkKey>,
    /// From when on; none where it was so all the time.
    pub since_ns: Option<u64>,
    /// Time lost, summed over all ranks. It overlaps with that of other causes.
    pub lost_ns: u64,
    /// `lost_ns` ÷ the time of all ranks in operations; none where no operation was measured.
    pub share: Option<f64>,
    /// Collectives that it concerns; of a late sender or receiver its sends and receives that others waited for.
    pub instances: u64,
    /// Whether it stopped few operations for long, and is not how most of them went.
    pub is_stall: bool,
    pub sentence: String,
}

/// An instance that took far longer than others of its class.
#[derive(Clone, Debug, Serialize)]
pub struct Anomaly {
    /// Why, as far as the data says.
    pub kind: CauseKind,
    /// The rank that came late: index in [`super::Report::ranks`].
    pub rank: Option<u32>,
    pub link: Option<LinkKey>,
    pub class: u32,
    pub sequence: Option<u64>,
    pub start_ns: u64,
    pub end_ns: u64,
    /// The median of its class of the longest time that a rank spent in an instance, in ns.
    pub median_ns: f64,
    /// From the first arrival to the last.
    pub skew_ns: u64,
    /// Time lost against the median of its class, summed over all ranks.
    pub lost_ns: u64,
    /// The location of one of its ranks, and `nccl.event` of its operation there: its place in the timeline.
    pub location: u64,
    pub event: Option<u64>,
    pub sentence: String,
}
