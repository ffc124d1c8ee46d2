//! Protobuf messages for other programs, with only the fields that this project writes.
//!
//! Written by hand with the names and numbers of the published `.proto` files, so that a build needs no protoc.

#![forbid(unsafe_code)]

pub mod chakra;
pub mod otlp;
pub mod perfetto;
pub mod xspace;

pub use prost::Message;
