//! Errors of writing parts and archives.

use std::io;
use std::path::{Path, PathBuf};

/// Why a part or an archive could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{operation} {}: {source}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    /// The system did not read a file that is there.
    #[error(
        "{}: {source} (try again; if the file stays unreadable, move it away, and the other files are written)",
        path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{}: {source}; it is unknown whether the part is complete (try again; if the file stays unreadable, move it \
        away, and `nccl-otf2 finalize` writes it again)",
        path.display()
    )]
    UnreadableMark { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Journal(#[from] journal::reader::Error),
    #[error("the journal could not be read to its end ({problem})")]
    Unread { problem: String },
    #[error("{}: {source}", path.display())]
    Otf2 { path: PathBuf, source: otf2::Error },
    /// The time limit was reached. Nothing was changed, and the journal still exists.
    #[error("{}: the time limit was reached before everything was written; `nccl-otf2 finalize` writes it from the \
        journal", path.display())]
    Deadline { path: PathBuf },
    /// A part's manifest or another of its files cannot be parsed or made.
    #[error("{}: {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
    #[error(
        "{}: format {found}, but this version reads {known}: use the nccl-otf2 that belongs to the plugin that wrote \
        it",
        path.display()
    )]
    ManifestFormat { path: PathBuf, found: u32, known: u32 },
    /// Parts cannot be written with another level because their journals are gone. Nothing was changed.
    #[error(
        "{} of the parts cannot be written again, so nothing was changed: their journals were removed when they were \
        written (NCCL_OTF2_KEEP_JOURNAL=1, `nccl-otf2 run --keep-journal` and `nccl-otf2 finalize --keep-journal` \
        keep them) or lie on another host; the first is {}",
        count,
        first.display()
    )]
    Removed {
        count: usize,
        /// Where the journal of the first part would be.
        first: PathBuf,
    },
    #[error(
        "{}: has {records} records, but {written} were written from it before: some were removed, so the part stays \
        as it is",
        path.display()
    )]
    Shrunk { path: PathBuf, records: u64, written: u64 },
    #[error("{}: no part is written; a job that ran with the plugin leaves them in parts/", path.display())]
    NoParts { path: PathBuf },
    #[error(
        "{}: does not belong to an archive, so it was not replaced (move it away, then run `nccl-otf2 finalize`; or \
        let the job record into another directory)",
        path.display()
    )]
    Foreign { path: PathBuf },
    #[error(
        "{}: is an archive of processes whose parts are gone (first {part}), so it was not replaced (move it away \
         with traces.def and traces/, then run `nccl-otf2 finalize`)",
        path.display()
    )]
    PartsGone { path: PathBuf, part: String },
    #[error("{}: another process is putting the archive in place (remove this file if that process is no longer \
        running)", path.display())]
    Busy { path: PathBuf },
    #[error("{}: this process was silent for a minute, and another has taken over: nothing was put in place (run \
        `nccl-otf2 finalize` again)", path.display())]
    TakenOver {
        /// The lock file that names the new holder, if it exists.
        path: PathBuf,
    },
}

/// Names the failed operation and its file in an I/O error.
pub(crate) fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { operation, path, source }
}

/// Names a file that the system does not read, and what helps.
pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Unreadable { path, source }
}

pub(crate) fn otf2_error(path: &Path) -> impl FnOnce(otf2::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Otf2 { path, source }
}
