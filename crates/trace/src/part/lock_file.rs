//! Only one process at a time writes a part, or puts an archive in place. `flock` does not work on every NFS and
//! Lustre, so the lock is a file made with `O_EXCL`. Its holder touches the file every few seconds, and another process
//! takes over a dead holder's lock: on the same host as soon as the process is gone, on others after a minute without a
//! touch, by the file server's clock. Before renaming into place, a holder checks that it still has the lock, so one
//! that was stopped longer does no harm.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, io_error};
use crate::part::staging::Staging;
use journal::host::{Life, ProcessKey};

use journal::host;
use nccl_events::Progress;
use regular_files::MOST_MARK_BYTES;

/// How often a waiting process checks whether the holder is dead.
const LOOK: Duration = Duration::from_millis(500);
/// How long a process waits silently before it reports the holder: most are done by then.
const QUIET: Duration = Duration::from_secs(2);
/// How often the holder touches the file.
const REFRESH: Duration = Duration::from_secs(5);
/// A holder on another host is dead if it has not touched the file for this long.
const STALE: Duration = Duration::from_secs(60);

/// A lock that one process holds at a time; released when dropped.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    _refreshing: Option<Refreshing>,
}

impl LockFile {
    /// Waits for the lock until `give_up`; names the holder on `progress`.
    pub(crate) fn take(
        path: PathBuf,
        staging: &Staging,
        give_up: Instant,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        Self::take_refreshing(path, staging, give_up, REFRESH, progress)
    }

    fn take_refreshing(
        path: PathBuf,
        staging: &Staging,
        give_up: Instant,
        interval: Duration,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let holder = text(&ProcessKey::current());
        let mut look_at = Instant::now();
        let mut say_at = Some(look_at + QUIET);
        loop {
            match make(&path, staging, &holder) {
                Ok(file) => {
                    return Ok(Self { path, _refreshing: Refreshing::start(file, holder, interval) });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("make", &path)(error)),
            }
            if say_at.take_if(|at| Instant::now() >= *at).is_some() {
                progress.remark(&waits_for(&path));
            }
            // Checks rarely: each check makes a file.
            let is_time = Instant::now() >= look_at;
            if is_time {
                look_at = Instant::now() + LOOK;
            }
            if is_time && is_stale(&path, staging) {
                set_aside(&path, staging);
            } else if Instant::now() >= give_up {
                return Err(Error::Busy { path });
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if still_ours(&self.path).is_ok() {
            let _stale_soon = fs::remove_file(&self.path);
        }
    }
}

pub(crate) fn still_ours(path: &Path) -> Result<(), Error> {
    let is_ours = match regular_files::read_to_string(path, MOST_MARK_BYTES) {
        // A lock file that cannot be read or parsed names no other holder.
        Ok(text) => parse(&text).is_none_or(|holder| holder == ProcessKey::current()),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    if is_ours { Ok(()) } else { Err(Error::TakenOver { path: path.to_owned() }) }
}

/// Makes the file, which must not exist. The file names its holder from the start: a process killed between making and
/// writing it would hold the lock like a process on another host.
fn make(path: &Path, staging: &Staging, holder: &str) -> std::io::Result<File> {
    let prepared = staging.path().join("lock");
    let linked = host::new_file(&prepared).and_then(|mut file| {
        file.write_all(holder.as_bytes())?;
        fs::hard_link(&prepared, path)?;
        Ok(file)
    });
    let _not_needed = fs::remove_file(&prepared);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // For a file system without links.
            let mut file = host::new_file(path)?;
            // The name only speeds up finding a dead holder; without it the file's age decides.
            let _holder = file.write_all(holder.as_bytes());
            Ok(file)
        }
        linked => linked,
    }
}

fn text(holder: &ProcessKey) -> String {
    let ProcessKey { boot_id, pid_namespace, pid, start_ticks } = holder;
    format!("{boot_id} {pid_namespace} {pid} {start_ticks}\n")
}

/// `None` while the file is being written, or if its process could not write it.
fn parse(text: &str) -> Option<ProcessKey> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    Some(ProcessKey {
        boot_id: words.next()?.to_owned(),
        pid_namespace: words.next()?.to_owned(),
        pid: words.next()?.parse().ok()?,
        start_ticks: words.next()?.parse().ok()?,
    })
}

fn waits_for(path: &Path) -> String {
    let holder = regular_files::read_to_string(path, MOST_MARK_BYTES).ok().and_then(|text| parse(&text));
    let (holder, until) = match holder {
        Some(holder) if holder.life() != Life::Unknown => (format!("process {}", holder.pid), ""),
        Some(holder) => (format!("process {} of another host or container", holder.pid), OR_STALE),
        None => ("a process that it does not name".to_owned(), OR_STALE),
    };
    format!("waiting for {holder}, which holds {}{until}", path.display())
}

/// How long to wait for a holder whose life cannot be checked.
const OR_STALE: &str = ", or until that file is a minute old";

/// Whether the process that made the file is dead.
fn is_stale(path: &Path, staging: &Staging) -> bool {
    // Opening the file makes a network file system refresh its age.
    let Ok(mut file) = regular_files::open(path, MOST_MARK_BYTES) else {
        // Only a lock file has a holder.
        return path.symlink_metadata().is_ok_and(|it| !it.is_file() || it.len() > MOST_MARK_BYTES);
    };
    let mut text = String::new();
    match file.read_to_string(&mut text).ok().and_then(|_| parse(&text)).map_or(Life::Unknown, |holder| holder.life()) {
        Life::Running | Life::Stopped => return false,
        Life::Gone => return true,
        Life::Unknown => {}
    }
    let touched = file.metadata().and_then(|data| data.modified());
    match (touched, server_time(staging)) {
        (Ok(touched), Some(now)) => now.duration_since(touched).is_ok_and(|age| age > STALE),
        _ => false,
    }
}

/// The time of the file server's clock, independent of the local one.
fn server_time(staging: &Staging) -> Option<SystemTime> {
    let path = staging.path().join("now");
    let _not_needed = fs::remove_file(&path);
    let mut file = host::new_file(&path).ok()?;
    file.write_all(b"\n").and_then(|()| file.sync_all()).ok()?;
    file.metadata().and_then(|data| data.modified()).ok()
}

/// Removes a dead process's file. Of several that try one succeeds; a late one restores what another made meanwhile.
fn set_aside(path: &Path, staging: &Staging) {
    let aside = staging.path().join("stale");
    if fs::rename(path, &aside).is_ok() && !is_stale(&aside, staging) {
        let _there_again = fs::hard_link(&aside, path);
    }
    let _not_needed = fs::remove_file(&aside);
}

#[derive(Debug)]
struct Refreshing {
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Refreshing {
    /// `None` if the system refuses a thread: processes of other hosts may then take over after a minute.
    fn start(file: File, text: String, interval: Duration) -> Option<Self> {
        let (running, ended) = mpsc::channel::<()>();
        let touch = move || {
            while matches!(ended.recv_timeout(interval), Err(RecvTimeoutError::Timeout)) {
                // The same bytes, so concurrent readers see no change. Synced at once: the server's clock gives the
                // time. Through the handle: the name may refer to another process's file by now.
                let _not_now = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.sync_all());
            }
        };
        let thread = host::without_signals(|| {
            std::thread::Builder::new().name("nccl-otf2-lock".to_owned()).stack_size(256 * 1024).spawn(touch).ok()
        });
        thread.map(|thread| Self { running: Some(running), thread: Some(thread) })
    }
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            let _never_panics = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
