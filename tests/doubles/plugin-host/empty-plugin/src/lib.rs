//! A profiler plugin that asks for everything and does nothing: what calling a profiler costs at least.
//!
//! It exports all seven versions. The functions look at none of their arguments but those that they must write, so
//! that one set serves all versions: in the C calling convention of x86-64 and aarch64 a function may ignore arguments
//! that its caller passes.

use std::ffi::{c_int, c_void};
use std::ptr;

/// What every context and every handle is: not NULL, or NCCL would leave out what belongs to it.
const SOMETHING: *mut c_void = ptr::without_provenance_mut(1);

c_double::profiler_tables! {
    ncclProfiler_v1 c"empty", init_v1::<0x3f>, start, nothing, nothing, nothing;
    ncclProfiler_v2 c"empty", init_v1::<0x3f>, start, nothing, nothing, nothing;
    ncclProfiler_v3 c"empty", init_v1::<0xff>, start, nothing, nothing, nothing;
    ncclProfiler_v4 c"empty", init_v1::<0xff>, start, nothing, nothing, nothing;
    ncclProfiler_v5 c"empty", init_v5::<0xfff>, start, nothing, nothing, nothing;
    ncclProfiler_v6 c"empty", init_v5::<0x7fff>, start, nothing, nothing, nothing;
    ncclProfiler_v7 c"empty", init_v5::<0xffff>, start, nothing, nothing, nothing;
}

unsafe extern "C" fn init_v1<const MASK: c_int>(context: *mut *mut c_void, mask: *mut c_int) -> c_int {
    // SAFETY: NCCL passes where the context goes.
    if let Some(context) = unsafe { context.as_mut() } {
        *context = SOMETHING;
    }
    // SAFETY: NCCL passes its mask.
    if let Some(mask) = unsafe { mask.as_mut() } {
        *mask = MASK;
    }
    0
}

unsafe extern "C" fn init_v5<const MASK: c_int>(context: *mut *mut c_void, _id: u64, mask: *mut c_int) -> c_int {
    // SAFETY: this function's own arguments.
    unsafe { init_v1::<MASK>(context, mask) }
}

unsafe extern "C" fn start(_context: *mut c_void, handle: *mut *mut c_void) -> c_int {
    // SAFETY: NCCL passes where the handle goes.
    if let Some(handle) = unsafe { handle.as_mut() } {
        *handle = SOMETHING;
    }
    0
}

extern "C" fn nothing() -> c_int {
    0
}
