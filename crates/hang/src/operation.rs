//! An operation as one rank called it: its arguments, and its progress.

use std::sync::Arc;

use nccl_events::collective::{Collective, Flow};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Signature {
    /// NCCL's name, such as `AllReduce`.
    pub(crate) func: Arc<str>,
    pub(crate) count: u64,
    pub(crate) datatype: Arc<str>,
    /// The root, for functions that have one.
    pub(crate) root: Option<i32>,
}

impl Signature {
    /// Whether each rank's result depends on all ranks, so that no rank completes before all have entered. Transfers
    /// that end earlier have failed: when a peer dies, NCCL stops them like any others.
    pub(crate) fn needs_all(&self) -> bool {
        Collective::named(&*self.func).is_some_and(|collective| collective.flow() == Flow::AllToAll)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) what: Signature,
    /// Whether `what` comes from the API call; below the API AllGather and Broadcast count bytes.
    pub(crate) from_api: bool,
    /// NCCL's number of the call within its function.
    pub(crate) sequence: Option<u64>,
    /// Whether a copy engine does the work: NCCL numbers these calls separately.
    pub(crate) by_copy_engine: bool,
    pub(crate) entered_ns: u64,
    pub(crate) progress: Progress,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    pub(crate) waits: Vec<Wait>,
    pub(crate) channels_open: u32,
    pub(crate) began: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The program is in the call; nothing was enqueued.
    #[default]
    Calling,
    /// The call has returned; later events are not recorded.
    Called,
    /// NCCL is launching the kernel; the launch has not returned.
    Launching,
    /// The operation was enqueued; whether it began is not recorded.
    Enqueued,
    /// The kernel was launched; whether it began is not recorded.
    Launched,
    /// Transfers or kernel channels were seen, but not their end.
    Running,
    /// All network transfers have ended; the GPU's work is not recorded.
    Transferred,
    Done,
}

impl Stage {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Calling => "calling",
            Self::Called => "called",
            Self::Launching => "launching",
            Self::Enqueued => "enqueued",
            Self::Launched => "launched",
            Self::Running => "running",
            Self::Transferred => "transferred",
            Self::Done => "done",
        }
    }

    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Transferred | Self::Done)
    }

    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Calling | Self::Launching | Self::Running)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) channel: u8,
    pub(crate) peer: i32,
    pub(crate) is_send: bool,
    pub(crate) state: WaitState,
    /// The waiting step, if steps were recorded.
    pub(crate) step: Option<i32>,
    pub(crate) steps: i32,
    pub(crate) since_ns: u64,
}

/// What a proxy waits for, in NCCL's terms (`ncclProfilerProxyStep…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitState {
    Queued,
    SendGpu,
    SendPeer,
    SendNetwork,
    Receive,
    /// The data has arrived and is being flushed to the GPU.
    Flush,
    ReceiveGpu,
    Unknown,
}

impl WaitState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Queued => "Queued",
            Self::SendGpu => "SendGPUWait",
            Self::SendPeer => "SendPeerWait",
            Self::SendNetwork => "SendWait",
            Self::Receive => "RecvWait",
            Self::Flush => "RecvFlushWait",
            Self::ReceiveGpu => "RecvGPUWait",
            Self::Unknown => "not recorded",
        }
    }

    pub(crate) const fn is_for_peer(self) -> bool {
        matches!(self, Self::SendPeer | Self::SendNetwork | Self::Receive)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) peer: u32,
    pub(crate) is_send: bool,
    /// Zero-based index among the messages with this peer in this direction.
    pub(crate) number: u64,
    pub(crate) count: u64,
    pub(crate) datatype: Arc<str>,
    pub(crate) entered_ns: u64,
    pub(crate) progress: Progress,
}

impl Message {
    pub(crate) const fn func(&self) -> &'static str {
        if self.is_send { "ncclSend" } else { "ncclRecv" }
    }

    pub(crate) const fn matching_func(&self) -> &'static str {
        if self.is_send { "ncclRecv" } else { "ncclSend" }
    }
}

/// An NCCL call that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// The function, `ncclGroupEnd`, or a kernel launch: `in …`.
    pub(crate) what: String,
    /// Whether NCCL does not return. If false, the program is between two calls.
    pub(crate) is_in_nccl: bool,
    pub(crate) since_ns: u64,
}

/// How many collectives are kept per rank: ranks that are further apart have another problem anyway.
pub(crate) const KEPT: usize = 1024;

/// How the positions of a rank's operations in the communicator's order are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Positions {
    #[default]
    Counted,
    /// The beginning is not kept; NCCL's numbers match operations with those of other ranks.
    Aligned,
    /// No kept operation matches another rank's; NCCL's numbers give the order, but not the distance.
    Ordered,
    /// The beginning is not kept, and the positions are unknown.
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Number of operations before those in the list.
    pub(crate) before: u64,
    pub(crate) list: Vec<Call>,
    pub(crate) positions: Positions,
}

impl Tail {
    /// Keeps the last of these calls, which are counted from the first.
    pub(crate) fn of(mut calls: Vec<Call>) -> Self {
        let before = calls.len().saturating_sub(KEPT);
        Self { before: before as u64, list: calls.split_off(before), positions: Positions::Counted }
    }

    /// Number of operations in total, from the origin of positions.
    pub(crate) fn count(&self) -> u64 {
        self.before + self.list.len() as u64
    }

    pub(crate) fn has_positions(&self) -> bool {
        self.positions != Positions::Unknown
    }

    /// The operation at a position, from 0; `None` if there is none, if it is not kept, or if its position is unknown.
    pub(crate) fn at(&self, position: u64) -> Option<&Call> {
        self.list.get(usize::try_from(position.checked_sub(self.before)?).ok()?).filter(|_| self.has_positions())
    }

    /// The first operation known not to have ended.
    pub(crate) fn first_open(&self) -> Option<&Call> {
        self.list.iter().find(|call| call.progress.stage.is_open())
    }
}
