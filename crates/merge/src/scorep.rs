//! A Score-P trace: its processes and its clock, and the order of two writers' events on one thread.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use crate::clock;
use crate::clock::Timer;
use anyhow::{Context as _, Result, bail};
use nccl_events::sort::Gather;
use otf2::records::Group;
use otf2::verbatim::{Definition, EventRecords};
use otf2::{
    Archive, AttributeValue, ClockOffset, Definitions, EventKind, GroupType, LocationGroupRef, LocationGroupType,
    LocationRef, LocationType, Paradigm, SystemTreeNodeRef,
};
use regular_files::MOST_DESCRIPTION_BYTES;
use schemars::JsonSchema;
use serde::Serialize;

/// The event in which a process states its process id, and the attribute that contains it.
const PROCESS_ID: (&str, &str) = ("ProgramBegin", "ProcessId");
const THREAD_ID: (&str, &str) = ("ThreadBegin", "ThreadId");
/// These events come first; a few more are examined in case others precede them.
const EVENTS_LOOKED_AT: u64 = 64;
/// The source file of the regions that the plugin passes to Score-P.
const FILE_OF_NCCL: &str = "NCCL";
/// The settings file in Score-P's experiment directory, which may or may not contain an archive.
pub const SETTINGS: &str = "scorep.cfg";

#[derive(Debug)]
pub(crate) struct ScoreP {
    pub(crate) archive: Archive,
    pub(crate) verbatim: Vec<Definition>,
    pub(crate) definitions: Definitions,
    pub(crate) timer: Timer,
    /// Not 0.
    pub(crate) ticks_per_second: u64,
    pub(crate) span: (u64, u64),
    /// At least one.
    pub(crate) processes: Vec<Process>,
    /// For one of several traces, the clock offsets that bring it onto the clock of the first.
    pub(crate) onto: Option<Vec<ClockOffset>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) group: LocationGroupRef,
    pub(crate) node: SystemTreeNodeRef,
    pub(crate) id: ProcessId,
    pub(crate) master: LocationRef,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessId {
    /// Empty if the system tree has no host.
    pub host: String,
    pub process_id: Option<u64>,
    /// The rank in MPI_COMM_WORLD; without MPI, the number in the ids of its locations.
    pub rank: u32,
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} [{}", self.rank, self.host)?;
        self.process_id.map_or(Ok(()), |id| write!(f, ":{id}"))?;
        f.write_str("]")
    }
}

impl ScoreP {
    pub(crate) fn open(archive: Archive) -> Result<Self> {
        refuse(&archive)?;
        let anchor = archive.anchor_file().to_owned();
        let verbatim = archive.verbatim_definitions().context("cannot read all of Score-P's definitions")?;
        let definitions = archive.definitions().context("cannot read Score-P's definitions")?;
        archive.check_definitions(&definitions).context("cannot read Score-P's definitions")?;
        let Some(clock) = definitions.clock.filter(|clock| clock.timer_resolution > 0) else {
            bail!("{}: there are no clock properties with a resolution", anchor.display());
        };
        let mut opened = Self {
            archive,
            verbatim,
            timer: timer(&anchor, clock.timer_resolution)?,
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

    /// The first and last tick on the clock of the first trace.
    pub(crate) fn span_in_first(&self) -> (u64, u64) {
        let tick = |tick: u64| match &self.onto {
            None => tick,
            Some(onto) => clock::saturated(clock::applied(onto, tick)),
        };
        (tick(self.span.0), tick(self.span.1))
    }

    /// From the ticks of a process to the trace's: Score-P's clock offsets, the same for all its locations.
    pub(crate) fn correction(&self, process: &Process) -> Result<Vec<ClockOffset>> {
        Ok(clock::effective(match &self.onto {
            Some(onto) => onto.clone(),
            None => self.archive.local_definitions(process.master)?.clock_offsets,
        }))
    }

    fn find_processes(&self) -> Result<Vec<Process>> {
        let definitions = &self.definitions;
        let mut masters = BTreeMap::new();
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
            // Score-P stores the rank in the lower half of location ids.
            #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
            let in_id = master.get() as u32;
            processes.push(Process {
                group: *group,
                node: definition.system_tree_parent,
                id: ProcessId {
                    host: self.host(definition.system_tree_parent),
                    process_id: self.own_number(*master, PROCESS_ID)?,
                    rank: ranks.get(master).copied().unwrap_or(in_id),
                },
                master: *master,
            });
        }
        nccl_events::sort::sort_by_key(&mut processes, |process| process.id.rank);
        Ok(processes)
    }

    /// MPI's list of communicating locations: an index into it is a rank.
    pub(crate) fn mpi_list(&self) -> Option<&Group> {
        let mut groups = self.definitions.groups.values();
        groups.find(|group| group.group_type == GroupType::CommLocations && group.paradigm == Paradigm::Mpi)
    }

    fn ranks(&self) -> BTreeMap<LocationRef, u32> {
        let members = self.mpi_list().into_iter().flat_map(|list| &list.members);
        members.map(|member| LocationRef::new(*member)).zip(0..).gather()
    }

    fn host(&self, node: SystemTreeNodeRef) -> String {
        let definitions = &self.definitions;
        let mut at = node;
        // Limits the depth: the nodes of damaged definitions can form a cycle.
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

    /// The threads of a process by system thread id, if Score-P has it. The first thread's is the process id.
    pub(crate) fn threads(&self, process: &Process) -> Result<BTreeMap<u64, LocationRef>> {
        let mut threads: BTreeMap<_, _> = process.id.process_id.map(|id| (id, process.master)).into_iter().gather();
        for (location, definition) in &self.definitions.locations {
            let is_thread = definition.location_type == LocationType::CpuThread;
            if definition.group == process.group && is_thread && *location != process.master {
                threads.extend(self.own_number(*location, THREAD_ID)?.map(|id| (id, *location)));
            }
        }
        Ok(threads)
    }

    pub(crate) fn has_regions_of_nccl(&self) -> bool {
        let mut regions = self.definitions.regions.values();
        regions.any(|region| self.definitions.string(region.source_file) == Some(FILE_OF_NCCL))
    }

    /// The records of a location's event file.
    pub(crate) fn records(&self, location: LocationRef) -> otf2::Result<EventRecords> {
        EventRecords::read(&self.archive.event_file(location), self.archive.event_chunk_bytes())
    }

    /// The value of an attribute in one of the first events of a location.
    fn own_number(&self, location: LocationRef, (wanted, name): (&'static str, &str)) -> Result<Option<u64>> {
        let definitions = &self.definitions;
        let attribute =
            definitions.attributes.iter().find(|(_, attribute)| definitions.string(attribute.name) == Some(name));
        let has_events = definitions.locations.get(&location).is_some_and(|location| location.number_of_events > 0);
        let (Some((attribute, _)), true) = (attribute, has_events) else {
            return Ok(None);
        };
        let (mut found, mut looked_at) = (None, 0);
        self.archive
            .for_each_event(&[location], |_, event| {
                looked_at += 1;
                if event.kind == EventKind::Other(wanted) {
                    let value = event.attributes.iter().find(|(other, _)| other == attribute);
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

/// Refuses archives that cannot be merged, with advice.
fn refuse(archive: &Archive) -> Result<()> {
    let anchor = archive.anchor_file().display();
    for (number, what) in [(archive.number_of_snapshots(), "snapshots"), (archive.number_of_thumbnails(), "thumbnails")]
    {
        if number > 0 {
            bail!("{anchor} has {number} {what}, which would be lost");
        }
    }
    Ok(())
}

/// The timer according to Score-P's settings, or else to its resolution.
fn timer(anchor: &Path, ticks_per_second: u64) -> Result<Timer> {
    let by_resolution = match ticks_per_second {
        1_000_000 => Timer::Realtime,
        1_000_000_000 => Timer::MonotonicRaw,
        _ => Timer::Counter,
    };
    let settings = anchor.with_file_name(SETTINGS);
    let text = regular_files::read_to_string(&settings, MOST_DESCRIPTION_BYTES).unwrap_or_default();
    let set = text
        .lines()
        .find_map(|line| Some(line.strip_prefix("SCOREP_TIMER=")?.trim_matches(|quote| quote == '\'' || quote == '"')));
    let Some(name) = set else {
        return Ok(by_resolution);
    };
    let timers = [Timer::Counter, Timer::MonotonicRaw, Timer::Realtime];
    timers.into_iter().find(|timer| timer.name() == name).with_context(|| {
        format!(
            "{}: SCOREP_TIMER='{name}' is not supported: tsc, clock_gettime and gettimeofday are",
            settings.display()
        )
    })
}

/// How an event changes the open regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Enter,
    Leave,
    Other,
}

/// Orders the events of two writers on one thread such that the regions of both nest: the order by time (whether the
/// next event is NCCL's), or why there is none. At equal times, an NCCL region ends before a Score-P event and begins
/// after it, because Score-P sees the caller.
pub(crate) fn order(
    theirs: impl IntoIterator<Item = (u64, Step)>,
    ours: &[(u64, Step)],
) -> Result<Vec<bool>, &'static str> {
    const CROSSING: &str =
        "their calls and Score-P's regions do not nest: one begins within the other and ends after it";
    let mut theirs = theirs.into_iter().peekable();
    let mut left = ours.iter().copied().peekable();
    let mut order = Vec::new();
    // For each open region, whether it is NCCL's.
    let mut open: Vec<bool> = Vec::new();
    if theirs.peek().zip(ours.first()).is_none_or(|(first, ours)| ours.0 < first.0) {
        return Err("their first call is before Score-P's first event there");
    }
    loop {
        let is_ours = match (theirs.peek(), left.peek()) {
            (None, None) => break,
            (None, Some(_)) => return Err("their last call ends after Score-P's last event there"),
            (Some(_), None) => false,
            (Some((their_time, _)), Some((time, step))) => {
                time < their_time || time == their_time && *step == Step::Leave && open.last() == Some(&true)
            }
        };
        let next = if is_ours { left.next() } else { theirs.next() };
        match next {
            Some((_, Step::Enter)) => open.push(is_ours),
            Some((_, Step::Leave)) if open.pop() != Some(is_ours) => return Err(CROSSING),
            _ => {}
        }
        order.push(is_ours);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    mod scorep {
        use crate::scorep::*;

        #[test]
        fn timers() {
            let scratch = tempfile::tempdir().expect("a directory");
            let anchor = scratch.path().join("traces.otf2");
            for (settings, resolution, expected) in [
                ("", 1_000_000, Ok(Timer::Realtime)),
                ("", 1_000_000_000, Ok(Timer::MonotonicRaw)),
                ("", 2_445_450_361, Ok(Timer::Counter)),
                // A counter at 1 GHz, as on some ARM systems.
                ("SCOREP_VERBOSE=false\nSCOREP_TIMER='tsc'\n", 1_000_000_000, Ok(Timer::Counter)),
                ("SCOREP_TIMER=gettimeofday\n", 1_000_000, Ok(Timer::Realtime)),
                ("SCOREP_TIMER='cycles'\n", 1_000_000, Err("SCOREP_TIMER='cycles'")),
            ] {
                if !settings.is_empty() {
                    std::fs::write(scratch.path().join(SETTINGS), settings).expect("settings");
                }
                let found = timer(&anchor, resolution).map_err(|error| error.to_string());
                match expected {
                    Ok(expected) => assert_eq!(found, Ok(expected), "{settings}"),
                    Err(reason) => assert!(found.is_err_and(|error| error.contains(reason)), "{settings}"),
                }
            }
        }
    }

    mod nesting {
        use crate::scorep::Step::{Enter, Leave, Other};
        use crate::scorep::*;

        #[test]
        fn regions_of_both_nest_or_there_is_no_order() {
            let theirs = [(0, Other), (1, Enter), (10, Enter), (20, Leave), (30, Leave), (31, Other)];
            let order_of = |ours: &[(u64, Step)]| order(theirs, ours);
            let (o, t) = (true, false);
            // Beside the inner region, within it, and around it.
            assert_eq!(order_of(&[(2, Enter), (9, Leave)]), Ok(vec![t, t, o, o, t, t, t, t]));
            assert_eq!(order_of(&[(11, Enter), (19, Leave)]), Ok(vec![t, t, t, o, o, t, t, t]));
            assert_eq!(order_of(&[(9, Enter), (21, Leave)]), Ok(vec![t, t, o, t, t, o, t, t]));
            // At equal times: within the outer region, and between regions.
            assert_eq!(order_of(&[(1, Enter), (10, Leave)]), Ok(vec![t, t, o, o, t, t, t, t]));
            assert_eq!(order_of(&[(10, Enter), (20, Leave)]), Ok(vec![t, t, t, o, o, t, t, t]));
            assert_eq!(order_of(&[(20, Enter), (30, Leave)]), Ok(vec![t, t, t, t, o, o, t, t]));
            // Crossing, too early, too late.
            assert!(order_of(&[(5, Enter), (15, Leave)]).is_err_and(|reason| reason.contains("do not nest")));
            assert!(order_of(&[(15, Enter), (25, Leave)]).is_err_and(|reason| reason.contains("do not nest")));
            assert!(
                order([(5, Other), (9, Other)], &[(4, Enter), (8, Leave)]).is_err_and(|text| text.contains("first"))
            );
            assert!(
                order([(5, Other), (9, Other)], &[(6, Enter), (10, Leave)]).is_err_and(|text| text.contains("last"))
            );
        }
    }
}
