//! What is known of a job at one moment, from the journals of all its processes: plain data, which
//! [`super::judge`] judges. Times are CLOCK_REALTIME ns as the process's host has it.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use super::tail::{Place, Tail};

/// The job.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// Its processes, in the order of their parts' names.
    pub(crate) processes: Vec<Process>,
    /// Its communicators, in the order of their keys.
    pub(crate) comms: Vec<Comm>,
    /// The moment: nothing that began later counts, because processes are read one after the other.
    pub(crate) now_ns: u64,
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs, on this host or, by its fresh records, on another.
    Running,
    /// It is on this host and stopped, by a signal or a debugger.
    Stopped,
    /// It was on this host and is gone, without having ended its recording.
    Gone,
    /// It ended its communicators, or its part is written and its journal gone: by itself when it ended, or by
    /// `finalize` when it was gone.
    Ended,
    /// It is on another host and has recorded nothing for a while.
    Silent,
}

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Name of its part.
    pub(crate) part: String,
    /// Host.
    pub(crate) host: String,
    /// Process id.
    pub(crate) pid: u32,
    /// The launcher's rank.
    pub(crate) launcher_rank: Option<u32>,
    /// How many processes the launcher started.
    pub(crate) launcher_size: Option<u32>,
    /// Whether it runs.
    pub(crate) life: Life,
    /// Until when it is known what it did: now for one that runs, its last record for others.
    pub(crate) until_ns: u64,
    /// Its last record, the plugin's own clock readings (one a second) included.
    pub(crate) last_record_ns: u64,
    /// The last time that NCCL called the plugin; 0 for never.
    pub(crate) last_event_ns: u64,
    /// Which kinds of event were asked for.
    pub(crate) event_mask: u32,
    /// The running NCCL.
    pub(crate) nccl_version: String,
    /// Whether there is a journal.
    pub(crate) has_journal: bool,
    /// Whether nothing is missing from some time on up to that time: else it may have done more.
    pub(crate) is_whole: bool,
    /// Of a flight recording of which the beginning is gone: from when on everything is there.
    pub(crate) kept_since_ns: Option<u64>,
    /// What is missing or unsure in what it recorded.
    pub(crate) problems: Vec<String>,
}

impl Process {
    /// Where it is: host and process id.
    pub(crate) fn place(&self) -> String {
        if self.host.is_empty() {
            self.part.clone()
        } else {
            format!("{}:{}", self.host, self.pid)
        }
    }

    /// Whether it does not run any more, for all that is known.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.life, Life::Gone | Life::Ended)
    }
}

/// One GPU of one process, as far as the events tell: what waits in one communicator cannot enter another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Actor {
    /// A place in [`Job::processes`].
    pub(crate) process: usize,
    /// The process's number of its GPU.
    pub(crate) gpu: u32,
}

/// A communicator over all processes.
#[derive(Debug)]
pub(crate) struct Comm {
    /// The user's name, else its id.
    pub(crate) name: String,
    /// NCCL's id or hash; 0 where there is none.
    pub(crate) id: u64,
    /// The how-manieth of this id and size.
    pub(crate) repetition: u32,
    /// Number of ranks; where NCCL does not tell (2.26 and earlier) one more than the highest seen.
    pub(crate) size: u32,
    /// Whether the size was told.
    pub(crate) knows_size: bool,
    /// The ranks that a process recorded.
    pub(crate) ranks: BTreeMap<u32, Rank>,
}

impl Comm {
    /// The ranks that no process recorded.
    pub(crate) fn missing(&self) -> Vec<u32> {
        let all = 0..self.size;
        all.filter(|rank| !self.ranks.contains_key(rank)).collect()
    }
}

/// A rank of a communicator.
#[derive(Debug)]
pub(crate) struct Rank {
    /// Who it is.
    pub(crate) actor: Actor,
    /// Its collectives, in its order.
    pub(crate) calls: Tail,
    /// The collectives of launched CUDA graphs, in its order: NCCL reports them on ranks with network transfers only.
    pub(crate) replays: Tail,
    /// Its sends and receives that may not be complete, and how many there were with each peer.
    pub(crate) messages: Vec<Message>,
    /// By peer and direction (true: send): how many.
    pub(crate) message_counts: BTreeMap<(u32, bool), u64>,
    /// The calls of NCCL that have not returned.
    pub(crate) inside: Vec<Inside>,
    /// Whether it ended the communicator.
    pub(crate) finalized: bool,
}

/// What a call asks for: the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Signature {
    /// `ncclAllReduce` …
    pub(crate) func: Arc<str>,
    /// Elements.
    pub(crate) count: u64,
    /// NCCL's name of the type.
    pub(crate) datatype: Arc<str>,
    /// The root, of functions that have one.
    pub(crate) root: Option<i32>,
}

impl Signature {
    /// Whether what each rank gets depends on all: then it is complete on none before all have come. What looks so
    /// has failed: when a peer dies NCCL ends its transfers like any others.
    pub(crate) fn needs_all(&self) -> bool {
        let funcs = ["AllReduce", "AllGather", "ReduceScatter", "AlltoAll"];
        funcs.contains(&&*self.func)
    }
}

/// A collective as one rank did it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What it asks for.
    pub(crate) what: Signature,
    /// Whether that is from the API call, else from below, where AllGather and Broadcast count bytes.
    pub(crate) from_api: bool,
    /// NCCL's number among the calls of this function.
    pub(crate) sequence: Option<u64>,
    /// Whether a copy engine does it: those have numbers of their own.
    pub(crate) by_copy_engine: bool,
    /// When it was called.
    pub(crate) entered_ns: u64,
    /// How far it came.
    pub(crate) progress: Progress,
}

/// How far an operation came on a rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// The last thing known.
    pub(crate) stage: Stage,
    /// What its proxy waits for.
    pub(crate) waits: Vec<Wait>,
    /// Channels of its kernel that run.
    pub(crate) channels_open: u32,
    /// Whether its kernel was seen to run.
    pub(crate) began: bool,
}

/// The last thing known of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The program is in the call; nothing was enqueued.
    #[default]
    Calling,
    /// The call has returned; what became of it is not recorded.
    Called,
    /// NCCL launches its kernel, and that has not returned.
    Launching,
    /// It was enqueued; whether it began is not recorded.
    Enqueued,
    /// Its kernel was launched; whether it began is not recorded.
    Launched,
    /// Its transfers or kernel channels were seen, and not their end.
    Running,
    /// All its network transfers have ended; what the GPU does is not recorded.
    Transferred,
    /// It has ended.
    Done,
}

impl Stage {
    /// Whether it has ended, as far as can be told.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Transferred | Self::Done)
    }

    /// Whether it is known not to have ended.
    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Calling | Self::Launching | Self::Running)
    }
}

/// A network transfer that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Channel.
    pub(crate) channel: u8,
    /// The rank at the other end.
    pub(crate) peer: i32,
    /// Whether it sends.
    pub(crate) is_send: bool,
    /// What it waits for.
    pub(crate) state: WaitState,
    /// The step that waits, where steps were recorded.
    pub(crate) step: Option<i32>,
    /// Steps in all.
    pub(crate) steps: i32,
    /// Since when.
    pub(crate) since_ns: u64,
}

/// What a proxy waits for, in NCCL's words (`ncclProfilerProxyStep…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitState {
    /// The proxy has not begun with it.
    Queued,
    /// The GPU has not produced the data.
    SendGpu,
    /// The peer is not ready to receive.
    SendPeer,
    /// The network has not sent it.
    SendNetwork,
    /// The data has not come.
    Receive,
    /// It came, and is being flushed to the GPU.
    Flush,
    /// The GPU has not taken it.
    ReceiveGpu,
    /// Not recorded.
    Unknown,
}

impl WaitState {
    /// NCCL's name.
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

    /// Whether it is the peer or the way to it that is waited for.
    pub(crate) const fn is_for_peer(self) -> bool {
        matches!(self, Self::SendPeer | Self::SendNetwork | Self::Receive)
    }
}

/// A send or receive that may not be complete.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The other rank.
    pub(crate) peer: u32,
    /// Whether it sends.
    pub(crate) is_send: bool,
    /// The how-manieth with this peer in this direction, from 0.
    pub(crate) number: u64,
    /// Elements.
    pub(crate) count: u64,
    /// NCCL's name of the type.
    pub(crate) datatype: Arc<str>,
    /// When it was called.
    pub(crate) entered_ns: u64,
    /// How far it came.
    pub(crate) progress: Progress,
}

impl Message {
    /// The name of the call.
    pub(crate) const fn func(&self) -> &'static str {
        if self.is_send { "ncclSend" } else { "ncclRecv" }
    }
}

/// A call of NCCL that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// What: the function, `ncclGroupEnd`, a kernel launch.
    pub(crate) what: String,
    /// Whether it is NCCL that does not return, not the program that is between two calls.
    pub(crate) is_in_nccl: bool,
    /// Since when.
    pub(crate) since_ns: u64,
}
