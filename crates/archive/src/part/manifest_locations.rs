//! The locations in a part's manifest, and the lists that most parts of a job have alike.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize, Serializer};

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
    /// Threads of the proxy, whose lives do not overlap.
    Proxy {
        /// The system's thread ids; 0 if unknown.
        thread_ids: Vec<u32>,
    },
    Communicator {
        /// An index into [`crate::part::manifest::Manifest::comms`].
        comm: u32,
        rank: u32,
        /// An index into [`crate::part::manifest::Manifest::gpus`].
        gpu: u32,
    },
    Stream {
        /// An index into [`crate::part::manifest::Manifest::gpus`], if the GPU is known.
        gpu: Option<u32>,
        /// CUPTI's number of the CUDA context.
        context: u32,
        /// CUPTI's number of the stream in the context.
        stream: u32,
        /// Whether another context on the GPU has a stream with the same number.
        is_ambiguous: bool,
    },
    /// The ranges of an NVTX domain that one thread starts and any thread ends.
    Ranges {
        /// Empty for the default domain.
        domain: String,
    },
}

impl LocationKind {
    /// A description for people who look for something missing.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Thread { thread_id, name, .. } => format!("thread {thread_id} ({name})"),
            Self::Proxy { thread_ids } => format!("proxy threads {thread_ids:?}"),
            Self::Communicator { comm, rank, .. } => format!("rank {rank} of communicator {comm}"),
            Self::Stream { stream, .. } => format!("stream {stream}"),
            Self::Ranges { domain } => format!("the started ranges of the NVTX domain {domain:?}"),
        }
    }
}

/// A direction of a channel on which a process did network transfers for a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ChannelEnd {
    pub owner: TransferOwner,
    pub channel: u8,
    pub send: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "of")]
pub(crate) enum TransferOwner {
    Rank {
        /// An index into [`crate::part::manifest::Manifest::comms`].
        comm: u32,
        rank: u32,
    },
    /// A rank of another process, worked for here (PXN), by the context that it handed out.
    Foreign { context: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocationDefinition {
    #[serde(flatten)]
    pub kind: LocationKind,
    pub events: u64,
    /// Time of the first event, CLOCK_MONOTONIC ns.
    pub first_ns: u64,
    pub last_ns: u64,
    pub collectives: u64,
}

impl LocationDefinition {
    /// Whether the location represents a rank of a communicator.
    pub(crate) const fn is_rank(&self) -> bool {
        matches!(self.kind, LocationKind::Communicator { .. })
    }
}

/// A list that most parts of a job have alike: it is in memory once.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "Vec<T>")]
pub(crate) struct Shared<T>(Arc<Vec<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Self(Arc::new(list))
    }
}

impl<T> FromIterator<T> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        list.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The lists of the parts that were read.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<BTreeSet<Shared<T>>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Ord> Pool<T> {
    /// Replaces a list by an equal one that another part has.
    pub(super) fn share(&self, list: &mut Shared<T>) {
        let mut known = self.0.lock();
        match known.get(list) {
            Some(equal) => *list = equal.clone(),
            None => _ = known.insert(list.clone()),
        }
    }
}
