//! What could not be recorded, and where it is counted.

use nccl_events::Kind;
use nccl_events::id::{EventId, ProcessTag};

use crate::format::layout::header;

/// Something that could not be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// An event's start.
    Start(Kind),
    /// The stop of the event with this id.
    Stop(u64),
    /// A change of state of the event with this id.
    State(u64),
    /// The beginning or the end of a communicator.
    Communicator,
}

impl Lost {
    /// Its place among the counters of losses of a process.
    pub(crate) fn index(self, tag: ProcessTag) -> usize {
        const STARTS: usize = header::LOST_STARTS;
        match self {
            Self::Start(kind) => kind as usize,
            Self::Stop(event) => header::LOST_STOPS - STARTS + kind_of(event, tag) as usize,
            Self::State(event) => header::LOST_STATES - STARTS + kind_of(event, tag) as usize,
            Self::Communicator => header::LOST_COMMUNICATORS - STARTS,
        }
    }
}

/// The kind of an event. What this process did not name, a stale handle or one of another process, may mean
/// anything by these bits.
fn kind_of(event: u64, tag: ProcessTag) -> Kind {
    let id = EventId::from_raw(event);
    if id.tag() == tag.get() { id.kind() } else { Kind::Unknown }
}
