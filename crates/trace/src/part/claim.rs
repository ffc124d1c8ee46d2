//! Only one process at a time writes a part, or puts an archive in place. No flock (NFS, Lustre): a file made with
//! O_EXCL. One that a dead process left does not block for ever: on its own host its process id tells; on others that the file
//! was not touched for a minute, which its holder does every few seconds. Ages are told by the file server's clock alone.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, io_error};
use crate::part::staging::Staging;
use journal::host::start_ticks;
use journal::private;

mod refreshing;

use refreshing::Refreshing;

/// How often it is looked whether who has a claim is dead.
const LOOK: Duration = Duration::from_millis(500);
/// How often a claim is touched.
const REFRESH: Duration = Duration::from_secs(5);
/// Who has not touched it for so long, on another host, is dead.
const STALE: Duration = Duration::from_secs(60);
/// The same where nobody touches it: longer than what a claim is for can take.
const STALE_UNTOUCHED: Duration = Duration::from_secs(3600);
/// What the file of a claim that is touched says last.
const TOUCHED: &str = "touched";

/// The right to do something that one process does at a time; given back when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    _refreshing: Option<Refreshing>,
}

impl Claim {
    /// Waits for it until `give_up`.
    ///
    /// # Errors
    /// Somebody else has it for longer than that, or the file cannot be made.
    pub(crate) fn take(path: PathBuf, staging: &Staging, give_up: Instant) -> Result<Self, Error> {
        Self::take_touching(path, staging, give_up, REFRESH)
    }

    fn take_touching(
        path: PathBuf,
        staging: &Staging,
        give_up: Instant,
        interval: Duration,
    ) -> Result<Self, Error> {
        // First of all: the file says whether it will be touched.
        let mut refreshing = Refreshing::start(interval);
        let who = Holder {
            touches: refreshing.is_some(),
            ..Holder::ourselves()
        };
        let who = who.text();
        let mut look_at = Instant::now();
        loop {
            match make(&path, staging, &who) {
                Ok(file) => {
                    if let Some(refreshing) = &mut refreshing {
                        refreshing.begin(file, who.into_bytes());
                    }
                    return Ok(Self {
                        path,
                        _refreshing: refreshing,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("make", &path)(error)),
            }
            // Seldom: it makes a file.
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

/// Whether the right is this process's still. One that was stopped for longer than a minute may have lost it.
///
/// # Errors
/// Somebody else has it, or nobody.
pub(crate) fn still_ours(path: &Path) -> Result<(), Error> {
    let ours = Holder::ourselves();
    let is_ours = match fs::read_to_string(path) {
        // What cannot be read is nobody else's.
        Ok(text) => Holder::parse(&text).is_none_or(|holder| holder.is_same(&ours)),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    if is_ours {
        Ok(())
    } else {
        Err(Error::TakenOver {
            path: path.to_owned(),
        })
    }
}

/// Makes the file, which must not exist. It says who made it from its first moment on: one who was killed between making
/// and writing it would hold the claim as long as somebody unknown on another host.
fn make(path: &Path, staging: &Staging, who: &str) -> std::io::Result<File> {
    let prepared = staging.path().join("claim");
    let linked = private::new_file(&prepared).and_then(|mut file| {
        file.write_all(who.as_bytes())?;
        fs::hard_link(&prepared, path)?;
        Ok(file)
    });
    let _not_needed = fs::remove_file(&prepared);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // A file system without links.
            let mut file = private::new_file(path)?;
            // Only helps to find out that we are dead; without it the age does.
            let _who = file.write_all(who.as_bytes());
            Ok(file)
        }
        linked => linked,
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if still_ours(&self.path).is_ok() {
            let _stale_soon = fs::remove_file(&self.path);
        }
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
    /// Whether it touches the file.
    touches: bool,
}

impl Holder {
    fn ourselves() -> Self {
        let process = std::process::id();
        Self {
            place: Holder::our_place(),
            process,
            start_ticks: start_ticks(process).unwrap_or(0),
            touches: false,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.place, self.process, self.start_ticks)
            == (&other.place, other.process, other.start_ticks)
    }

    fn our_place() -> String {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{}/{}", journal::host::host_name(), namespace.display())
    }

    fn text(&self) -> String {
        let end = if self.touches {
            format!(" {TOUCHED}")
        } else {
            String::new()
        };
        let Self {
            place,
            process,
            start_ticks,
            ..
        } = self;
        format!("{place} {process} {start_ticks}{end}\n")
    }

    /// `None` while the file is being written, or from somebody who could not.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        let holder = Self {
            place: words.next()?.to_owned(),
            process: words.next()?.parse().ok()?,
            start_ticks: words.next()?.parse().ok()?,
            touches: false,
        };
        match words.next() {
            None => Some(holder),
            Some(TOUCHED) => Some(Self {
                touches: true,
                ..holder
            }),
            Some(_) => None,
        }
    }

    fn is_dead(&self) -> bool {
        match start_ticks(self.process) {
            Some(ticks) => self.start_ticks != 0 && ticks != self.start_ticks,
            None => true,
        }
    }
}

/// Whether who made the file is dead: on this host (in this container) by its process id, else by how long ago it was
/// touched.
fn is_stale(path: &Path, staging: &Staging) -> bool {
    // Opening it asks a file server anew how old it is.
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    let mut text = String::new();
    let holder = file.read_to_string(&mut text).ok();
    let holder = holder.and_then(|_| Holder::parse(&text));
    let limit = match holder {
        Some(holder) if holder.place == Holder::our_place() => return holder.is_dead(),
        Some(holder) if holder.touches => STALE,
        _ => STALE_UNTOUCHED,
    };
    let touched = file.metadata().and_then(|data| data.modified());
    match (touched, server_time(staging)) {
        (Ok(touched), Some(now)) => now.duration_since(touched).is_ok_and(|age| age > limit),
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
    }

    /// A holder on another host, who touched the file so long ago.
    fn elsewhere(path: &Path, touches: bool, age: Duration) {
        let holder = Holder {
            place: "another.host/pid:[1]".to_owned(),
            touches,
            ..Holder::ourselves()
        };
        fs::write(path, holder.text()).expect("written");
        let file = File::options().write(true).open(path).expect("there");
        let touched = SystemTime::now() - age;
        file.set_modified(touched).expect("set");
    }

    #[test]
    fn who_is_not_heard_of_on_another_host_is_dead() {
        let directory = tempfile::tempdir().expect("a directory");
        let staging = Staging::create(directory.path(), ".s").expect("made");
        let path = directory.path().join("claim");
        for (touches, age, is_dead) in [
            (true, 50, false),
            (true, 70, true),
            (false, 3500, false),
            (false, 3700, true),
        ] {
            elsewhere(&path, touches, Duration::from_secs(age));
            let taken = Claim::take(path.clone(), &staging, soon());
            assert_eq!(taken.is_ok(), is_dead, "{touches} {age}: {taken:?}");
        }
    }

    #[test]
    fn a_holder_is_heard_of() {
        let directory = tempfile::tempdir().expect("a directory");
        let staging = Staging::create(directory.path(), ".s").expect("made");
        let path = directory.path().join("claim");
        let touched = || {
            let data = fs::metadata(&path).expect("there");
            data.modified().expect("a time")
        };
        let interval = Duration::from_millis(20);
        let claim = Claim::take_touching(path.clone(), &staging, soon(), interval);
        let claim = claim.expect("free");
        let (text, first) = (fs::read_to_string(&path).expect("text"), touched());
        assert!(text.ends_with(" touched\n"), "{text:?}");
        let begin = Instant::now();
        while touched() == first {
            assert!(begin.elapsed() < Duration::from_secs(20), "never touched");
            std::thread::sleep(interval);
        }
        assert_eq!(fs::read_to_string(&path).expect("text"), text);
        still_ours(&path).expect("ours");
        // What another has made meanwhile is left alone.
        fs::remove_file(&path).expect("gone");
        let _nobodys = still_ours(&path).expect_err("nobody's");
        elsewhere(&path, true, Duration::ZERO);
        let theirs = fs::read_to_string(&path).expect("text");
        std::thread::sleep(5 * interval);
        assert_eq!(fs::read_to_string(&path).expect("text"), theirs);
        let taken_over = still_ours(&path).expect_err("another's").to_string();
        assert!(
            taken_over.contains("another has taken over"),
            "{taken_over}"
        );
        drop(claim);
        assert!(path.exists(), "it is not ours to remove");
    }
}
