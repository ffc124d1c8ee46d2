//! The trace of Score-P: what is in it, whose processes, and which clock.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use otf2::verbatim::Definition;
use otf2::{
    Archive, AttributeValue, ClockOffset, Definitions, EventKind, GroupType, LocationGroupRef, LocationGroupType,
    LocationRef, LocationType, Paradigm, SystemTreeNodeRef,
};
use regular_files::MOST_DESCRIPTION_BYTES;

use super::clock::{Correction, Timer};

/// The event in which a process gives its number, and the attribute.
const PROCESS_ID: (&str, &str) = ("ProgramBegin", "ProcessId");
/// As for a process, of a thread that it made.
const THREAD_ID: (&str, &str) = ("ThreadBegin", "ThreadId");
/// These events are the first; a few are looked at, in case of others before.
const EVENTS_LOOKED_AT: u64 = 64;
/// The source file that the plugin gives to the regions that it shows to Score-P.
const FILE_OF_NCCL: &str = "NCCL";
/// What Score-P remembers of its settings, beside the archive.
pub(super) const SETTINGS: &str = "scorep.cfg";

/// An archive that Score-P wrote.
#[derive(Debug)]
pub(super) struct ScoreP {
    pub(super) archive: Archive,
    /// All global definitions as they are.
    pub(super) verbatim: Vec<Definition>,
    /// Those that are looked at.
    pub(super) definitions: Definitions,
    pub(super) timer: Timer,
    /// Ticks per second of the timer.
    pub(super) ticks_per_second: u64,
    /// First and last tick of the trace.
    pub(super) span: (u64, u64),
    pub(super) processes: Vec<Process>,
    /// Of one of several: the clock offsets that bring it onto the clock of the first.
    pub(super) onto: Option<Vec<ClockOffset>>,
}

/// A process that Score-P measured.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) group: LocationGroupRef,
    pub(super) node: SystemTreeNodeRef,
    /// The name of its host; empty where the tree has none.
    pub(super) host: String,
    /// Its number on that host.
    pub(super) process_id: Option<u64>,
    /// Its rank in MPI_COMM_WORLD; without MPI, the number in the ids of its locations.
    pub(super) rank: u32,
    /// Its first thread.
    pub(super) master: LocationRef,
}

impl Process {
    /// Who it is, for people.
    pub(super) fn name(&self) -> String {
        let id = self.process_id.map_or_else(String::new, |id| format!(":{id}"));
        format!("rank {} [{}{id}]", self.rank, self.host)
    }
}

impl ScoreP {
    /// Reads everything but the events.
    pub(super) fn open(archive: Archive) -> Result<Self> {
        refuse(&archive)?;
        let anchor = archive.anchor_file().to_owned();
        let verbatim = archive.verbatim_definitions().context("cannot read all of Score-P's definitions")?;
        let definitions = archive.definitions().context("cannot read Score-P's definitions")?;
        archive.check_definitions(&definitions).context("cannot read Score-P's definitions")?;
        let Some(clock) = definitions.clock else {
            bail!("{}: there are no clock properties", anchor.display());
        };
        let timer = timer(&anchor, clock.timer_resolution)?;
        let mut opened = Self {
            archive,
            verbatim,
            timer,
            ticks_per_second: clock.timer_resolution,
            span: (clock.global_offset, clock.global_offset.saturating_add(clock.trace_length)),
            processes: Vec::new(),
            onto: None,
            definitions,
        };
        opened.processes = opened.find_processes()?;
        if opened.processes.is_empty() {
            bail!("{}: there are no processes in it", anchor.display());
        }
        Ok(opened)
    }

    /// From the ticks of a process to those of the trace: Score-P's clock offsets, the same for all its locations.
    pub(super) fn correction(&self, process: &Process) -> Result<Correction> {
        if let Some(onto) = &self.onto {
            return Ok(Correction::new(onto));
        }
        let local = self.archive.local_definitions(process.master)?;
        Ok(Correction::new(&local.clock_offsets))
    }

    fn find_processes(&self) -> Result<Vec<Process>> {
        let definitions = &self.definitions;
        let mut masters: BTreeMap<LocationGroupRef, LocationRef> = BTreeMap::new();
        for (reference, location) in &definitions.locations {
            if location.location_type == LocationType::CpuThread {
                masters.entry(location.group).or_insert(*reference);
            }
        }
        let ranks = self.ranks();
        let mut processes = Vec::new();
        for (group, definition) in &definitions.location_groups {
            let is_process = definition.group_type == LocationGroupType::Process;
            let Some(master) = masters.get(group).filter(|_| is_process) else {
                continue;
            };
            // Score-P has the rank in the lower half of the ids of locations.
            let in_id = u32::try_from(master.get() & u64::from(u32::MAX)).unwrap_or(u32::MAX);
            processes.push(Process {
                group: *group,
                node: definition.system_tree_parent,
                host: self.host(definition.system_tree_parent),
                process_id: self.own_number(*master, PROCESS_ID)?,
                rank: ranks.get(master).copied().unwrap_or(in_id),
                master: *master,
            });
        }
        processes.sort_by_key(|process| process.rank);
        Ok(processes)
    }

    /// MPI's ranks: places in its list of communicating locations.
    fn ranks(&self) -> BTreeMap<LocationRef, u32> {
        let groups = self.definitions.groups.values();
        let lists =
            groups.filter(|group| group.group_type == GroupType::CommLocations && group.paradigm == Paradigm::Mpi);
        let members = lists.flat_map(|list| &list.members);
        let locations = members.map(|member| LocationRef::new(*member));
        locations.zip(0..).collect()
    }

    /// The name of the nearest node of the class "node".
    fn host(&self, node: SystemTreeNodeRef) -> String {
        let definitions = &self.definitions;
        let mut at = node;
        // A tree has no more levels than nodes, unless it is none.
        for _ in 0..definitions.system_tree_nodes.len() {
            let Some(node) = definitions.system_tree_nodes.get(&at) else {
                break;
            };
            if definitions.string(node.class_name) == Some("node") {
                return definitions.string(node.name).unwrap_or_default().to_owned();
            }
            at = node.parent;
        }
        String::new()
    }

    /// The threads of a process that Score-P has the system's numbers of. The first thread has the process's.
    pub(super) fn threads(&self, process: &Process) -> Result<BTreeMap<u64, LocationRef>> {
        let mut threads = BTreeMap::new();
        threads.extend(process.process_id.map(|id| (id, process.master)));
        for (location, definition) in &self.definitions.locations {
            let is_thread = definition.location_type == LocationType::CpuThread;
            if definition.group == process.group && is_thread && *location != process.master {
                threads.extend(self.own_number(*location, THREAD_ID)?.map(|id| (id, *location)));
            }
        }
        Ok(threads)
    }

    /// Whether Score-P was shown calls of NCCL's while the job ran.
    pub(super) fn has_regions_of_nccl(&self) -> bool {
        let mut regions = self.definitions.regions.values();
        regions.any(|region| self.definitions.string(region.source_file) == Some(FILE_OF_NCCL))
    }

    /// The number that the first events of a location give.
    fn own_number(&self, location: LocationRef, (wanted, name): (&'static str, &str)) -> Result<Option<u64>> {
        let definitions = &self.definitions;
        let mut attributes = definitions.attributes.iter();
        let attribute = attributes.find(|(_, it)| definitions.string(it.name) == Some(name));
        let has_events = definitions.locations.get(&location).is_some_and(|location| location.number_of_events > 0);
        let (Some((attribute, _)), true) = (attribute, has_events) else {
            return Ok(None);
        };
        let mut found = None;
        let mut looked_at = 0;
        self.archive
            .for_each_event(&[location], |_, event| {
                looked_at += 1;
                if event.kind == EventKind::Other(wanted) {
                    let mut values = event.attributes.iter();
                    let value = values.find(|(other, _)| other == attribute);
                    found = value.and_then(|(_, value)| match value {
                        AttributeValue::U64(id) => Some(*id),
                        AttributeValue::U32(id) => Some(u64::from(*id)),
                        _ => None,
                    });
                    return ControlFlow::Break(());
                }
                match looked_at {
                    EVENTS_LOOKED_AT => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })
            .context("cannot read the first events of a location")?;
        Ok(found)
    }
}

/// What cannot be merged, and what to do about it.
fn refuse(archive: &Archive) -> Result<()> {
    let anchor = archive.anchor_file().display();
    if archive.event_chunk_bytes() != otf2::EVENT_CHUNK_BYTES {
        bail!(
            "{anchor} has event chunks of {} bytes, NCCL's have {}: readers would never end. Score-P 7 to 9 write \
             chunks of 1 MiB; write the trace again with one of them",
            archive.event_chunk_bytes(),
            otf2::EVENT_CHUNK_BYTES
        );
    }
    for (number, what) in [(archive.number_of_snapshots(), "snapshots"), (archive.number_of_thumbnails(), "thumbnails")]
    {
        if number > 0 {
            bail!("{anchor} has {number} {what}, which would be lost");
        }
    }
    Ok(())
}

/// The timer, by Score-P's settings, else by its resolution.
fn timer(anchor: &Path, ticks_per_second: u64) -> Result<Timer> {
    let by_resolution = match ticks_per_second {
        1_000_000 => Timer::Realtime,
        1_000_000_000 => Timer::MonotonicRaw,
        _ => Timer::Counter,
    };
    let settings = anchor.with_file_name(SETTINGS);
    let Ok(text) = regular_files::read_to_string(&settings, MOST_DESCRIPTION_BYTES) else {
        return Ok(by_resolution);
    };
    let set = text.lines().find_map(|line| {
        let value = line.strip_prefix("SCOREP_TIMER=")?;
        Some(value.trim_matches(|quote| quote == '\'' || quote == '"'))
    });
    let timers = [Timer::Counter, Timer::MonotonicRaw, Timer::Realtime];
    match set {
        None => Ok(by_resolution),
        Some(name) => match timers.into_iter().find(|timer| timer.name() == name) {
            Some(timer) => Ok(timer),
            None => bail!(
                "{}: SCOREP_TIMER='{name}' is none of the timers whose clock is known (tsc, clock_gettime, gettimeofday)",
                settings.display()
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers() {
        let scratch = tempfile::tempdir().expect("a directory");
        let anchor = scratch.path().join("traces.otf2");
        let timer = |resolution| timer(&anchor, resolution).map_err(|error| error.to_string());
        assert_eq!(timer(1_000_000), Ok(Timer::Realtime));
        assert_eq!(timer(1_000_000_000), Ok(Timer::MonotonicRaw));
        assert_eq!(timer(2_445_450_361), Ok(Timer::Counter));
        let set = |text: &str| {
            std::fs::write(scratch.path().join(SETTINGS), text).expect("it can be written");
        };
        // A counter of 1 GHz, as on some ARM systems.
        set("SCOREP_VERBOSE=false\nSCOREP_TIMER='tsc'\n");
        assert_eq!(timer(1_000_000_000), Ok(Timer::Counter));
        set("SCOREP_TIMER=gettimeofday\n");
        assert_eq!(timer(1_000_000), Ok(Timer::Realtime));
        set("SCOREP_TIMER='cycles'\n");
        let error = timer(1_000_000).expect_err("not known");
        assert!(error.contains("SCOREP_TIMER='cycles'"), "{error}");
    }
}
