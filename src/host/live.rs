//! Counts the communicators between `init` and `finalize`.
//!
//! While at least one exists, libnccl is mapped, and its mask and logger may be used. After the last `finalize` the
//! program may unload libnccl, and at exit libnccl's destructors may have run.

use std::sync::atomic::{AtomicUsize, Ordering};

static COMMUNICATORS: AtomicUsize = AtomicUsize::new(0);

/// A communicator begins. Its mask and logger have been stored already.
pub(crate) fn enter() {
    COMMUNICATORS.fetch_add(1, Ordering::Release);
}

/// A communicator ends. Surplus calls are ignored.
pub(crate) fn leave() {
    let _ = COMMUNICATORS.fetch_update(Ordering::Release, Ordering::Relaxed, |count| count.checked_sub(1));
}

pub(crate) fn any() -> bool {
    COMMUNICATORS.load(Ordering::Acquire) > 0
}
