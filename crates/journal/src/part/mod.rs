//! The directory of one process, its part: what it is called, and what lies beside the journal.

pub mod chain;
pub mod environment;
pub mod job;
pub mod late;
pub mod metrics;
pub mod options;
pub mod process;
pub mod scorep;

use std::path::Path;

use regular_files::MOST_DESCRIPTION_BYTES;

use self::process::ProcessInfo;

/// Name of the directory of parts in a job's directory.
pub const PARTS: &str = "parts";
/// Name of the journal's directory (or a link to it) in a part.
pub const JOURNAL: &str = "journal";
/// Name of the description of the process in a part.
pub const PROCESS: &str = "process.json";
/// Name of the completion mark in a part.
pub const DONE: &str = "done";

/// The name of a part: that of its directory.
#[must_use]
pub fn part_name(part: &Path) -> String {
    let name = part.file_name().unwrap_or(part.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Reads who recorded a part, and why not, if it cannot be read.
#[must_use]
pub fn read_process(part: &Path) -> (ProcessInfo, String) {
    let read = regular_files::read(&part.join(PROCESS), MOST_DESCRIPTION_BYTES).map_err(|error| error.to_string());
    let parsed = read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    match parsed {
        Ok(process) => (process, String::new()),
        Err(reason) => (ProcessInfo::default(), format!("{PROCESS}: {reason}")),
    }
}
