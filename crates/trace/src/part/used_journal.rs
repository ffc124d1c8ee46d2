//! The journal of a part that is written: its segments go, file by file. It may be a link, and what else lies there belongs to
//! somebody.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::links::pxn;
use crate::part::part_files;
use crate::part::part_files::{DONE, JOURNAL, is_provisional};
use crate::progress::Progress;
use journal::private;

/// What `done` says in a part whose journal can go when its neighbours are written: they may have worked for it (PXN).
const WAITS: &str = "journal waits\n";

/// Whether the journal of a written part is there only for what neighbours may tell.
pub(crate) fn waits(part: &Path) -> bool {
    fs::read_to_string(part.join(DONE)).is_ok_and(|said| said == WAITS)
}

/// Leaves the journal of a written part to who writes all parts.
pub(crate) fn let_wait(part: &Path) {
    // Where that cannot be said, it stays as one that is kept.
    let _stays = private::write(&part.join(DONE), WAITS.as_bytes());
}

/// Whether a part of the same host is not written yet.
pub(crate) fn has_unwritten_neighbours(part: &Path, all: &[PathBuf]) -> bool {
    let mut neighbours = all.iter().filter(|other| pxn::are_neighbours(part, other));
    neighbours.any(|other| !part_files::is_done(other) || is_provisional(other))
}

/// Removes what a part was written from. What cannot be removed is a pity, not an error: the events are in the part.
pub(crate) fn remove(part: &Path, progress: &dyn Progress) {
    let journal = part.join(JOURNAL);
    if let Err(error) = remove_segments(&journal).and_then(|()| remove_directory(&journal)) {
        progress.remark(&format!("{}: not removed: {error}", journal.display()));
    }
}

fn remove_segments(journal: &Path) -> io::Result<()> {
    for entry in fs::read_dir(journal)? {
        let entry = entry?;
        if is_segment(&entry.file_name()) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The directory, and the link to it where it lies elsewhere.
fn remove_directory(journal: &Path) -> io::Result<()> {
    if !journal.is_symlink() {
        return fs::remove_dir(journal);
    }
    fs::remove_dir(fs::canonicalize(journal)?)?;
    fs::remove_file(journal)
}

/// Whether a file is called as the recorder calls them: `<slot>.<number>`.
fn is_segment(name: &OsStr) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.to_str()
        .and_then(|name| name.split_once('.'))
        .is_some_and(|(slot, number)| is_number(slot) && is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_segments() {
        for (name, expected) in [
            ("0.0", true),
            ("4095.123", true),
            ("0", false),
            ("0.", false),
            (".1", false),
            ("1.2.3", false),
            ("a.1", false),
            ("thesis.tex", false),
        ] {
            assert_eq!(is_segment(OsStr::new(name)), expected, "{name}");
        }
    }
}
