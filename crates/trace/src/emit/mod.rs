//! Room `emit`.

pub mod attributes;
pub mod definitions;
pub mod details;
pub mod events;
