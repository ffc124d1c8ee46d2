//! Which archive the user means: a directory or its anchor file.

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use journal::part::PARTS;
pub(crate) use trace::ANCHOR;

/// Why there is no archive to read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoArchive {
    /// Nothing there.
    #[error("{}: no such file or directory", .0.display())]
    Missing(PathBuf),
    /// Somebody else's, or on a file system that does not answer.
    #[error("cannot look into {}: {source}{}", path.display(), how_to_share(source))]
    Barred {
        /// What cannot be looked into.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory without recordings.
    #[error("{}: not the directory of a recorded job, there is no {PARTS}/ in it", .0.display())]
    NoParts(PathBuf),
    /// Journals or parts, and no archive made of them.
    #[error(
        "{path}: no archive yet, only what the processes recorded; `nccl-otf2 finalize {path}` makes one of it",
        path = .0.display()
    )]
    NotFinalized(PathBuf),
    /// A directory of something else.
    #[error("{}: no archive here: neither {ANCHOR} nor {PARTS}/", .0.display())]
    NotOurs(PathBuf),
    /// A file of something else.
    #[error("{}: not the anchor file of an archive, whose name ends in .otf2", .0.display())]
    NotAnchor(PathBuf),
}

fn how_to_share(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (a recording is for its user only, who can share it: chmod -R g+rX)",
        _ => "",
    }
}

/// Whether something is there: what cannot be seen is not taken for missing.
fn is_there(path: &Path) -> Result<bool, NoArchive> {
    path.try_exists().map_err(|source| NoArchive::Barred { path: path.parent().unwrap_or(path).to_owned(), source })
}

/// Whether processes recorded into this directory.
pub(crate) fn has_parts(path: &Path) -> Result<bool, NoArchive> {
    if !is_there(path)? {
        return Err(NoArchive::Missing(path.to_owned()));
    }
    let parts = path.join(PARTS);
    // A file has nothing in it.
    Ok(path.is_dir() && is_there(&parts)? && parts.is_dir())
}

/// The directory, if processes recorded into it.
pub(crate) fn job(path: &Path) -> Result<&Path, NoArchive> {
    if has_parts(path)? { Ok(path) } else { Err(NoArchive::NoParts(path.to_owned())) }
}

/// The anchor file of the archive at `path`: a job's directory, or the anchor itself.
pub(crate) fn anchor(path: &Path) -> Result<PathBuf, NoArchive> {
    if !is_there(path)? {
        return Err(NoArchive::Missing(path.to_owned()));
    }
    if path.is_dir() {
        let anchor = path.join(ANCHOR);
        if is_there(&anchor)? && anchor.is_file() {
            return Ok(anchor);
        }
        let path = path.to_owned();
        return Err(if has_parts(&path)? { NoArchive::NotFinalized(path) } else { NoArchive::NotOurs(path) });
    }
    if path.extension().is_some_and(|extension| extension == "otf2") {
        Ok(path.to_owned())
    } else {
        Err(NoArchive::NotAnchor(path.to_owned()))
    }
}
