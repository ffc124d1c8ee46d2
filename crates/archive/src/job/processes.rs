//! The processes of a job: their numbers in the archive, and the conversion of their times.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::part::manifest::{LocationDefinition, LocationKind, Manifest};
use crate::workers::Dumps;
use clocks::hosts::{Alignment, Correction};
use clocks::ticks::LATEST_NS;
use journal::part::environment::Level;
use nccl_events::ids::index_u32;
use nccl_events::sort::Gather;

#[derive(Debug)]
pub(crate) struct Process {
    pub directory: PathBuf,
    pub manifest: Manifest,
    /// Number of the process: the low half of its location ids.
    pub index: u32,
    /// Ids of the locations in the archive.
    pub ids: Vec<u64>,
    /// Offset from the process's times (CLOCK_MONOTONIC) to its host's wall clock (CLOCK_REALTIME).
    pub offset_ns: i64,
    /// Number of the host's boot: processes of one boot share a clock.
    pub boot: u32,
    /// Offset from the host's wall clock to the archive's clock.
    pub correction: Correction,
}

impl Process {
    /// Where the process ran: host and process id.
    pub(crate) fn place(&self) -> String {
        let process = &self.manifest.process;
        if process.host.is_empty() { self.manifest.part.clone() } else { format!("{}:{}", process.host, process.pid) }
    }

    pub(crate) fn name(&self) -> String {
        let place = self.place();
        match self.manifest.process.environment.rank {
            Some(rank) => format!("rank {rank} [{place}]"),
            None => place,
        }
    }

    /// Identity of the host: processes of one boot share a clock.
    pub(crate) fn host(&self) -> (&str, &str) {
        let process = &self.manifest.process;
        if process.host.is_empty() && process.boot_id.is_empty() {
            return (&self.manifest.part, "");
        }
        (&process.host, &process.boot_id)
    }

    /// Converts a time of this process to its host's wall clock.
    pub(crate) fn system_ns(&self, ns: u64) -> u64 {
        ns.saturating_add_signed(self.offset_ns)
    }

    pub(crate) fn archive_ns(&self, ns: u64) -> u64 {
        self.correction.common_ns(self.system_ns(ns))
    }

    /// Offsets from the process's times to the archive's: time and offset, linear in between. Empty if constant.
    pub(crate) fn clock_offsets(&self) -> impl Iterator<Item = (u64, i64)> {
        let back = self.offset_ns.saturating_neg();
        self.correction.knots().map(move |(ns, added)| {
            let offset = self.offset_ns.saturating_add(added);
            (ns.saturating_add_signed(back), offset)
        })
    }

    pub(crate) fn locations(&self) -> impl Iterator<Item = (u64, &LocationDefinition)> {
        self.ids.iter().copied().zip(&self.manifest.locations)
    }

    pub(crate) fn has_events(&self) -> bool {
        let mut locations = self.manifest.locations.iter();
        locations.any(|location| location.events > 0)
    }
}

pub(crate) struct ArchiveInputs<'a> {
    pub(crate) processes: &'a [Process],
    pub(crate) alignment: &'a Alignment,
    pub(crate) dumps: &'a Dumps,
    pub(crate) level: Level,
    /// Parts that were left out of the archive, and why.
    pub(crate) left_out: &'a [String],
}

/// Gives every location of the archive its id.
///
/// Locations of communicator ranks get 0, 1, 2 …, and are listed in that order as *the* communicating locations, so a
/// member's number in a communicator's group is also its location id. OTF2 only requires the former; ViTE 1.2 assumes
/// the latter and crashes on a message to a location that does not exist. All other locations are
/// `((number + 1) << 32) | process index`.
fn number_locations(processes: &mut [Process]) {
    let mut ranks = Vec::new();
    for (at, process) in processes.iter_mut().enumerate() {
        let index = u64::from(process.index);
        let locations = process.manifest.locations.iter().enumerate();
        process.ids = locations.clone().map(|(number, _)| (number as u64 + 1) << 32 | index).collect();
        for (number, location) in locations {
            if let LocationKind::Communicator { comm, rank, .. } = &location.kind {
                ranks.push((at, *comm, *rank, number));
            }
        }
    }
    nccl_events::sort::sort(&mut ranks);
    for (id, (at, _, _, number)) in (0..).zip(ranks) {
        if let Some(slot) = processes.get_mut(at).and_then(|process| process.ids.get_mut(number)) {
            *slot = id;
        }
    }
}

/// Numbers the processes: by the launcher's rank if known and unique, else above all ranks by part names. Sorted.
pub(crate) fn processes(mut parts: Vec<(PathBuf, Manifest)>) -> Vec<Process> {
    nccl_events::sort::sort_by(&mut parts, |a, b| a.1.part.cmp(&b.1.part));
    let offsets = offsets(parts.iter().map(|(_, manifest)| manifest));
    let mut taken: BTreeSet<u32> = BTreeSet::new();
    let mut waiting = Vec::new();
    let mut processes = Vec::with_capacity(parts.len());
    for (directory, manifest) in parts {
        let offset_ns = offsets.get(&clock_key(&manifest)).copied().unwrap_or(0);
        let rank = manifest.process.environment.rank.filter(|&rank| rank < u32::MAX / 2 && taken.insert(rank));
        let process = Process {
            directory,
            manifest,
            index: rank.unwrap_or(0),
            ids: Vec::new(),
            offset_ns,
            boot: 0,
            correction: Correction::default(),
        };
        if rank.is_some() {
            processes.push(process);
        } else {
            waiting.push(process);
        }
    }
    for (number, mut process) in (taken.last().map_or(0, |last| last + 1)..).zip(waiting) {
        process.index = number;
        processes.push(process);
    }
    nccl_events::sort::sort_by_key(&mut processes, |process| process.index);
    number_locations(&mut processes);
    number_boots(&mut processes);
    processes
}

fn number_boots(processes: &mut [Process]) {
    let mut boots: BTreeMap<String, u32> = BTreeMap::new();
    for process in processes {
        let next = index_u32(boots.len());
        process.boot = *boots.entry(clock_key(&process.manifest)).or_insert(next);
    }
}

fn clock_key(manifest: &Manifest) -> String {
    let process = &manifest.process;
    let known = [&process.boot_id, &process.host, &manifest.part].into_iter().find(|key| !key.is_empty());
    known.cloned().unwrap_or_default()
}

/// CLOCK_REALTIME − CLOCK_MONOTONIC, once for each boot, from its earliest part that read both: so the processes of one
/// host share a clock exactly, whatever the system does to its wall clock.
fn offsets<'a>(manifests: impl Iterator<Item = &'a Manifest>) -> BTreeMap<String, i64> {
    let mut earliest: BTreeMap<String, ((bool, u64), i64)> = BTreeMap::new();
    for manifest in manifests {
        let clock = &manifest.clock;
        // Without a clock pair: recording began about when the first event came.
        let is_estimate = clock.first_realtime_ns == 0;
        let (monotonic, realtime) = if is_estimate {
            (manifest.span_ns.0, manifest.process.session_start_realtime_ns)
        } else {
            (clock.first_monotonic_ns, clock.first_realtime_ns)
        };
        // A wall clock behind the time since boot was never set. Without an offset no time is negative.
        let offset = realtime.min(LATEST_NS).saturating_sub(monotonic).cast_signed();
        earliest
            .entry(clock_key(manifest))
            .and_modify(|best| {
                if (is_estimate, monotonic) < best.0 {
                    *best = ((is_estimate, monotonic), offset);
                }
            })
            .or_insert(((is_estimate, monotonic), offset));
    }
    earliest.into_iter().map(|(key, (_, offset))| (key, offset)).gather()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, rank: Option<u32>, boot: &str, pair: (u64, u64)) -> (PathBuf, Manifest) {
        let mut manifest = Manifest { part: name.to_owned(), ..Manifest::default() };
        manifest.process.environment.rank = rank;
        manifest.process.boot_id = boot.to_owned();
        manifest.clock.first_monotonic_ns = pair.0;
        manifest.clock.first_realtime_ns = pair.1;
        (PathBuf::from(name), manifest)
    }

    #[test]
    fn ranks_count_where_they_are_unique() {
        let parts = vec![
            part("d", None, "x", (1, 2)),
            part("c", Some(1), "x", (1, 2)),
            part("b", Some(1), "x", (1, 2)),
            part("a", Some(4), "x", (1, 2)),
        ];
        let numbered: Vec<(String, u32)> =
            processes(parts).into_iter().map(|process| (process.manifest.part, process.index)).collect();
        assert_eq!(numbered, [("b", 1), ("a", 4), ("c", 5), ("d", 6)].map(|(name, index)| (name.to_owned(), index)));
    }

    #[test]
    fn one_offset_a_boot_from_the_earliest_part() {
        let boots = [
            ("x", (50, 1050)),
            ("x", (40, 1045)),
            ("y", (7, 1000)),
            ("unset", (50, 20)),
            ("bad", (0, u64::MAX)),
            ("x", (0, 0)),
        ];
        let parts =
            ["a", "b", "c", "d", "e", "f"].iter().zip(boots).map(|(name, (boot, pair))| part(name, None, boot, pair));
        let offsets: Vec<i64> = processes(parts.collect()).iter().map(|process| process.offset_ns).collect();
        // Of the last nothing is readable.
        assert_eq!(offsets, [1005, 1005, 993, 0, LATEST_NS.cast_signed(), 1005]);
    }
}
