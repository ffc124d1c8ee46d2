//! What the shared libraries of this project, the plugin and that for TensorFlow, do in a process that is not theirs.
//!
//! * [`panics`]: no panic gets out, none is reported by Rust;
//! * [`stderr`]: one line for the user;
//! * [`objects`]: which loaded library an address lies in;
//! * [`recorded`]: how either of the two libraries finds the other, and what they say to each other.

pub mod objects;
pub mod panics;
pub mod recorded;
pub mod stderr;
