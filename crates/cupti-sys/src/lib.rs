//! CUPTI's activity interface, for a tool that must work with any `libcupti.so` of a job.
//!
//! This crate has no structure definitions and links nothing: one process has CUDA 11.8, another 13.5, and records grow
//! from release to release. The offsets of their fields never changed, so records are read at fixed offsets
//! ([`record`]), and `cuptiActivityGetNextRecord` steps from one record to the next.
//!
//! [`load`](mod@load) finds the process's library, [`driver`] whether CUPTI may be called at all, and [`other_user`]
//! another tool that may use it. `cargo xtask cupti-layout` checks the numbers against NVIDIA's headers, which are not
//! part of this repository.
#![warn(missing_docs, clippy::missing_panics_doc)]

pub mod code;
pub mod constants;
pub mod driver;
pub mod functions;
pub mod load;
pub mod mapped;
pub mod record;
mod users;

pub use code::Code;
pub use functions::Functions;
pub use load::{Library, LoadError, Search, load};
pub use users::other_user;
