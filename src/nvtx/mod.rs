//! NVTX: ranges of NCCL and of the program, which show calls that the profiler interface does not report.

mod begin;
mod functions;
mod strings;
