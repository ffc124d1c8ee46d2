//! Snapshots: archives of what a job has recorded so far, while it runs on.
//!
//! A user makes the file `dump` in the job's directory, or sends a signal to any of the job's processes, which then
//! makes the file. Every process looks for it about once a second, and copies its part into `snapshots/<when>/parts/`.
//! `<when>` is the time of the file, so it is the same for all processes. The process that finds that all have copied
//! their parts moves the file to `snapshots/<when>/request`. The snapshot is then a job's directory like any other, of
//! which `nccl-otf2 finalize` makes an archive. `nccl-otf2 dump` does all of this.

mod maker;
mod request;

pub(crate) use maker::Maker;
pub use request::{REQUEST, Request, SNAPSHOTS, Standing, standing};
