//! The functions that callbacks call around launches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::backend::{Backend, Launch};
use crate::host::shared::{self, Current, Share, Shares};
use nccl_events::Kind;
use nccl_events::ids::EventId;

#[unsafe(link_section = ".data.hot")]
static BACKEND: Current<Arc<dyn Backend>> = Current::none();

struct Held(Arc<dyn Backend>);

impl Share for Held {
    type Whole = Arc<dyn Backend>;
    type Kept = ();
    const CURRENT: &'static Current<Self::Whole> = &BACKEND;

    fn of(backend: Self::Whole, _kept: &()) -> Self {
        Self(backend)
    }
}

static HELD: Shares<Held> = Shares::new();

const LAUNCHES: u32 = Kind::KernelLaunch.mask() | Kind::CeColl.mask();

#[inline]
pub(crate) fn launch_begins(id: EventId, stream: u64) {
    if BACKEND.is_on() && !id.is_none() && !id.is_unrecorded() {
        with_backend(|backend| backend.begins(Launch { id, stream }));
    }
}

/// An event has ended; if it was a launch event, NCCL has launched the work.
#[inline]
pub(crate) fn event_ends(id: EventId) {
    if id.is_of(LAUNCHES) && BACKEND.is_on() {
        with_backend(|backend| backend.ends(id));
    }
}

#[inline(never)]
fn with_backend(action: impl FnOnce(&dyn Backend)) {
    let _done = shared::with(&HELD, |held| action(&*held.0));
}

/// The worker's backend is on from now on, unless the session has ended without waiting for the worker.
pub(super) fn open(backend: Arc<dyn Backend>, is_closed: &AtomicBool) {
    BACKEND.begin_if(backend, || !is_closed.load(Ordering::Acquire));
}

/// The worker ends. If the session has ended without waiting for it, the backend that is on is another worker's.
pub(super) fn close_own(is_closed: &AtomicBool) {
    drop(BACKEND.end_if(|| !is_closed.load(Ordering::Acquire)));
}

/// The session ends.
pub(super) fn close() {
    drop(BACKEND.end());
}

/// Turns the backend off without taking a lock: for a forked child.
pub(crate) fn disable() {
    BACKEND.disable();
}
