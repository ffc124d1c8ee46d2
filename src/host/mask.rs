//! NCCL's activation mask: one `int` of libnccl, shared by all communicators of the process.
//!
//! Every `init` gets its address and writes it. NCCL reads it again later: in 2.23–2.25 for each group, in 2.26 and
//! 2.27 for each operation, from 2.28 on for each API call. So a later store takes effect for operations that begin
//! after it. Captured graphs keep the mask of their capture.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use super::live;

static MASK: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());

/// Remembers where the mask is; NULL is ignored.
pub(crate) fn remember(mask: *mut c_int) {
    if !mask.is_null() {
        MASK.store(mask, Ordering::Release);
    }
}

/// Sets the mask for all communicators. Does nothing and returns `false` if no communicator lives.
pub fn set_mask(events: u32) -> bool {
    let mask = MASK.load(Ordering::Acquire);
    if mask.is_null() || !live::any() {
        return false;
    }
    // SAFETY: NCCL passed this address to an `init`; it is a variable of libnccl, which is loaded as long as a
    // communicator lives. NCCL reads it with plain loads of an aligned int, which a relaxed store cannot tear.
    let mask = unsafe { AtomicI32::from_ptr(mask) };
    mask.store(events.cast_signed(), Ordering::Relaxed);
    true
}
