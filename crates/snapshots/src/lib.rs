//! Snapshots: archives of what a job has recorded so far, made while the job keeps running.
//!
//! A user creates the file `dump` in the job's directory, or signals any of the job's processes, which then creates the
//! file. Every process checks for it about once a second, and copies its part into `snapshots/<when>/parts/`; `<when>`,
//! the file's time, is the same for all. The process that finds all parts copied moves the file to
//! `snapshots/<when>/request`. The snapshot is then an ordinary job directory.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use journal::host::Life;
use journal::part::process::ProcessInfo;
use journal::part::{PARTS, is_done, part_directories, part_name, read_process};
use journal::private;
use settings::date_and_time;

/// The file in the job's directory that requests a snapshot.
pub const REQUEST: &str = "dump";
pub const SNAPSHOTS: &str = "snapshots";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The snapshot's name, from the time of the file.
    pub name: String,
    inode: u64,
}

impl Request {
    pub fn find(out: &Path) -> io::Result<Option<Self>> {
        let file = match std::fs::symlink_metadata(out.join(REQUEST)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !file.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let modified = file.modified()?.duration_since(UNIX_EPOCH);
        let since = modified.unwrap_or(Duration::ZERO);
        Ok(Some(Self {
            name: format!("{}-{:09}", date_and_time(since.as_secs()), since.subsec_nanos()),
            inode: file.ino(),
        }))
    }

    /// Requests a snapshot, or joins the open request.
    pub fn make(out: &Path) -> io::Result<Self> {
        let path = out.join(REQUEST);
        match private::new_file(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Self::find(out)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub fn directory(&self, out: &Path) -> PathBuf {
        out.join(SNAPSHOTS).join(&self.name)
    }

    /// Closes the request, so that the next request makes another snapshot.
    pub fn close(&self, out: &Path) -> io::Result<()> {
        // A new request may already exist.
        if Self::find(out)?.as_ref() != Some(self) {
            return Ok(());
        }
        match std::fs::rename(out.join(REQUEST), self.directory(out).join("request")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The progress of a job's processes with a snapshot, by part name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub there: Vec<String>,
    /// Not copied yet, and recording or possibly recording on another host.
    pub awaited: Vec<(String, ProcessInfo)>,
    /// Finished before the request, or dead.
    pub over: Vec<String>,
}

/// Determines the progress of a job's processes with a snapshot.
pub fn standing(out: &Path, request: &Request) -> io::Result<Standing> {
    let parts = request.directory(out).join(PARTS);
    let mut standing = Standing::default();
    for directory in part_directories(out)? {
        let name = part_name(&directory);
        let process = read_process(&directory).0;
        if parts.join(&name).is_dir() {
            standing.there.push(name);
        } else if is_done(&directory) || process.life() == Life::Gone {
            standing.over.push(name);
        } else {
            standing.awaited.push((name, process));
        }
    }
    Ok(standing)
}
