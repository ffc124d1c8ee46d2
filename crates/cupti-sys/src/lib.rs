//! CUPTI's activity interface for a tool that meets whatever `libcupti.so` a job has.
//!
//! There are no structure definitions here, and nothing is linked: one process has CUDA 11.8, the next 13.5, and
//! records grow from release to release. What has been constant is where the fields of a record are, so a record is
//! read at fixed offsets ([`record`]), and the step to the next one is `cuptiActivityGetNextRecord`'s.
//!
//! * [`record`]: offsets of the fields, and how to read them;
//! * [`constants`]: activity kinds, attributes, callback ids;
//! * [`functions`]: the functions, each of which a release may lack;
//! * [`code`]: result codes, their names, and what a user can do about them;
//! * [`load`](mod@load): which of the libraries on a machine is the one of this process;
//! * [`driver`]: whether there is a driver, without which most releases of CUPTI must not even be asked for their
//!   version;
//! * [`mapped`]: which libraries the process has;
//! * [`other_user`]: which other tool may use CUPTI in it.
//!
//! The numbers are checked against NVIDIA's headers by `cargo xtask cupti-layout`; the headers are not part of this
//! repository.
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
