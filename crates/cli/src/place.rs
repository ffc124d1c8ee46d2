//! Which archive the user means: a directory or its anchor file.

use std::path::{Path, PathBuf};

/// Name of the anchor file in a job's directory.
pub(crate) const ANCHOR: &str = "traces.otf2";
/// Name of the directory of the processes' parts in a job's directory.
pub(crate) const PARTS: &str = "parts";

/// Why there is no archive to read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoArchive {
    /// Nothing there.
    #[error("{}: no such file or directory", .0.display())]
    Missing(PathBuf),
    /// Journals or parts, and no archive made of them.
    #[error("{path}: no archive yet, only what the processes recorded; `nccl-otf2 finalize {path}` makes one of it", path = .0.display())]
    NotFinalized(PathBuf),
    /// A directory of something else.
    #[error("{}: no archive here: neither {ANCHOR} nor {PARTS}/", .0.display())]
    NotOurs(PathBuf),
    /// A file of something else.
    #[error("{}: not the anchor file of an archive, whose name ends in .otf2", .0.display())]
    NotAnchor(PathBuf),
}

/// The anchor file of the archive at `path`: a job's directory, or the anchor itself.
///
/// # Errors
///
/// Says what is there instead.
pub(crate) fn anchor(path: &Path) -> Result<PathBuf, NoArchive> {
    if path.is_dir() {
        let anchor = path.join(ANCHOR);
        if anchor.is_file() {
            return Ok(anchor);
        }
        let path = path.to_owned();
        return Err(if path.join(PARTS).is_dir() {
            NoArchive::NotFinalized(path)
        } else {
            NoArchive::NotOurs(path)
        });
    }
    if !path.exists() {
        return Err(NoArchive::Missing(path.to_owned()));
    }
    if path
        .extension()
        .is_some_and(|extension| extension == "otf2")
    {
        Ok(path.to_owned())
    } else {
        Err(NoArchive::NotAnchor(path.to_owned()))
    }
}
