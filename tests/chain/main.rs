//! Other profiler plugins behind this one: each is called as if NCCL called it alone. And RCCL in place of NCCL.

mod behind;
mod left_out;
mod rccl;
mod real;
mod rig;
