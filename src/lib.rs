//! NCCL profiler plugin that records what NCCL does and writes it as OTF2 archives.

pub mod abi;
pub mod clock;
mod comm;
pub mod config;
pub mod environment;
pub mod event;
mod fault;
mod hooks;
pub mod id;
pub mod journal;
mod keeper;
pub mod process;
pub mod recorder;
pub mod session;
pub mod write;
