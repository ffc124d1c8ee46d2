//! The writing half: journals become OTF2. No global state; the same code in the plugin and in the tool.
//!
//! ```text
//!  parts/<p>/journal ─ part::write ─► parts/<p>/{traces/<lane>.evt, definitions, done}   one process
//!  parts/*           ─ unify::unify ─► traces.otf2 traces.def traces/                    the archive
//!  finalize          = both, for what is not done yet
//! ```
//!
//! Inside the write step: [`assemble`] joins records to operations, [`clocks`] turns ticks into time,
//! [`correlate`] finds what belongs together, `kinds` draws each kind on [`lanes`], [`emit`] writes.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]

pub mod alignment;
pub mod anchors;
mod archive;
pub mod assemble;
pub mod assembly;
pub mod attributes;
pub mod blind_spots;
mod by_kind;
mod by_told;
mod callback_threads;
pub mod canvas;
mod claim;
pub mod clocks;
pub mod closing;
pub mod collective;
pub mod comm;
pub mod composites;
pub mod correlate;
pub mod counts;
pub mod definitions;
mod describe;
pub mod details;
pub mod emit;
mod error;
pub mod figure;
pub mod finalize;
pub mod finisher;
mod forwarded;
pub mod gpu_clock;
pub mod gpu_work;
pub mod gpus;
mod ids;
pub mod interval;
pub mod job;
pub mod kept;
mod kinds;
mod lane_clock;
pub mod lanes;
mod launches;
pub mod matching;
pub mod measurement;
pub mod members;
pub mod messages;
pub mod metrics;
mod named;
mod near;
pub mod needed;
pub mod options;
mod packed;
pub mod part;
mod part_files;
mod place;
mod place_set;
mod plan;
pub mod progress;
pub mod properties;
pub mod pxn;
pub mod replays;
mod rewrite;
mod room;
mod seen;
mod shape;
pub mod sidecar;
mod staging;
pub mod timeline;
pub mod unify;
pub mod union;
mod used_journal;
mod values;
mod words;
mod workers;

pub use archive::ArchiveSize;
pub use error::Error;
pub use finalize::{FinalizeOptions, FinalizeSummary, PartState, finalize};
