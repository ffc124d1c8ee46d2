//! What TensorFlow's library asks this one (`in_process::recorded`).

use std::ffi::c_int;
use std::ptr::NonNull;

use super::guard::SWITCH;
use crate::session;
use in_process::recorded::{Recorded, RecordedFunction};

const _: RecordedFunction = nccl_otf2_recorded_v1;

/// Says what is recorded at the moment.
///
/// # Safety
/// `recorded` is NULL or writable.
// SAFETY: the name is this project's, and the other library asks for it by this library's handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nccl_otf2_recorded_v1(recorded: *mut Recorded) -> c_int {
    let now = SWITCH.run("nccl_otf2_recorded_v1", session::recorded).flatten();
    let (Some(place), Some(now)) = (NonNull::new(recorded), now) else {
        return 0;
    };
    // SAFETY: not NULL, so writable (contract).
    unsafe { place.write(now) };
    1
}
