//! A blockage: ranks wait in an operation, for a cause.

use super::mismatch::Mismatch;
use crate::operation::{Message, Signature};
use crate::sequence::Sequence;

#[derive(Clone, Debug)]
pub(crate) struct Blockage {
    pub(crate) comm: usize,
    pub(crate) operation: Operation,
    pub(crate) waiters: Vec<(u32, u64)>,
    pub(crate) cause: Cause,
}

impl Blockage {
    /// How long the first has waited; 0 where nobody waits.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.waiters.iter().map(|(_, ns)| *ns).max().unwrap_or(0)
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
    /// A send or receive of the (one) waiter.
    Message(Message),
}

impl Operation {
    /// Whether it is a collective of which the position in the communicator's order is unknown.
    pub(crate) const fn has_unknown_position(&self) -> bool {
        matches!(self, Self::Collective { position, .. } if position.index.is_none())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// From 0; `None` where it is unknown.
    pub(crate) index: Option<u64>,
    /// Whether positions count from the first of the communicator, not from the first that is kept.
    pub(crate) from_beginning: bool,
    /// NCCL's number among the calls of the function.
    pub(crate) sequence: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Cause {
    Mismatch(Mismatch),
    Absent(Vec<u32>),
    /// All entered; these hold it up, as far as is known.
    AllEntered(Vec<(u32, Reason)>),
    /// All others entered; of these ranks there are no records, or not all.
    Unrecorded(Vec<u32>),
}

/// Why a rank is the suspect, the surest reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Mismatch,
    Gone,
    /// Its process has ended its recording, or this communicator.
    Ended,
    /// Ranks wait for each other in different communicators.
    Deadlock,
    Stopped,
    /// It is in a call of NCCL that does not return.
    InTheCall,
    /// It runs, is not in NCCL, and has not called what the others wait for.
    NotCalled,
    /// It has recorded nothing, and never took part.
    NeverCame,
    /// It is on another host and silent.
    Silent,
    /// It entered, and its kernel has not begun, unlike the others' kernels.
    NotBegun,
    /// It entered, and its proxy waits only for its own GPU.
    Gpu,
    Unrecorded,
    /// All entered, and no record shows who holds it up.
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
