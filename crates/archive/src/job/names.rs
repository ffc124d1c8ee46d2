//! Strings, attributes and regions of the whole archive, the maps from each part's numbers to the archive's, and the
//! names and properties of locations.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::job::clocks::Property;
use crate::job::communicators::{Communicator, Communicators, Origin};
use crate::part::manifest::{
    AttributeDefinition, Connection, LocationDefinition, LocationKind, LocationOwner, Manifest, RegionDefinition,
};
use model::links::transfers::placeholder;
use nccl_events::archive::LocationKind as Kind;
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::definition::{
    LocationKind as LocationKindProperty, RankLocation, Sibling, StreamId, ThreadId, property,
};
use nccl_events::sort::Gather;
use rustc_hash::FxHashMap;

/// The strings of the archive, numbered in the order of first use.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    texts: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Strings {
    /// The number of a text. OTF2 strings end at a NUL, so NULs are removed.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        let text = if text.contains('\0') { Cow::Owned(text.replace('\0', "")) } else { Cow::Borrowed(text) };
        if let Some(&number) = self.numbers.get(text.as_ref()) {
            return number;
        }
        let number = index_u32(self.texts.len());
        self.texts.push(text.clone().into_owned());
        self.numbers.insert(text.into_owned(), number);
        number
    }

    pub(crate) fn all(&self) -> &[String] {
        &self.texts
    }
}

/// Definitions of one kind, each once, ordered by content.
#[derive(Debug)]
pub(crate) struct MergedDefinitions<T> {
    pub(crate) all: Vec<T>,
    /// For each part: the archive's numbers of its definitions.
    pub(crate) maps: Vec<Vec<u32>>,
}

fn merge<'a, T, K>(parts: impl Iterator<Item = &'a [T]> + Clone, key: impl Fn(&'a T) -> K) -> MergedDefinitions<T>
where
    T: Clone + 'a,
    K: Ord,
{
    let mut known: BTreeMap<K, &T> = BTreeMap::new();
    // Most parts share one list.
    let mut lists: BTreeMap<*const [T], Vec<u32>> = BTreeMap::new();
    for part in parts.clone() {
        if lists.insert(part, Vec::new()).is_none() {
            for definition in part {
                known.entry(key(definition)).or_insert(definition);
            }
        }
    }
    let numbers: BTreeMap<&K, u32> = known.keys().zip(0..).gather();
    let number = |definition| numbers.get(&key(definition)).copied().unwrap_or(0);
    let maps = parts.map(|part: &'a [T]| {
        let map = lists.entry(part).or_default();
        if map.is_empty() {
            *map = part.iter().map(number).collect();
        }
        map.clone()
    });
    MergedDefinitions { maps: maps.collect(), all: known.into_values().cloned().collect() }
}

pub(crate) fn attributes(parts: &[&Manifest]) -> MergedDefinitions<AttributeDefinition> {
    let parts = parts.iter().map(|part| &*part.attributes);
    merge(parts, |attribute| (attribute.name.as_str(), attribute.value_type))
}

pub(crate) fn regions(parts: &[&Manifest]) -> MergedDefinitions<RegionDefinition> {
    merge(parts.iter().map(|part| &*part.regions), |region| region)
}

/// The region groups: name, and the regions in the group.
pub(crate) fn region_groups(regions: &[RegionDefinition]) -> BTreeMap<&str, BTreeSet<u64>> {
    let mut groups: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (number, region) in (0..).zip(regions) {
        groups.entry(&region.group).or_default().insert(number);
    }
    groups
}

/// The properties of a location. `map` has the archive's numbers of the part's communicators; `origin` is the rank of
/// another process that the location worked for.
pub(crate) fn location_properties(
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

/// The name of a location. `comms` has the archive's communicators by the part's numbers; `origin` is the rank of
/// another process that the work was for, if known.
pub(crate) fn location_name(location: &LocationDefinition, comms: &[&Communicator], origin: Option<&str>) -> String {
    let name = match &location.kind {
        LocationKind::Thread { thread_id, is_callback, .. } => {
            let what = match is_callback {
                true => "CUDA callback thread",
                false => "API thread",
            };
            with_id(what, *thread_id)
        }
        LocationKind::Proxy { thread_id } => with_id("proxy thread", *thread_id),
        LocationKind::Communicator { comm, rank, .. } => {
            let comm = comms.get(index(*comm));
            let name = comm.map_or("?", |comm| comm.name.as_str());
            let ranks = comm.map_or(0, |comm| comm.locations.len());
            format!("NCCL {name} rank {rank}/{ranks}")
        }
        LocationKind::Stream { context, stream, is_ambiguous, .. } => match is_ambiguous {
            false => format!("CUDA stream {stream}"),
            true => format!("CUDA stream {stream} of context {context}"),
        },
        LocationKind::Channel { owner, channel } => {
            format!("NCCL {} ch{channel:02}", owner_name(owner, comms, origin))
        }
        LocationKind::Ranges { domain } if domain.is_empty() => "NVTX".to_owned(),
        LocationKind::Ranges { domain } => format!("NVTX {domain}"),
        LocationKind::Net(connection) => connection_name(connection, comms, origin),
        LocationKind::Step { connection, slot } => {
            format!("{} s{slot}", connection_name(connection, comms, origin))
        }
        LocationKind::Plugin { connection, slot } => {
            format!("{} s{slot} plugin", connection_name(connection, comms, origin))
        }
    };
    match location.sibling {
        0 => name,
        sibling => format!("{name} #{}", sibling + 1),
    }
}

fn with_id(what: &str, thread_id: u32) -> String {
    match thread_id {
        0 => what.to_owned(),
        thread_id => format!("{what} {thread_id}"),
    }
}

fn owner_name(owner: &LocationOwner, comms: &[&Communicator], origin: Option<&str>) -> String {
    match *owner {
        LocationOwner::Rank { comm, rank, .. } => {
            let name = comms.get(index(comm)).map_or("?", |comm| comm.name.as_str());
            format!("{name} r{rank}")
        }
        LocationOwner::Foreign { context, own: false } => origin.map_or_else(|| placeholder(context), str::to_owned),
        LocationOwner::Foreign { context, own: true } => format!("<lost init {context:#x}>"),
    }
}

fn connection_name(connection: &Connection, comms: &[&Communicator], origin: Option<&str>) -> String {
    let Connection { owner, channel, send, peer } = connection;
    let direction = if *send { "send→" } else { "recv←" };
    let owner = owner_name(owner, comms, origin);
    format!("net {owner} ch{channel:02} {direction}{peer}")
}
