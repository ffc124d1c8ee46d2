//! NCCL's profiler interface as declared in C: bindings of `wrapper.h`.
//!
//! All names are NCCL's but those of union members (`wrapper.h`). An anonymous union is the field `__bindgen_anon_1`.
#![expect(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::indexing_slicing,
    reason = "bindgen's output; wrapper.h has the words"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
