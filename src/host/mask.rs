//! NCCL's activation mask: one `int` of libnccl, shared by all communicators of the process.
//!
//! Every `init` gets the mask's address and writes the mask. NCCL reads it again later: in 2.23–2.25 for each group, in
//! 2.26 and 2.27 for each operation, from 2.28 on for each API call. So a later store takes effect for operations that
//! begin after it. Captured graphs keep the mask from their capture.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use super::live;

static MASK: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());
static OWN: AtomicU32 = AtomicU32::new(0);
static CHAINED: AtomicU32 = AtomicU32::new(0);
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// Remembers the mask's address; ignores NULL.
pub(crate) fn remember(mask: *mut c_int) {
    if !mask.is_null() {
        MASK.store(mask, Ordering::Release);
    }
}

/// Chained plugins exist, or may: NCCL will call for events that this plugin did not ask for.
pub(crate) fn share() {
    IS_SHARED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_shared() -> bool {
    IS_SHARED.load(Ordering::Relaxed)
}

/// Adds the events that chained plugins ask for. The mask never shrinks while communicators live (see `control`).
pub(crate) fn add_chained(events: u32) {
    if events & !CHAINED.fetch_or(events, Ordering::Relaxed) != 0 {
        set_mask(OWN.load(Ordering::Relaxed));
    }
}

pub(crate) fn chained() -> u32 {
    CHAINED.load(Ordering::Relaxed)
}

pub(crate) fn forget_chained() {
    CHAINED.store(0, Ordering::Relaxed);
}

/// The events for which NCCL must call if this plugin asks for `events`.
pub(crate) fn united(events: u32) -> u32 {
    OWN.store(events, Ordering::Relaxed);
    events | CHAINED.load(Ordering::Relaxed)
}

/// Sets the events that this plugin asks for, for all communicators. Leaves NCCL's mask alone if no communicator lives.
pub(crate) fn set_mask(events: u32) {
    let events = united(events);
    let mask = MASK.load(Ordering::Acquire);
    if mask.is_null() || !live::any() {
        return;
    }
    // SAFETY: NCCL passed this address to an `init`: it is a variable of libnccl, which is loaded while a communicator
    // lives. NCCL reads the mask with plain loads of an aligned int, which a relaxed store cannot tear.
    let mask = unsafe { AtomicI32::from_ptr(mask) };
    mask.store(events.cast_signed(), Ordering::Relaxed);
}
