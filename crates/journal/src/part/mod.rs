//! The directory of one process, its part: its name and the files next to the journal.

pub mod chain;
pub mod dumps;
pub mod environment;
pub mod job;
pub mod late;
pub mod metrics;
pub mod options;
pub mod owner;
pub mod process;
pub mod scorep;

use std::path::{Path, PathBuf};
use std::{fs, io};

use regular_files::MOST_DESCRIPTION_BYTES;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::process::ProcessInfo;
use crate::private;

/// Name of the directory of parts in a job's directory.
pub const PARTS: &str = "parts";
/// Name of the journal's directory (or a link to it) in a part.
pub const JOURNAL: &str = "journal";
/// Name of the description of the process in a part.
pub const PROCESS: &str = "process.json";
/// Name of the completion mark in a part.
pub const DONE: &str = "done";

/// Whether the process described itself, which it does when its journal has a segment.
pub fn has_begun(part: &Path) -> bool {
    part.join(PROCESS).symlink_metadata().is_ok()
}

/// The parts in a job's directory, in the order of their names.
pub fn part_directories(out: &Path) -> io::Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(out.join(PARTS))? {
        let entry = entry?;
        // Most file systems have the kind in the directory; a link needs a look at what it leads to.
        let is_directory = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => entry.path().is_dir(),
        };
        if is_directory {
            directories.push(entry.path());
        }
    }
    small_sort::sort(&mut directories);
    Ok(directories)
}

/// Whether a part is written and can go into an archive. A symbolic link is not a part: it may lead to other files.
pub fn is_done(part: &Path) -> bool {
    !part.is_symlink() && part.join(DONE).exists()
}

/// Writes a JSON file of a part.
fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    private::write(path, &serde_json::to_vec(value).map_err(io::Error::other)?)
}

/// Reads a JSON file of a part; `None` if it is missing or malformed.
fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&regular_files::read(path, MOST_DESCRIPTION_BYTES).ok()?).ok()
}

/// The name of a part, which is the name of its directory.
pub fn part_name(part: &Path) -> String {
    let name = part.file_name().unwrap_or(part.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Reads the process that recorded a part. The string lists fields that cannot be read and why; empty if all can.
pub fn read_process(part: &Path) -> (ProcessInfo, String) {
    let bytes = match regular_files::read(&part.join(PROCESS), MOST_DESCRIPTION_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => return (ProcessInfo::default(), format!("{PROCESS}: {error}")),
    };
    match (serde_json::from_slice(&bytes), serde_json::from_slice::<Fields>(&bytes)) {
        (Ok(process), _) => (process, String::new()),
        (Err(_), Ok(fields)) => good_fields(fields),
        (Err(error), Err(_)) => (ProcessInfo::default(), format!("{PROCESS}: {error}")),
    }
}

type Fields = serde_json::Map<String, Value>;

/// Converts to text and back: deserialising from values as well would add 40 KB of code.
fn of_fields(fields: &Fields) -> Result<ProcessInfo, String> {
    let read = serde_json::to_vec(fields).and_then(|json| serde_json::from_slice(&json));
    read.map_err(|error| error.to_string().split(" at line ").next().unwrap_or_default().to_owned())
}

/// Takes all fields that can be read, including nested ones, and names those that cannot.
fn good_fields(fields: Fields) -> (ProcessInfo, String) {
    let check = |name: &str, value: &Value| of_fields(&Fields::from_iter([(name.to_owned(), value.clone())]));
    let (mut good, mut bad) = (Fields::new(), Vec::new());
    for (name, value) in fields {
        let Err(error) = check(&name, &value) else {
            good.insert(name, value);
            continue;
        };
        let Value::Object(mut inner) = value else {
            bad.push(format!("{name}: {error}"));
            continue;
        };
        inner.retain(|field, value| {
            let single = Fields::from_iter([(field.clone(), value.clone())]);
            let checked = check(&name, &single.into());
            bad.extend(checked.as_ref().err().map(|error| format!("{name}.{field}: {error}")));
            checked.is_ok()
        });
        good.insert(name, inner.into());
    }
    let process = of_fields(&good).unwrap_or_default();
    (process, format!("{PROCESS}: left out {}", bad.join(", ")))
}
