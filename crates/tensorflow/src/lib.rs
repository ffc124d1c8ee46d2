//! TensorFlow's pluggable profiler: what NCCL did in the time of a profile.
//!
//! ```text
//! abi      TF_InitProfiler and the functions that it registers: the only place that knows TensorFlow's C types
//!   └ profile   from start to stop, and the bytes that TensorFlow then asks for
//!       └ planes     the part of this process's journal between both, as an archive, as an XSpace
//! ```
//!
//! The plugin, another library of the same process, records; this one asks it for the journal (`in_process::recorded`)
//! and reads that. While a profile is taken nothing happens here: NCCL's events go to the journal, as always. Nothing
//! is an error towards TensorFlow: what cannot be had is an empty XSpace and a line on stderr.

mod abi;
mod planes;
mod profile;

pub use abi::{Profiler, ProfilerFunctions, Registration, TF_InitProfiler, nccl_otf2_session_ends_v1};
