//! Snapshots: archives of what a job has recorded so far, or of its last moments, while it runs on.
//!
//! Who wants one makes the file `dump` in the job's directory, which a signal to any of its processes does as well.
//! Every process looks for it about once a second and puts a copy of its part into `snapshots/<when>/parts/`; `<when>`
//! is the time of the file, and so the same for all. The process that finds that all have done so moves the file to
//! `snapshots/<when>/request`. Then the snapshot is a job's directory like any other, of which `nccl-otf2 finalize` makes
//! an archive; `nccl-otf2 dump` does all of it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::session::calendar::date_and_time;
use journal::host::Life;
use journal::part::process::ProcessInfo;
use journal::private;
use trace::part_directories;
use trace::{is_done, part_name, read_process};

mod maker;

pub(crate) use maker::Maker;

/// The file in the job's directory that asks for a snapshot.
pub const REQUEST: &str = "dump";
/// The directory of a job's snapshots.
pub const SNAPSHOTS: &str = "snapshots";

/// A snapshot that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it is called: the time of the file.
    pub name: String,
    /// The file's number: a file that is made anew is another request.
    inode: u64,
}

impl Request {
    /// The request that waits in a job's directory.
    ///
    /// # Errors
    /// Whether there is one cannot be told, or it is no file.
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
            name: format!(
                "{}-{:09}",
                date_and_time(since.as_secs()),
                since.subsec_nanos()
            ),
            inode: file.ino(),
        }))
    }

    /// Asks for a snapshot; joins in a request that is there.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn make(out: &Path) -> io::Result<Self> {
        let path = out.join(REQUEST);
        match private::new_file(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Self::find(out)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Where the snapshot is put together: a job's directory.
    #[must_use]
    pub fn directory(&self, out: &Path) -> PathBuf {
        out.join(SNAPSHOTS).join(&self.name)
    }

    /// Puts the request aside: nobody else is to join in.
    ///
    /// # Errors
    /// The file is there and cannot be moved.
    pub fn set_aside(&self, out: &Path) -> io::Result<()> {
        // Somebody else may have asked again.
        if Self::find(out)?.as_ref() != Some(self) {
            return Ok(());
        }
        match std::fs::rename(out.join(REQUEST), self.directory(out).join("request")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// How far the processes of a job are with a snapshot, by name of the part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Have put in their part.
    pub there: Vec<String>,
    /// Record, or may record on another host, and have not.
    pub awaited: Vec<(String, ProcessInfo)>,
    /// Had finished before, or died.
    pub over: Vec<String>,
}

/// Looks how far the processes of a job are.
///
/// # Errors
/// The job's directory cannot be read.
pub fn standing(out: &Path, request: &Request) -> Result<Standing, trace::Error> {
    let parts = request.directory(out).join("parts");
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
