//! Errors that prevent judging a job.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "{}: no process has recorded anything here; is the plugin loaded (see `nccl-otf2 doctor` and \
        NCCL_DEBUG=INFO), and does it record into this directory (NCCL_OTF2_DIR)? A process begins to record in its \
        first ncclCommInitRank; from NCCL 2.27 on, without NVTX ranges (NVTX_INJECTION64_PATH), only after all ranks \
        have called it",
        .0.display()
    )]
    NothingRecorded(PathBuf),
    #[error(transparent)]
    Parts(#[from] archive::Error),
    #[error("{}: an archive of {creator}, without NCCL operations", anchor.display())]
    NotNccl { anchor: PathBuf, creator: String },
    #[error("cannot read the archive")]
    Archive(#[from] otf2::Error),
    #[error("cannot {operation} {}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: not a report of `hang`, ignored; remove it", path.display())]
    NotAReport { path: PathBuf, source: serde_json::Error },
}

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}
