//! What NCCL's definitions become that Score-P's trace has already, and the ids of NCCL's locations in it.
//!
//! Score-P's ids of locations are `(number in the process << 32) | rank`. NCCL's get `((0x80000000 | number) << 32) |
//! rank`: they can never be one that Score-P gives.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use otf2::{LocationGroupRef, LocationRef, SystemTreeNodeRef};

use super::definitions::InCommon;
use super::nccl::Nccl;
use super::pairing::Pair;
use super::scorep::{self, ScoreP};

/// The bit that Score-P's numbers do not reach.
const OURS: u64 = 0x8000_0000;
/// In the place of a rank: of locations that belong to none.
const NO_RANK: u32 = u32::MAX;

/// Gives ids.
#[derive(Debug)]
pub(super) struct Ids {
    theirs: BTreeSet<LocationRef>,
    next: BTreeMap<u32, u64>,
    root: SystemTreeNodeRef,
}

impl Ids {
    /// Beside those that Score-P gave.
    pub(super) fn beside(scoreps: &[ScoreP]) -> Self {
        let locations = scoreps
            .iter()
            .flat_map(|it| it.definitions.locations.keys());
        let nodes = scoreps
            .iter()
            .flat_map(|it| &it.definitions.system_tree_nodes);
        let mut roots = nodes.filter(|(_, node)| !node.parent.is_defined());
        Self {
            theirs: locations.copied().collect(),
            next: BTreeMap::new(),
            root: roots.next().map(|(root, _)| *root).unwrap_or_default(),
        }
    }

    /// What an archive of NCCL's has in common with Score-P's, and its new ids.
    ///
    /// # Errors
    ///
    /// When an id is taken.
    pub(super) fn in_common(
        &mut self,
        scoreps: &[ScoreP],
        nccl: &Nccl,
        number: usize,
        pairs: &[Pair],
    ) -> Result<InCommon> {
        let mut common = InCommon::default();
        let mut processes: BTreeMap<LocationGroupRef, &scorep::Process> = BTreeMap::new();
        for pair in pairs.iter().filter(|pair| pair.nccl.0 == number) {
            let ours = nccl.processes.get(pair.nccl.1);
            let theirs = scoreps.get(pair.scorep.0);
            let theirs = theirs.and_then(|it| it.processes.get(pair.scorep.1));
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                processes.insert(ours.group, theirs);
            }
        }
        for (ours, theirs) in &processes {
            common.groups.insert(*ours, theirs.group);
            if let Some(group) = nccl.definitions.location_groups.get(ours) {
                // A host of NCCL's archive can be several of Score-P's (containers): the first stands for it.
                let node = group.system_tree_parent;
                common.nodes.entry(node).or_insert(theirs.node);
            }
        }
        for (node, definition) in &nccl.definitions.system_tree_nodes {
            if !definition.parent.is_defined() {
                common.nodes.insert(*node, self.root);
            }
        }
        for location in nccl.definitions.locations.keys() {
            let process = nccl.process_of(*location);
            let process = process.and_then(|process| processes.get(&process));
            let rank = process.map_or(NO_RANK, |process| process.rank);
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
            common.locations.insert(*location, id);
        }
        Ok(common)
    }
}
