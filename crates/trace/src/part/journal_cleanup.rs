//! Removes the journal of a written part: only files that are proved to be of its process, and of no running one.

use std::path::{Path, PathBuf};
use std::{fs, io};

use journal::host::Life;
use journal::part::owner::Owner;
use journal::part::{JOURNAL, read_process};
use nccl_events::Progress;

/// Removes a part's journal. A failure is not an error: the events are in the part.
pub(crate) fn remove(part: &Path, progress: &dyn Progress) {
    let journal = part.join(JOURNAL);
    let removed = removable(part).and_then(|(owner, directory)| remove_files(&owner, &directory).map_err(text));
    let removed = removed.and_then(|()| remove_link(&journal).map_err(text));
    if let Err(reason) = removed {
        progress.remark(&format!("{}: not removed: {reason}", journal.display()));
    }
}

fn text(error: io::Error) -> String {
    error.to_string()
}

/// Whose journal a part has, and the directory it is in; else why it must stay.
fn removable(part: &Path) -> Result<(Owner, PathBuf), String> {
    let journal = part.join(JOURNAL);
    let process = read_process(part).0;
    if process.is_recording() {
        return Err(format!("process {} still records into it", process.pid));
    }
    let owner = Owner::of(part).ok_or("the part does not say whose it is")?;
    if process.pid == 0 && owner.may_run() {
        return Err("a process with its id runs, and the part does not say when that began".to_owned());
    }
    let Ok(target) = fs::read_link(&journal) else {
        return Ok((owner, journal));
    };
    if target != Path::new(&process.journal) {
        return Err(format!("it is a link to {}, which the process did not make", target.display()));
    }
    let here = fs::canonicalize(part).map_err(text)?;
    match fs::canonicalize(&process.part) {
        Ok(original) if original == here => {}
        Ok(original) => {
            return Err(format!("it is the journal of {}, of which this part is a copy", original.display()));
        }
        // The part was moved, unless its process runs where that path leads to it: in another container, say.
        Err(error) if error.kind() == io::ErrorKind::NotFound && process.life() == Life::Gone => {}
        Err(error) => return Err(format!("whether this part is a copy of {} is not known: {error}", process.part)),
    }
    Ok((owner, fs::canonicalize(&journal).map_err(text)?))
}

fn remove_files(owner: &Owner, directory: &Path) -> io::Result<()> {
    for file in owner.files(directory)? {
        fs::remove_file(file)?;
    }
    fs::remove_dir(directory)
}

/// Removes the link that led to a journal outside the part.
fn remove_link(journal: &Path) -> io::Result<()> {
    if journal.is_symlink() { fs::remove_file(journal) } else { Ok(()) }
}
