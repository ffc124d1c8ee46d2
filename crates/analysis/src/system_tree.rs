//! Finds the process, host and rank of a location, and hosts that are one boot of a machine and so share a clock.

use nccl_events::archive::LocationKind;
use nccl_events::ids::index;
use nccl_events::schema::definition::DefinitionProperty;
use otf2::{LocationGroupRef, LocationGroupType, LocationRef, SystemTreeDomain, SystemTreeNodeRef};

use crate::archive::Trace;
use crate::locations::{PropertyValue, property, stated};

/// The property of a host's node that identifies the boot.
const BOOT_ID: &str = "boot id";

/// One boot of a machine: hosts with the same boot, such as containers, share a clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boot<'a> {
    Id(&'a str),
    /// The host itself, if the boot id is unknown.
    Host(SystemTreeNodeRef),
}

impl Trace {
    pub fn processes(&self) -> impl Iterator<Item = LocationGroupRef> {
        let groups = self.definitions.location_groups.iter();
        groups.filter(|(_, group)| group.group_type == LocationGroupType::Process).map(|(reference, _)| *reference)
    }

    /// The group of a location; an undefined reference if it has none.
    pub fn group(&self, location: LocationRef) -> LocationGroupRef {
        self.definitions.locations.get(&location).map(|location| location.group).unwrap_or_default()
    }

    /// The process of a group of locations: the group itself or, for a GPU's group, its creator.
    pub fn process(&self, group: LocationGroupRef) -> LocationGroupRef {
        let creator = self.definitions.location_groups.get(&group).map(|group| group.creator);
        creator.filter(|creator| creator.is_defined()).unwrap_or(group)
    }

    pub fn group_name(&self, group: LocationGroupRef) -> &str {
        let name = self.definitions.location_groups.get(&group).and_then(|group| self.definitions.string(group.name));
        name.unwrap_or_default()
    }

    /// The host of a group of locations. A GPU's node is below its host's.
    pub fn host(&self, group: LocationGroupRef) -> Option<SystemTreeNodeRef> {
        let nodes = &self.definitions.system_tree_nodes;
        let mut host = self.definitions.location_groups.get(&group)?.system_tree_parent;
        // The nodes of a damaged archive may form a cycle.
        for _ in 0..nodes.len() {
            match nodes.get(&host) {
                Some(node) if node.domains.contains(&SystemTreeDomain::AcceleratorDevice) => {
                    host = node.parent;
                }
                _ => break,
            }
        }
        Some(host)
    }

    pub fn node_name(&self, node: SystemTreeNodeRef) -> Option<&str> {
        self.definitions.string(self.definitions.system_tree_nodes.get(&node)?.name)
    }

    pub fn host_name(&self, group: LocationGroupRef) -> Option<&str> {
        self.node_name(self.host(group)?)
    }

    pub fn boot(&self, group: LocationGroupRef) -> Option<Boot<'_>> {
        let host = self.host(group)?;
        let properties = self.definitions.system_tree_nodes.get(&host).map_or(&[][..], |node| &node.properties);
        let id = property(&self.definitions, properties, BOOT_ID);
        Some(id.and_then(|id| self.text(id)).map_or(Boot::Host(host), Boot::Id))
    }
}

impl Trace {
    pub fn of_location<P: DefinitionProperty>(&self, location: LocationRef, property: P) -> PropertyValue<'_, P> {
        stated(&self.definitions, &self.definitions.locations.get(&location)?.properties, property)
    }

    pub fn of_group<P: DefinitionProperty>(&self, group: LocationGroupRef, property: P) -> PropertyValue<'_, P> {
        stated(&self.definitions, &self.definitions.location_groups.get(&group)?.properties, property)
    }

    /// The locations of these kinds that have events, ascending.
    pub fn locations_of(&self, kinds: &[LocationKind]) -> Vec<LocationRef> {
        let is_one = |it: &LocationRef| self.location_kind(*it).is_some_and(|kind| kinds.contains(&kind));
        self.definitions.locations.keys().copied().filter(|it| is_one(it) && self.has_events(*it)).collect()
    }

    /// Whether a location is a thread that calls NCCL, or on which NCCL calls the plugin.
    pub fn is_thread(&self, location: LocationRef) -> bool {
        matches!(self.location_kind(location), Some(LocationKind::ApiThread | LocationKind::CallbackThread))
    }

    /// The communicator location for the rank that a location belongs to.
    pub fn member_of(&self, location: LocationRef) -> Option<LocationRef> {
        let (comm, rank) = self.rank_of(location)?;
        self.members(comm).get(index(rank)).copied()
    }
}
