//! What the recorder calls around launches.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::way::{Launch, Timing};
use crate::event::Kind;
use crate::id::EventId;

/// Which timing is on: 0 for none. Read first.
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// Epochs are never used twice.
static LAST_EPOCH: AtomicU64 = AtomicU64::new(0);
/// The timing that is on. Locked on a thread's first launch and when timing begins and ends.
static CURRENT: Mutex<Option<Held>> = Mutex::new(None);

#[derive(Clone)]
struct Held {
    epoch: u64,
    timing: Arc<dyn Timing>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Events of these kinds are launches, whose work is timed.
const LAUNCHES: u32 = Kind::KernelLaunch.mask() | Kind::CeColl.mask();

/// NCCL is about to launch, on this thread.
#[inline]
pub(crate) fn launch_begins(id: EventId, stream: u64) {
    if EPOCH.load(Ordering::Relaxed) != 0 && !id.is_none() && !id.is_unrecorded() {
        with_timing(|timing| timing.begins(Launch { id, stream }));
    }
}

/// An event has ended; if it was a launch, NCCL has launched.
#[inline]
pub(crate) fn event_ends(id: EventId) {
    if id.is_of(LAUNCHES) && EPOCH.load(Ordering::Relaxed) != 0 {
        with_timing(|timing| timing.ends(id));
    }
}

#[inline(never)]
fn with_timing(action: impl FnOnce(&dyn Timing)) {
    let epoch = EPOCH.load(Ordering::Acquire);
    // A thread that is ending launches nothing; and nothing of CUDA's calls us back.
    let _ending = HELD.try_with(|held| {
        let Ok(mut held) = held.try_borrow_mut() else {
            return;
        };
        if held.as_ref().is_none_or(|held| held.epoch != epoch) {
            *held = CURRENT.lock().clone();
        }
        if let Some(held) = &*held
            && held.epoch == epoch
        {
            action(&*held.timing);
        }
    });
}

/// From now on launches are timed this way.
pub(super) fn open(timing: Arc<dyn Timing>) {
    let epoch = LAST_EPOCH.fetch_add(1, Ordering::Relaxed) + 1;
    *CURRENT.lock() = Some(Held { epoch, timing });
    EPOCH.store(epoch, Ordering::Release);
}

/// From now on launches are not timed.
pub(super) fn close() {
    disable();
    // Two steps: what ends with its last holder tells others so, which takes locks of theirs.
    let held = CURRENT.lock().take();
    drop(held);
}

/// The same without a lock: for a forked child.
pub(crate) fn disable() {
    EPOCH.store(0, Ordering::Release);
}
