//! Raw bindings to libotf2 (3.0 or newer), the library of the Open Trace Format 2.
//!
//! Use the safe crate `otf2` instead: libotf2 calls `abort()` on some kinds of misuse, and this crate does not
//! prevent that.
//!
//! ```text
//!  otf2.h ──bindgen──▶ bindings/otf2_3_0.rs ──build.rs──▶ OUT_DIR/bindings.rs ──▶ this crate
//!                       (checked in, floor version)          + constants.rs        what bindgen skips
//!                                                            + error_callback.rs   what has a va_list
//! ```
//!
//! The build looks for libotf2 in this order: `OTF2_DIR` (an installation prefix), `OTF2_CONFIG` or `otf2-config`
//! on the `PATH`, pkg-config. `OTF2_STATIC=1` links `libotf2.a`, `OTF2_STATIC=0` the shared library. If all of
//! them fail, the build reports the reason for each.
//!
//! The checked-in bindings are generated from 3.0, on Linux with 64-bit pointers; newer releases only add to them.
//! The feature `buildtime-bindgen` generates bindings from the installed header, which needs libclang.
//!
//! ```
//! // SAFETY: takes any code and returns a string with static lifetime.
//! let name = unsafe { otf2_sys::OTF2_Error_GetName(otf2_sys::OTF2_SUCCESS) };
//! // SAFETY: libotf2 returns a NUL-terminated string for every code.
//! let name = unsafe { std::ffi::CStr::from_ptr(name) };
//! assert_eq!(name.to_str(), Ok("SUCCESS"));
//! ```
#![warn(missing_docs, clippy::missing_panics_doc)]

mod constants;
mod error_callback;

pub use constants::*;
pub use error_callback::*;

#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    missing_docs,
    unreachable_pub,
    deprecated,
    clippy::all,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    reason = "bindgen's output, in the names of the C header"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

/// The version of the header that the build found: major, minor, bugfix.
pub const HEADER_VERSION: (u32, u32, u32) = include!(concat!(env!("OUT_DIR"), "/header_version.rs"));
