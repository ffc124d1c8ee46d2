//! Whether a recorded process is running: on its host by the process table, elsewhere by the age of its last record.

use std::path::Path;

use journal::host;
use journal::part::{DONE, JOURNAL, has_begun};
use journal::reader::{Journal, Outcome};

/// The plugin reads the clocks once a second, so a running process has a more recent record than this.
const FRESH_NS: u64 = 5_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    Running,
    /// On this host, stopped by a signal or a debugger.
    Stopped,
    /// The process was on this host and is gone without having ended its recording.
    Gone,
    /// The process finalized its communicators, or its part is written and its journal removed.
    Ended,
    /// On another host, without a recent record.
    Silent,
    /// The record of how the process ended is damaged, or was not kept.
    #[default]
    Unknown,
}

impl Life {
    pub const ALL: [Self; 6] = [Self::Running, Self::Stopped, Self::Gone, Self::Ended, Self::Silent, Self::Unknown];

    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Stopped)
    }

    /// Whether the recording is over. For a silent process that is unknown.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Gone | Self::Ended | Self::Unknown)
    }
}

/// Whether a part shows that its process recorded nothing: it was killed before, or is about to begin.
pub fn is_blank(part: &Path) -> bool {
    let has = |name: &str| part.join(name).symlink_metadata().is_ok();
    let is_empty = || match Journal::open(&part.join(JOURNAL)) {
        // Damage may have been an event.
        Ok(journal) => {
            matches!(journal.read(&mut |_| {}), Ok(Outcome { started: 0, problems, .. }) if problems.is_empty())
        }
        Err(_) => !has(JOURNAL),
    };
    !has_begun(part) && !has(DONE) && is_empty()
}

#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    pub host: host::Life,
    pub now_ns: u64,
    pub last_record_ns: u64,
    /// Whether the description and the clock readings of the process could be read.
    pub is_described: bool,
    pub is_finalized: bool,
    /// Whether a finalize would be among the readable records.
    pub shows_end: bool,
}

impl Evidence {
    pub const fn life(self) -> Life {
        match self.host {
            host::Life::Running => Life::Running,
            host::Life::Stopped => Life::Stopped,
            host::Life::Gone if self.is_finalized => Life::Ended,
            host::Life::Gone if self.shows_end => Life::Gone,
            host::Life::Gone => Life::Unknown,
            host::Life::Unknown if !self.is_described && self.is_finalized => Life::Ended,
            host::Life::Unknown if !self.is_described => Life::Unknown,
            // The other host's clock is trusted: hosts of a cluster differ by far less than seconds.
            host::Life::Unknown if self.last_record_ns.saturating_add(FRESH_NS) >= self.now_ns => Life::Running,
            host::Life::Unknown if self.is_finalized => Life::Ended,
            host::Life::Unknown => Life::Silent,
        }
    }
}
