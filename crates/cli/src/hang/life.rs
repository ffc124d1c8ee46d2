//! Whether a recorded process still runs, as far as can be told from here.

use std::fs;

use journal::part::process::ProcessInfo;

use super::job::Life;

/// `/proc` counts in hundredths of a second, on every architecture that NCCL runs on.
const TICK_NS: u64 = 10_000_000;
/// How far the clocks that are compared here may be apart.
const SLACK_NS: u64 = 2_000_000_000;
/// The plugin reads the clocks once a second: a process without a record for longer is not what it was.
const FRESH_NS: u64 = 5_000_000_000;

/// The host that this runs on.
pub(crate) struct Here {
    boot_id: String,
    /// When it was booted, CLOCK_REALTIME.
    booted_ns: u64,
    now_ns: u64,
}

impl Here {
    /// Looks around.
    pub(crate) fn look(now_ns: u64) -> Self {
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        Self {
            boot_id: journal::host::boot_id(),
            booted_ns: now_ns.saturating_sub(uptime_ns(&uptime)),
            now_ns,
        }
    }

    /// Whether a process is on this host, since its last boot.
    pub(crate) fn has(&self, process: &ProcessInfo) -> bool {
        !self.boot_id.is_empty() && process.boot_id == self.boot_id
    }

    /// Whether a process that has not ended its recording runs.
    pub(crate) fn life(&self, process: &ProcessInfo, last_record_ns: u64) -> Life {
        if !self.has(process) {
            // Its clock is believed: hosts of a cluster agree to far less than seconds.
            return if last_record_ns.saturating_add(FRESH_NS) >= self.now_ns {
                Life::Running
            } else {
                Life::Silent
            };
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid));
        stat.map_or(Life::Gone, |stat| self.life_by(&stat, process))
    }

    /// What `/proc/PID/stat` says. One that started at another time is another process with the same number; where
    /// the recording does not say when, one that started after it.
    fn life_by(&self, stat: &str, process: &ProcessInfo) -> Life {
        // The name in parentheses may hold anything, also parentheses and blanks.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = after_name.split_ascii_whitespace();
        let state = fields.next().unwrap_or("X");
        let start_ticks = fields.nth(18).and_then(|field| field.parse::<u64>().ok());
        let is_another = start_ticks.is_some_and(|ticks| {
            if process.start_ticks != 0 {
                return process.start_ticks != ticks;
            }
            let session_start_ns = process.session_start_realtime_ns;
            let started_ns = self.booted_ns.saturating_add(ticks.saturating_mul(TICK_NS));
            session_start_ns != 0 && started_ns > session_start_ns.saturating_add(SLACK_NS)
        });
        match state {
            "Z" | "X" | "x" => Life::Gone,
            _ if is_another => Life::Gone,
            "T" | "t" => Life::Stopped,
            _ => Life::Running,
        }
    }
}

/// `/proc/uptime`: seconds with two decimals.
fn uptime_ns(text: &str) -> u64 {
    let seconds = text.split_ascii_whitespace().next().unwrap_or("0");
    let (whole, hundredths) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    number(whole) * 1_000_000_000 + number(hundredths) * TICK_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn stat(state: &str, start_ticks: u64) -> String {
        format!(
            "7 (a) b) {state} 1 7 7 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 1 0 {start_ticks} 2965504 0"
        )
    }

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let here = Here {
            boot_id: "boot".to_owned(),
            booted_ns: 1000 * SECOND_NS,
            now_ns: 2000 * SECOND_NS,
        };
        // Recording began 60 s after the boot; the process, 50 s after it, as far as it is known.
        let recorded = |start_ticks| ProcessInfo {
            session_start_realtime_ns: 1060 * SECOND_NS,
            start_ticks,
            ..ProcessInfo::default()
        };
        for start_ticks in [0, 5000] {
            let process = recorded(start_ticks);
            assert_eq!(here.life_by(&stat("S", 5000), &process), Life::Running);
            assert_eq!(here.life_by(&stat("T", 5000), &process), Life::Stopped);
            assert_eq!(here.life_by(&stat("Z", 5000), &process), Life::Gone);
            // Started at 1070 s: the number was given to another process.
            assert_eq!(here.life_by(&stat("S", 7000), &process), Life::Gone);
        }
        // A second earlier, too, is another one.
        let process = recorded(5000);
        assert_eq!(here.life_by(&stat("S", 4900), &process), Life::Gone);
    }

    #[test]
    fn of_another_host_only_the_records_tell() {
        let now = 2000 * SECOND_NS;
        let here = Here::look(now);
        let elsewhere = ProcessInfo {
            boot_id: "of another host".to_owned(),
            pid: std::process::id(),
            ..ProcessInfo::default()
        };
        assert_eq!(here.life(&elsewhere, now - SECOND_NS), Life::Running);
        assert_eq!(here.life(&elsewhere, now - 60 * SECOND_NS), Life::Silent);
    }

    #[test]
    fn uptime_is_in_hundredths() {
        assert_eq!(uptime_ns("12.34 5.00\n"), 12_340_000_000);
    }
}
