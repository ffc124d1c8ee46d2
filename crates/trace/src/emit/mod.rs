//! Writes the events of a timeline and their definitions.

pub(crate) mod definitions;
pub(crate) mod details;
pub(crate) mod events;
