//! libotf2's error callback, whose last parameter is a C `va_list`.
//!
//! On both supported platforms a `va_list` parameter is one pointer: on x86-64 because C passes arrays as pointers, on
//! aarch64 because the structure is larger than 16 bytes and is therefore passed by reference to a copy. So it is
//! declared as a pointer here, which stable Rust can express.

use core::ffi::{c_char, c_int, c_void};

use crate::OTF2_ErrorCode;

/// Called instead of writing the message to stderr. The last argument is the `va_list` for the format.
#[expect(non_camel_case_types, reason = "the C name")]
pub type OTF2_ErrorCallback = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file: *const c_char,
        line: u64,
        function: *const c_char,
        error_code: OTF2_ErrorCode,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> OTF2_ErrorCode,
>;

unsafe extern "C" {
    /// Replaces the error callback of this copy of libotf2 and returns the previous one. Process-wide and not
    /// synchronised: call it before other threads use libotf2.
    pub fn OTF2_Error_RegisterCallback(callback: OTF2_ErrorCallback, user_data: *mut c_void) -> OTF2_ErrorCallback;

    /// C's `vsnprintf`, with the `va_list` as the pointer that the error callback received.
    #[link_name = "vsnprintf"]
    pub fn format_arguments(buffer: *mut c_char, size: usize, format: *const c_char, arguments: *mut c_void) -> c_int;
}
