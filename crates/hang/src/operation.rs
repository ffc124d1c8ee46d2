//! An operation as one rank did it: what it asks for, and how far it got.

use std::sync::Arc;

use nccl_events::collective::{Collective, Flow};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Signature {
    /// `AllReduce` …
    pub(crate) func: Arc<str>,
    pub(crate) count: u64,
    pub(crate) datatype: Arc<str>,
    /// The root, of functions that have one.
    pub(crate) root: Option<i32>,
}

impl Signature {
    /// Whether what each rank gets depends on all ranks: then it is complete on no rank before all have entered.
    /// Transfers that ended before that have failed: when a peer dies NCCL stops them like any others.
    pub(crate) fn needs_all(&self) -> bool {
        Collective::named(&*self.func).is_some_and(|collective| collective.flow() == Flow::AllToAll)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) what: Signature,
    /// Whether `what` is from the API call; below the API AllGather and Broadcast count bytes.
    pub(crate) from_api: bool,
    /// NCCL's number among the calls of this function.
    pub(crate) sequence: Option<u64>,
    /// Whether a copy engine does it: NCCL numbers those separately.
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
    /// The call has returned; what followed is not recorded.
    Called,
    /// NCCL launches its kernel, and the launch has not returned.
    Launching,
    /// It was enqueued; whether it began is not recorded.
    Enqueued,
    /// Its kernel was launched; whether it began is not recorded.
    Launched,
    /// Its transfers or kernel channels were seen, but not their end.
    Running,
    /// All its network transfers have ended; what the GPU does is not recorded.
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
    /// The step that waits, where steps were recorded.
    pub(crate) step: Option<i32>,
    pub(crate) steps: i32,
    pub(crate) since_ns: u64,
}

/// What a proxy waits for, in NCCL's words (`ncclProfilerProxyStep…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitState {
    Queued,
    SendGpu,
    SendPeer,
    SendNetwork,
    Receive,
    /// The data has arrived, and is being flushed to the GPU.
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

/// A call of NCCL that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// The function, `ncclGroupEnd`, or a kernel launch: `in …`.
    pub(crate) what: String,
    /// Whether NCCL does not return; else the program is between two calls.
    pub(crate) is_in_nccl: bool,
    pub(crate) since_ns: u64,
}

/// How many collectives of a rank are kept: ranks are further apart only where something is wrong anyway.
pub(crate) const KEPT: usize = 1024;

/// How the positions of a rank's operations in the order of the communicator are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Positions {
    #[default]
    Counted,
    /// The beginning is not kept; NCCL's numbers show which operations are the same as those of other ranks.
    Aligned,
    /// No kept operation is the same as one of others; NCCL's numbers show which come first, not how many lie between.
    Ordered,
    /// The beginning is not kept, and nothing gives the positions.
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// How many came before those in the list.
    pub(crate) before: u64,
    pub(crate) list: Vec<Call>,
    pub(crate) positions: Positions,
}

impl Tail {
    /// The last of these calls, which are counted from the first.
    pub(crate) fn of(mut calls: Vec<Call>) -> Self {
        let before = calls.len().saturating_sub(KEPT);
        Self { before: before as u64, list: calls.split_off(before), positions: Positions::Counted }
    }

    /// How many in all, from where positions begin.
    pub(crate) fn count(&self) -> u64 {
        self.before + self.list.len() as u64
    }

    pub(crate) fn has_positions(&self) -> bool {
        self.positions != Positions::Unknown
    }

    /// The operation at a position, from 0; `None` if it is not there, not kept, or its position is unknown.
    pub(crate) fn at(&self, position: u64) -> Option<&Call> {
        self.list.get(usize::try_from(position.checked_sub(self.before)?).ok()?).filter(|_| self.has_positions())
    }

    /// The first operation that is known not to have ended.
    pub(crate) fn first_open(&self) -> Option<&Call> {
        self.list.iter().find(|call| call.progress.stage.is_open())
    }
}
