//! Snapshots: archives of what a job has recorded so far, made while the job keeps running.
//!
//! A user creates the file `dump` in the job's directory, or signals any of the job's processes, which then creates the
//! file. Every process checks for it about once a second, and copies its part into `snapshots/<when>/parts/`; `<when>`,
//! the file's time, is the same for all. The process that finds all parts copied moves the file to
//! `snapshots/<when>/request`. The snapshot is then an ordinary job directory.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::host;
use crate::host::ProcessStatus;
use crate::part::{PARTS, ProcessInfo, is_done, part_directories, part_name, read_process};

/// The file in the job's directory that requests a snapshot.
pub const REQUEST: &str = "dump";
/// The directory of snapshots in the job's directory.
pub const SNAPSHOTS: &str = "snapshots";

/// An open request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The snapshot's name, from the time of the file.
    pub name: String,
    inode: u64,
}

impl Request {
    /// The open request, if there is one.
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
        match host::new_file(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Self::find(out)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The snapshot's directory.
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
pub struct SnapshotProgress {
    /// Copied.
    pub there: Vec<String>,
    /// Not copied yet, and recording or possibly recording on another host.
    pub awaited: Vec<(String, ProcessInfo)>,
    /// Finished before the request, or dead.
    pub over: Vec<String>,
}

/// Determines the progress of a job's processes with a snapshot.
pub fn standing(out: &Path, request: &Request) -> io::Result<SnapshotProgress> {
    let parts = request.directory(out).join(PARTS);
    let mut standing = SnapshotProgress::default();
    for directory in part_directories(out)? {
        let name = part_name(&directory);
        let process = read_process(&directory).0;
        if parts.join(&name).is_dir() {
            standing.there.push(name);
        } else if is_done(&directory) || process.life() == ProcessStatus::Gone {
            standing.over.push(name);
        } else {
            standing.awaited.push((name, process));
        }
    }
    Ok(standing)
}

/// Formats seconds since 1970 as `20261121-100312`, in UTC.
pub fn date_and_time(seconds: u64) -> String {
    let time = utc(seconds);
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec
    )
}

/// Converts seconds since 1970 to date and time in UTC.
fn utc(seconds: u64) -> libc::tm {
    let seconds = libc::time_t::try_from(seconds).unwrap_or(0);
    let mut time = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers point to variables that live during the call.
    unsafe { libc::gmtime_r(&raw const seconds, time.as_mut_ptr()) };
    // SAFETY: all zeroes are a valid value, whether or not gmtime_r filled it.
    unsafe { time.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::date_and_time;

    #[test]
    fn names_sort_by_time() {
        assert_eq!(date_and_time(0), "19700101-000000");
        assert_eq!(date_and_time(1_795_255_392), "20261121-100312");
    }
}
