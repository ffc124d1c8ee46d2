//! Callbacks as no NCCL should make them, and as some do: the program that makes them notices nothing, and what made
//! sense is in the archive.
//!
//! Each pitfall that a sequence of callbacks can express is a test, and each test runs its callbacks three ways: our plugin
//! survives them and its archive has no faults; the naive plugin (`crates/plugin-host/naive-plugin`) survives them too;
//! with the one fault that the pitfall is about it crashes or miscounts. So a test cannot pass for want of danger.

mod callbacks;
mod contexts;
mod drive;
mod fields;
mod handles;
