//! Who holds up a job, from the journals of its processes, running or dead, or from its archive.
//!
//! ```text
//!  parts/*/journal ─┐
//!                   ├─ read ─► job (plain data) ─ judge ─► blockages, suspects ─ report ─► Report: rows and sentences
//!  archive ─────────┘                                                                        └ kept: DIR/hang.json
//! ```

#![forbid(unsafe_code)]

mod job;
mod judge;
mod kept;
mod operation;
mod read;
mod report;
mod sequence;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use analysis::Trace;
use nccl_events::Progress;

pub use kept::{FILE, keep, kept};
pub use report::rows::{
    CollectiveRow, CommRow, Kind, MessageRow, MismatchRow, ProcessRow, QuietReport, QuietRow, RankRow, Report,
    SequenceRow, Straggler, SuspectRow, Verdict,
};

/// Judges what the processes of the job in `directory` have recorded so far. Who has waited for less than `after_ns` is
/// not counted as hanging.
pub fn judge_journals(directory: &Path, after_ns: u64, progress: &dyn Progress) -> Result<Report, Error> {
    let job = read::journals(directory, progress)?;
    Ok(report::report(&directory.display().to_string(), &job, after_ns))
}

/// Judges the archive of a job; the report is for `path`, which the user named.
pub fn judge_archive(trace: &Trace, path: &Path, after_ns: u64, progress: &dyn Progress) -> Result<Report, Error> {
    let job = read::archive::job(trace, progress)?;
    Ok(report::report(&path.display().to_string(), &job, after_ns))
}

/// Why a job cannot be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "{}: no process has recorded anything here; is the plugin loaded (`nccl-otf2 doctor` and NCCL_DEBUG=INFO tell), \
         and does it record in this directory (NCCL_OTF2_DIR)?",
        .0.display()
    )]
    NothingRecorded(PathBuf),
    #[error(transparent)]
    Parts(#[from] trace::Error),
    #[error("{}: no archive of NCCL's events", .0.display())]
    NotNccl(PathBuf),
    #[error("cannot read the archive")]
    Archive(#[from] otf2::Error),
    #[error("cannot {operation} {}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: not a report of `hang`; remove it, and `hang` judges the archive", path.display())]
    NotAReport { path: PathBuf, source: serde_json::Error },
}

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}
