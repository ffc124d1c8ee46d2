//! The files of a part: what they are called, and how far the part is.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, io_error};
use journal::part::process::ProcessInfo;
use journal::private;

/// Name of the manifest in a part.
pub(crate) const MANIFEST: &str = "manifest";
/// Name of the completion mark in a part.
pub(crate) const DONE: &str = "done";
/// Name of the journal's directory (or a link to it) in a part.
pub const JOURNAL: &str = "journal";
/// Name of the directory of event files, in a part and in the archive.
pub(crate) const TRACES: &str = "traces";
/// Name of the description of the process in a part.
pub const PROCESS: &str = "process.json";

/// How far a part is, as its completion mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is no mark.
    NotWritten,
    /// The process still recorded when the part was written, and the part was not written again since.
    Provisional,
    /// The part is written. Parts of the same host that may do transfers for it still need its journal (PXN).
    JournalNeeded,
    /// The part is written.
    Written,
}

impl Progress {
    /// What the mark says.
    const fn text(self) -> &'static str {
        match self {
            Self::Provisional => "provisional\n",
            Self::JournalNeeded => "journal needed\n",
            Self::NotWritten | Self::Written => "",
        }
    }

    /// Of a part. A link is no part: it may lead to what is somebody else's.
    pub(crate) fn of(part: &Path) -> Self {
        let mark = part.join(DONE);
        if part.is_symlink() || !mark.exists() {
            return Self::NotWritten;
        }
        let text = fs::read_to_string(mark).unwrap_or_default();
        let special = [Self::Provisional, Self::JournalNeeded];
        let found = special.into_iter().find(|one| one.text() == text);
        found.unwrap_or(Self::Written)
    }

    /// Writes the mark.
    pub(crate) fn write(self, mark: &Path) -> std::io::Result<()> {
        private::write(mark, self.text().as_bytes())
    }
}

/// The name of a part: that of its directory.
#[must_use]
pub fn part_name(part: &Path) -> String {
    let name = part.file_name().unwrap_or(part.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Whether a part is written, and can go into an archive.
#[must_use]
pub fn is_done(part: &Path) -> bool {
    Progress::of(part) != Progress::NotWritten
}

/// Whether a part is written, and there is no journal that says more.
pub(crate) fn is_final(part: &Path) -> bool {
    match Progress::of(part) {
        Progress::NotWritten => false,
        Progress::Provisional => !part.join(JOURNAL).exists(),
        Progress::JournalNeeded | Progress::Written => true,
    }
}

/// Why nothing can be done with a part, whatever is in it; `None` where something can.
pub(crate) fn obstacle(part: &Path) -> Option<String> {
    if part.is_symlink() {
        let part = part.display();
        return Some(format!("{part} is a symbolic link, which no process makes: not followed"));
    }
    // A file that cannot be seen is not one that is not there.
    let read = fs::read_dir(part).map_err(io_error("read", part));
    read.err().map(|error| error.to_string())
}

/// Reads who recorded a part, and why not, if it cannot be read.
#[must_use]
pub fn read_process(part: &Path) -> (ProcessInfo, String) {
    let read = fs::read(part.join(PROCESS)).map_err(|error| error.to_string());
    let parsed = read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    match parsed {
        Ok(process) => (process, String::new()),
        Err(reason) => (ProcessInfo::default(), format!("{PROCESS}: {reason}")),
    }
}

/// Writes a file of a part.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let json = serde_json::to_vec(value)
        .map_err(|error| Error::Manifest { path: path.to_owned(), reason: error.to_string() })?;
    private::write(path, &json).map_err(io_error("write", path))
}
