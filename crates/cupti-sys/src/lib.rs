//! CUPTI's activity interface for a tool that meets whatever `libcupti.so` a job has.
//!
//! There are no structure definitions here, and nothing is linked: one process has CUDA 11.8, the next 13.5, and
//! records grow from release to release. What has been constant is where the fields of a record are, so a record is
//! read at fixed offsets ([`record`]), and the step to the next one is `cuptiActivityGetNextRecord`'s.
//!
//! [`load`](mod@load) finds the library of this process, [`driver`] whether CUPTI may be asked at all, and
//! [`other_user`] which other tool may use it. `cargo xtask cupti-layout` checks the numbers against NVIDIA's headers,
//! which are not part of this repository.
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
