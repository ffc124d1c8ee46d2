//! Processes, hosts, and which hosts are one boot of a machine: they share a clock.

use otf2::{LocationGroupRef, LocationGroupType, LocationRef, SystemTreeDomain, SystemTreeNodeRef};

use crate::archive::Trace;
use crate::locations::property;

/// The property of a host's node that identifies the boot.
const BOOT_ID: &str = "boot id";

/// A boot of a machine: hosts of one boot, as containers are, have one clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boot<'a> {
    Id(&'a str),
    /// By its host, where no id is known.
    Host(SystemTreeNodeRef),
}

impl Trace {
    pub fn processes(&self) -> impl Iterator<Item = LocationGroupRef> {
        let groups = self.definitions.location_groups.iter();
        groups.filter(|(_, group)| group.group_type == LocationGroupType::Process).map(|(reference, _)| *reference)
    }

    /// The group of a location; an undefined one if it is in none.
    pub fn group(&self, location: LocationRef) -> LocationGroupRef {
        self.definitions.locations.get(&location).map(|location| location.group).unwrap_or_default()
    }

    /// The process that a group of locations belongs to: itself, or the creator of a GPU's.
    pub fn process(&self, group: LocationGroupRef) -> LocationGroupRef {
        let creator = self.definitions.location_groups.get(&group).map(|group| group.creator);
        creator.filter(|creator| creator.is_defined()).unwrap_or(group)
    }

    pub fn group_name(&self, group: LocationGroupRef) -> &str {
        let name = self.definitions.location_groups.get(&group).and_then(|group| self.definitions.string(group.name));
        name.unwrap_or_default()
    }

    /// The host of a group of locations. A GPU is in the tree below its host.
    pub fn host(&self, group: LocationGroupRef) -> Option<SystemTreeNodeRef> {
        let nodes = &self.definitions.system_tree_nodes;
        let mut host = self.definitions.location_groups.get(&group)?.system_tree_parent;
        // Nodes of a damaged archive may be below each other.
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
