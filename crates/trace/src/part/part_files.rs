//! The files of a part: what they are called, whether they are there, what they say.

use std::fs;
use std::path::Path;

use crate::error::{Error, io_error};
use crate::part::sidecar::{SIDECAR_FORMAT, Sidecar};
use crate::tables::assemble::Assembler;
use crate::tables::assembly::Assembly;
use journal::part::late::LateCallbacks;
use journal::part::process::ProcessInfo;
use journal::private;
use journal::reader::{Journal, Outcome};

/// Name of the sidecar in a part.
pub const DEFINITIONS: &str = "definitions";
/// Name of the completion mark in a part.
pub const DONE: &str = "done";
/// Name of the journal's directory (or a link to it) in a part.
pub const JOURNAL: &str = "journal";
/// Name of the directory of event files, in a part and in the archive.
pub const TRACES: &str = "traces";
/// Name of the description of the process in a part.
pub const PROCESS: &str = "process.json";

/// The name of a part: that of its directory.
#[must_use]
pub fn part_name(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or(directory.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Whether a part is written, and can go into an archive. A link is no part: it may lead to what is somebody else's.
#[must_use]
pub fn is_done(directory: &Path) -> bool {
    directory.join(DONE).exists() && !directory.is_symlink()
}

/// Why nothing can be done with a part, whatever is in it; `None` where something can.
pub(crate) fn is_barred(directory: &Path) -> Option<String> {
    if directory.is_symlink() {
        return Some(format!(
            "{} is a symbolic link, which no process makes: not followed",
            directory.display()
        ));
    }
    // A file that cannot be seen is not one that is not there.
    let read = fs::read_dir(directory).map_err(io_error("read", directory));
    read.err().map(|error| error.to_string())
}

/// What `done` says in a part that was written while its process still recorded.
pub(crate) const PROVISIONAL: &str = "so far\n";

/// Whether a part is written and there is a journal that says more.
#[must_use]
pub fn is_provisional(directory: &Path) -> bool {
    directory.join(JOURNAL).exists() && is_so_far(directory)
}

/// Whether a part was written while its process still recorded, and not again since.
pub(crate) fn is_so_far(directory: &Path) -> bool {
    fs::read_to_string(directory.join(DONE)).is_ok_and(|said| said == PROVISIONAL)
}

/// What every version of a sidecar has.
#[derive(serde::Deserialize)]
struct Version {
    format: u32,
}

/// Reads a part's sidecar.
///
/// # Errors
/// It cannot be read, makes no sense, or a newer version wrote it.
pub fn read_sidecar(directory: &Path) -> Result<Sidecar, Error> {
    let path = directory.join(DEFINITIONS);
    let bytes = fs::read(&path).map_err(io_error("read", &path))?;
    let unreadable = |error: serde_json::Error| Error::Sidecar {
        path: path.clone(),
        reason: format!("not a part's definitions: {error}"),
    };
    // The version first: what else a newer version says may not fit.
    let Version { format } = serde_json::from_slice(&bytes).map_err(unreadable)?;
    if format > SIDECAR_FORMAT {
        let reason = format!(
            "format {format} is newer than this version reads ({SIDECAR_FORMAT}): use the nccl-otf2 that belongs to the plugin that wrote it"
        );
        return Err(Error::Sidecar { path, reason });
    }
    let mut sidecar: Sidecar = serde_json::from_slice(&bytes).map_err(unreadable)?;
    sidecar.counts.lay_losses_to_kinds();
    sidecar.counts.add_late(&LateCallbacks::read(directory));
    if sidecar.event_chunk_bytes != otf2::EVENT_CHUNK_BYTES {
        let reason = format!(
            "event chunks of {} bytes, where all parts of an archive have {}",
            sidecar.event_chunk_bytes,
            otf2::EVENT_CHUNK_BYTES
        );
        return Err(Error::Sidecar { path, reason });
    }
    Ok(sidecar)
}

/// Writes a sidecar to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_sidecar(path: &Path, sidecar: &Sidecar) -> Result<(), Error> {
    let mut json = serde_json::to_vec_pretty(sidecar).map_err(|error| Error::Sidecar {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    json.push(b'\n');
    private::write(path, &json).map_err(io_error("write", path))
}

/// Reads who recorded a part, and why not, if it cannot be read.
#[must_use]
pub fn read_process(directory: &Path) -> (ProcessInfo, String) {
    let read = fs::read(directory.join(PROCESS)).map_err(|error| error.to_string());
    let parsed =
        read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    match parsed {
        Ok(process) => (process, String::new()),
        Err(reason) => (ProcessInfo::default(), format!("{PROCESS}: {reason}")),
    }
}

/// Everything a part's process recorded, for tools that look at journals.
///
/// # Errors
/// The journal cannot be read at all.
pub fn assemble(directory: &Path) -> Result<(Assembly, Outcome), Error> {
    let journal = Journal::open(&directory.join(JOURNAL))?;
    let mut assembler = Assembler::for_bytes(journal.bytes());
    let process_tag = journal.process_tag;
    let outcome = journal.read(&mut assembler);
    let assembly = assembler.finish_window(&outcome.losses, &outcome.not_kept, process_tag);
    Ok((assembly, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_sidecar_is_called_newer_whatever_it_says() {
        let part = tempfile::tempdir().expect("a directory");
        let newer = SIDECAR_FORMAT + 1;
        fs::write(
            part.path().join(DEFINITIONS),
            format!(r#"{{"format": {newer}, "strings": 7}}"#),
        )
        .expect("written");
        let error = read_sidecar(part.path()).expect_err("refused").to_string();
        assert!(
            error.contains(&format!("format {newer} is newer")),
            "{error}"
        );
    }
}
