//! An NCCL archive: its processes and their clocks.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Trace;
use anyhow::{Context as _, Result};
use otf2::verbatim::Definition;
use otf2::{Archive, LocationGroupRef, LocationRef};
use schema::Anchor;
use schema::definition::{ClockAnchors, ClockSource, LauncherRank, ProcessId};
use schemars::JsonSchema;
use serde::Serialize;
use small_sort::Gather;

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
        let process_id = trace.of_group(group, ProcessId);
        let rank_in_communicator = match ranks.get(&group).map(Vec::as_slice) {
            Some([rank]) => Some(*rank),
            _ => None,
        };
        // Ranks without a part are in a group that is no process, and have no events.
        (events > 0 || process_id.is_some() || creators.contains(&group)).then(|| Process {
            name: trace.group_name(group).to_owned(),
            host: trace.host_name(group).unwrap_or_default().to_owned(),
            process_id,
            rank: trace.of_group(group, LauncherRank).and_then(|rank| u32::try_from(rank).ok()),
            locations,
            events,
            group,
            rank_in_communicator,
            has_counter: matches!(trace.of_group(group, ClockSource), Some("TSC" | "CNTVCT")),
            anchors: trace.of_group(group, ClockAnchors).unwrap_or_default(),
        })
    };
    trace.processes().filter_map(process).collect()
}
