//! Only one process at a time writes a part, or puts an archive in place. No flock (NFS, Lustre): a file made with
//! O_EXCL. One that a dead process left does not block for ever.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::{Error, io_error};
use super::staging::Staging;
use crate::private;
use crate::process::start_ticks;

/// How long what a claim is for can take at most; whoever made an older one on another host is dead.
const STALE: Duration = Duration::from_secs(3600);

/// The right to do something that one process does at a time; given back when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
}

impl Claim {
    /// Waits for it until `give_up`.
    ///
    /// # Errors
    /// Somebody else has it for longer than that, or the file cannot be made.
    pub(super) fn take(path: PathBuf, staging: &Staging, give_up: Instant) -> Result<Self, Error> {
        loop {
            match make(&path, staging) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("make", &path)(error)),
            }
            if is_stale(&path, staging) {
                set_aside(&path, staging);
            } else if Instant::now() >= give_up {
                return Err(Error::Busy { path });
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Makes the file, which must not exist. It says who made it from its first moment on: one who was killed between making
/// and writing it would hold the claim as long as somebody unknown on another host.
fn make(path: &Path, staging: &Staging) -> std::io::Result<()> {
    let who = Holder::ourselves().text();
    let prepared = staging.path().join("claim");
    let linked =
        private::write(&prepared, who.as_bytes()).and_then(|()| fs::hard_link(&prepared, path));
    let _not_needed = fs::remove_file(&prepared);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // A file system without links.
            let mut file = private::new_file(path)?;
            // Only helps to find out that we are dead; without it the age does.
            let _who = file.write_all(who.as_bytes());
            Ok(())
        }
        linked => linked,
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _stale_soon = fs::remove_file(&self.path);
    }
}

/// Who has a claim.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    /// Host and process id namespace: a container counts its processes from 1 again.
    place: String,
    process: u32,
    /// When it started: process ids are used again.
    start_ticks: u64,
}

impl Holder {
    fn ourselves() -> Self {
        let process = std::process::id();
        Self {
            place: Holder::our_place(),
            process,
            start_ticks: start_ticks(process).unwrap_or(0),
        }
    }

    fn our_place() -> String {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{}/{}", crate::hooks::host_name(), namespace.display())
    }

    fn text(&self) -> String {
        format!("{} {} {}\n", self.place, self.process, self.start_ticks)
    }

    /// `None` while the file is being written, or from somebody who could not.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        let holder = Self {
            place: words.next()?.to_owned(),
            process: words.next()?.parse().ok()?,
            start_ticks: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(holder)
    }

    fn is_dead(&self) -> bool {
        match start_ticks(self.process) {
            Some(ticks) => self.start_ticks != 0 && ticks != self.start_ticks,
            None => true,
        }
    }
}

/// Whether who made the file is dead: on this host (in this container) by its process id, else by age. Ages are compared on
/// the file server's clock: our staging directory was made not long ago.
fn is_stale(path: &Path, staging: &Staging) -> bool {
    let holder = fs::read_to_string(path).ok();
    let holder = holder.and_then(|text| Holder::parse(&text));
    match holder {
        Some(holder) if holder.place == Holder::our_place() => holder.is_dead(),
        _ => {
            let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
            match (modified(path), modified(staging.path())) {
                (Ok(made), Ok(now)) => now.duration_since(made).is_ok_and(|age| age > STALE),
                _ => false,
            }
        }
    }
}

/// Takes a dead process's file away. Renaming has one winner; one who was late in it gives back what another has
/// made meanwhile.
fn set_aside(path: &Path, staging: &Staging) {
    let aside = staging.path().join("stale");
    if fs::rename(path, &aside).is_ok() && !is_stale(&aside, staging) {
        let _there_again = fs::hard_link(&aside, path);
    }
    let _not_needed = fs::remove_file(&aside);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(100)
    }

    #[test]
    fn one_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let staging = Staging::create(directory.path(), ".s").expect("made");
        let path = directory.path().join("claim");
        let first = Claim::take(path.clone(), &staging, soon()).expect("free");
        let busy = Claim::take(path.clone(), &staging, soon()).expect_err("taken");
        assert!(busy.to_string().contains("claim"), "{busy}");
        drop(first);
        let _second = Claim::take(path, &staging, soon()).expect("free again");
    }

    #[test]
    fn a_claim_is_never_seen_without_its_holder() {
        use std::sync::atomic::{AtomicU32, Ordering};
        const LOOKS: u32 = 50;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("claim");
        let staging = Staging::create(directory.path(), ".s").expect("made");
        let seen = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let begin = Instant::now();
                while seen.load(Ordering::Relaxed) < LOOKS
                    && begin.elapsed() < Duration::from_secs(20)
                {
                    let _claim = Claim::take(path.clone(), &staging, soon()).expect("free");
                    std::thread::yield_now();
                }
            });
            let begin = Instant::now();
            while seen.load(Ordering::Relaxed) < LOOKS {
                assert!(begin.elapsed() < Duration::from_secs(20), "never seen");
                if let Ok(text) = fs::read_to_string(&path) {
                    assert!(Holder::parse(&text).is_some(), "{text:?}");
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }

    #[test]
    fn the_dead_hold_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let staging = Staging::create(directory.path(), ".s").expect("made");
        let path = directory.path().join("claim");
        let ours = Holder::ourselves();
        assert!(ours.start_ticks > 0, "{ours:?}");
        let other_of_our_id = Holder {
            start_ticks: ours.start_ticks - 1,
            ..Holder::ourselves()
        };
        let no_such_process = Holder {
            process: u32::MAX,
            ..Holder::ourselves()
        };
        for dead in [other_of_our_id, no_such_process] {
            fs::write(&path, dead.text()).expect("written");
            let _claim = Claim::take(path.clone(), &staging, soon()).expect("nobody has it");
        }
        let elsewhere = Holder {
            place: "another.host/pid:[1]".to_owned(),
            ..Holder::ourselves()
        };
        fs::write(&path, elsewhere.text()).expect("written");
        let _busy = Claim::take(path, &staging, soon()).expect_err("may be alive there");
    }
}
