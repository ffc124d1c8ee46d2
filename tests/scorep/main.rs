//! Forwarding to Score-P: the built plugin in processes with a double of Score-P (`tests/doubles/fake-scorep`), which
//! ends a program where Score-P would; and with a real Score-P if there is one.

mod ends;
mod job;
mod models;
mod nccl;
mod outputs;
mod real;
mod substrate;
