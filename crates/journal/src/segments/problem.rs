//! What is wrong with a journal, and where.

use std::path::PathBuf;

/// A place in a journal that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What was found there.
    pub reason: String,
    /// Committed bytes that were left out because of it.
    pub lost_bytes: u64,
}
