//! Removes the journal of a written part, file by file: it may be a link to a directory with files of somebody else's.

use std::ffi::OsStr;
use std::path::Path;
use std::{fs, io};

use journal::part::JOURNAL;
use nccl_events::Progress;

/// Removes a part's journal. A failure is not an error: the events are in the part.
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

/// Removes the directory, and the link if the journal is elsewhere.
fn remove_directory(journal: &Path) -> io::Result<()> {
    if !journal.is_symlink() {
        return fs::remove_dir(journal);
    }
    fs::remove_dir(fs::canonicalize(journal)?)?;
    fs::remove_file(journal)
}

/// Whether a file is named like the recorder's segments: `<slot>.<number>`.
fn is_segment(name: &OsStr) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.to_str()
        .and_then(|name| name.split_once('.'))
        .is_some_and(|(slot, number)| is_number(slot) && is_number(number))
}
