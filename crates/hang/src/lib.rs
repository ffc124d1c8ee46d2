//! Finds who blocks a job, from the journals of its processes, running or dead, or from its archive.
//!
//! ```text
//!  parts/*/journal ─┐
//!                   ├─ read ─► job (plain data) ─► graph: who waits for what ─ judge ─► findings ─ report ─► Report
//!  archive ─────────┘                                                                           DIR/hang.json ◄─┘
//! ```

#![forbid(unsafe_code)]

use std::path::Path;

use crate::read::part;
use analysis::Trace;
use nccl_events::Progress;

mod compare;
mod error;
mod graph;
mod job;
mod judge;
mod lifetimes;
pub(crate) mod read;
mod report;

pub use crate::error::Error;
pub use crate::report::rows::{
    CallRow, CollectiveRow, CommRow, DoingRow, Kind, MessageRow, MismatchRow, Place, ProcessRow, QuietReport, QuietRow,
    RangeRow, RankRow, Report, SequenceRow, Straggler, SuspectRow, Verdict,
};
pub use crate::report::{FILE, keep, saved};

/// Judges the records in `directory` so far. Waits shorter than `after_ns` do not count.
pub fn judge_journals(directory: &Path, after_ns: u64, progress: &dyn Progress) -> Result<Report, Error> {
    let job = part::journals(directory, progress)?;
    Ok(report::report(&directory.display().to_string(), &job, after_ns))
}

/// Judges the archive of a job; `path` is the name given by the user, for the report.
pub fn judge_archive(trace: &Trace, path: &Path, after_ns: u64, progress: &dyn Progress) -> Result<Report, Error> {
    let job = read::archive::job(trace, progress)?;
    Ok(report::report(&path.display().to_string(), &job, after_ns))
}

#[cfg(test)]
mod tests;
