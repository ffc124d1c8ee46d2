//! The files of a part: its lock, the temporary directory in which files are made, its marks, and the removal of its
//! journal.
//!
//! Only one process at a time writes a part, or puts an archive in place. `flock` does not work on every NFS and
//! Lustre, so the lock is a file made with `O_EXCL`. Its holder touches the file every few seconds, and another process
//! takes over a dead holder's lock: on the same host as soon as the process is gone, on others after a minute without a
//! touch, by the file server's clock. Before renaming into place, a holder checks that it still has the lock, so one
//! that was stopped longer does no harm.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use crate::error::{Error, io_error};
use journal::host;
use journal::host::{ProcessKey, ProcessStatus};
use journal::part::owner::Owner;
use journal::part::{JOURNAL, has_journal, is_done, read_process};
use nccl_events::Progress;
use regular_files::MOST_MARK_BYTES;
use serde::Serialize;

pub(crate) use journal::part::DONE;

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
fn make(path: &Path, staging: &Staging, holder: &str) -> io::Result<File> {
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
        Some(holder) if holder.life() != ProcessStatus::Unknown => (format!("process {}", holder.pid), ""),
        Some(holder) => (format!("process {} of another host or container", holder.pid), OR_STALE),
        None => ("a process that the file does not name".to_owned(), OR_STALE),
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
        return path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file() || metadata.len() > MOST_MARK_BYTES);
    };
    let mut text = String::new();
    match file
        .read_to_string(&mut text)
        .ok()
        .and_then(|_| parse(&text))
        .map_or(ProcessStatus::Unknown, |holder| holder.life())
    {
        ProcessStatus::Running | ProcessStatus::Stopped => return false,
        ProcessStatus::Gone => return true,
        ProcessStatus::Unknown => {}
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

/// A temporary directory, from which files are renamed into place; removed when dropped.
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
            if process.is_some_and(|process| host::life_here(process, None) == ProcessStatus::Gone) {
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
        |file: &PathBuf| file.extension().is_some_and(|text| otf2::FILE_EXTENSIONS.iter().any(|name| text == *name));
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

pub(crate) const MANIFEST: &str = "manifest";
/// Name of the directory of event files, in a part and in the archive.
pub(crate) const TRACES: &str = "traces";
/// How far a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartProgress {
    NotWritten,
    /// The part was written while the process recorded, and not again since.
    Provisional,
    /// The part is written. Parts of the same host that may do transfers for it still need its journal (PXN).
    JournalNeeded,
    Written,
}

impl PartProgress {
    const fn text(self) -> &'static str {
        match self {
            Self::Provisional => "provisional\n",
            Self::JournalNeeded => "journal needed\n",
            Self::NotWritten | Self::Written => "",
        }
    }

    /// The progress of a part. With an unreadable mark the part may lack its end, so that `finalize` writes it again if
    /// it has a journal.
    pub(crate) fn read_or_provisional(part: &Path) -> Self {
        Self::read(part).unwrap_or(Self::Provisional)
    }

    /// The progress of a part, or why its mark cannot be read.
    pub(crate) fn read(part: &Path) -> Result<Self, Error> {
        if !is_done(part) {
            return Ok(Self::NotWritten);
        }
        let path = part.join(DONE);
        let text = regular_files::read(&path, MOST_MARK_BYTES);
        let text = text.map_err(|source| Error::UnreadableMark { path, source })?;
        let has_text = |one: &Self| one.text().as_bytes() == text;
        Ok([Self::Provisional, Self::JournalNeeded].into_iter().find(has_text).unwrap_or(Self::Written))
    }

    pub(crate) fn write(self, mark: &Path) -> io::Result<()> {
        host::write(mark, self.text().as_bytes())
    }
}

pub(crate) fn event_file(part: &Path, location: usize) -> PathBuf {
    part.join(TRACES).join(format!("{location}.evt"))
}

/// Whether a part is written, and its journal has nothing to add.
pub(crate) fn is_final(part: &Path) -> bool {
    match PartProgress::read_or_provisional(part) {
        PartProgress::NotWritten => false,
        PartProgress::Provisional => !has_journal(part),
        PartProgress::JournalNeeded | PartProgress::Written => true,
    }
}

/// Why a part cannot be processed, whatever it contains; `None` if it can.
pub(crate) fn why_unusable(part: &Path) -> Option<String> {
    if part.is_symlink() {
        let part = part.display();
        return Some(format!("{part} is a symbolic link, which no recording process creates: not followed"));
    }
    // A directory that cannot be read must not count as missing files.
    fs::read_dir(part).map_err(io_error("read", part)).err().map(|error| error.to_string())
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let json = serde_json::to_vec(value)
        .map_err(|error| Error::Manifest { path: path.to_owned(), reason: error.to_string() })?;
    host::write(path, &json).map_err(io_error("write", path))
}

/// Removes the journal of a written part: only files that are proved to be of its process, and of no running one. A
/// failure is not an error: the events are in the part.
pub(crate) fn remove(part: &Path, progress: &dyn Progress) {
    let journal = part.join(JOURNAL);
    if journal.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return;
    }
    let removed = removable(part).and_then(|(owner, directory)| remove_files(&owner, &directory).map_err(error_text));
    let removed = removed.and_then(|()| remove_link(&journal).map_err(error_text));
    if let Err(reason) = removed {
        progress.remark(&format!("{}: not removed: {reason}", journal.display()));
    }
}

fn error_text(error: io::Error) -> String {
    error.to_string()
}

/// Whose journal a part has, and the directory it is in; else why it must stay.
fn removable(part: &Path) -> Result<(Owner, PathBuf), String> {
    let journal = part.join(JOURNAL);
    let process = read_process(part).0;
    if process.is_recording() {
        return Err(format!("process {} is still recording into it", process.pid));
    }
    let owner = Owner::read(part).ok_or("the part does not say which process it belongs to")?;
    if process.pid == 0 && owner.may_run() {
        return Err("a process with its id is running, and the part does not say when its process began".to_owned());
    }
    let Ok(target) = fs::read_link(&journal) else {
        return Ok((owner, journal));
    };
    if target != Path::new(&process.journal) {
        return Err(format!("it is a link to {}, which the process did not create", target.display()));
    }
    let here = fs::canonicalize(part).map_err(error_text)?;
    match fs::canonicalize(&process.part) {
        Ok(original) if original == here => {}
        Ok(original) => {
            return Err(format!("it is the journal of {}, of which this part is a copy", original.display()));
        }
        // The part was moved, unless its process runs where that path leads to it: in another container, say.
        Err(error) if error.kind() == ErrorKind::NotFound && process.life() == ProcessStatus::Gone => {}
        Err(error) => return Err(format!("whether this part is a copy of {} is not known: {error}", process.part)),
    }
    Ok((owner, fs::canonicalize(&journal).map_err(error_text)?))
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

#[cfg(test)]
mod tests;
