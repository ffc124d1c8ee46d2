//! What a bench found.

use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};

use super::timer::Timer;

/// One plugin with one number of threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) file: String,
    /// The plugin's name for itself.
    pub(crate) plugin: String,
    pub(crate) table: u8,
    /// The mask that was driven.
    pub(crate) mask: u32,
    pub(crate) threads: u64,
    /// All callbacks that were called.
    pub(crate) calls: u64,
    /// Whether the timed part ended before its time because a thread had as many samples as it keeps.
    pub(crate) samples_full: bool,
    /// What reading costs (median); it is subtracted from every sample.
    pub(crate) timer_cost_ns: f64,
    pub(crate) overall: Option<Quantiles>,
    pub(crate) by_callback: Vec<Quantiles>,
    /// All threads together, without timing.
    pub(crate) calls_per_second: f64,
    /// Mean of a callback without timing, with the loop around it.
    pub(crate) untimed_ns_per_call: f64,
    /// Resident memory at the end less that before init and the samples, per thread.
    pub(crate) resident_growth_kib_per_thread: u64,
    /// Lines that were logged when there was no communicator any more.
    pub(crate) late_log_lines: u64,
}

/// How long a callback takes, in ns; the cost of the timer is subtracted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) callback: String,
    pub(crate) samples: u64,
    pub(crate) p50_ns: f64,
    /// 99 of 100 are faster.
    pub(crate) p99_ns: f64,
    /// 999 of 1000 are faster.
    pub(crate) p999_ns: f64,
    pub(crate) max_ns: f64,
}

impl Quantiles {
    /// Of samples in ticks, which are sorted by this; `None` when there is none.
    pub(crate) fn of(callback: &str, samples: &mut [u32], timer: &Timer) -> Option<Self> {
        samples.sort_unstable();
        let last = samples.len().checked_sub(1)?;
        let at = |per_mille: usize| timer.ns(samples[(samples.len() * per_mille / 1000).min(last)]);
        Some(Self {
            callback: callback.to_owned(),
            samples: samples.len() as u64,
            p50_ns: at(500),
            p99_ns: at(990),
            p999_ns: at(999),
            max_ns: timer.ns(samples[last]),
        })
    }
}

/// The cases of one plugin, and the same cases with the empty plugin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) cases: Vec<Case>,
    pub(crate) empty: Vec<Case>,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            case.write(out)?;
            let mut empty = self.empty.iter();
            if let Some(empty) = empty.find(|empty| empty.threads == case.threads) {
                compare(out, case, empty)?;
            }
        }
        Ok(())
    }
}

impl Case {
    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:?} ({}), table v{}, mask {:#x}, {} thread(s), {} callbacks",
            self.plugin, self.file, self.table, self.mask, self.threads, self.calls
        )?;
        writeln!(out, "  reading the time: {:.1} ns (subtracted)", self.timer_cost_ns)?;
        if self.samples_full {
            writeln!(out, "  the timed part ended early: a thread keeps at most 16 Mi samples")?;
        }
        if self.overall.is_some() {
            let columns = ["p50", "p99", "p99.9", "max"].map(|name| format!("{name:>9}")).join("");
            writeln!(out, "  {:<20} {:>10} {columns}   ns", "callback", "samples")?;
        }
        for line in self.by_callback.iter().chain(&self.overall) {
            writeln!(
                out,
                "  {:<20} {:>10} {:>9.1}{:>9.1}{:>9.1}{:>9.0}",
                line.callback, line.samples, line.p50_ns, line.p99_ns, line.p999_ns, line.max_ns
            )?;
        }
        writeln!(
            out,
            "  without timing: {:.1} ns a callback, {:.2} million callbacks/s",
            self.untimed_ns_per_call,
            self.calls_per_second / 1e6
        )?;
        writeln!(out, "  resident memory: {} KiB a thread", self.resident_growth_kib_per_thread)?;
        if self.late_log_lines > 0 {
            writeln!(out, "  WRONG: {} lines were logged when there was no communicator", self.late_log_lines)?;
        }
        Ok(())
    }
}

fn compare(out: &mut fmt::Formatter<'_>, case: &Case, empty: &Case) -> fmt::Result {
    let difference = case.untimed_ns_per_call - empty.untimed_ns_per_call;
    write!(out, "  beside the empty plugin ({:.1} ns a callback): {difference:+.1} ns", empty.untimed_ns_per_call)?;
    if let (Some(case), Some(empty)) = (&case.overall, &empty.overall) {
        write!(
            out,
            "; p50 {:+.1}, p99 {:+.1}, p99.9 {:+.1} ns",
            case.p50_ns - empty.p50_ns,
            case.p99_ns - empty.p99_ns,
            case.p999_ns - empty.p999_ns
        )?;
    }
    writeln!(out)
}

/// Resident memory in KiB: private memory and pages of mapped files.
pub(crate) fn resident_kib() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0))
}
