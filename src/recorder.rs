//! Appends events to the calling thread's journal.

use crate::event::{Start, State};
use crate::id::EventId;

/// Records the start of an event and names it. [`EventId::NONE`] when nothing is being recorded.
#[must_use]
pub fn start(_event: &Start<'_>) -> EventId {
    EventId::NONE
}

/// Records the end of an event.
pub fn stop(_event: u64) {}

/// Records a change of state.
pub fn state(_state: &State) {}
