//! What the recorder calls around launches.

use std::sync::Arc;

use super::way::{Launch, Timing};
use crate::host::shared::{self, Current, Mine, Share};
use nccl_events::Kind;
use nccl_events::id::EventId;

/// The timing that is on.
static TIMING: Current<Arc<dyn Timing>> = Current::none();

/// A thread's hold of it.
struct Held(Arc<dyn Timing>);

impl Share for Held {
    type Whole = Arc<dyn Timing>;
    const CURRENT: &'static Current<Self::Whole> = &TIMING;

    fn of(timing: Self::Whole) -> Self {
        Self(timing)
    }
}

thread_local! {
    static HELD: Mine<Held> = const { Mine::new() };
}

/// Events of these kinds are launches, whose work is timed.
const LAUNCHES: u32 = Kind::KernelLaunch.mask() | Kind::CeColl.mask();

/// NCCL is about to launch, on this thread.
#[inline]
pub(crate) fn launch_begins(id: EventId, stream: u64) {
    if TIMING.is_on() && !id.is_none() && !id.is_unrecorded() {
        with_timing(|timing| timing.begins(Launch { id, stream }));
    }
}

/// An event has ended; if it was a launch, NCCL has launched.
#[inline]
pub(crate) fn event_ends(id: EventId) {
    if id.is_of(LAUNCHES) && TIMING.is_on() {
        with_timing(|timing| timing.ends(id));
    }
}

#[inline(never)]
fn with_timing(action: impl FnOnce(&dyn Timing)) {
    // A thread that is ending launches nothing; and nothing of CUDA's calls us back.
    let _done = shared::with(&HELD, |held| action(&*held.0));
}

/// From now on launches are timed this way.
pub(super) fn open(timing: Arc<dyn Timing>) {
    TIMING.begin(timing);
}

/// From now on launches are not timed.
pub(super) fn close() {
    // What ends with its last holder tells others so.
    drop(TIMING.end());
}

/// The same without a lock: for a forked child.
pub(crate) fn disable() {
    TIMING.disable();
}
