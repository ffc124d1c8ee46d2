//! Journals become OTF2 archives. No global state; the same code in the plugin and in the tool.

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

pub mod archive;
pub mod clocks;
pub mod emit;
mod error;
pub mod links;
pub mod part;
pub mod progress;
pub mod tables;
pub mod timeline;
mod workers;

pub use archive::assemble::ArchiveSize;
pub use archive::finalize::{FinalizeOptions, FinalizeSummary, PartState, finalize};
pub use error::Error;
