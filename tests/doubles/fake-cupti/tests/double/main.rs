//! The double's own behaviours, each seen by a small tool in a process of its own.

mod clocks;
mod decode;
mod families;
mod faults;
mod levels;
mod misuse;
mod records;
mod rig;
