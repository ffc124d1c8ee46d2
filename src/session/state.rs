//! The state of one session, and the lines that it logs.

use std::path::PathBuf;
use std::sync::Arc;

use super::communicators::Communicators;
use super::directories::Directories;
use super::maintenance::Maintenance;
use crate::control::LargestCommunicator;
use crate::gpu::Gpus;
use crate::host::logger;
use crate::scorep;
use in_process::recorded::Recorded;
use journal::writer::{JournalWriter, Stop};
use nccl_events::id::ProcessTag;
use settings::{Config, Verbosity};

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
