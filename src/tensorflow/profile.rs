//! A profile, from start to stop; then the bytes that were made of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::planes::{Begin, planes};
use crate::host::{logger, panics};
use crate::session::{self, Recorded};
use journal::clock::{self, ticks};

/// The largest journal of a profile that is read inside the job: reading takes about three times as much memory.
const LIMIT_BYTES: u64 = 512 << 20;
/// How long to wait for another thread that makes planes. In a forked child that thread does not exist.
const PATIENCE: Duration = Duration::from_secs(90);

static PROFILE: Mutex<Profile> = Mutex::new(Profile { begin: None, recorded: None, xspace: Vec::new() });

struct Profile {
    /// While one is taken.
    begin: Option<Begin>,
    /// The part that was recorded into when it began, and the size of its journal then.
    recorded: Option<(PathBuf, u64)>,
    /// The planes of the last one.
    xspace: Vec<u8>,
}

/// A profile begins; what is left of the one before goes.
pub(super) fn start() {
    clock::select();
    session::before_close(session_ends);
    let recorded = session::recorded().map(|recorded| (recorded.part, recorded.journal_bytes));
    if let Some(mut profile) = lock() {
        profile.xspace = Vec::new();
        profile.recorded = recorded;
        profile.begin = Some(Begin { ticks: ticks(), realtime_ns: clock::realtime_ns() });
    }
}

/// The profile ends.
pub(super) fn stop() {
    if let Some(mut profile) = lock() {
        if let Some(recorded) = session::recorded() {
            profile.add(&recorded);
        }
        profile.begin = None;
    }
}

/// How many bytes there are.
pub(super) fn bytes() -> usize {
    lock().map_or(0, |profile| profile.xspace.len())
}

/// Moves the bytes to a buffer, if it is large enough; gives how many there are.
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

/// A session ends, and its journal may go with it. Runs inside NCCL's last `finalize`.
fn session_ends(recorded: &Recorded) {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        if let Some(mut profile) = lock() {
            profile.add(recorded);
        }
    }));
    if ended.is_err() {
        logger::warn(&format!("internal error in TensorFlow's profile{}; it lacks NCCL", panics::location()));
    }
}

impl Profile {
    /// Adds what a session recorded since the profile began.
    fn add(&mut self, recorded: &Recorded) {
        let Some(begin) = &self.begin else {
            return;
        };
        let before = self.recorded.as_ref().filter(|(part, _)| *part == recorded.part);
        let grown = recorded.journal_bytes.saturating_sub(before.map_or(0, |(_, bytes)| *bytes));
        if grown > LIMIT_BYTES {
            logger::warn(&format!(
                "TensorFlow's profile lacks NCCL: {} MiB were recorded meanwhile, more than {} MiB; profile fewer \
                 steps, or use `nccl-otf2 export --format xplane` after the job",
                grown >> 20,
                LIMIT_BYTES >> 20
            ));
            return;
        }
        // Serialized XSpaces concatenate.
        match planes(&recorded.part, begin) {
            Ok(planes) => self.xspace.extend(planes),
            Err(reason) => logger::warn(&format!("TensorFlow's profile lacks NCCL: {reason}; the recording goes on")),
        }
    }
}

fn lock() -> Option<MutexGuard<'static, Profile>> {
    PROFILE.try_lock_for(PATIENCE)
}
