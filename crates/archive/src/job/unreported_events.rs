//! What each release of NCCL does not report to a profiler, in one table ([`UNREPORTED_EVENTS`]). `docs/RELEASES.md`
//! shows the table (`crates/archive/src/tests/pages.rs` compares, and renews the page with `UPDATE_DOCS=1`). Every
//! archive repeats the lines that apply to it, so that a user who misses something in a trace learns whether it can be
//! there.

use std::fmt;

use crate::job::processes::Process;
use crate::part::manifest::Manifest;
use journal::part::nccl_version_text;
use nccl_events::versions::NO_LAST_RELEASE;
use nccl_events::{Kind, Release, Table, event, versions};

const fn release(minor: u32, patch: u32) -> Release {
    20_000 + minor * 100 + patch
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// Recordings with this kind of event.
    With(Kind),
    /// Recordings without this kind of event.
    Without(Kind),
    /// Recordings in which no other source reports what is missing.
    Unless(Reporter),
}

impl When {
    fn holds(self, manifest: &Manifest) -> bool {
        match self {
            Self::Unless(reporter) => !reporter.reports(manifest),
            _ => manifest.process.table == 0 || self.holds_with(manifest.process.event_mask),
        }
    }

    /// Whether the condition holds for a recording of these events without other sources.
    const fn holds_with(self, event_mask: u32) -> bool {
        match self {
            Self::Always | Self::Unless(_) => true,
            Self::With(kind) => event_mask & kind.mask() != 0,
            Self::Without(kind) => event_mask & kind.mask() == 0,
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => write!(formatter, "any"),
            Self::With(kind) => write!(formatter, "with {}", kind.name()),
            Self::Without(kind) => write!(formatter, "without {}", kind.name()),
            Self::Unless(Reporter::Cuda) => write!(formatter, "unless CUDA reports it"),
            Self::Unless(Reporter::Cupti) => write!(formatter, "unless CUPTI reports it"),
            Self::Unless(Reporter::Unfused) => write!(formatter, "unless {}=0", versions::ALLGATHERV_VARIABLE),
            Self::Unless(Reporter::Nvtx | Reporter::NvtxOfSplits) => write!(formatter, "unless NVTX shows it"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporter {
    /// CUDA, asked for the current device when a communicator is made, and for the device's identity.
    Cuda,
    /// CUPTI, through copies that are joined to collectives.
    Cupti,
    /// NCCL, where it fuses no broadcasts.
    Unfused,
    /// NCCL's ranges.
    Nvtx,
    /// NCCL's ranges of splits, with the communicator that was split: seen in 2.30.7, not in 2.28.9.
    NvtxOfSplits,
}

impl Reporter {
    fn reports(self, manifest: &Manifest) -> bool {
        match self {
            Self::Cuda => {
                let mut gpus = manifest.gpus.iter().filter(|gpu| gpu.comm.is_some());
                let is_known = |ordinal: u32| {
                    let mut devices = manifest.gpu_work.devices.iter();
                    devices.any(|device| device.ordinal == ordinal && device.identity().is_some())
                };
                !manifest.gpus.is_empty() && gpus.all(|gpu| gpu.ordinal.is_some_and(is_known))
            }
            Self::Cupti => manifest.gpu_work.counts.contains_key(COPIES_JOINED),
            Self::Unfused => manifest.process.allgatherv_off,
            Self::Nvtx => manifest.counts.ranges_nccl > 0 || manifest.counts.ranges_reported > 0,
            Self::NvtxOfSplits => {
                let are_shown = version_number(&manifest.process.nccl_version) >= Some(release(30, 7));
                !manifest.parents.is_empty() || are_shown && Self::Nvtx.reports(manifest)
            }
        }
    }
}

const COPIES_JOINED: &str = "COPIES_JOINED";

#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreportedEvents {
    pub first: Release,
    pub last: Release,
    pub when: When,
    pub unseen: &'static str,
    pub why: &'static str,
}

impl UnreportedEvents {
    /// Whether it concerns a release in this range.
    pub(crate) const fn is_in(&self, first: u32, last: u32) -> bool {
        self.first <= last && first <= self.last
    }

    pub(crate) fn releases(&self) -> String {
        let [first, last] = [self.first, self.last].map(|end| {
            // The last patch of a series is unknown while NVIDIA can still publish another.
            if Table::ALL.into_iter().any(|table| table.last() == end) && end != NO_LAST_RELEASE {
                format!("2.{}", end / 100 % 100)
            } else {
                nccl_version_text(end)
            }
        });
        match (self.first, self.last) {
            (_, NO_LAST_RELEASE) => format!("{first} and later"),
            (one, other) if one == other => first,
            _ => format!("{first} to {last}"),
        }
    }
}

const fn unreported(first: u32, last: u32, when: When, unseen: &'static str, why: &'static str) -> UnreportedEvents {
    UnreportedEvents { first, last, when, unseen, why }
}

const FIRST: Release = Table::V1.properties().first;

#[rustfmt::skip]
pub(crate) const UNREPORTED_EVENTS: &[UnreportedEvents] = &[
    unreported(FIRST, NO_LAST_RELEASE, When::Always, "operations on a communicator of one rank, or of count 0", "NCCL copies or does nothing, and reports nothing below the call"),
    unreported(FIRST, NO_LAST_RELEASE, When::Unless(Reporter::Cuda), "which GPU a rank uses", "the interface does not name it"),
    unreported(FIRST, NO_LAST_RELEASE, When::Always, "ends of operations of an aborted communicator", "NCCL does not report them"),
    unreported(FIRST, release(25, 99), When::Always, "replays of CUDA graphs whose operations use no network transfers", "NCCL reports them once, at capture"),
    unreported(release(26, 2), NO_LAST_RELEASE, When::Without(Kind::KernelCh), "replays of CUDA graphs whose operations use no network transfers", "NCCL reports them once, at capture; record KernelCh to see them"),
    unreported(FIRST, release(27, 99), When::Unless(Reporter::Nvtx), "calls of NCCL's functions", "events for them came with 2.28"),
    unreported(FIRST, release(27, 99), When::Always, "kernel launches", "events for them came with 2.28"),
    unreported(release(28, 3), NO_LAST_RELEASE, When::Always, "calls and kernel launches of the replays of a CUDA graph", "NCCL reports them once, at capture"),
    unreported(FIRST, release(25, 99), When::Always, "what kernels and network plugins did", "events for them came with 2.26"),
    unreported(release(26, 2), release(26, 99), When::With(Kind::KernelCh), "GPU times of kernels", "the events have no time stamp of the GPU before 2.27; the times are those of the host's polling"),
    unreported(release(26, 2), release(30, 99), When::Always, "phases of kernels", "events for them came with 2.31"),
    unreported(release(27, 3), NO_LAST_RELEASE, When::With(Kind::KernelCh), "kernel times if the host was more than \
        64 operations of a channel behind", "the GPU has overwritten them with later time stamps"),
    unreported(release(26, 2), NO_LAST_RELEASE, When::With(Kind::KernelCh), "the share of each operation in a kernel \
        that runs several as a batch", "all operations of a batch have the same time stamps"),
    unreported(FIRST, release(26, 99), When::Always, "names and sizes of communicators", "NCCL gives them to profilers from 2.27 on"),
    unreported(FIRST, FIRST, When::With(Kind::ProxyOp), "the communicator of proxy operations done for another process (PXN)", "NCCL passes the context of another one before 2.24"),
    unreported(release(24, 3), release(26, 99), When::With(Kind::ProxyStep), "ends of some receiving network steps", "NCCL does not report them; fixed in 2.27"),
    unreported(release(27, 3), NO_LAST_RELEASE, When::With(Kind::ProxyOp), "ends of proxy operations of CollNet, of shared memory by copies and of peer-to-peer copies", "NCCL does not report them"),
    unreported(release(26, 2), NO_LAST_RELEASE, When::With(Kind::NetPlugin), "events inside NCCL's own socket transport", "it reports none; a network plugin can"),
    unreported(release(27, 7), release(27, 7), When::Always, "all but the first of the grouped sends of a rank, and of its grouped receives", "NCCL does not report them"),
    unreported(release(27, 3), release(27, 99), When::Always, "collectives done by symmetric kernels", "NCCL does not report them"),
    unreported(release(28, 3), release(30, 99), When::Always, "collectives done by symmetric kernels, below the call", "NCCL does not report them before 2.31"),
    unreported(release(31, 2), NO_LAST_RELEASE, When::With(Kind::KernelCh), "kernel channels of symmetric kernels in CUDA graphs, and of all but the first collective of a launch", "NCCL does not report them"),
    unreported(release(28, 3), release(28, 99), When::Always, "collectives done by copy engines, below the call", "events for them came with 2.29"),
    unreported(release(29, 2), NO_LAST_RELEASE, When::Unless(Reporter::Cupti), "when copy engines were working", "NCCL reports when the host enqueued the copies"),
    unreported(release(28, 3), NO_LAST_RELEASE, When::Always, "which collective the sends and receives of \
        ncclAlltoAll, ncclGather and ncclScatter belong to", "NCCL reports sends and receives only; the plugin \
        recognises them by their pattern"),
    unreported(versions::FIRST_WITH_ALLGATHERV, NO_LAST_RELEASE, When::Unless(Reporter::Unfused), "broadcasts, below the call", versions::ALLGATHERV_WORKAROUND),
    unreported(release(29, 2), NO_LAST_RELEASE, When::Unless(Reporter::Nvtx), "ncclPutSignal, ncclSignal and ncclWaitSignal", "there are no events for them"),
    unreported(FIRST, FIRST, When::Always, "which of several communicators an operation is on that were split from \
        one with the same color", "they have the same hash, and NCCL reports nothing else about them"),
    unreported(FIRST, NO_LAST_RELEASE, When::Unless(Reporter::NvtxOfSplits), "which communicator another was split from", "the interface does not name it"),
];

/// The number of a dotted version.
fn version_number(text: &str) -> Option<u32> {
    let mut parts = text.split('.').map(str::parse::<u32>);
    let mut next = || parts.next()?.ok();
    let (major, minor, patch) = (next()?, next()?, next()?);
    major.checked_mul(10_000)?.checked_add(minor.checked_mul(100)?)?.checked_add(patch)
}

/// Whether an entry applies to a recording. If the release is unknown, all releases that call the same table count;
/// if the table is unknown, too, all releases.
fn applies(entry: &UnreportedEvents, manifest: &Manifest) -> bool {
    let by_table = || Table::from_number(manifest.process.table).map(|table| (table.properties().first, table.last()));
    let known = version_number(&manifest.process.nccl_version).map(|version| (version, version));
    let (first, last) = known.or_else(by_table).unwrap_or((0, NO_LAST_RELEASE));
    entry.is_in(first, last) && entry.when.holds(manifest)
}

/// What a release (22809 is 2.28.9) will not report to a recording of these events, one item per line.
/// `allgatherv_off`: `NCCL_ALLGATHERV_ENABLE` is 0.
pub fn unreported_by_release(release: Release, event_mask: u32, allgatherv_off: bool) -> Vec<String> {
    let event_mask = event_mask & Table::for_release(release).map_or(0, event::kinds);
    let entries =
        UNREPORTED_EVENTS.iter().filter(|entry| entry.is_in(release, release) && entry.when.holds_with(event_mask));
    let entries = entries.filter(|entry| !allgatherv_off || entry.when != When::Unless(Reporter::Unfused));
    entries.map(|entry| format!("{}: {}", entry.unseen, entry.why)).collect()
}

/// What cannot be seen in an archive of these processes, one item per line.
pub(crate) fn lines(processes: &[Process]) -> Vec<String> {
    let apply =
        UNREPORTED_EVENTS.iter().filter(|entry| processes.iter().any(|process| applies(entry, &process.manifest)));
    apply.map(|entry| format!("{} (NCCL {}): {}", entry.unseen, entry.releases(), entry.why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::part::ProcessInfo;

    fn unseen(nccl_version: &str, table: u8, event_mask: u32) -> String {
        let manifest = Manifest {
            process: ProcessInfo { nccl_version: nccl_version.to_owned(), table, event_mask, ..ProcessInfo::default() },
            ..Manifest::default()
        };
        UNREPORTED_EVENTS
            .iter()
            .filter(|entry| applies(entry, &manifest))
            .map(|entry| format!("{}\n", entry.unseen))
            .collect()
    }

    #[test]
    fn the_release_decides_and_else_the_table() {
        for (version, table, grouped, broadcasts) in [
            ("2.27.3", 4, false, false),
            ("2.27.7", 4, true, false),
            ("", 4, true, false),
            ("2.28.9", 5, false, false),
            ("2.32.3", 7, false, true),
            ("", 7, false, true),
            ("", 0, true, true),
        ] {
            let text = unseen(version, table, 2);
            assert_eq!(text.contains("grouped sends"), grouped, "{version} {table}");
            assert_eq!(text.contains("broadcasts"), broadcasts, "{version} {table}");
        }
    }
}
