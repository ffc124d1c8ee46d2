//! What a function returns.

use c_double::args::Out;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};

pub(crate) type Handle = *mut c_void;
/// What a function returns; an error is a code of CUDA's.
pub(crate) type Outcome = Result<(), c_int>;

/// `cudaError_t`, `CUresult`
pub(crate) mod code {
    use std::ffi::c_int;

    pub(crate) const INVALID: c_int = 1;
    pub(crate) const OUT_OF_MEMORY: c_int = 2;
    pub(crate) const STUB_LIBRARY: c_int = 34;
    pub(crate) const BAD_DEVICE: c_int = 101;
    pub(crate) const INVALID_CONTEXT: c_int = 201;
    pub(crate) const BAD_HANDLE: c_int = 400;
    pub(crate) const NOT_READY: c_int = 600;
    pub(crate) const LAUNCH_FAILURE: c_int = 719;
    pub(crate) const NOT_PERMITTED: c_int = 800;
    pub(crate) const NOT_SUPPORTED: c_int = 801;
    pub(crate) const CAPTURE_UNSUPPORTED: c_int = 900;
    pub(crate) const CAPTURE_INVALIDATED: c_int = 901;
    pub(crate) const CAPTURED_EVENT: c_int = 907;
    pub(crate) const UNKNOWN: c_int = 999;
}

pub(crate) fn error_text(error: c_int) -> &'static CStr {
    match error {
        0 => c"no error",
        code::LAUNCH_FAILURE => c"the kernel is not emulated",
        code::NOT_READY => c"device not ready",
        code::NOT_SUPPORTED => c"operation not supported",
        code::CAPTURE_INVALIDATED => c"operation failed due to a previous error during capture",
        _ => c"an error of the emulated device",
    }
}

thread_local! {
    pub(crate) static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// The code of an outcome; an error is also kept for `cudaGetLastError`.
pub(crate) fn kept(outcome: Outcome) -> c_int {
    let code = outcome.err().unwrap_or(0);
    if code != 0 && code != code::NOT_READY {
        LAST.set(code);
    }
    code
}

/// Gives the caller its one result.
pub(crate) fn give<T: Copy>(out: Out<T>, value: T) -> Outcome {
    out.set(value);
    Ok(())
}
