//! What a session has recorded so far, for who reads it while it goes on or when it ends.

use std::path::PathBuf;

use parking_lot::Mutex;

use super::state::Session;

/// What a session has recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its part of the job's directory.
    pub part: PathBuf,
    /// How much of the disk its journal has.
    pub journal_bytes: u64,
}

impl Recorded {
    pub(super) fn of(session: &Session) -> Self {
        Self { part: session.part.clone(), journal_bytes: session.writer.reserved_bytes() }
    }
}

/// Called when a session ends, before its journal may go.
static BEFORE_CLOSE: Mutex<Option<fn(&Recorded)>> = Mutex::new(None);

/// Has a function called when a session ends while the process goes on. There is one such function.
pub fn before_close(call: fn(&Recorded)) {
    *BEFORE_CLOSE.lock() = Some(call);
}

/// The session ends, and nothing is recorded any more.
pub(super) fn closes(recorded: &Recorded) {
    let call = *BEFORE_CLOSE.lock();
    if let Some(call) = call {
        call(recorded);
    }
}
