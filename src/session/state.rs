//! The sessions of this process: one that records, and those that threads are closing; the lines that a session logs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::communicators::Communicators;
use super::directories::Directories;
use super::maintenance::Maintenance;
use crate::control::LargestCommunicator;
use crate::gpu::Gpus;
use crate::host::logger;
use crate::host::process::{ThreadKey, this_thread};
use crate::scorep;
use in_process::Recorded;
use journal::writer::{JournalWriter, Stop};
use nccl_events::ids::ProcessTag;
use settings::{Config, Verbosity};

pub(super) static SESSIONS: Mutex<Sessions> = Mutex::new(Sessions {
    current: None,
    off: false,
    has_logged_remarks: false,
    is_ending: false,
    closing: Vec::new(),
});
/// Notified when the recording of a session has ended, and when a thread has closed one.
static CHANGED: Condvar = Condvar::new();

/// How long the next session waits for the end of the recording before it, which may wait for GPUs and Score-P.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Sessions {
    pub(super) current: Option<Session>,
    /// Recording failed to begin, or is unwanted: the process does not try again.
    pub(super) off: bool,
    pub(super) has_logged_remarks: bool,
    /// Whether a thread is ending a recording. The next one begins afterwards: a process has one recorder, one user of
    /// CUPTI and one bridge to Score-P.
    is_ending: bool,
    /// The threads that are closing a session.
    closing: Vec<ThreadKey>,
}

impl Sessions {
    /// Takes the current session, for the calling thread to close it.
    pub(super) fn take(&mut self) -> Option<(Session, Closing)> {
        let session = self.current.take()?;
        self.is_ending = true;
        self.closing.push(this_thread());
        Some((session, Closing { is_ending: true }))
    }

    /// Waits until no recording is being ended. False if that takes too long, or if the caller is inside of it.
    pub(super) fn wait_for_end(sessions: &mut MutexGuard<'_, Self>) -> bool {
        if sessions.is_ending && !sessions.closing.contains(&this_thread()) {
            CHANGED.wait_while_for(sessions, |sessions| sessions.is_ending, PATIENCE);
        }
        !sessions.is_ending
    }

    /// Waits until no other thread is closing a session. False at the deadline.
    pub(super) fn wait_for_others(sessions: &mut MutexGuard<'_, Self>, deadline: Instant) -> bool {
        let here = this_thread();
        let others_close = |sessions: &mut Self| sessions.closing.iter().any(|thread| *thread != here);
        !CHANGED.wait_while_until(sessions, others_close, deadline).timed_out()
    }
}

/// The calling thread is closing a session.
pub(super) struct Closing {
    is_ending: bool,
}

impl Closing {
    /// The session no longer uses what the next one needs: only its part is left to write.
    pub(super) fn recording_has_ended(&mut self) {
        self.is_ending = false;
        SESSIONS.lock().is_ending = false;
        CHANGED.notify_all();
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let mut sessions = SESSIONS.lock();
        // After a panic.
        sessions.is_ending &= !self.is_ending;
        let here = this_thread();
        if let Some(place) = sessions.closing.iter().position(|thread| *thread == here) {
            sessions.closing.swap_remove(place);
        }
        drop(sessions);
        CHANGED.notify_all();
    }
}

pub(super) struct Session {
    pub(super) config: Config,
    pub(super) out: PathBuf,
    pub(super) part: PathBuf,
    pub(super) tag: ProcessTag,
    pub(super) writer: Arc<JournalWriter>,
    pub(super) communicators: Communicators,
    pub(super) largest: LargestCommunicator,
    pub(super) maintenance: Maintenance,
    /// Absent before the first `init`, if the user wants no GPU timing, or if there is no driver.
    pub(super) gpus: Option<Arc<Gpus>>,
    pub(super) first_init: Option<FirstInit>,
}

/// What is left to do at the first `init`.
pub(super) struct FirstInit {
    pub(super) directories: Directories,
    pub(super) scorep: scorep::Beginning,
    /// Whether NCCL had described no communicator when the session began.
    pub(super) is_late: bool,
}

impl Session {
    pub(super) fn recorded(&self) -> Option<Recorded> {
        Recorded::new(&self.part, self.writer.reserved_bytes())
    }
}

/// Logs a line that is not a warning, as `NCCL_OTF2_VERBOSITY` selects.
pub(super) fn say(config: &Config, line: &str) {
    match config.verbosity {
        Verbosity::Quiet => {}
        Verbosity::Normal => logger::info(line),
        Verbosity::Verbose => logger::warn(line),
    }
}

pub(super) fn describe(stop: &Stop) -> String {
    match stop {
        Stop::Limit => "the size limit is reached (NCCL_OTF2_MAX_SIZE)".to_owned(),
        Stop::System(reason) => reason.clone(),
        Stop::Memory => "the system had no memory for it".to_owned(),
        Stop::Slots => "more threads at once than there are slots (4095)".to_owned(),
    }
}
