//! Turns a process's tables into a timeline, and the timeline into events. A crate separate from `trace`: the code here
//! runs once per event and is built for speed, the code of `trace` runs once per part.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

pub mod emit;
pub mod links;
pub mod reading;
pub mod timeline;
