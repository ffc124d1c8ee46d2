//! The plugin's code. `crates/plugin` makes it a shared library; tests and benchmarks link it.
//!
//! `docs/DESIGN.md` describes the structure: §2 the path from a callback to an archive, §3 what each module owns.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod abi;
mod chain;
pub mod control;
pub mod gpu;
pub mod host;
mod nvtx;
pub mod record;
pub mod scorep;
pub mod session;
