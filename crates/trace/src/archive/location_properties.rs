//! A location's properties, for programs: its kind, its rank, its thread or stream, and its sibling number.

use crate::archive::clock_statements::Property;
use crate::archive::communicators::Communicators;
use crate::archive::origins::Origin;
use crate::part::manifest::{LocationDefinition, LocationKind, LocationOwner};
use nccl_events::archive::LocationKind as Kind;
use nccl_events::ids::index;
use nccl_events::schema::definition::property;
use nccl_events::schema::definition::{
    LocationKind as LocationKindProperty, RankLocation, Sibling, StreamId, ThreadId,
};

/// The properties of a location. `map` has the archive's numbers of the part's communicators; `origin` is the rank of
/// another process that the location worked for.
pub(crate) fn of_location(
    location: &LocationDefinition,
    origin: Option<Origin>,
    communicators: &Communicators,
    map: &[u32],
) -> Vec<Property> {
    let mut properties = vec![kind(kind_of(&location.kind))];
    let own = rank(location).and_then(|(comm, rank)| Some((*map.get(index(comm))?, rank)));
    let rank = origin.map(|origin| (origin.comm, origin.rank)).or(own);
    let rank = rank.and_then(|(comm, rank)| communicators.all.get(index(comm))?.locations.get(index(rank)));
    if let Some(location) = rank {
        properties.push(property(RankLocation, *location));
    }
    if let LocationKind::Thread { thread_id, .. } | LocationKind::Proxy { thread_id } = location.kind
        && thread_id != 0
    {
        properties.push(property(ThreadId, thread_id.into()));
    }
    if let LocationKind::Stream { stream, .. } = location.kind {
        properties.push(property(StreamId, stream));
    }
    if location.sibling > 0 {
        properties.push(property(Sibling, location.sibling + 1));
    }
    properties
}

/// The property with a location's kind.
pub(crate) fn kind(kind: Kind) -> Property {
    property(LocationKindProperty, kind.name().to_owned())
}

const fn kind_of(kind: &LocationKind) -> Kind {
    match kind {
        LocationKind::Thread { is_callback: true, .. } => Kind::CallbackThread,
        LocationKind::Thread { .. } => Kind::ApiThread,
        LocationKind::Proxy { .. } => Kind::ProxyThread,
        LocationKind::Communicator { .. } => Kind::Communicator,
        LocationKind::Stream { .. } => Kind::Stream,
        LocationKind::Channel { .. } => Kind::Channel,
        LocationKind::Net(_) => Kind::Connection,
        LocationKind::Step { .. } => Kind::Slot,
        LocationKind::Plugin { .. } => Kind::NetPlugin,
        LocationKind::Ranges { .. } => Kind::Ranges,
    }
}

/// The part's communicator and the rank that a location belongs to, unless the location represents that rank.
const fn rank(location: &LocationDefinition) -> Option<(u32, u32)> {
    let owner = match &location.kind {
        LocationKind::Communicator { comm, rank, .. } if location.sibling > 0 => {
            return Some((*comm, *rank));
        }
        LocationKind::Channel { owner, .. } => owner,
        LocationKind::Net(connection)
        | LocationKind::Step { connection, .. }
        | LocationKind::Plugin { connection, .. } => &connection.owner,
        _ => return None,
    };
    match owner {
        LocationOwner::Rank { comm, rank, .. } => Some((*comm, *rank)),
        LocationOwner::Foreign { .. } => None,
    }
}
