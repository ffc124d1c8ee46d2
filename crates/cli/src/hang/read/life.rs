//! Whether a recorded process still runs, as far as is known here.

use journal::host::{self, boot_id};
use journal::part::process::ProcessInfo;

use crate::hang::job::ProcessState;

/// The plugin reads the clocks once a second: a process without a record for longer is not what it was.
const FRESH_NS: u64 = 5_000_000_000;

/// The host that this runs on, now.
pub(crate) struct Here {
    boot_id: String,
    now_ns: u64,
}

impl Here {
    pub(crate) fn look(now_ns: u64) -> Self {
        Self { boot_id: boot_id(), now_ns }
    }

    /// Whether a process is on this host, since its last boot.
    pub(crate) fn has(&self, process: &ProcessInfo) -> bool {
        !self.boot_id.is_empty() && process.boot_id == self.boot_id
    }

    /// Whether a process that has not ended its recording runs.
    /// `is_sure`: whether all that tells it can be read.
    pub(crate) fn state(&self, process: &ProcessInfo, last_record_ns: u64, is_sure: bool) -> ProcessState {
        match process.life() {
            host::Life::Running => ProcessState::Running,
            host::Life::Stopped => ProcessState::Stopped,
            host::Life::Gone => ProcessState::Gone,
            host::Life::Unknown if !is_sure => ProcessState::NotKnown,
            // Its clock is believed: hosts of a cluster agree to far less than seconds.
            host::Life::Unknown if last_record_ns.saturating_add(FRESH_NS) >= self.now_ns => ProcessState::Running,
            host::Life::Unknown => ProcessState::Silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_another_host_only_the_records_tell() {
        const SECOND_NS: u64 = 1_000_000_000;
        let now = 2000 * SECOND_NS;
        let here = Here::look(now);
        let elsewhere =
            ProcessInfo { boot_id: "of another host".to_owned(), pid: std::process::id(), ..ProcessInfo::default() };
        assert_eq!(here.state(&elsewhere, now - SECOND_NS, true), ProcessState::Running);
        assert_eq!(here.state(&elsewhere, now - 60 * SECOND_NS, true), ProcessState::Silent);
    }
}
