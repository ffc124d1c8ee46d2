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
pub use crate::report::{FILE, Remark, keep, saved};

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

/// The most events of an archive that is judged though nobody asks: some seconds and 400 MB.
const MOST_EVENTS: u64 = 5_000_000;

/// Whether an archive is so small that its calls are judged by the way.
pub fn is_judged_unasked(trace: &Trace) -> bool {
    trace.events() <= MOST_EVENTS
}

/// What a job that may have ended well should mend, as its archive shows.
pub fn remarks(trace: &Trace, progress: &dyn Progress) -> Result<Vec<Remark>, Error> {
    Ok(report::remarks(&read::archive::job(trace, progress)?))
}

#[cfg(test)]
mod tests;
