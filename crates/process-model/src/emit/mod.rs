//! Writes the events of a timeline and their definitions.

pub mod definitions;
pub mod details;
pub mod events;
