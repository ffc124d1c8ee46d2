//! What the shared libraries of this project, the plugin and that for TensorFlow, do in a process that is not theirs.

pub mod objects;
pub mod panics;
pub mod recorded;
pub mod stderr;
