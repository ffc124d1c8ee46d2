//! Files are written in a temporary directory, then renamed into place.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::files::TRACES;
use crate::error::{Error, io_error};
use journal::host::{self, Life};

/// A temporary directory; removed when dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
}

/// Distinguishes the staging directories of one process.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Staging {
    /// Makes a unique directory in `directory`: `<prefix>-<host>-<pid>-<n>`.
    pub(crate) fn create(directory: &Path, prefix: &str) -> Result<Self, Error> {
        let host = host::host_name();
        let process = std::process::id();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!("{prefix}-{host}-{process}-{number}"));
            match host::directory(&path) {
                Ok(()) => return Ok(Self { path }),
                // A dead process with the same id left this directory.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("make", &path)(error)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directories of dead processes of this host.
    pub(crate) fn sweep(directory: &Path, prefix: &str) {
        let ours = format!("{prefix}-{}-", host::host_name());
        let Ok(entries) = fs::read_dir(directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = name
                .strip_prefix(&ours)
                .and_then(|rest| rest.split('-').next())
                .and_then(|process| process.parse::<u32>().ok());
            if process.is_some_and(|process| host::life_here(process, None) == Life::Gone) {
                let _left_for_the_next = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _left_for_the_next = fs::remove_dir_all(&self.path);
    }
}

/// A file in the place of an archive's events that is none: it must not be replaced.
pub fn foreign_file(out: &Path) -> Option<PathBuf> {
    let place = out.join(TRACES);
    if place.is_file() {
        return Some(place);
    }
    let files = fs::read_dir(place).into_iter().flatten().flatten().map(|file| file.path());
    let has_name =
        |file: &PathBuf| file.extension().is_some_and(|it| otf2::FILE_EXTENSIONS.iter().any(|name| it == *name));
    files.filter(|file| !has_name(file)).min()
}

/// Renames `name` from the staging directory to `directory`, private to the user. Moves the old entry into staging
/// first: a directory cannot be renamed onto one that is not empty.
pub(crate) fn put_in_place(staging: &Staging, name: &str, directory: &Path) -> Result<(), Error> {
    host::seal(&staging.path().join(name));
    put_sealed_in_place(staging, name, directory)
}

/// [`put_in_place`] for what is private already.
pub(crate) fn put_sealed_in_place(staging: &Staging, name: &str, directory: &Path) -> Result<(), Error> {
    let made = staging.path().join(name);
    let place = directory.join(name);
    if place.is_dir() || made.is_dir() {
        move_aside(staging, name, directory)?;
    }
    fs::rename(&made, &place).map_err(io_error("put in place", &place))
}

/// Moves an entry of `directory` into the staging directory, if it exists.
pub(crate) fn move_aside(staging: &Staging, name: &str, directory: &Path) -> Result<(), Error> {
    let place = directory.join(name);
    match fs::rename(&place, staging.path().join(format!("{name}.old"))) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("move aside", &place)(error)),
        _ => Ok(()),
    }
}

/// Removes a file if it exists.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}
