//! The result of an export, and the reasons why an export fails.

use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// The files, relative to `out`; a format with a single file has an empty path.
    pub files: Vec<PathBuf>,
    /// Number of events in the files, as the format counts them: slices, rows, lines.
    pub events: u64,
    /// The part of `events` in tables that no rank filter applies to.
    #[serde(skip)]
    pub described: u64,
    pub left_out: Vec<LeftOut>,
}

/// Events left out for one reason. Events that the filter excludes are not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    pub events: u64,
    pub reason: String,
}

impl Outcome {
    /// The number of events that the filter matches, including those that the format cannot represent.
    pub fn matched(&self) -> u64 {
        self.events.saturating_sub(self.described) + self.left_out.iter().map(|left_out| left_out.events).sum::<u64>()
    }

    pub fn leave_out(&mut self, events: u64, reason: &str) {
        if events > 0 {
            self.left_out.push(LeftOut { events, reason: reason.to_owned() });
        }
    }
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("the archive is damaged; run `nccl-otf2 check` for details: {0}")]
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
