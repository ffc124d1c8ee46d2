//! Which locations are on one host, and which hosts are one boot of a machine: they share a clock.

use otf2::{
    AttributeValue, Definitions, LocationGroupRef, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

/// The property of a host's node that tells boots apart.
const BOOT_ID: &str = "boot id";

/// A boot of a machine: hosts of one boot, as containers are, have one clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Boot<'a> {
    /// By its id.
    Id(&'a str),
    /// By its host, where no id is known.
    Host(SystemTreeNodeRef),
}

/// The host of a group of locations. A GPU is in the tree below its host.
pub(crate) fn host(
    definitions: &Definitions,
    group: LocationGroupRef,
) -> Option<SystemTreeNodeRef> {
    let group = definitions.location_groups.get(&group)?;
    let mut host = group.system_tree_parent;
    for _ in 0..definitions.system_tree_nodes.len() {
        match definitions.system_tree_nodes.get(&host) {
            Some(node) if node.domains.contains(&SystemTreeDomain::AcceleratorDevice) => {
                host = node.parent;
            }
            _ => break,
        }
    }
    Some(host)
}

/// The boot that a group of locations ran on.
pub(crate) fn boot(definitions: &Definitions, group: LocationGroupRef) -> Option<Boot<'_>> {
    let host = host(definitions, group)?;
    let node = definitions.system_tree_nodes.get(&host);
    let properties = node.map_or(&[][..], |node| &node.properties);
    let id = match property(definitions, properties, BOOT_ID) {
        Some(AttributeValue::String(id)) => definitions.string(id),
        _ => None,
    };
    Some(id.map_or(Boot::Host(host), Boot::Id))
}

/// A property of a definition.
pub(crate) fn property(
    definitions: &Definitions,
    properties: &[(StringRef, AttributeValue)],
    name: &str,
) -> Option<AttributeValue> {
    let mut properties = properties.iter();
    let found = properties.find(|(key, _)| definitions.string(*key) == Some(name));
    found.map(|(_, value)| *value)
}
