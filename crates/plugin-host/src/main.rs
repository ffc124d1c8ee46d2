//! Loads a profiler plugin as NCCL does and drives it.

fn main() {}
