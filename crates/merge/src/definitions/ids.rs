//! Finds hosts, processes and threads that Score-P's trace already has, and assigns location ids.
//!
//! Score-P's location ids are `(number in the process << 32) | rank`. NCCL's get `((0x80000000 | number) << 32) |
//! rank`, an id that Score-P never assigns.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use otf2::verbatim::ReferenceKind;
use otf2::{Definitions, LocationGroupRef, LocationRef, SystemTreeNodeRef};
use small_sort::Gather;

use super::numbers::{Numbers, Shared};
use crate::inputs::Inputs;
use crate::scorep::ScoreP;

/// A bit that Score-P's numbers never reach.
const OURS: u64 = 0x8000_0000;
/// The rank in ids of locations that belong to no rank.
const NO_RANK: u32 = u32::MAX;

/// Whether a location of the merged archive is NCCL's.
pub(crate) fn is_ours(location: LocationRef) -> bool {
    location.get() >> 32 & OURS != 0
}

/// The prefix for names of processes and GPUs of one of several traces.
pub(crate) fn prefix(scorep: &ScoreP) -> String {
    format!("rank {}: ", scorep.processes[0].id.rank)
}

/// Group, node and rank of a Score-P process in the merged archive.
type MergedProcess = (LocationGroupRef, SystemTreeNodeRef, u32);

#[derive(Debug)]
pub(crate) struct Ids {
    locations: BTreeSet<LocationRef>,
    processes: Vec<Vec<MergedProcess>>,
    next: BTreeMap<u32, u64>,
    root: SystemTreeNodeRef,
}

fn roots(definitions: &Definitions) -> impl Iterator<Item = SystemTreeNodeRef> {
    definitions.system_tree_nodes.iter().filter(|(_, node)| !node.parent.is_defined()).map(|(root, _)| *root)
}

impl Ids {
    /// The first trace keeps its numbers.
    pub(crate) fn of(first: &ScoreP) -> Self {
        Self {
            locations: first.definitions.locations.keys().copied().gather(),
            processes: vec![first.processes.iter().map(|it| (it.group, it.node, it.id.rank)).collect()],
            next: BTreeMap::new(),
            root: roots(&first.definitions).next().unwrap_or(SystemTreeNodeRef::UNDEFINED),
        }
    }

    /// The new ids of another Score-P trace, with its rank in place of 0.
    pub(crate) fn of_another(&mut self, scorep: &ScoreP) -> Result<Shared> {
        let mut shared = Shared { prefix: prefix(scorep), ..Shared::default() };
        let rank = u64::from(scorep.processes[0].id.rank);
        for location in scorep.definitions.locations.keys() {
            let id = LocationRef::new(location.get() & !u64::from(u32::MAX) | rank);
            if is_ours(id) || !self.locations.insert(id) {
                bail!("two locations of Score-P's traces would have the id {}", id.get());
            }
            shared.locations.insert(*location, id);
        }
        shared.nodes = roots(&scorep.definitions).map(|node| (node, self.root)).gather();
        Ok(shared)
    }

    /// Adds the processes of the next trace, with its new numbers.
    pub(crate) fn add(&mut self, scorep: &ScoreP, numbers: &Numbers) -> Result<()> {
        let new = |kind, old: u32| {
            let number = numbers.get(kind, old.into()).and_then(|number| u32::try_from(number).ok());
            number.with_context(|| format!("{kind:?} {old} is not defined"))
        };
        let processes = scorep.processes.iter().map(|it| {
            let group = new(ReferenceKind::LocationGroup, it.group.get())?;
            let node = new(ReferenceKind::SystemTreeNode, it.node.get())?;
            Ok((LocationGroupRef::new(group), SystemTreeNodeRef::new(node), it.id.rank))
        });
        self.processes.push(processes.collect::<Result<_>>()?);
        Ok(())
    }

    fn next(&mut self, rank: u32) -> Result<LocationRef> {
        let next = self.next.entry(rank).or_default();
        let id = LocationRef::new((OURS | *next) << 32 | u64::from(rank));
        *next += 1;
        if *next >= OURS {
            bail!("rank {rank} has more locations than there are ids");
        }
        if self.locations.contains(&id) {
            bail!(
                "Score-P's trace has a location {}, where NCCL's are to be: Score-P did not write it, or it is merged \
                 already",
                id.get()
            );
        }
        Ok(id)
    }

    /// What an NCCL archive shares with Score-P's, and its new ids. `calls`: locations that become Score-P's.
    pub(crate) fn of_nccl(
        &mut self,
        inputs: &Inputs,
        number: usize,
        calls: &BTreeMap<LocationRef, LocationRef>,
    ) -> Result<Shared> {
        let definitions = &inputs.nccls[number].trace.definitions;
        let mut shared = Shared::default();
        let mut ranks: BTreeMap<LocationGroupRef, u32> = BTreeMap::new();
        for pair in inputs.pairs.iter().filter(|pair| pair.nccl.archive == number) {
            let (group, node, rank) = self.processes[pair.scorep.archive][pair.scorep.process];
            let ours = inputs.ours(pair).group;
            ranks.insert(ours, rank);
            shared.groups.insert(ours, group);
            if let Some(group) = definitions.location_groups.get(&ours) {
                // A host of NCCL's archive can be several hosts in Score-P's (containers): the first one represents it.
                shared.nodes.entry(group.system_tree_parent).or_insert(node);
            }
        }
        shared.nodes.extend(roots(definitions).map(|node| (node, self.root)));
        for location in definitions.locations.keys() {
            let id = match calls.get(location) {
                Some(thread) => {
                    shared.threads.insert(*location);
                    *thread
                }
                None => {
                    self.next(ranks.get(&inputs.nccls[number].process_of(*location)).copied().unwrap_or(NO_RANK))?
                }
            };
            shared.locations.insert(*location, id);
        }
        Ok(shared)
    }
}
