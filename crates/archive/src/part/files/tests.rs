use std::sync::atomic::{AtomicU32, Ordering};

use crate::part::files::*;

/// A directory for locks, with a staging directory.
struct LockDirectory {
    directory: tempfile::TempDir,
    staging: Staging,
}

impl LockDirectory {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let staging = Staging::create(directory.path(), ".s").expect("made");
        Self { directory, staging }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("lock")
    }

    fn take(&self) -> Result<LockFile, Error> {
        self.take_refreshing(REFRESH)
    }

    fn take_refreshing(&self, interval: Duration) -> Result<LockFile, Error> {
        let soon = Instant::now() + Duration::from_millis(100);
        LockFile::take_refreshing(self.path(), &self.staging, soon, interval, &())
    }

    /// A holder on another host that last touched the file `age` ago.
    fn hold_elsewhere(&self, age: Duration) {
        let holder = ProcessKey { boot_id: "another".to_owned(), ..ProcessKey::current() };
        fs::write(self.path(), text(&holder)).expect("written");
        let file = File::options().write(true).open(self.path());
        let touched = SystemTime::now() - age;
        file.and_then(|file| file.set_modified(touched)).expect("set");
    }
}

#[test]
fn a_lock_is_never_seen_without_its_holder() {
    const LOOKS: u32 = 50;
    let place = LockDirectory::new();
    let seen = AtomicU32::new(0);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while seen.load(Ordering::Relaxed) < LOOKS && begin.elapsed().as_secs() < 20 {
                let _lock = place.take().expect("free");
                std::thread::yield_now();
            }
        });
        while seen.load(Ordering::Relaxed) < LOOKS {
            assert!(begin.elapsed().as_secs() < 20, "never seen");
            if let Ok(text) = fs::read_to_string(place.path()) {
                assert!(parse(&text).is_some(), "{text:?}");
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
}

#[test]
fn the_dead_hold_nothing() {
    let place = LockDirectory::new();
    let ours = ProcessKey::current();
    let other_of_our_id = ProcessKey { start_ticks: ours.start_ticks - 1, ..ours.clone() };
    let no_such_process = ProcessKey { pid: u32::MAX, ..ours };
    for dead in [other_of_our_id, no_such_process] {
        fs::write(place.path(), text(&dead)).expect("written");
        let _lock = place.take().expect("nobody holds it");
    }
}

#[test]
fn a_holder_of_another_host_that_does_not_touch_its_file_is_dead() {
    let place = LockDirectory::new();
    for (age, is_dead) in [(50, false), (70, true)] {
        place.hold_elsewhere(Duration::from_secs(age));
        let taken = place.take();
        assert_eq!(taken.is_ok(), is_dead, "{age}: {taken:?}");
    }
}

#[test]
fn a_holder_touches_its_file_and_no_others() {
    let place = LockDirectory::new();
    let touched = || fs::metadata(place.path()).expect("there").modified().expect("a time");
    let read = || fs::read_to_string(place.path()).expect("text");
    let interval = Duration::from_millis(20);
    let lock = place.take_refreshing(interval).expect("free");
    let (text, first) = (read(), touched());
    let begin = Instant::now();
    while touched() == first {
        assert!(begin.elapsed().as_secs() < 20, "never touched");
        std::thread::sleep(interval);
    }
    assert_eq!(read(), text);
    still_ours(&place.path()).expect("ours");
    fs::remove_file(place.path()).expect("gone");
    let _nobodys = still_ours(&place.path()).expect_err("nobody's");
    place.hold_elsewhere(Duration::ZERO);
    let theirs = read();
    std::thread::sleep(5 * interval);
    assert_eq!(read(), theirs);
    let error = still_ours(&place.path()).expect_err("another's");
    assert!(error.to_string().contains("another has taken over"), "{error}");
    drop(lock);
    assert!(place.path().exists(), "it is not ours to remove");
}

#[derive(Default)]
struct Remarks(parking_lot::Mutex<Vec<String>>);

impl Progress for Remarks {
    fn remark(&self, remark: &str) {
        self.0.lock().push(remark.to_owned());
    }
}

#[test]
fn who_waits_says_for_whom() {
    let place = LockDirectory::new();
    fs::write(place.path(), "").expect("written");
    let remarks = Remarks::default();
    let taken = LockFile::take(place.path(), &place.staging, Instant::now() + 2 * QUIET, &remarks);
    assert!(matches!(taken, Err(Error::Busy { .. })), "{taken:?}");
    let remarks = remarks.0.into_inner();
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(remarks[0].starts_with("waiting for a process that the file does not name, which holds "), "{remarks:?}");
    assert!(remarks[0].ends_with("/lock, or until that file is a minute old"), "{remarks:?}");
    fs::write(place.path(), text(&ProcessKey::current())).expect("written");
    let ours = format!("waiting for process {}, which holds {}", std::process::id(), place.path().display());
    assert_eq!(waits_for(&place.path()), ours);
}
