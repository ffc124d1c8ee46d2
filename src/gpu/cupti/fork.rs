//! Forked children, in which CUPTI must not be called: its threads do not exist there.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static IN_CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process is a forked child of the one that called CUPTI.
#[inline]
pub(super) fn is_child() -> bool {
    IN_CHILD.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    IN_CHILD.store(true, Ordering::Relaxed);
}

/// Keeps children that are forked from now on away from CUPTI.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let handler: unsafe extern "C" fn() = in_child;
        // SAFETY: the handler stores an atomic, and stays mapped (`-z nodelete`).
        let _failed = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
    });
}
