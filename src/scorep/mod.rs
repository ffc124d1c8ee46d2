//! Forwards NCCL's activity to a Score-P measurement in the same process (`docs/SCOREP.md`).
//!
//! ```text
//! record::{start, stop, state} ─── is_on? ─┬ calls       regions on the calling thread, strictly nested
//!                                           └ operations  a ring of asynchronous operations
//!                        a thread that Score-P knows ── drain ── one accelerator location of the process
//! ```
//!
//! The journal is written first, and does not depend on Score-P. The plugin finds Score-P with `dlsym` at run time; it
//! never links or loads Score-P. Score-P ends the program if it is called wrongly: on an unknown thread, outside of its
//! measurement, or with time that goes backwards. So each call requires a [`guard::Measured`], which only a thread that
//! may call Score-P can get.

mod bridge;
mod calls;
mod drain;
mod guard;
mod operations;
mod presence;
mod regions;
pub mod report;
mod setup;
pub mod substrate;
mod symbols;
mod timer;

pub(crate) use bridge::{
    Beginning, CommRegion, at_end_of_measurement, at_exit, begin, changed, communicator, disable, end, is_on, started,
    stopped,
};
