//! What NCCL's definitions become that Score-P's trace has already, and the ids of NCCL's locations in it.
//!
//! Score-P's ids of locations are `(number in the process << 32) | rank`. NCCL's get `((0x80000000 | number) << 32) |
//! rank`: they can never be one that Score-P gives.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use otf2::verbatim::ReferenceKind;
use otf2::{LocationGroupRef, LocationRef, SystemTreeNodeRef};

use super::numbers::{Numbers, Shared};
use crate::merge::nccl::Nccl;
use crate::merge::pairing::Pair;
use crate::merge::scorep::ScoreP;

/// The bit that Score-P's numbers do not reach.
const OURS: u64 = 0x8000_0000;
/// In the place of a rank: of locations that belong to none.
const NO_RANK: u32 = u32::MAX;

/// Whether a location of the merged archive is NCCL's.
pub(in crate::merge) fn is_ours(location: LocationRef) -> bool {
    location.get() >> 32 & OURS != 0
}

/// What the names of the groups of one of several traces begin with.
pub(in crate::merge) fn prefix(scorep: &ScoreP) -> String {
    let rank = scorep.processes.first().map_or(NO_RANK, |process| process.rank);
    format!("rank {rank}: ")
}

/// Where Score-P's processes are in the merged archive.
#[derive(Debug)]
pub(in crate::merge) struct MergedProcesses(Vec<Vec<(LocationGroupRef, SystemTreeNodeRef, u32)>>);

impl MergedProcesses {
    /// Those of the first trace, which keeps its numbers.
    pub(in crate::merge) fn of(first: &ScoreP) -> Self {
        let processes = first.processes.iter();
        Self(vec![processes.map(|it| (it.group, it.node, it.rank)).collect()])
    }

    /// Those of the next one, by its new numbers.
    pub(in crate::merge) fn add(&mut self, scorep: &ScoreP, numbers: &Numbers) {
        let new = |kind, old: u32| {
            let number = numbers.get(kind, old.into());
            number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX)
        };
        let processes = scorep.processes.iter().map(|it| {
            let group = new(ReferenceKind::LocationGroup, it.group.get());
            let node = new(ReferenceKind::SystemTreeNode, it.node.get());
            (LocationGroupRef::new(group), SystemTreeNodeRef::new(node), it.rank)
        });
        self.0.push(processes.collect());
    }

    fn get(&self, (archive, process): (usize, usize)) -> Option<(LocationGroupRef, SystemTreeNodeRef, u32)> {
        self.0.get(archive)?.get(process).copied()
    }
}

#[derive(Debug)]
pub(in crate::merge) struct Ids {
    theirs: BTreeSet<LocationRef>,
    next: BTreeMap<u32, u64>,
    root: SystemTreeNodeRef,
}

impl Ids {
    /// Beside those that Score-P gave.
    pub(in crate::merge) fn beside(scorep: &ScoreP) -> Self {
        let nodes = scorep.definitions.system_tree_nodes.iter();
        let mut roots = nodes.filter(|(_, node)| !node.parent.is_defined());
        Self {
            theirs: scorep.definitions.locations.keys().copied().collect(),
            next: BTreeMap::new(),
            root: roots.next().map(|(root, _)| *root).unwrap_or_default(),
        }
    }

    /// The new ids of another of Score-P's traces: its rank instead of 0.
    pub(in crate::merge) fn of_another(&mut self, scorep: &ScoreP) -> Result<Shared> {
        let mut shared = Shared::default();
        let rank = scorep.processes.first().map_or(NO_RANK, |process| process.rank);
        shared.prefix = prefix(scorep);
        for location in scorep.definitions.locations.keys() {
            let id = LocationRef::new(location.get() & !u64::from(u32::MAX) | u64::from(rank));
            if is_ours(id) || !self.theirs.insert(id) {
                bail!("two locations of Score-P's traces would have the id {}", id.get());
            }
            shared.locations.insert(*location, id);
        }
        for (node, definition) in &scorep.definitions.system_tree_nodes {
            if !definition.parent.is_defined() {
                shared.nodes.insert(*node, self.root);
            }
        }
        Ok(shared)
    }

    /// The id of the next location of NCCL's in a process.
    fn next(&mut self, rank: u32) -> Result<LocationRef> {
        let next = self.next.entry(rank).or_default();
        let id = LocationRef::new((OURS | *next) << 32 | u64::from(rank));
        *next += 1;
        if *next >= OURS {
            bail!("rank {rank} has more locations than there are ids");
        }
        if self.theirs.contains(&id) {
            bail!(
                "Score-P's trace has a location {} where those of NCCL's are to be: it is none of Score-P's, or merged \
                 already",
                id.get()
            );
        }
        Ok(id)
    }

    /// What an archive of NCCL's has in common with Score-P's, and its new ids. Calls can be on Score-P's locations.
    pub(in crate::merge) fn shared(
        &mut self,
        processes: &MergedProcesses,
        nccl: &Nccl,
        number: usize,
        pairs: &[Pair],
        calls: &BTreeMap<LocationRef, LocationRef>,
    ) -> Result<Shared> {
        let mut shared = Shared::default();
        let mut ranks: BTreeMap<LocationGroupRef, u32> = BTreeMap::new();
        for pair in pairs.iter().filter(|pair| pair.nccl.0 == number) {
            let ours = nccl.processes.get(pair.nccl.1);
            if let (Some(ours), Some((group, node, rank))) = (ours, processes.get(pair.scorep)) {
                ranks.insert(ours.group, rank);
                shared.groups.insert(ours.group, group);
                if let Some(group) = nccl.definitions.location_groups.get(&ours.group) {
                    // A host of NCCL's archive can be several of Score-P's (containers): the first stands for it.
                    let parent = group.system_tree_parent;
                    shared.nodes.entry(parent).or_insert(node);
                }
            }
        }
        for (node, definition) in &nccl.definitions.system_tree_nodes {
            if !definition.parent.is_defined() {
                shared.nodes.insert(*node, self.root);
            }
        }
        for location in nccl.definitions.locations.keys() {
            let process = nccl.process_of(*location);
            let rank = process.and_then(|process| ranks.get(&process));
            if let Some(thread) = calls.get(location) {
                shared.threads.insert(*location);
                shared.locations.insert(*location, *thread);
                continue;
            }
            let id = self.next(rank.copied().unwrap_or(NO_RANK))?;
            shared.locations.insert(*location, id);
        }
        Ok(shared)
    }
}
