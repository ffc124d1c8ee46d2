//! What may be replaced by an archive: an earlier archive of the same processes, and nothing else.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use journal::part::PARTS;

use super::properties::PartsThere;
use super::unify::ANCHOR;
use crate::error::Error;
use crate::part::files::TRACES;

/// The extensions of the files in an archive's directory of events.
const EXTENSIONS: [&str; 4] = ["evt", "def", "snap", "marker"];

/// A file in the place of an archive's events that is none.
pub fn foreign_file(out: &Path) -> Option<PathBuf> {
    let place = out.join(TRACES);
    if place.is_file() {
        return Some(place);
    }
    let files = fs::read_dir(place).into_iter().flatten().flatten().map(|file| file.path());
    let is_event_file =
        |file: &PathBuf| file.extension().and_then(OsStr::to_str).is_some_and(|it| EXTENSIONS.contains(&it));
    files.filter(|file| !is_event_file(file)).min()
}

/// Fails if an archive of `parts` would replace what cannot be made again.
pub(super) fn refuse_irreplaceable(
    out: &Path,
    existing: Option<&PartsThere>,
    parts: &BTreeSet<String>,
) -> Result<(), Error> {
    if let Some(path) = foreign_file(out) {
        return Err(Error::Foreign { path });
    }
    let is_gone = |part: &&String| !parts.contains(*part) && !out.join(PARTS).join(part.as_str()).is_dir();
    match existing.and_then(|existing| existing.names().find(is_gone).cloned()) {
        Some(part) => Err(Error::PartsGone { path: out.join(ANCHOR), part }),
        None => Ok(()),
    }
}
