//! The live bridge to Score-P: the built plugin in processes with a stand-in for Score-P in them (`tests/doubles/fake-scorep`),
//! which ends a program where Score-P would; and with a real one where there is one.

mod ends;
mod job;
mod models;
mod nccl;
mod real;
mod substrate;
