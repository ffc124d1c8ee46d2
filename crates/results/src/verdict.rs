//! The verdict, in words and numbers.

use schemars::JsonSchema;
use serde::Serialize;

use super::links::LinkKey;
use super::why::{CausePhase, Why};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Ranks had waited for long in operations that were open when the recording ended.
    Unfinished,
    Causes,
    Healthy,
    Unclear,
    /// Nothing that several ranks do together was recorded.
    #[default]
    Nothing,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Verdict {
    pub finding: Finding,
    /// The verdict in one sentence, with the number that supports it.
    pub sentence: String,
    /// Whether the recording is incomplete, so that there may be more.
    pub is_partial: bool,
    /// What the verdict rests on and what it leaves open, one sentence each.
    pub basis: Vec<String>,
    /// The statement on everything but the causes; null if nothing could be judged.
    pub rest: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// The operation was open when the recording ended; the rank is behind.
    Unfinished,
    LateRank,
    /// A rank reached its sends late: others waited in their receives.
    LateSender,
    /// A rank reached its receives late: others waited in their sends.
    LateReceiver,
    /// All transfers from a rank or host to others, or all transfers to it, are slow.
    SlowNic,
    SlowPair,
    SlowChannel,
    SlowConnection,
    WaitedForGpu,
    WaitedForPeer,
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Cause {
    pub kind: CauseKind,
    /// The rank that came late or not at all, or whose network interface is slow: index in [`super::Report::ranks`].
    pub rank: Option<u32>,
    /// The host whose network interface is slow.
    pub host: Option<String>,
    /// Of a slow network interface: its slow pairs', indices in [`super::Report::nics`]; empty without topology.
    pub nics: Vec<u32>,
    pub link: Option<LinkKey>,
    /// When the problem began; null if it lasted for the whole run.
    pub since_ns: Option<u64>,
    /// Of a late rank: the range of the program in which others waited for it; null if none had most of the time.
    pub phase: Option<CausePhase>,
    /// Of a late rank: what delayed it; null if it is another cause.
    pub why: Option<Why>,
    /// Time lost, summed over all ranks. It overlaps with that of other causes.
    pub lost_ns: u64,
    /// `lost_ns` ÷ the time of all ranks in operations; null if no operation was measured.
    pub share: Option<f64>,
    /// Affected collectives; for a late sender or receiver, its sends and receives that others waited for.
    pub instances: u64,
    /// Whether the cause stopped a few operations for long instead of affecting most of them.
    pub is_stall: bool,
    pub sentence: String,
}

impl Cause {
    pub const fn is_late(&self) -> bool {
        matches!(self.kind, CauseKind::LateRank | CauseKind::LateSender | CauseKind::LateReceiver)
    }
}

/// An instance that took far longer than others of its class.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Anomaly {
    /// The cause, as far as the data shows it.
    pub kind: CauseKind,
    /// The rank that came late: index in [`super::Report::ranks`].
    pub rank: Option<u32>,
    pub link: Option<LinkKey>,
    pub class: u32,
    pub sequence: Option<u64>,
    pub start_ns: u64,
    pub end_ns: u64,
    /// The class's median of the longest time any rank spent in an instance, in ns.
    pub median_ns: f64,
    /// From the first arrival to the last.
    pub skew_ns: u64,
    /// Time lost compared with the median of its class, summed over all ranks.
    pub lost_ns: u64,
    /// The location of one of its ranks, and `nccl.event` of its operation there: a link into the timeline.
    pub location: u64,
    pub event: Option<u64>,
    pub sentence: String,
}
