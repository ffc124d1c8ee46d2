//! Other profiler plugins behind this one: each is called as if NCCL called it alone.

mod behind;
mod example;
mod left_out;
mod real;
mod rig;
