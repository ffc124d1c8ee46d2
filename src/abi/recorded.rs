//! The function that the TensorFlow library calls (`in_process::recorded`).

use std::ffi::c_int;
use std::ptr::NonNull;

use super::guard::SWITCH;
use crate::session;
use in_process::{Recorded, RecordedFunction};

const _: RecordedFunction = nccl_otf2_recorded_v1;

/// Reports what is being recorded.
///
/// # Safety
/// `recorded` is NULL or writable.
// SAFETY: the name belongs to this project, and the other library looks it up through this library's handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nccl_otf2_recorded_v1(recorded: *mut Recorded) -> c_int {
    let now = SWITCH.run_whole("nccl_otf2_recorded_v1", session::recorded).flatten();
    let (Some(place), Some(now)) = (NonNull::new(recorded), now) else {
        return 0;
    };
    // SAFETY: not NULL, so writable (contract).
    unsafe { place.write(now) };
    1
}
