//! Forwards NCCL's activity to a Score-P measurement in the same process (`docs/SCOREP.md`).
//!
//! ```text
//! record::{start, stop, state} ── bridge ─┬ (calls)     regions on the calling thread, strictly nested
//!                                         └ operations  a ring of asynchronous operations
//!               a thread that Score-P knows ── drain ── one accelerator location of the process
//!
//! guard           permission to call Score-P, and its clock
//! presence        whether Score-P is in the process; what was forwarded, for the archive
//! setup, regions  the plugin's definitions in Score-P
//! substrate       the plugin as a plugin of Score-P; Score-P's functions
//! ```
//!
//! The journal is written first, and does not depend on Score-P. The plugin finds Score-P with `dlsym` at run time; it
//! never links or loads Score-P. Score-P ends the program if it is called wrongly: on an unknown thread, outside of its
//! measurement, or with time that goes backwards. So each call requires a [`guard::ScorePAccess`], which only a thread
//! that may call Score-P can get.

pub mod bridge;
mod drain;
mod guard;
mod operations;
pub mod presence;
mod regions;
mod setup;
pub mod substrate;
