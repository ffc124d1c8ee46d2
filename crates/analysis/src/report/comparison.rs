//! How two runs of a program differ, as plain data: `diff --json` prints it.

use serde::Serialize;

use super::Run;
use super::verdict::Verdict;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Faster,
    Slower,
    /// The data shows no difference: it is within chance or the clocks' error.
    NoDifference,
    #[default]
    Unclear,
}

#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Version of this description: 1. Fields may be added; it changes when one changes or goes.
    pub format: u32,
    /// Of all groups: slower where B is slower in any, else faster where it is in any.
    pub outcome: Outcome,
    pub sentence: String,
    /// What it rests on and what it leaves open, a sentence each.
    pub basis: Vec<String>,
    /// How probable it is that all intervals hold their true values.
    pub confidence: f64,
    pub runs: [Compared; 2],
    /// What both runs have, that which costs or saves B most time first.
    pub groups: Vec<Group>,
    pub only_a: Vec<Kind>,
    pub only_b: Vec<Kind>,
    /// The answer for a limit (`--fail-if-slower`); null where none was asked for.
    pub limit: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Slower,
    NotSlower,
    NotShown,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    pub share: f64,
    pub answer: Answer,
    pub sentence: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub run: Run,
    pub ranks: u64,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kind {
    pub function: String,
    pub ranks: u32,
    /// Hosts that its recorded ranks are on.
    pub hosts: u32,
    pub communicators: Vec<String>,
    pub bytes_min: u64,
    pub bytes_max: u64,
    pub timing: String,
    pub operations: u64,
    pub unfinished: u64,
    /// Collectives that ended; of sends and receives the most that a rank had.
    pub count: u64,
    /// Time of the operations that ended, summed over ranks; null where the timing does not tell.
    pub total_ns: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Group {
    pub a: Kind,
    pub b: Kind,
    /// That of the median; where it shows no difference, that of p99.
    pub outcome: Outcome,
    /// Whether "no difference" would say too much: only a change of the median by half and more would show.
    pub is_coarse: bool,
    /// Why the outcome is unclear; null where it is not.
    pub reason: Option<String>,
    /// Time of a collective, the mean of its ranks: median over collectives.
    pub median: Option<Difference>,
    pub p99: Option<Difference>,
    /// Of that time, waiting for the last rank: median over collectives.
    pub waiting: Option<Difference>,
    /// Of that time, from the last arrival on: median over collectives.
    pub transfer: Option<Difference>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Difference {
    pub a_ns: f64,
    pub b_ns: f64,
    pub difference_ns: f64,
    /// `difference_ns` ÷ `a_ns`; null where A has none.
    pub share: Option<f64>,
    /// The interval of `difference_ns`; null where the runs are too short for one.
    pub interval_ns: Option<[f64; 2]>,
    /// By how much clocks can make it wrong; null where that is not known.
    pub error_ns: Option<u64>,
    /// The smallest change that would show, as a share of `a_ns`; null where there is no interval or `error_ns`.
    pub resolution: Option<f64>,
    /// By what share of `a_ns` B is slower at most: the end of the interval with `error_ns`; null as `resolution`.
    pub slower_at_most: Option<f64>,
    pub outcome: Outcome,
}

impl Group {
    /// The largest share by which the data shows that B is slower, in the median or p99.
    pub fn slower_by(&self) -> Option<f64> {
        let shown = [self.median, self.p99].into_iter().flatten().filter(|it| it.outcome == Outcome::Slower);
        shown.filter_map(|it| it.share).max_by(f64::total_cmp)
    }
}
