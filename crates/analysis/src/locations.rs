//! What the properties of locations say: their kind, their rank, and their siblings.

use std::collections::BTreeMap;

use nccl_events::archive::{LOCATION_KIND, LocationKind, RANK_LOCATION, SIBLING};
use otf2::{AttributeValue, CommRef, Definitions, LocationRef, StringRef};

use crate::communicators::Communicators;

#[derive(Debug, Default)]
pub(crate) struct Locations {
    kinds: BTreeMap<LocationRef, LocationKind>,
    ranks: BTreeMap<LocationRef, (CommRef, u32)>,
    siblings: BTreeMap<LocationRef, Vec<LocationRef>>,
}

impl Locations {
    pub(crate) fn of(definitions: &Definitions, communicators: &Communicators) -> Self {
        let mut found = Self::default();
        for (location, comm, rank) in communicators.all() {
            found.ranks.insert(location, (comm, rank));
        }
        for (location, definition) in &definitions.locations {
            let get = |name| property(definitions, &definition.properties, name);
            let kind = match get(LOCATION_KIND) {
                Some(AttributeValue::String(kind)) => definitions.string(kind),
                _ => None,
            };
            let Some(kind) = kind.and_then(LocationKind::parse) else {
                continue;
            };
            found.kinds.insert(*location, kind);
            let Some(AttributeValue::Location(member)) = get(RANK_LOCATION) else {
                continue;
            };
            if let Some(rank) = found.ranks.get(&member).copied() {
                found.ranks.insert(*location, rank);
            }
            if kind == LocationKind::Communicator && get(SIBLING).is_some() {
                found.siblings.entry(member).or_default().push(*location);
            }
        }
        found
    }

    pub(crate) fn kind(&self, location: LocationRef) -> Option<LocationKind> {
        self.kinds.get(&location).copied()
    }

    pub(crate) fn has_kinds(&self) -> bool {
        !self.kinds.is_empty()
    }

    pub(crate) fn rank_of(&self, location: LocationRef) -> Option<(CommRef, u32)> {
        self.ranks.get(&location).copied()
    }

    pub(crate) fn siblings(&self, location: LocationRef) -> &[LocationRef] {
        self.siblings.get(&location).map_or(&[], Vec::as_slice)
    }
}

/// A property of a definition.
#[must_use]
pub fn property(
    definitions: &Definitions,
    properties: &[(StringRef, AttributeValue)],
    name: &str,
) -> Option<AttributeValue> {
    let mut properties = properties.iter();
    let found = properties.find(|(key, _)| definitions.string(*key) == Some(name));
    found.map(|(_, value)| *value)
}
