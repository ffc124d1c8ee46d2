//! Filters out events that NCCL repeats endlessly.
//!
//! Up to 2.26 the proxy thread starts and stops a control event in each iteration of its loop, some hundred thousand
//! times a second, almost always without a state. A step that waits for its peer enters the same state again with each
//! attempt to send (`SendPeerWait`, up to 2.26 `ProxyOpSendRemFifoWait`). Both would fill it: they are counted.

use nccl_events::id::EventId;
use nccl_events::{Name, Start, State, StateArgs, state};

/// The start of a proxy control event that has not entered a state yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldControl {
    /// The event's id; [`EventId::NONE`] while no event is held.
    pub(crate) id: EventId,
    pub(crate) ticks: u64,
    pub(crate) parent: u64,
    pub(crate) context: u64,
    pub(crate) rank: i32,
}

impl HeldControl {
    pub(crate) const NONE: Self = Self { id: EventId::NONE, ticks: 0, parent: 0, context: 0, rank: 0 };

    pub(crate) const fn new(id: EventId, ticks: u64, event: &Start<Name<'_>>) -> Self {
        Self { id, ticks, parent: event.parent, context: event.context, rank: event.rank }
    }
}

/// Number of waiting events that are distinguished. Two events that share a place are recorded more often than needed;
/// the readers recognise and count the repetitions.
const PLACES: usize = 2048;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wait {
    /// The waiting event; 0 if the place is free.
    event: u64,
    /// State (low half) and step of the operation (high half).
    which: u64,
}

/// The waiting states that a slot has recorded.
pub(crate) struct Waits {
    recorded: Box<[Wait]>,
}

impl Waits {
    pub(crate) fn new() -> Self {
        Self { recorded: vec![Wait::default(); PLACES].into_boxed_slice() }
    }

    /// Whether this is a waiting state that is already recorded. Remembers a new one.
    #[inline]
    pub(crate) fn repeats(&mut self, change: &State) -> bool {
        let step = match (change.state, change.args) {
            (state::PROXY_STEP_SEND_PEER_WAIT, _) => 0,
            // An operation of v1 to v3 waits once for each of its steps and reports the step's number.
            (state::PROXY_OP_SEND_REM_FIFO_WAIT, StateArgs::ProxyOp { steps, .. }) => steps,
            _ => return false,
        };
        self.remember(change, step)
    }

    #[cold]
    fn remember(&mut self, change: &State, step: i32) -> bool {
        let wait = Wait { event: change.event, which: u64::from(change.state) | u64::from(step.cast_unsigned()) << 32 };
        let sequence = EventId::from_raw(change.event).sequence();
        let place = usize::try_from(sequence % PLACES as u64).unwrap_or(0);
        match self.recorded.get_mut(place) {
            Some(recorded) if *recorded == wait => true,
            Some(recorded) => {
                *recorded = wait;
                false
            }
            None => false,
        }
    }
}
