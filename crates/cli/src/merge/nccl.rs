//! An archive of NCCL's that is to be merged: its processes and their clocks.

use std::collections::{BTreeMap, BTreeSet};

use analysis::stated;
use anyhow::{Context as _, Result, bail};
use otf2::records::LocationGroup;
use otf2::verbatim::Definition;
use otf2::{Archive, Definitions, GroupType, LocationGroupRef, LocationGroupType, LocationRef};
use schema::Anchor;
use schema::definition::{ClockAnchors, ClockSource, LauncherRank, ProcessId};

/// An archive that this project wrote.
#[derive(Debug)]
pub(super) struct Nccl {
    pub(super) archive: Archive,
    /// All global definitions as they are.
    pub(super) verbatim: Vec<Definition>,
    /// Those that are looked at.
    pub(super) definitions: Definitions,
    pub(super) processes: Vec<Process>,
    /// How many ranks the largest communicator has.
    pub(super) largest_communicator: usize,
}

/// A process that was recorded.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) group: LocationGroupRef,
    /// What the archive calls it.
    pub(super) name: String,
    /// The name of its host.
    pub(super) host: String,
    /// Its number on that host.
    pub(super) process_id: Option<u64>,
    /// The rank that the launcher gave it.
    pub(super) rank: Option<u32>,
    /// Its rank in the largest communicator, where it has one rank there.
    pub(super) rank_in_communicator: Option<u32>,
    /// Whether the ticks of its anchors are those of the processor's counter.
    pub(super) has_counter: bool,
    /// What its clocks showed at the same moments.
    pub(super) anchors: Vec<Anchor>,
    /// How many locations it has, GPUs' among them, with how many events.
    pub(super) locations: u64,
    pub(super) events: u64,
}

impl Nccl {
    /// Reads everything but the events.
    pub(super) fn open(archive: Archive) -> Result<Self> {
        let shown = archive.anchor_file().display();
        if archive.event_chunk_bytes() != otf2::EVENT_CHUNK_BYTES {
            bail!(
                "{shown} has event chunks of {} bytes, Score-P's have {}: readers would never end. `nccl-otf2 finalize` \
                 of this version writes it again with the right ones",
                archive.event_chunk_bytes(),
                otf2::EVENT_CHUNK_BYTES
            );
        }
        let verbatim = archive.verbatim_definitions().context("cannot read all of NCCL's definitions")?;
        let definitions = archive.definitions().context("cannot read NCCL's definitions")?;
        archive.check_definitions(&definitions).context("cannot read NCCL's definitions")?;
        let mut opened = Self { archive, verbatim, definitions, processes: Vec::new(), largest_communicator: 0 };
        opened.processes = opened.find_processes();
        opened.rank_by_communicator();
        Ok(opened)
    }

    /// The process that a location belongs to: its group's, or the creator of its GPU's.
    pub(super) fn process_of(&self, location: LocationRef) -> Option<LocationGroupRef> {
        let location = self.definitions.locations.get(&location)?;
        let group = self.definitions.location_groups.get(&location.group)?;
        match group.creator.is_defined() {
            true => Some(group.creator),
            false => Some(location.group),
        }
    }

    /// Finds the ranks that NCCL gave to processes: those of the largest communicator.
    fn rank_by_communicator(&mut self) {
        let definitions = &self.definitions;
        let lists = definitions.groups.values();
        let mut lists = lists.filter(|group| group.group_type == GroupType::CommLocations);
        let groups = definitions.groups.values();
        let groups = groups.filter(|group| group.group_type == GroupType::CommGroup);
        let largest = groups.max_by_key(|group| group.members.len());
        let (Some(list), Some(largest)) = (lists.next(), largest) else {
            return;
        };
        self.largest_communicator = largest.members.len();
        let mut ranks: BTreeMap<LocationGroupRef, Vec<u32>> = BTreeMap::new();
        for (rank, index) in (0..).zip(&largest.members) {
            let place = usize::try_from(*index).ok();
            let member = place.and_then(|place| list.members.get(place));
            let process = member.and_then(|it| self.process_of(LocationRef::new(*it)));
            if let Some(process) = process {
                ranks.entry(process).or_default().push(rank);
            }
        }
        for process in &mut self.processes {
            if let Some([rank]) = ranks.get(&process.group).map(Vec::as_slice) {
                process.rank_in_communicator = Some(*rank);
            }
        }
    }

    fn find_processes(&self) -> Vec<Process> {
        let mut sizes: BTreeMap<LocationGroupRef, (u64, u64)> = BTreeMap::new();
        for (reference, location) in &self.definitions.locations {
            if let Some(group) = self.process_of(*reference) {
                let (locations, events) = sizes.entry(group).or_default();
                *locations += 1;
                *events += location.number_of_events;
            }
        }
        let creators = self.definitions.location_groups.values();
        let creators: BTreeSet<LocationGroupRef> = creators.map(|group| group.creator).collect();
        let mut processes = Vec::new();
        for (reference, group) in &self.definitions.location_groups {
            let (locations, events) = sizes.get(reference).copied().unwrap_or_default();
            // Ranks without a part are in a group that is no process, and have no events.
            let exists = events > 0
                || stated(&self.definitions, &group.properties, ProcessId).is_some()
                || creators.contains(reference);
            if group.group_type == LocationGroupType::Process && exists {
                processes.push(self.process(*reference, group, (locations, events)));
            }
        }
        processes
    }

    fn process(&self, reference: LocationGroupRef, group: &LocationGroup, (locations, events): (u64, u64)) -> Process {
        let (definitions, properties) = (&self.definitions, &group.properties);
        let node = self.definitions.system_tree_nodes.get(&group.system_tree_parent);
        let host = node.and_then(|node| self.definitions.string(node.name));
        let name = self.definitions.string(group.name);
        Process {
            group: reference,
            name: name.unwrap_or("?").to_owned(),
            host: host.unwrap_or_default().to_owned(),
            process_id: stated(definitions, properties, ProcessId),
            rank: stated(definitions, properties, LauncherRank).and_then(|rank| u32::try_from(rank).ok()),
            rank_in_communicator: None,
            has_counter: matches!(stated(definitions, properties, ClockSource), Some("TSC" | "CNTVCT")),
            anchors: stated(definitions, properties, ClockAnchors).unwrap_or_default(),
            locations,
            events,
        }
    }
}
