#![doc = include_str!("../README.md")]
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
