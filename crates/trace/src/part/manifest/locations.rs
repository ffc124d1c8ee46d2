//! The locations of a part.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum LocationKind {
    Thread {
        /// The system's id; 0 if not known.
        thread_id: u32,
        name: String,
        /// Whether it is one of CUDA's, which calls host functions.
        is_callback: bool,
    },
    Proxy {
        /// The system's id; 0 if not known.
        thread_id: u32,
    },
    Communicator {
        /// An index into [`super::Manifest::comms`].
        comm: u32,
        rank: u32,
        /// Its GPU: an index into [`super::Manifest::gpus`].
        gpu: u32,
    },
    Stream {
        /// Its GPU, where it is known: an index into [`super::Manifest::gpus`].
        gpu: Option<u32>,
        /// CUPTI's number of the CUDA context.
        context: u32,
        /// CUPTI's number of the stream in it.
        stream: u32,
        /// Whether another context on the GPU has a stream of this number.
        is_ambiguous: bool,
    },
    Channel {
        owner: LocationOwner,
        channel: u8,
    },
    Net(Connection),
    /// A slot of a network connection, where one step after the other is under way.
    Step {
        #[serde(flatten)]
        connection: Connection,
        /// Which slot: 0 … 7.
        slot: u8,
    },
    /// What the network plugin does for that slot.
    Plugin {
        #[serde(flatten)]
        connection: Connection,
        /// Which slot: 0 … 7.
        slot: u8,
    },
}

impl LocationKind {
    /// What it is about, for people who look for what is missing.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Thread { thread_id, name, .. } => format!("thread {thread_id} ({name})"),
            Self::Proxy { thread_id } => format!("proxy thread {thread_id}"),
            Self::Communicator { comm, rank, .. } => format!("rank {rank} of communicator {comm}"),
            Self::Stream { stream, .. } => format!("stream {stream}"),
            Self::Channel { channel, .. } => format!("channel {channel}"),
            Self::Net(connection) => format!("the connection with rank {}", connection.peer),
            Self::Step { connection, slot } => format!("slot {slot} of the connection with rank {}", connection.peer),
            Self::Plugin { connection, slot } => {
                format!("the network plugin in slot {slot} of the connection with rank {}", connection.peer)
            }
        }
    }

    /// Whether its steps put data into the memory of a peer.
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
        /// Its GPU: an index into [`super::Manifest::gpus`].
        gpu: u32,
    },
    /// A communicator without a beginning in the journal: of another process, worked for here (PXN), or one of this
    /// process's whose beginning could not be recorded.
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
    /// Its first event, CLOCK_MONOTONIC ns.
    pub first_ns: u64,
    pub last_ns: u64,
    pub collectives: u64,
}

impl LocationDefinition {
    /// Whether it stands for a rank of a communicator.
    pub(crate) const fn is_rank(&self) -> bool {
        matches!(self.kind, LocationKind::Communicator { .. }) && self.sibling == 0
    }
}
