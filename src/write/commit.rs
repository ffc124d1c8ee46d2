//! Only one process at a time puts an archive in place. No flock (NFS, Lustre): a file made with O_EXCL,
//! held for a few renames. One that a dead process left does not block for ever.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::{Error, io_error};
use super::staging::Staging;

/// The file that says that somebody is at it.
const LOCK: &str = ".unify.lock";
/// How long to wait for somebody else.
const PATIENCE: Duration = Duration::from_secs(30);
/// A few renames never take this long: whoever made the file is dead.
const STALE: Duration = Duration::from_secs(600);

/// The right to put an archive in place; given back when dropped.
#[derive(Debug)]
pub(super) struct CommitLock {
    path: PathBuf,
}

impl CommitLock {
    /// Waits for it.
    pub(super) fn take(out: &Path, staging: &Staging) -> Result<Self, Error> {
        let path = out.join(LOCK);
        let give_up = Instant::now() + PATIENCE;
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let who = format!("{} {}\n", crate::hooks::host_name(), std::process::id());
                    // Only helps to find out that we are dead; without it the age does.
                    let _who = file.write_all(who.as_bytes());
                    return Ok(Self { path });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("make", &path)(error)),
            }
            if is_stale(&path, staging) {
                // Renaming has one winner; everybody then tries for a new file.
                let _one_wins = fs::rename(&path, staging.path().join("stale.lock"));
            } else if Instant::now() >= give_up {
                return Err(Error::Busy { path });
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

impl Drop for CommitLock {
    fn drop(&mut self) {
        let _stale_soon = fs::remove_file(&self.path);
    }
}

/// Whether who made the file is dead: on this host by its process id, else by age. Ages are compared on
/// the file server's clock: our staging directory was made just now.
fn is_stale(path: &Path, staging: &Staging) -> bool {
    let who = fs::read_to_string(path).unwrap_or_default();
    if let Some((host, process)) = who.trim().split_once(' ')
        && host == crate::hooks::host_name()
        && process.parse::<u32>().is_ok()
    {
        return !Path::new(&format!("/proc/{process}")).exists();
    }
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
    match (modified(path), modified(staging.path())) {
        (Ok(made), Ok(now)) => now.duration_since(made).is_ok_and(|age| age > STALE),
        _ => false,
    }
}
