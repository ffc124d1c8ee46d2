//! Loads a profiler plugin as NCCL does and drives it.

pub mod bench;
pub mod constants;
pub mod descriptor;
pub mod endure;
pub mod fields;
pub mod kind;
pub mod libnccl;
pub mod logger;
pub mod replay;
pub mod script;
pub mod signals;
pub mod state_args;
pub mod table;
pub mod v1_numbers;
pub mod version;
