//! Which locations belong to which communicator.

use std::collections::BTreeMap;

use otf2::{CommRef, Definitions, GroupRef, GroupType, LocationRef, Paradigm};

#[derive(Debug, Default)]
pub(crate) struct Communicators {
    pub(crate) members: BTreeMap<CommRef, Vec<LocationRef>>,
    pub(crate) ranks: BTreeMap<(LocationRef, CommRef), u32>,
    /// The two groups of intercommunicators.
    pub(crate) inter: BTreeMap<CommRef, [Vec<LocationRef>; 2]>,
}

impl Communicators {
    /// A communicator's members are indices into its paradigm's list of communicating locations.
    pub(crate) fn of(definitions: &Definitions) -> Self {
        let mut lists: BTreeMap<Paradigm, &[u64]> = BTreeMap::new();
        for group in definitions.groups.values() {
            if group.group_type == GroupType::CommLocations {
                lists.entry(group.paradigm).or_insert(&group.members);
            }
        }
        let members = |group: &GroupRef| -> Vec<LocationRef> {
            let group = definitions.groups.get(group);
            let Some((group, list)) = group.and_then(|group| Some((group, lists.get(&group.paradigm)?))) else {
                return Vec::new();
            };
            let ids = group.members.iter().filter_map(|place| list.get(usize::try_from(*place).ok()?));
            ids.map(|id| LocationRef::new(*id)).collect()
        };
        let mut found = Self::default();
        for (comm, definition) in &definitions.inter_comms {
            found.inter.insert(*comm, [definition.group_a, definition.group_b].map(|group| members(&group)));
        }
        for (comm, definition) in &definitions.comms {
            let members = members(&definition.group);
            for (rank, location) in (0..).zip(&members) {
                found.ranks.entry((*location, *comm)).or_insert(rank);
            }
            found.members.insert(*comm, members);
        }
        found
    }
}
