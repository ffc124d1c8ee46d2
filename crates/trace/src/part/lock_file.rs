//! Only one process at a time writes a part, or puts an archive in place. `flock` does not work on every NFS and
//! Lustre, so the lock is a file made with `O_EXCL`. Its holder touches it every few seconds, and another process takes
//! over what a dead one left: on the holder's own host as soon as its process is gone, elsewhere when the file was not
//! touched for a minute, by the file server's clock. Before a holder renames anything into place it checks
//! whether the lock is still its own, so that one that was stopped for longer does no harm.

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
use journal::private;
use nccl_events::Progress;
use regular_files::MOST_MARK_BYTES;

/// How often a waiting process looks whether the holder is dead.
const LOOK: Duration = Duration::from_millis(500);
/// How long it waits before it says for whom: most are done by then.
const QUIET: Duration = Duration::from_secs(2);
/// How often the holder touches the file.
const REFRESH: Duration = Duration::from_secs(5);
/// A holder on another host that has not touched it for so long is dead.
const STALE: Duration = Duration::from_secs(60);

/// A lock that one process holds at a time; given back when dropped.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    _refreshing: Option<Refreshing>,
}

impl LockFile {
    /// Waits for the lock until `give_up`, and says on `progress` for whom.
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
            // Seldom: looking makes a file.
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
        // What cannot be read is nobody else's.
        Ok(text) => parse(&text).is_none_or(|holder| holder == ProcessKey::current()),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    if is_ours { Ok(()) } else { Err(Error::TakenOver { path: path.to_owned() }) }
}

/// Makes the file, which must not exist. It names its holder from its first moment on: a process that was killed
/// between making and writing it would hold the lock like one of another host.
fn make(path: &Path, staging: &Staging, holder: &str) -> std::io::Result<File> {
    let prepared = staging.path().join("lock");
    let linked = private::new_file(&prepared).and_then(|mut file| {
        file.write_all(holder.as_bytes())?;
        fs::hard_link(&prepared, path)?;
        Ok(file)
    });
    let _not_needed = fs::remove_file(&prepared);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // A file system without links.
            let mut file = private::new_file(path)?;
            // Only helps to find out that we are dead; without it the age does.
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

/// `None` while the file is being written, or from a process that could not write it.
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

/// Until when it waits for a holder that cannot be looked for.
const OR_STALE: &str = ", or until that file is a minute old";

/// Whether the process that made the file is dead.
fn is_stale(path: &Path, staging: &Staging) -> bool {
    // Opening it asks a file server anew how old it is.
    let Ok(mut file) = regular_files::open(path, MOST_MARK_BYTES) else {
        // Nobody holds what is no lock file.
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

/// What the file server's clock shows, whatever ours does.
fn server_time(staging: &Staging) -> Option<SystemTime> {
    let path = staging.path().join("now");
    let _not_needed = fs::remove_file(&path);
    let mut file = private::new_file(&path).ok()?;
    file.write_all(b"\n").and_then(|()| file.sync_all()).ok()?;
    file.metadata().and_then(|data| data.modified()).ok()
}

/// Takes a dead process's file away. Of several processes one succeeds in renaming it; one that was late gives back
/// what another has made meanwhile.
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
    /// `None` where the system refuses a thread: then processes of other hosts may take over after a minute.
    fn start(file: File, text: String, interval: Duration) -> Option<Self> {
        let (running, ended) = mpsc::channel::<()>();
        let touch = move || {
            while matches!(ended.recv_timeout(interval), Err(RecvTimeoutError::Timeout)) {
                // The same bytes: whoever reads meanwhile sees no change. To the server at once, whose clock
                // gives the time. By the handle: under the name there may be another's file by now.
                let _not_now = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.sync_all());
            }
        };
        let thread = journal::host::without_signals(|| {
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
