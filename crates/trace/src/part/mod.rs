//! One process on disk: turns its journal into event files and a manifest.

pub(crate) mod calls;
mod event_files;
pub(crate) mod files;
pub(crate) mod journal_cleanup;
pub(crate) mod lock_file;
pub(crate) mod manifest;
mod manifest_builder;
mod recording;
pub(crate) mod remote_transfers;
pub(crate) mod staging;
pub(crate) mod traffic;
pub(crate) mod write;
