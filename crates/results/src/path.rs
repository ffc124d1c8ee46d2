//! The critical path.

use schemars::JsonSchema;
use serde::Serialize;

use super::links::LinkKey;
use super::why::CausePhase;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// Outside of operations, other than launching.
    Computing,
    /// From a call to the beginning of its operation.
    Launching,
    /// In an operation, after all ranks had come.
    Transfer,
    /// In a first collective, in which NCCL connects ranks.
    WarmUp,
    /// In an operation whose waiting the recording or the clocks do not show.
    Unclear,
}

/// From the end of the last operation back through what each operation waited for. The parts add up to its length.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CriticalPath {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Operations on the path.
    pub operations: u64,
    pub computing_ns: u64,
    pub launching_ns: u64,
    pub transfer_ns: u64,
    pub warm_up_ns: u64,
    pub unclear_ns: u64,
    /// The longest first.
    pub parts: Vec<PathPart>,
    pub sentence: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PathPart {
    pub kind: PathKind,
    /// Null for transfer.
    pub rank: Option<u32>,
    /// Null outside of operations.
    pub function: Option<String>,
    pub communicator: Option<u32>,
    /// Of transfer: the ends of a message, or the link that was found to be slow.
    pub link: Option<LinkKey>,
    /// The range of the program that the rank was in for most of the time.
    pub phase: Option<CausePhase>,
    /// Its length: the job would be shorter by that at most if this took no time.
    pub ns: u64,
    pub share: f64,
    /// How often the path goes through it.
    pub times: u64,
}
