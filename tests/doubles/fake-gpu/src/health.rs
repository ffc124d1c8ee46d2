//! What becomes of a device that met something it cannot emulate: waiting for a stream then fails, so that the host
//! program stops instead of hanging.

use std::sync::atomic::{AtomicBool, Ordering};

static BROKEN: AtomicBool = AtomicBool::new(false);

pub(crate) fn break_device() {
    BROKEN.store(true, Ordering::Relaxed);
}

pub(crate) fn is_broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}
