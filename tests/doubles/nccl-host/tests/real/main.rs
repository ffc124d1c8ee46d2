//! Runs real NCCL on the GPU stand-in: what the log says must be what NCCL does. `cargo xtask test` fetches NCCL and
//! builds what the tests use.

mod ends;
mod proxy_ops;
mod rig;
