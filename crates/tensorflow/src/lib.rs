//! TensorFlow's pluggable profiler: reports NCCL's operations during a profile.
//!
//! ```text
//! abi      TF_InitProfiler and the functions that it registers: the only module that knows TensorFlow's C types
//!   └ profile   from start to stop, and the bytes that TensorFlow then asks for
//!       └ planes     this process's journal between start and stop, exported as an archive, then as an XSpace
//! ```
//!
//! The plugin, another library in the same process, records; this library asks the plugin for the journal
//! (`in_process::recorded`) and reads it. During a profile nothing happens here: NCCL's events go to the journal, as
//! always. TensorFlow never gets an error: data that is unavailable becomes an empty XSpace and a line on stderr.

mod abi;
mod planes;
mod profile;

pub use abi::{Profiler, ProfilerFunctions, Registration, TF_InitProfiler, nccl_otf2_session_ends_v1};
