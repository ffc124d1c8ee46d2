//! The protobuf messages that other programs read, with the fields that this project writes and no others.
//!
//! Written by hand from the published `.proto` files, whose names and numbers they keep: a build needs no protoc.

#![forbid(unsafe_code)]

pub mod otlp;
pub mod perfetto;
pub mod xspace;

pub use prost::Message;
