//! The files of a part, and how far the part is.

use std::fs;
use std::path::{Path, PathBuf};

use regular_files::MOST_MARK_BYTES;
use serde::Serialize;

use crate::error::{Error, io_error};
pub(crate) use journal::part::DONE;
use journal::part::JOURNAL;
use journal::part::is_done;

use journal::host;

pub(crate) const MANIFEST: &str = "manifest";
/// Name of the directory of event files, in a part and in the archive.
pub(crate) const TRACES: &str = "traces";
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    NotWritten,
    /// The part was written while the process recorded, and not again since.
    Provisional,
    /// The part is written. Parts of the same host that may do transfers for it still need its journal (PXN).
    JournalNeeded,
    Written,
}

impl Progress {
    const fn text(self) -> &'static str {
        match self {
            Self::Provisional => "provisional\n",
            Self::JournalNeeded => "journal needed\n",
            Self::NotWritten | Self::Written => "",
        }
    }

    /// The progress of a part.
    pub(crate) fn of(part: &Path) -> Self {
        if !is_done(part) {
            return Self::NotWritten;
        }
        let mark = part.join(DONE);
        // Unreadable: assume that the part lacks its end, so `finalize` writes it again if it has a journal.
        let Ok(text) = regular_files::read(&mark, MOST_MARK_BYTES) else { return Self::Provisional };
        let of_text = |one: &Self| one.text().as_bytes() == text;
        [Self::Provisional, Self::JournalNeeded].into_iter().find(of_text).unwrap_or(Self::Written)
    }

    pub(crate) fn write(self, mark: &Path) -> std::io::Result<()> {
        host::write(mark, self.text().as_bytes())
    }
}

pub(crate) fn event_file(part: &Path, location: usize) -> PathBuf {
    part.join(TRACES).join(format!("{location}.evt"))
}

/// Whether a part is written, and its journal has nothing to add.
pub(crate) fn is_final(part: &Path) -> bool {
    match Progress::of(part) {
        Progress::NotWritten => false,
        Progress::Provisional => !part.join(JOURNAL).exists(),
        Progress::JournalNeeded | Progress::Written => true,
    }
}

/// Why a part cannot be processed, whatever it contains; `None` if it can.
pub(crate) fn why_unusable(part: &Path) -> Option<String> {
    if part.is_symlink() {
        let part = part.display();
        return Some(format!("{part} is a symbolic link, which no process makes: not followed"));
    }
    // A directory that cannot be read must not count as missing files.
    fs::read_dir(part).map_err(io_error("read", part)).err().map(|error| error.to_string())
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let json = serde_json::to_vec(value)
        .map_err(|error| Error::Manifest { path: path.to_owned(), reason: error.to_string() })?;
    host::write(path, &json).map_err(io_error("write", path))
}
