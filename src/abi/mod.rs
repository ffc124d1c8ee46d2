//! NCCL's side of the plugin: the only module that knows the C types and versions of NCCL's interface.
//!
//! ```text
//! callbacks   the exported tables ncclProfiler_v1 … v7: what NCCL's dlsym finds; their functions, generic over the
//!             version's descriptor; the one boundary: catches panics, writes neutral results, the off-switch;
//!             the function that the TensorFlow library calls
//!   ├ versions    raw descriptor → event::Start, raw arguments → event::StateArgs
//!   └ chained     the chained plugins
//! ```
//!
//! NCCL calls from many threads at once: application, proxy, profiler and CUDA host-callback threads.
//! Nothing here blocks, allocates, logs or calls back into NCCL during start, stop and state callbacks.

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

use std::ptr::NonNull;

use nccl_events::{Name, Start, StateArgs, Table};

pub mod callbacks;
mod chained;
pub mod versions;

trait Descriptor {
    /// Reads all of a starting event except the context into `start`. (In place: a `Start` is large, and returning it
    /// by value would cost a copy in every callback.)
    ///
    /// # Safety
    /// `descriptor` points to what NCCL passed to `startEvent` of the table of this type: the header and the union
    /// member that `type` names are filled, and strings are NULL or NUL-terminated and stay valid as long as `start`.
    /// `callbacks.rs` upholds this by pairing each table with its own type; `start` ends with the callback.
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>);
}

trait Interface: Descriptor {
    const TABLE: Table;
    type Arguments: StateArguments;
}

trait StateArguments {
    /// Reads the union member that `state` uses. Does not read anything for states without arguments.
    ///
    /// # Safety
    /// `arguments` points to what NCCL passed to `recordEventState` of a table of this type, with `state`.
    unsafe fn read(arguments: NonNull<Self>, state: u32) -> StateArgs;
}

// NCCL's profiler interface as declared in C: bindings of `wrapper.h`.
//
// All names are NCCL's but those of union members (`wrapper.h`). An anonymous union is the field `__bindgen_anon_1`.

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

#[cfg(test)]
mod tests;
