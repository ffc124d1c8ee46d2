//! Reads the kind, rank and siblings of locations from their properties.

use std::collections::BTreeMap;

use nccl_events::archive::LocationKind;
use nccl_events::schema::Carrier;
use nccl_events::schema::definition::DefinitionProperty;
use nccl_events::schema::definition::{RankLocation, Sibling};
use otf2::{AttributeValue, CommRef, Definitions, LocationRef, StringRef};

use crate::communicators::Communicators;
use crate::fields::value_of;
use nccl_events::schema::definition;

#[derive(Debug, Default)]
pub(crate) struct Locations {
    pub(crate) kinds: BTreeMap<LocationRef, LocationKind>,
    pub(crate) ranks: BTreeMap<LocationRef, (CommRef, u32)>,
    pub(crate) siblings: BTreeMap<LocationRef, Vec<LocationRef>>,
}

impl Locations {
    pub(crate) fn of(definitions: &Definitions, communicators: &Communicators) -> Self {
        let mut found = Self::default();
        found.ranks.extend(communicators.ranks.iter().map(|((location, comm), rank)| (*location, (*comm, *rank))));
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
}

pub fn property(
    definitions: &Definitions,
    properties: &[(StringRef, AttributeValue)],
    name: &str,
) -> Option<AttributeValue> {
    let mut properties = properties.iter();
    properties.find(|(key, _)| definitions.string(*key) == Some(name)).map(|(_, value)| *value)
}

pub(crate) type PropertyValue<'a, P> = Option<<<P as DefinitionProperty>::Carrier as Carrier>::Parsed<&'a str>>;

/// The value of a definition's property; `None` if it is missing or has an unexpected type.
pub fn stated<'a, P: DefinitionProperty>(
    definitions: &'a Definitions,
    properties: &[(StringRef, AttributeValue)],
    _: P,
) -> PropertyValue<'a, P> {
    let value = value_of(property(definitions, properties, P::NAME)?)?;
    P::Carrier::take(value, |text| definitions.string(text))
}
