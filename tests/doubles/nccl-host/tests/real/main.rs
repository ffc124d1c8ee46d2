//! Runs real NCCL on the GPU stand-in: what the log says must be what NCCL does.
//!
//! The libraries are those in `NCCL_OTF2_TEST_NCCL_DIR` (default: `~/.cache/nccl-profiler-otf2/nccl`), one
//! directory per release. Where there are none the tests say so and check nothing; with `CI=true` they fail.

mod ends;
mod proxy_ops;
mod rig;
