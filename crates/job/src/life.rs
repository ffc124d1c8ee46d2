//! Whether a recorded process still runs: the process table tells on its host, the age of its last record elsewhere.

use journal::host;

/// The plugin reads the clocks once a second, so a process that runs has a record that is younger than this.
const FRESH_NS: u64 = 5_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    Running,
    /// On this host, and stopped by a signal or a debugger.
    Stopped,
    /// It was on this host and is gone, without having ended its recording.
    Gone,
    /// It finalized its communicators, or its part is written and its journal removed.
    Ended,
    /// On another host, without a record for a while.
    Silent,
    /// What says how it ended is damaged, or was not kept.
    #[default]
    Unknown,
}

impl Life {
    pub const ALL: [Self; 6] = [Self::Running, Self::Stopped, Self::Gone, Self::Ended, Self::Silent, Self::Unknown];

    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Stopped)
    }

    /// Whether its recording is over. Of a silent process that is not known.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Gone | Self::Ended | Self::Unknown)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    pub host: host::Life,
    pub now_ns: u64,
    pub last_record_ns: u64,
    /// Whether its description and its clock readings could be read.
    pub is_described: bool,
    pub is_finalized: bool,
    /// Whether a finalize would be among the records that could be read.
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
            // Its clock is believed: hosts of a cluster agree to far less than seconds.
            host::Life::Unknown if self.last_record_ns.saturating_add(FRESH_NS) >= self.now_ns => Life::Running,
            host::Life::Unknown => Life::Silent,
        }
    }
}
