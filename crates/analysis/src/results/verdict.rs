//! The verdict on a run, its causes and its anomalies, and the differences between two runs, which `diff --json`
//! prints, as plain data.

use std::iter;

use crate::results::Report;
use crate::results::report::{CausePhase, LinkKey, Run, Why};
use nccl_events::visible;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Faster,
    Slower,
    /// The data shows no difference beyond chance and the clocks' error.
    NoDifference,
    #[default]
    Unclear,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// Version of this format: 1. Fields may be added; the version changes if a field changes or is removed.
    pub format: u32,
    /// Over all groups: slower if B is slower in any, else faster if B is faster in any.
    pub outcome: Outcome,
    pub sentence: String,
    /// What the answer rests on and what it leaves open, one sentence each.
    pub basis: Vec<String>,
    /// The probability that all intervals contain their true values.
    pub confidence: f64,
    pub runs: [Compared; 2],
    /// Groups present in both runs; the largest difference in B's total time first.
    pub groups: Vec<Group>,
    /// Ranges of the program (NVTX) that both runs have at least 50 times, at most 16; those that differ first. They do
    /// not decide `outcome`.
    pub ranges: Vec<RangeChange>,
    pub only_a: Vec<Kind>,
    pub only_b: Vec<Kind>,
    /// The answer for a limit (`--fail-if-slower`); null if no limit was given.
    pub limit: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Slower,
    NotSlower,
    NotShown,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limit {
    pub share: f64,
    pub answer: Answer,
    pub sentence: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Compared {
    pub run: Run,
    pub ranks: u64,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kind {
    pub function: String,
    pub ranks: u32,
    /// Number of hosts of the recorded ranks.
    pub hosts: u32,
    pub communicators: Vec<String>,
    pub bytes_min: u64,
    pub bytes_max: u64,
    pub timing: String,
    pub operations: u64,
    pub unfinished: u64,
    /// Collectives that ended; for sends and receives, the largest number on one rank.
    pub count: u64,
    /// Time of the operations that ended, summed over ranks; null if the timing does not measure it.
    pub total_ns: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Group {
    pub a: Kind,
    pub b: Kind,
    /// The outcome for the median or, if it shows no difference, for p99.
    pub outcome: Outcome,
    /// Whether "no difference" would overstate the result: only a change of the median by half or more would show.
    pub is_coarse: bool,
    /// Why the outcome is unclear; null otherwise.
    pub reason: Option<String>,
    /// Time of a collective (mean over its ranks): median over collectives.
    pub median: Option<Difference>,
    pub p99: Option<Difference>,
    /// The part of that time spent waiting for the last rank: median over collectives.
    pub waiting: Option<Difference>,
    /// The part of that time after the last arrival: median over collectives.
    pub transfer: Option<Difference>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RangeChange {
    /// The names of the ranges around it and its own, outermost first.
    pub path: Vec<String>,
    /// How often a thread was in it.
    pub a: u64,
    pub b: u64,
    /// Its time, mean over threads: median over the times that they were in it.
    pub median: Difference,
    /// As of a group.
    pub is_coarse: bool,
    /// As of a group.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    pub a_ns: f64,
    pub b_ns: f64,
    pub difference_ns: f64,
    /// `difference_ns` ÷ `a_ns`; null if `a_ns` is 0.
    pub share: Option<f64>,
    /// The interval of `difference_ns`; null if the runs are too short for one.
    pub interval_ns: Option<[f64; 2]>,
    /// How far clocks can falsify the difference; null if unknown.
    pub error_ns: Option<u64>,
    /// The smallest change that would show, as a share of `a_ns`; null without `interval_ns` or `error_ns`.
    pub resolution: Option<f64>,
    /// The largest share of `a_ns` by which B may be slower, `error_ns` included; null like `resolution`.
    pub slower_at_most: Option<f64>,
    pub outcome: Outcome,
}

/// If only a larger change would be detected, "no difference" would overstate the result.
const COARSE: f64 = 0.5;

impl Difference {
    pub(crate) fn is_coarse(&self) -> bool {
        self.resolution.is_some_and(|share| share >= COARSE)
    }
}

impl Group {
    /// The largest share by which the data shows B to be slower, in the median or p99.
    pub fn slower_by(&self) -> Option<f64> {
        let shown =
            [self.median, self.p99].into_iter().flatten().filter(|difference| difference.outcome == Outcome::Slower);
        shown.filter_map(|difference| difference.share).max_by(f64::total_cmp)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Ranks had waited for long in operations that were open when the recording ended.
    Unfinished,
    /// A rank is late, or a link is slow: the causes say which.
    Causes,
    /// Half of all waiting is in a few collectives.
    Pauses,
    /// Ranks may be late, or chance made them.
    MayBeLate,
    /// No rank stands out.
    Healthy,
    Unclear,
    /// Nothing that several ranks do together was recorded.
    #[default]
    Nothing,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Verdict {
    pub finding: Finding,
    /// Who, how much and where, in one line.
    pub line: String,
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
    LateRank,
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
    /// Of a slow link between two hosts: the receivers' host; `host` is that of the senders.
    pub to_host: Option<String>,
    /// Of a slow network interface: its slow pairs', indices in [`super::Report::nics`]; empty without topology.
    pub nics: Vec<u32>,
    pub link: Option<LinkKey>,
    /// When the problem began; null if it lasted for the whole run.
    pub since_ns: Option<u64>,
    /// Of a late rank: when it was over; null if it lasted for the whole run.
    pub until_ns: Option<u64>,
    /// Of a late rank: the range of the program in which others waited for it; null if none had most of the time.
    pub phase: Option<CausePhase>,
    /// Of a late rank: what delayed it; null if it is another cause.
    pub why: Option<Why>,
    /// Time lost, summed over all ranks. It overlaps with that of other causes.
    pub lost_ns: u64,
    /// `lost_ns` ÷ the time of all ranks in operations; null if no operation was measured.
    pub share: Option<f64>,
    /// Affected collectives; of a late rank, the comparisons in which it takes longer by much.
    pub instances: u64,
    /// Whether the cause stopped a few operations for long instead of affecting most of them.
    pub is_stall: bool,
    pub sentence: String,
    /// What supports it, in one sentence; null if the cause is not known.
    pub evidence: Option<String>,
}

impl Cause {
    pub const fn is_late(&self) -> bool {
        matches!(self.kind, CauseKind::LateRank)
    }
}

impl Report {
    /// Escapes the names in sentences, so that programs that print them need not. For all that adds sentences.
    pub(crate) fn show_names(&mut self) {
        let Verdict { line, basis, rest, .. } = &mut self.verdict;
        let causes = self.causes.iter_mut();
        let causes = causes.flat_map(|cause| iter::once(&mut cause.sentence).chain(&mut cause.evidence));
        let anomalies = self.anomalies.iter_mut().map(|anomaly| &mut anomaly.sentence);
        for sentence in iter::once(line).chain(basis).chain(rest).chain(causes).chain(anomalies) {
            *sentence = visible(sentence).into_owned();
        }
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
