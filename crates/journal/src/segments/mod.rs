//! Basis of reading a journal: segments with headers, records and strings; missing and damaged places.

use std::fmt;
use std::io;
use std::path::PathBuf;

pub(crate) mod counted;
pub(crate) mod gaps;
pub(crate) mod head;
pub(crate) mod losses;
pub(crate) mod removed;
pub(crate) mod segment;
mod symbols;

use crate::format::layout::{FORMAT_VERSION, OLDEST_READ};
pub use losses::Losses;
pub use removed::Removed;
pub use symbols::Symbols;

/// A place in a journal that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// What was found at the offset.
    pub reason: String,
    /// Committed bytes that were skipped because of the problem, as far as known.
    pub lost_bytes: u64,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, reason, lost_bytes } = self;
        write!(formatter, "{} at byte {offset}: {reason}", path.display())?;
        // How many bytes a damaged header had counted is unknown.
        if *lost_bytes > 0 { write!(formatter, "; {lost_bytes} bytes left out") } else { Ok(()) }
    }
}

/// Why a journal cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    /// The directory or a file in it could not be read.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The journal was written by a version with another format.
    #[error("{}: journal format {found}, this version reads {OLDEST_READ} to {FORMAT_VERSION}: use the nccl-otf2 that belongs to the plugin that wrote it", path.display())]
    OtherFormat {
        path: PathBuf,
        /// The format version of the file.
        found: u32,
    },
    /// The journal is another process's, or of another session of this one.
    #[error("{}{target}: the journal of process {id}, which began to record at {start_ns} ns, not of the process of this part: not read, not removed (put the part's own journal in its place)", path.display())]
    OtherProcess { path: PathBuf, target: String, id: u32, start_ns: u64 },
    /// The journal is a link, and its part does not say whose it is.
    #[error("{}{target}: the part does not say whose journal it is, so the link is not followed (process.json and the part's name say it)", path.display())]
    Unowned { path: PathBuf, target: String },
}
