//! A profile from start to stop, and its bytes.

use std::path::PathBuf;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::planes::{Begin, planes};
use in_process::{Recorded, ask_plugin};

use journal::clock::{self, ticks};
use journal::writing;

/// The largest journal that is read inside the job: reading takes about three times as much memory.
const LIMIT_BYTES: u64 = 512 << 20;
/// How long to wait for another thread that makes planes. In a forked child that thread does not exist.
const PATIENCE: Duration = Duration::from_secs(90);

static PROFILE: Mutex<Profile> = Mutex::new(Profile { begin: None, recorded: None, xspace: Vec::new() });

struct Profile {
    begin: Option<Begin>,
    /// The part being recorded when the profile began, and the size of its journal then.
    recorded: Option<(PathBuf, u64)>,
    xspace: Vec<u8>,
}

/// Begins a profile and discards what is left of the previous one.
pub(super) fn start() {
    clock::select();
    // A plugin error is reported once, at the end.
    let recorded = ask_plugin().ok().flatten().map(|recorded| (recorded.part(), recorded.journal_bytes));
    if let Some(mut profile) = lock() {
        profile.xspace = Vec::new();
        profile.recorded = recorded;
        profile.begin = Some(Begin { ticks: ticks(), realtime_ns: clock::realtime_ns() });
    }
}

pub(super) fn stop() {
    if let Some(mut profile) = lock() {
        match ask_plugin() {
            Ok(Some(recorded)) => profile.add(&recorded),
            Err(reason) if profile.begin.is_some() => warn_missing(&reason),
            Ok(None) | Err(_) => {}
        }
        profile.begin = None;
    }
}

pub(super) fn bytes() -> usize {
    lock().map_or(0, |profile| profile.xspace.len())
}

/// Moves the bytes to a buffer, if it is large enough; returns the number of bytes.
pub(super) fn take(buffer: &mut [u8]) -> usize {
    let Some(mut profile) = lock() else {
        return 0;
    };
    let bytes = profile.xspace.len();
    if let Some(place) = buffer.get_mut(..bytes) {
        place.copy_from_slice(&profile.xspace);
        profile.xspace = Vec::new();
    }
    bytes
}

/// Reads a session that ends, because its journal may be removed with it.
pub(super) fn session_ends(recorded: &Recorded) {
    if let Some(mut profile) = lock() {
        profile.add(recorded);
    }
}

impl Profile {
    fn add(&mut self, recorded: &Recorded) {
        let Some(begin) = &self.begin else {
            return;
        };
        let part = recorded.part();
        let before = self.recorded.as_ref().filter(|(before, _)| *before == part);
        let grown = recorded.journal_bytes.saturating_sub(before.map_or(0, |(_, bytes)| *bytes));
        if grown > LIMIT_BYTES {
            warn_missing(&format!(
                "{} MiB were recorded meanwhile, more than {} MiB; profile fewer steps, or use `nccl-otf2 export \
                 --format xplane` after the job",
                grown >> 20,
                LIMIT_BYTES >> 20
            ));
            return;
        }
        // Serialized XSpaces concatenate.
        match writing::guarded(|| planes(&part, begin)) {
            Ok(planes) => self.xspace.extend(planes),
            Err(reason) => warn_missing(&format!("{reason}; recording continues")),
        }
    }
}

fn warn_missing(reason: &str) {
    in_process::say(&format!("TensorFlow's profile lacks NCCL: {reason}"));
}

fn lock() -> Option<MutexGuard<'static, Profile>> {
    PROFILE.try_lock_for(PATIENCE)
}
