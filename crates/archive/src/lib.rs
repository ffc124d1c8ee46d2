//! Turns journals into OTF2 archives: each process becomes a part, and all parts of a job become one archive. The
//! package has no global state; the plugin and the tool share its code.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

mod error;
mod finalize;
mod job;
pub(crate) mod part;
mod workers;

pub use crate::error::Error;
pub use crate::finalize::{FinalizeOptions, FinalizeSummary, FinalizedPart, PartState, finalize};
pub use crate::job::unreported_events::unreported_by_release;
pub use crate::job::{ANCHOR, ArchiveSummary, is_last_process, part_directories, unify};
pub use crate::part::files::foreign_file;
pub use crate::part::manifest::WrittenPart;
pub use crate::part::write::{PartSummary, WriteOptions, write_part};
pub use journal::part::is_done;
pub use nccl_events::Progress;

#[cfg(test)]
mod tests;
