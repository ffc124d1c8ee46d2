//! A blockage: ranks wait in an operation, for a known or unknown cause.

use super::mismatch::Mismatch;
use crate::operation::{Message, Signature};
use crate::sequence::Sequence;

/// NCCL may take tens of seconds to connect thousands of ranks.
const LONG_STEP_NS: u64 = 60_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Blockage {
    pub(crate) comm: usize,
    pub(crate) operation: Operation,
    pub(crate) waiters: Vec<(u32, u64)>,
    pub(crate) cause: Cause,
}

impl Blockage {
    /// The longest wait; 0 if nobody waits.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.waiters.iter().map(|(_, ns)| *ns).max().unwrap_or(0)
    }

    /// Whether ranks are in a call that makes or ends a communicator, and nothing says for whom they wait.
    pub(crate) const fn is_step_without_cause(&self) -> bool {
        matches!((&self.operation, &self.cause), (Operation::Step(_), Cause::AllEntered(holding)) if holding.is_empty())
    }

    /// How long it can take in a healthy job.
    pub(crate) const fn takes_ns(&self) -> u64 {
        match &self.operation {
            Operation::Step(call) if !call.is_end && self.is_step_without_cause() => LONG_STEP_NS,
            _ => 0,
        }
    }

    pub(crate) fn waiting_ranks(&self) -> Vec<u32> {
        self.waiters.iter().map(|(rank, _)| *rank).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Collective {
        sequence: Sequence,
        position: Position,
        what: Signature,
    },
    /// A send or receive of the only waiter.
    Message(Message),
    /// A call that makes or ends a communicator.
    Step(StepCall),
}

impl Operation {
    /// Whether this is a collective with an unknown position in the communicator's order.
    pub(crate) const fn has_unknown_position(&self) -> bool {
        matches!(self, Self::Collective { position, .. } if position.index.is_none())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StepCall {
    /// Such as `ncclCommSplit`.
    pub(crate) name: String,
    /// Whether the call is known to be about the blockage's communicator: for a split, as its parent.
    pub(crate) knows_comm: bool,
    /// Whether it finalizes or destroys the communicator.
    pub(crate) is_end: bool,
    /// Whether it is known to wait for all ranks of the blockage's communicator.
    pub(crate) is_of_all: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// From 0; `None` if unknown.
    pub(crate) index: Option<u64>,
    /// Whether positions count from the communicator's first collective, not from the first kept one.
    pub(crate) from_beginning: bool,
    /// NCCL's number of the call within its function.
    pub(crate) sequence: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Cause {
    Mismatch(Mismatch),
    Absent(Vec<u32>),
    /// All entered; these ranks delay it, as far as known.
    AllEntered(Vec<(u32, Reason)>),
    /// All others entered; records of these ranks are missing or incomplete.
    Unrecorded(Vec<u32>),
}

/// Why a rank is the suspect, most certain reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Mismatch,
    Gone,
    /// The process has ended its recording, or this communicator.
    Ended,
    /// Ranks wait for each other in different communicators.
    Deadlock,
    Stopped,
    /// The rank is in an NCCL call that does not return.
    InTheCall,
    /// The rank runs, is outside NCCL, and has not called the operation that others wait for.
    NotCalled,
    /// The rank has no records, and never took part.
    NeverCame,
    /// The rank is on another host and silent.
    Silent,
    /// The rank entered, but its kernel has not begun, unlike other ranks' kernels.
    NotBegun,
    /// The rank entered, and its proxy waits only for its own GPU.
    Gpu,
    Unrecorded,
    /// All entered, and no record shows who delays the operation.
    Unknown,
}

impl Reason {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mismatch => "mismatch",
            Self::Gone => "gone",
            Self::Ended => "ended",
            Self::Deadlock => "deadlock",
            Self::Stopped => "stopped",
            Self::InTheCall => "in-the-call",
            Self::NotCalled => "not-called",
            Self::NeverCame => "never-came",
            Self::Silent => "silent",
            Self::NotBegun => "kernel-not-begun",
            Self::Gpu => "gpu",
            Self::Unrecorded => "unrecorded",
            Self::Unknown => "unknown",
        }
    }
}
