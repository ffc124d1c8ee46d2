//! Room `part`.

pub mod claim;
pub mod describe;
pub mod part_files;
pub mod rewrite;
pub mod sidecar;
pub mod staging;
pub mod used_journal;
pub mod write;
