//! What delays a late rank.

use nccl_events::archive::path_of_ranges;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CausePhase {
    /// The names of the ranges around it and its own, outermost first.
    pub path: Vec<String>,
    /// Its share of the time in which others waited.
    pub share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// Its calls came late.
    Call,
    /// It called in time; the launch came late.
    Launch,
    /// It launched in time; the GPU began late.
    Gpu,
    /// An operation of its own before ended late.
    Operation,
}

/// What delayed a late rank. The times `…_ns` but `later_ns` add up to what others waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Why {
    /// What delayed it for at least half of the time; null if nothing did, or if it is not known.
    pub reason: Option<Delay>,
    /// By how much, beyond the others: the median of the operations that this delayed, by what others waited for them.
    pub later_ns: Option<u64>,
    /// If its calls came late: the range of the program that it was in before them.
    pub phase: Option<CausePhase>,
    pub call_ns: u64,
    pub launch_ns: u64,
    pub gpu_ns: u64,
    pub operation_ns: u64,
    pub unknown_ns: u64,
    /// Why most of the time is unknown; null if it is not.
    pub missing: Option<String>,
}

impl CausePhase {
    /// For example " Meanwhile it was in `step # > load`, 97 % of the time."
    pub fn sentence(&self) -> String {
        let path = path_of_ranges(&self.path);
        format!(" Meanwhile it was in `{path}`, {:.0} % of the time.", self.share * 100.0)
    }
}
