//! Makes one archive from many parts.

pub(crate) mod blind_spots;
mod clock_statements;
mod communicators;
pub(crate) mod constraints;
mod definitions;
pub(crate) mod finalize;
pub(crate) mod last_process;
mod location_names;
pub(crate) mod location_properties;
pub(crate) mod matching;
pub(crate) mod merged;
mod origins;
pub(crate) mod processes;
pub(crate) mod properties;
pub(crate) mod unify;
pub(crate) mod write;
