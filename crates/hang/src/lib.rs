//! Finds who blocks a job, from the journals of its processes, running or dead, or from its archive.
//!
//! ```text
//!  parts/*/journal ─┐
//!                   ├─ read ─► job (plain data) ─ judge ─► blockages, suspects ─ report ─► Report: rows and sentences
//!  archive ─────────┘                                                                        └ kept: DIR/hang.json
//! ```

#![forbid(unsafe_code)]

mod doing;
mod error;
mod job;
mod judge;
mod kept;
mod operation;
mod read;
mod report;
mod sequence;
#[cfg(test)]
mod tests;

use std::path::Path;

use analysis::Trace;
use nccl_events::Progress;

pub use error::Error;
pub use kept::{FILE, keep, kept};
pub use report::rows::{
    CallRow, CollectiveRow, CommRow, DoingRow, Kind, MessageRow, MismatchRow, Place, ProcessRow, QuietReport, QuietRow,
    RangeRow, RankRow, Report, SequenceRow, Straggler, SuspectRow, Verdict,
};

/// Judges the records in `directory` so far. Waits shorter than `after_ns` do not count.
pub fn judge_journals(directory: &Path, after_ns: u64, progress: &dyn Progress) -> Result<Report, Error> {
    let job = read::journals(directory, progress)?;
    Ok(report::report(&directory.display().to_string(), &job, after_ns))
}

/// Judges the archive of a job; `path` is the name given by the user, for the report.
pub fn judge_archive(trace: &Trace, path: &Path, after_ns: u64, progress: &dyn Progress) -> Result<Report, Error> {
    let job = read::archive::job(trace, progress)?;
    Ok(report::report(&path.display().to_string(), &job, after_ns))
}
