//! The process that the plugin is a guest in: its signals, threads, memory and exit.

pub mod process;
pub(crate) mod threads;
