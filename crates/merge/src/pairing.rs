//! NCCL archives with their processes and clocks. Pairs each process of them with a process of Score-P's archives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::scorep;
use crate::scorep::ScoreP;
use analysis::Trace;
use anyhow::{Context as _, Result, bail};
use nccl_events::schema::Anchor;
use nccl_events::schema::definition::{ClockAnchors, ClockSource, LauncherRank, ProcessId};
use nccl_events::sort::Gather;
use otf2::verbatim::Definition;
use otf2::{Archive, LocationGroupRef, LocationRef};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Map,
    /// Both have the same host and process id.
    Process,
    /// The launcher gave both the same rank.
    Rank,
    /// NCCL and MPI gave the same rank, and NCCL's communicator is as large as MPI_COMM_WORLD.
    Communicator,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Map => "--map",
            Self::Process => "host and process id",
            Self::Rank => "rank",
            Self::Communicator => "rank in NCCL's communicator",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessIndex {
    pub(crate) archive: usize,
    pub(crate) process: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) nccl: ProcessIndex,
    pub(crate) scorep: ProcessIndex,
    pub(crate) by: By,
}

/// A process as the user specifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Rank(u32),
    Process(String, u64),
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((host, id)) = text.rsplit_once(':') {
            let id = id.parse().ok().filter(|_| !host.is_empty());
            let id = id.ok_or_else(|| format!("{text:?} is not HOST:PROCESS_ID"))?;
            return Ok(Self::Process(host.to_owned(), id));
        }
        text.parse().map(Self::Rank).map_err(|_| format!("{text:?} is neither a rank nor HOST:PROCESS_ID"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Process(host, id) => write!(f, "{host}:{id}"),
        }
    }
}

/// A pair specified by the user: `NCCL=SCOREP`, each a rank or HOST:PROCESS_ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    nccl: Name,
    scorep: Name,
}

impl FromStr for Mapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (nccl, scorep) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not NCCL=SCOREP, as in 3=0 or host:4711=0"))?;
        Ok(Self { nccl: nccl.parse()?, scorep: scorep.parse()? })
    }
}

#[derive(Debug, Default)]
struct Index<'a> {
    /// By process id and short host name; the values include the full host name.
    by_process: BTreeMap<(&'a str, u64), Vec<(&'a str, usize)>>,
    by_rank: BTreeMap<u32, Vec<usize>>,
}

impl<'a> Index<'a> {
    /// From host, process id and rank of each process.
    fn new(processes: impl IntoIterator<Item = (&'a str, Option<u64>, Option<u32>)>) -> Self {
        let mut index = Self::default();
        for (place, (host, process_id, rank)) in processes.into_iter().enumerate() {
            if let Some(id) = process_id {
                index.by_process.entry((short(host), id)).or_default().push((host, place));
            }
            if let Some(rank) = rank {
                index.by_rank.entry(rank).or_default().push(place);
            }
        }
        index
    }

    fn process(&self, host: &str, id: u64) -> Vec<usize> {
        let same = self.by_process.get(&(short(host), id)).into_iter().flatten();
        same.filter(|(other, _)| is_same_host(other, host)).map(|(_, place)| *place).collect()
    }

    fn rank(&self, rank: u32) -> &[usize] {
        self.by_rank.get(&rank).map_or(&[], Vec::as_slice)
    }

    fn named(&self, name: &Name) -> Vec<usize> {
        match name {
            Name::Rank(rank) => self.rank(*rank).to_vec(),
            Name::Process(host, id) => self.process(host, *id),
        }
    }
}

/// Compares host names, of which one may lack the domain.
fn is_same_host(a: &str, b: &str) -> bool {
    !a.is_empty() && (a == b || (a.contains('.') != b.contains('.') && short(a) == short(b)))
}

fn short(host: &str) -> &str {
    host.split_once('.').map_or(host, |(short, _)| short)
}

pub(crate) fn pairs(scoreps: &[ScoreP], nccls: &[Nccl], map: &[Mapping]) -> Result<Vec<Pair>> {
    let theirs = numbered(scoreps.iter().map(|scorep| &*scorep.processes));
    let ours = numbered(nccls.iter().map(|nccl| &*nccl.processes));
    let is_of_all = |archive: usize| nccls[archive].largest_communicator == theirs.len();
    let mut pairs = Vec::new();
    let mut without = Vec::new();
    for ((place, process), found) in ours.iter().zip(matched(&theirs, &ours, map, &is_of_all)?) {
        match found {
            Some((scorep, by)) => pairs.push(Pair { nccl: *place, scorep, by }),
            None => without.push(process.name.clone()),
        }
    }
    if !without.is_empty() {
        bail!(
            "no Score-P process for {}: neither host and process id nor an unmatched rank fits. Match it with --map \
            NCCL=SCOREP, each a rank or HOST:PROCESS_ID. Score-P has {}",
            listed(&without),
            listed(&theirs.iter().map(|(_, process)| process.id.to_string()).collect::<Vec<_>>())
        );
    }
    Ok(pairs)
}

fn numbered<'a, P>(archives: impl Iterator<Item = &'a [P]>) -> Vec<(ProcessIndex, &'a P)> {
    let mut all = Vec::new();
    for (archive, processes) in archives.enumerate() {
        all.extend((0..).zip(processes).map(|(process, item)| (ProcessIndex { archive, process }, item)));
    }
    all
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 16;
    let mut text = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text.push_str(&format!(" and {} more", names.len() - MOST));
    }
    text
}

type ProcessMatch = Option<(ProcessIndex, By)>;

fn matched(
    theirs: &[(ProcessIndex, &scorep::Process)],
    ours: &[(ProcessIndex, &Process)],
    map: &[Mapping],
    is_of_all: &dyn Fn(usize) -> bool,
) -> Result<Vec<ProcessMatch>> {
    let mut found = vec![None; ours.len()];
    let index =
        Index::new(theirs.iter().map(|(_, process)| (&*process.id.host, process.id.process_id, Some(process.id.rank))));
    let only = |places: &[usize]| match places {
        [one] => Some(theirs[*one].0),
        _ => None,
    };
    apply_map(theirs, ours, map, &index, &mut found)?;
    for ((_, process), found) in ours.iter().zip(&mut found) {
        if let (None, Some(id)) = (&found, process.process_id) {
            // Containers can share hosts and process ids, which then identify no process.
            *found = only(&index.process(&process.host, id)).map(|place| (place, By::Process));
        }
    }
    let mut taken: BTreeMap<ProcessIndex, Option<u64>> = BTreeMap::new();
    for ((_, process), found) in ours.iter().zip(&found) {
        taken.extend(found.map(|(place, _)| (place, process.process_id)));
    }
    for ((place, process), found) in ours.iter().zip(&mut found) {
        let (rank, by) = match process.rank {
            Some(rank) => (Some(rank), By::Rank),
            None => (process.rank_in_communicator.filter(|_| is_of_all(place.archive)), By::Communicator),
        };
        if let (None, Some(rank)) = (&found, rank)
            && let Some(one) = only(index.rank(rank))
            // A process that ended one session and began another has two groups.
            && taken.get(&one).is_none_or(|id| id.is_some() && *id == process.process_id)
        {
            taken.insert(one, process.process_id);
            *found = Some((one, by));
        }
    }
    refuse_two_for_one(ours, &found)?;
    Ok(found)
}

fn apply_map(
    theirs: &[(ProcessIndex, &scorep::Process)],
    ours: &[(ProcessIndex, &Process)],
    map: &[Mapping],
    index: &Index<'_>,
    found: &mut [ProcessMatch],
) -> Result<()> {
    if map.is_empty() {
        return Ok(());
    }
    let nccl_index = Index::new(ours.iter().map(|(_, process)| (&*process.host, process.process_id, process.rank)));
    for Mapping { nccl, scorep } in map {
        let one = match *index.named(scorep) {
            [] => bail!("--map: there is no {scorep} in Score-P's trace"),
            [one] => theirs[one].0,
            _ => bail!("--map: several processes are {scorep} of a Score-P trace; name them by HOST:PROCESS_ID"),
        };
        let meant = nccl_index.named(nccl);
        if meant.is_empty() {
            bail!("--map: there is no {nccl} in NCCL's archive");
        }
        meant.into_iter().for_each(|place| found[place] = Some((one, By::Map)));
    }
    Ok(())
}

/// Several sessions of one process may map to one Score-P process; several processes may not.
fn refuse_two_for_one(ours: &[(ProcessIndex, &Process)], found: &[ProcessMatch]) -> Result<()> {
    let mut known: BTreeMap<ProcessIndex, &Process> = BTreeMap::new();
    for ((_, process), found) in ours.iter().zip(found) {
        let other = found.and_then(|(place, _)| known.insert(place, process));
        let is_same = |other: &Process| {
            other.process_id.is_some()
                && other.process_id == process.process_id
                && is_same_host(&other.host, &process.host)
        };
        if let Some(other) = other.filter(|other| !is_same(other)) {
            bail!("{} and {} would be the same Score-P process; tell them apart with --map", other.name, process.name);
        }
    }
    Ok(())
}

/// An NCCL archive: its processes and their clocks.
#[derive(Debug)]
pub(crate) struct Nccl {
    pub(crate) trace: Trace,
    pub(crate) verbatim: Vec<Definition>,
    pub(crate) processes: Vec<Process>,
    pub(crate) largest_communicator: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Process {
    pub name: String,
    pub host: String,
    pub process_id: Option<u64>,
    /// The rank given by the launcher.
    pub rank: Option<u32>,
    /// Including those of its GPUs.
    pub locations: u64,
    pub events: u64,
    #[serde(skip)]
    pub(crate) group: LocationGroupRef,
    /// The rank in the largest communicator, if the process has only one.
    #[serde(skip)]
    pub(crate) rank_in_communicator: Option<u32>,
    /// Whether the ticks of its anchors are the processor's counter.
    #[serde(skip)]
    pub(crate) has_counter: bool,
    #[serde(skip)]
    pub(crate) anchors: Vec<Anchor>,
}

impl Nccl {
    pub(crate) fn open(archive: Archive) -> Result<Self> {
        let anchor = archive.anchor_file().to_owned();
        let verbatim = archive.verbatim_definitions().context("cannot read all of NCCL's definitions")?;
        let trace = Trace::read(anchor, archive).context("cannot read NCCL's definitions")?;
        let comms = trace.definitions.comms.keys();
        let members = comms.map(|comm| trace.members(*comm)).max_by_key(|members| members.len()).unwrap_or_default();
        let mut ranks: BTreeMap<LocationGroupRef, Vec<u32>> = BTreeMap::new();
        for (rank, member) in (0..).zip(members) {
            ranks.entry(trace.process(trace.group(*member))).or_default().push(rank);
        }
        let largest_communicator = members.len();
        Ok(Self { processes: processes(&trace, &ranks), trace, verbatim, largest_communicator })
    }

    /// The process that a location belongs to, including locations on its GPU.
    pub(crate) fn process_of(&self, location: LocationRef) -> LocationGroupRef {
        self.trace.process(self.trace.group(location))
    }
}

fn processes(trace: &Trace, ranks: &BTreeMap<LocationGroupRef, Vec<u32>>) -> Vec<Process> {
    let definitions = &trace.definitions;
    let mut sizes: BTreeMap<LocationGroupRef, (u64, u64)> = BTreeMap::new();
    for location in definitions.locations.values() {
        let (locations, events) = sizes.entry(trace.process(location.group)).or_default();
        *locations += 1;
        *events += location.number_of_events;
    }
    let creators: BTreeSet<LocationGroupRef> = definitions.location_groups.values().map(|group| group.creator).gather();
    let process = |group: LocationGroupRef| {
        let (locations, events) = sizes.get(&group).copied().unwrap_or_default();
        let process_id = trace.group_property(group, ProcessId);
        let rank_in_communicator = match ranks.get(&group).map(Vec::as_slice) {
            Some([rank]) => Some(*rank),
            _ => None,
        };
        // Ranks without a part are in a group that is no process, and have no events.
        (events > 0 || process_id.is_some() || creators.contains(&group)).then(|| Process {
            name: trace.group_name(group).to_owned(),
            host: trace.host_name(group).unwrap_or_default().to_owned(),
            process_id,
            rank: trace.group_property(group, LauncherRank).and_then(|rank| u32::try_from(rank).ok()),
            locations,
            events,
            group,
            rank_in_communicator,
            has_counter: matches!(trace.group_property(group, ClockSource), Some("TSC" | "CNTVCT")),
            anchors: trace.group_property(group, ClockAnchors).unwrap_or_default(),
        })
    };
    trace.processes().filter_map(process).collect()
}

#[cfg(test)]
mod tests;
