//! NCCL profiler plugin that records what NCCL does and writes it as OTF2 archives.
//!
//! ```text
//!   in the job, every process                                 after the job, or at its end
//!   ─────────────────────────                                 ────────────────────────────
//!   NCCL thread ── ncclProfiler_vN callback
//!      └ abi        raw C structs → event::{Start, State}     journals of all processes
//!         └ record     one record into the thread's slot         └ journal::reader
//!            └ journal::writer   (mmap, no lock)                    └ tables, trace: links … emit
//!   maintenance thread (1 per process): next segments, clock pairs          └ part      one part a process
//!   session: first init … last finalize or exit                          └ archive   one archive a job
//! ```
//!
//! The two halves meet only in the journal, a documented file format (`docs/FORMATS.md`). The recording half
//! knows nothing of OTF2; the writing half has no global state and runs equally in the plugin and in the
//! tool. `docs/DESIGN.md` is the map of the house.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod abi;
mod chain;
pub mod config;
pub mod control;
pub mod gpu;
pub mod host;
pub mod record;
pub mod scorep;
pub mod session;
pub mod tensorflow;
