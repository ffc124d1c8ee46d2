//! Shows NCCL's calls and operations to Score-P while it measures.

pub mod bridge;
mod drain;
mod guard;
mod operations;
pub mod presence;
mod regions;
mod setup;
pub mod substrate;
