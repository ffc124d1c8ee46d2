//! What the properties of locations say: their kind, their rank, and their siblings.

use std::collections::BTreeMap;

use nccl_events::archive::LocationKind;
use nccl_events::index::index;
use otf2::{AttributeValue, CommRef, Definitions, LocationGroupRef, LocationRef, StringRef};
use schema::definition::{self, RankLocation, Sibling};
use schema::{Carrier, DefinitionProperty};

use crate::archive::Trace;
use crate::communicators::Communicators;
use crate::fields::value_of;

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
            let properties = &definition.properties;
            let Some(kind) = stated(definitions, properties, definition::LocationKind) else {
                continue;
            };
            found.kinds.insert(*location, kind);
            let Some(member) = stated(definitions, properties, RankLocation).map(LocationRef::new) else {
                continue;
            };
            if let Some(rank) = found.ranks.get(&member).copied() {
                found.ranks.insert(*location, rank);
            }
            if kind == LocationKind::Communicator && stated(definitions, properties, Sibling).is_some() {
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

pub fn property(
    definitions: &Definitions,
    properties: &[(StringRef, AttributeValue)],
    name: &str,
) -> Option<AttributeValue> {
    let mut properties = properties.iter();
    properties.find(|(key, _)| definitions.string(*key) == Some(name)).map(|(_, value)| *value)
}

/// What a property says.
type Said<'a, P> = Option<<<P as DefinitionProperty>::Carrier as Carrier>::Taken<&'a str>>;

/// What a property of a definition says; `None` if it is not there, or is of a type that does not fit.
pub fn stated<'a, P: DefinitionProperty>(
    definitions: &'a Definitions,
    properties: &[(StringRef, AttributeValue)],
    _: P,
) -> Said<'a, P> {
    let value = value_of(property(definitions, properties, P::NAME)?)?;
    P::Carrier::take(value, |text| definitions.string(text))
}

impl Trace {
    /// What a property of a location says.
    pub fn of_location<P: DefinitionProperty>(&self, location: LocationRef, property: P) -> Said<'_, P> {
        stated(&self.definitions, &self.definitions.locations.get(&location)?.properties, property)
    }

    /// What a property of a group of locations says.
    pub fn of_group<P: DefinitionProperty>(&self, group: LocationGroupRef, property: P) -> Said<'_, P> {
        stated(&self.definitions, &self.definitions.location_groups.get(&group)?.properties, property)
    }

    /// The locations of these kinds that have events, ascending.
    pub fn locations_of(&self, kinds: &[LocationKind]) -> Vec<LocationRef> {
        let is_one = |it: &LocationRef| self.location_kind(*it).is_some_and(|kind| kinds.contains(&kind));
        self.definitions.locations.keys().copied().filter(|it| is_one(it) && self.has_events(*it)).collect()
    }

    /// Whether a location is a thread that calls NCCL, or that NCCL calls back.
    pub fn is_thread(&self, location: LocationRef) -> bool {
        matches!(self.location_kind(location), Some(LocationKind::ApiThread | LocationKind::CallbackThread))
    }

    /// The location that stands for the rank of another.
    pub fn member_of(&self, location: LocationRef) -> Option<LocationRef> {
        let (comm, rank) = self.rank_of(location)?;
        self.members(comm).get(index(rank)).copied()
    }
}
