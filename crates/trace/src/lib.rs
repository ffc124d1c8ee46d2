//! Turns journals into OTF2 archives. No global state; the plugin and the tool share this code.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

mod archive;
mod dumps;
mod error;
mod part;
#[cfg(test)]
mod tests;
mod workers;

pub use archive::blind_spots::of_release as blind_spots;
pub use archive::finalize::{FinalizeOptions, FinalizeSummary, FinalizedPart, PartState, finalize};
pub use archive::last_process::is_last_process;
pub use archive::unify::{ANCHOR, ArchiveSummary, part_directories, unify};
pub use error::Error;
pub use journal::part::is_done;
pub use nccl_events::Progress;
pub use part::manifest::WrittenPart;
pub use part::staging::foreign_file;
pub use part::write::{PartSummary, WriteOptions, write_part};
