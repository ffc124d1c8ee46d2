//! NVTX: the plugin's library as an injection. NVTX calls of the program, its libraries and NCCL become ranges, which
//! also show calls that the profiler interface does not report.
//!
//! ```text
//! InitializeInjectionNvtx2             a binary with NVTX makes its first call; each has its own table of functions
//!   ├ begin        what the user wants to have recorded
//!   └ functions    push, pop, start, end, mark; names of strings, domains and categories; the call with which the
//!       │          recording begins
//!       └ strings      handles, which are numbers; NCCL's payloads, read by the names in their schemas
//! InitializeInjectionNvtxExtension     the same for the payload extension
//! ```
//!
//! In a process that does not use NCCL, threads keep their open ranges in memory, and nothing else happens.

mod begin;
mod functions;
mod strings;
