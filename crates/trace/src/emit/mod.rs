//! Room `emit`.

pub(crate) mod definitions;
pub(crate) mod details;
pub(crate) mod events;
