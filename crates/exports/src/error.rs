//! Reasons why an export fails.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("the archive is damaged, `nccl-otf2 check` says more: {0}")]
    Archive(#[from] otf2::Error),
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// The operation that failed: "write", "make", "read".
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The format cannot represent the request; the message states an alternative.
    #[error("{0}")]
    Refused(String),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}
