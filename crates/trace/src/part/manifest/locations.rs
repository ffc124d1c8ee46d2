//! The locations of a part.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum LocationKind {
    Thread {
        /// The system's thread id; 0 if unknown.
        thread_id: u32,
        name: String,
        /// Whether this is a CUDA thread, which calls host functions.
        is_callback: bool,
    },
    Proxy {
        /// The system's thread id; 0 if unknown.
        thread_id: u32,
    },
    Communicator {
        /// An index into [`super::Manifest::comms`].
        comm: u32,
        rank: u32,
        /// An index into [`super::Manifest::gpus`].
        gpu: u32,
    },
    Stream {
        /// An index into [`super::Manifest::gpus`], if the GPU is known.
        gpu: Option<u32>,
        /// CUPTI's number of the CUDA context.
        context: u32,
        /// CUPTI's number of the stream in the context.
        stream: u32,
        /// Whether another context on the GPU has a stream with the same number.
        is_ambiguous: bool,
    },
    Channel {
        owner: LocationOwner,
        channel: u8,
    },
    Net(Connection),
    /// The ranges of an NVTX domain that one thread starts and any thread ends.
    Ranges {
        /// Empty for the default domain.
        domain: String,
    },
    /// A slot of a network connection, which has one step in progress at a time.
    Step {
        #[serde(flatten)]
        connection: Connection,
        /// Number of the slot: 0 … 7.
        slot: u8,
    },
    /// The network plugin's work for a slot.
    Plugin {
        #[serde(flatten)]
        connection: Connection,
        /// Number of the slot: 0 … 7.
        slot: u8,
    },
}

impl LocationKind {
    /// A description for people who look for something missing.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Thread { thread_id, name, .. } => format!("thread {thread_id} ({name})"),
            Self::Proxy { thread_id } => format!("proxy thread {thread_id}"),
            Self::Communicator { comm, rank, .. } => format!("rank {rank} of communicator {comm}"),
            Self::Stream { stream, .. } => format!("stream {stream}"),
            Self::Channel { channel, .. } => format!("channel {channel}"),
            Self::Ranges { domain } => format!("the started ranges of the NVTX domain {domain:?}"),
            Self::Net(connection) => format!("the connection with rank {}", connection.peer),
            Self::Step { connection, slot } => format!("slot {slot} of the connection with rank {}", connection.peer),
            Self::Plugin { connection, slot } => {
                format!("the network plugin in slot {slot} of the connection with rank {}", connection.peer)
            }
        }
    }

    /// Whether this is a slot whose steps put data into the memory of a peer.
    pub(crate) const fn is_sending_step(&self) -> bool {
        matches!(self, Self::Step { connection, .. } if connection.send)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connection {
    pub owner: LocationOwner,
    pub channel: u8,
    pub send: bool,
    pub peer: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "of")]
pub(crate) enum LocationOwner {
    Rank {
        /// An index into [`super::Manifest::comms`].
        comm: u32,
        rank: u32,
        /// An index into [`super::Manifest::gpus`].
        gpu: u32,
    },
    /// A communicator without a beginning in the journal: another process's, worked for here (PXN), or this process's
    /// own whose beginning could not be recorded.
    Foreign {
        /// The context as the process handed it out.
        context: u64,
        own: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocationDefinition {
    #[serde(flatten)]
    pub kind: LocationKind,
    /// 0 for the location itself, 1 for its sibling `#2`.
    pub sibling: u32,
    pub events: u64,
    /// Time of the first event, CLOCK_MONOTONIC ns.
    pub first_ns: u64,
    pub last_ns: u64,
    pub collectives: u64,
}

impl LocationDefinition {
    /// Whether the location represents a rank of a communicator.
    pub(crate) const fn is_rank(&self) -> bool {
        matches!(self.kind, LocationKind::Communicator { .. }) && self.sibling == 0
    }
}
