//! Exports finished archives to the formats of other programs. A format is a module with one public function,
//! `write(source, out) -> Result<Outcome>`, which creates `out`: a file, or a folder of files.
//!
//! ```text
//!  Source      an archive, the filter, and the receiver of progress
//!   └ Selection  the locations and region instances that the filter selects
//!       ├► kineto      a file of Chrome's JSON for each rank, as PyTorch's profiler writes it
//!       ├► parquet     the tables of an archive, for DuckDB, Dask, Spark
//!       ├► perfetto    one file for Perfetto's viewer and its SQL
//!       ├► xplane      one file for TensorBoard and xprof
//!       └► workloads   what a job asked NCCL for, for programs that simulate or measure it
//!  Outcome     the files, the number of their events, and what was left out and why
//!  protobuf    the messages of Perfetto, XSpace and Chakra
//!  values      values, clocks and numbers of ranks
//! ```
//!
//! [`scalasca`] writes a communicator as MPI for Scalasca's analyser, and also into Score-P traces (`merge`).
//!
//! Formats read locations one by one, several at a time, without keeping their events.

#![forbid(unsafe_code)]

mod error;
pub mod kineto;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod perfetto;
pub mod protobuf;
pub mod scalasca;
mod source;
pub mod values;
pub mod workloads;
pub mod xplane;

pub use crate::error::{Error, LeftOut, Outcome, Result};
pub use crate::source::{Selection, Source};
