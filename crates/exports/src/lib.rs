//! Finished archives in the formats of other programs. A format is a module with one public function,
//! `write(source, out) -> Result<Outcome>`, which makes `out`: a file, or a folder of files.
//!
//! ```text
//!  Source      an archive, what of it is wanted, and who hears of progress
//!   └ Selection  the locations and region instances that are wanted
//!       ├► kineto      a file of Chrome's JSON for each rank, as PyTorch's profiler writes it
//!       ├► parquet     the tables of an archive, for DuckDB, Dask, Spark
//!       ├► perfetto    one file for Perfetto's viewer and its SQL
//!       └► xplane      one file for TensorBoard and xprof
//!  Outcome     the files, how many events they have, and what was left out and why
//! ```
//!
//! [`scalasca`] writes a communicator as MPI for Scalasca's analyser, also into traces of Score-P (`merge`).
//!
//! Formats read one location after the other, several at a time, and keep none of its events.

#![forbid(unsafe_code)]

mod error;
mod foreign;
pub mod kineto;
mod line;
mod outcome;
mod output;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod perfetto;
pub mod scalasca;
mod selection;
mod source;
mod value;
pub mod xplane;

pub use error::{Error, Result};
pub use outcome::{LeftOut, Outcome};
pub use selection::Selection;
pub use source::Source;
