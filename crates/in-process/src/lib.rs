//! Helpers for this project's shared libraries, the plugin and the TensorFlow library, in a host process.

pub mod objects;
pub mod panics;
pub mod recorded;
pub mod stderr;
