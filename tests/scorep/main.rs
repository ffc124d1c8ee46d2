//! Forwarding to Score-P: the built plugin in processes with a double of Score-P (`tests/doubles/fake-scorep`), which
//! ends a program where Score-P would. `cargo xtask scorep` measures by a real Score-P.

mod ends;
mod job;
mod models;
mod nccl;
mod outputs;
mod substrate;
