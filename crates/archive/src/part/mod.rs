//! A part: what one process recorded, as event files and a manifest.

pub(crate) mod calls;
pub(crate) mod files;
pub(crate) mod manifest;
mod manifest_locations;
pub(crate) mod traffic;
pub(crate) mod write;
