//! Room `emit`.

pub(crate) mod attributes;
pub(crate) mod definitions;
pub(crate) mod details;
pub(crate) mod events;
