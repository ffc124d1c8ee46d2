//! What a location says of itself, for programs: its kind, its rank, its thread or stream, and which sibling it is.

use otf2::records::Property;
use otf2::{AttributeValue, LocationRef, StringRef};

use crate::archive::communicators::Communicators;
use crate::archive::merged::Strings;
use crate::archive::origins::Origin;
use crate::part::manifest::{LocationDefinition, LocationKind, LocationOwner};
use nccl_events::archive::{LOCATION_KIND, LocationKind as Kind, RANK_LOCATION, SIBLING, STREAM_ID, THREAD_ID};
use tables::index::index;

/// The properties of a location. `map` has the archive's numbers of the part's communicators; `origin` is the rank of
/// another process that it worked for.
pub(crate) fn of_location(
    location: &LocationDefinition,
    origin: Option<Origin>,
    communicators: &Communicators,
    map: &[u32],
    strings: &mut Strings,
) -> Vec<Property> {
    let mut properties = kind(kind_of(&location.kind), strings);
    let mut add = |name, value| properties.push((StringRef::new(strings.number(name)), value));
    let own = rank(location).and_then(|(comm, rank)| Some((*map.get(index(comm))?, rank)));
    let rank = origin.map(|origin| (origin.comm, origin.rank)).or(own);
    let rank = rank.and_then(|(comm, rank)| {
        let comm = communicators.all.get(index(comm))?;
        comm.locations.get(index(rank))
    });
    if let Some(location) = rank {
        let location = LocationRef::new(*location);
        add(RANK_LOCATION, AttributeValue::Location(location));
    }
    if let LocationKind::Thread { thread_id, .. } | LocationKind::Proxy { thread_id } = location.kind
        && thread_id != 0
    {
        add(THREAD_ID, AttributeValue::U64(thread_id.into()));
    }
    if let LocationKind::Stream { stream, .. } = location.kind {
        add(STREAM_ID, AttributeValue::U32(stream));
    }
    if location.sibling > 0 {
        add(SIBLING, AttributeValue::U32(location.sibling + 1));
    }
    properties
}

/// The property of a location that is only of some kind.
pub(crate) fn kind(kind: Kind, strings: &mut Strings) -> Vec<Property> {
    let name = StringRef::new(strings.number(LOCATION_KIND));
    let kind = StringRef::new(strings.number(kind.name()));
    vec![(name, AttributeValue::String(kind))]
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
    }
}

/// The part's communicator and the rank that a location belongs to, unless the location stands for that rank.
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
