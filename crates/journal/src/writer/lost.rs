//! Losses, and the counters that count them.

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
    /// The start or the end of a communicator.
    Communicator,
}

impl Lost {
    /// Some callback.
    pub const UNKNOWN: Self = Self::Stop(0);

    /// Index among the loss counters of a process.
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

/// The kind of an event. In a stale handle, or the id of another process, the kind's bits may mean anything: such
/// events count as [`Kind::Unknown`].
fn kind_of(event: u64, tag: ProcessTag) -> Kind {
    let id = EventId::from_raw(event);
    if id.tag() == tag.get() { id.kind() } else { Kind::Unknown }
}
