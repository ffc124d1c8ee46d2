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

mod archive;
pub mod clocks;
pub mod emit;
mod error;
pub mod links;
mod part;
pub mod progress;
pub mod tables;
pub mod timeline;
pub mod vocabulary;
mod workers;

pub use archive::finalize::{FinalizeOptions, FinalizeSummary, FinalizedPart, PartState, finalize};
pub use archive::last_process::is_last_process;
pub use archive::matching as call_order;
pub use archive::properties::within_anchor;
pub use archive::unify::{ANCHOR, ArchiveSummary, part_directories, unify};
pub use archive::write::ArchiveSize;
pub use error::Error;
pub use part::files::{JOURNAL, PROCESS, is_done, part_name, read_process};
pub use part::manifest::{CommIdentity, LocationKind, Manifest};
pub use part::write::{PartSummary, WriteOptions, write_part};

/// For tests only.
#[doc(hidden)]
pub mod internals {
    pub use crate::archive::blind_spots::{BLIND_SPOTS, BlindSpot, table_of};
    pub use crate::archive::constraints::align_clocks;
    pub use crate::archive::processes::{Process, processes};
    pub use crate::part::traffic::rows::{End, Passage, Traffic};
}
