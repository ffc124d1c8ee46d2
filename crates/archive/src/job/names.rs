//! Strings, attributes and regions of the whole archive, the maps from each part's numbers to the archive's, and the
//! names and properties of locations.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::job::clocks::Property;
use crate::job::communicators::Communicator;
use crate::part::manifest::{AttributeDefinition, LocationDefinition, LocationKind, Manifest, RegionDefinition};
use nccl_events::archive::LocationKind as Kind;
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::definition::{CommId, LocationKind as LocationKindProperty, StreamId, ThreadId, property};
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

/// Merges those definitions of the parts that `is_wanted` says.
fn merge<'a, T, K>(
    parts: impl Iterator<Item = &'a [T]> + Clone,
    is_wanted: impl Fn(&T) -> bool,
    key: impl Fn(&'a T) -> K,
) -> MergedDefinitions<T>
where
    T: Clone + 'a,
    K: Ord,
{
    let mut known: BTreeMap<K, &T> = BTreeMap::new();
    // Most parts share one list.
    let mut lists: BTreeMap<*const [T], Vec<u32>> = BTreeMap::new();
    for part in parts.clone() {
        if lists.insert(part, Vec::new()).is_none() {
            for definition in part.iter().filter(|definition| is_wanted(definition)) {
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
    merge(parts, |attribute| attribute.is_used, |attribute| (attribute.name.as_str(), attribute.value_type))
}

pub(crate) fn regions(parts: &[&Manifest]) -> MergedDefinitions<RegionDefinition> {
    merge(parts.iter().map(|part| &*part.regions), |_| true, |region| region)
}

/// The parameters: each the region after which it is named, and the maps from the parts' numbers.
pub(crate) fn parameters(parts: &[&Manifest], regions: &MergedDefinitions<RegionDefinition>) -> MergedDefinitions<u32> {
    let lists = || {
        parts
            .iter()
            .zip(&regions.maps)
            .map(|(part, map)| part.parameters.iter().map(|region| map.get(index(*region)).copied().unwrap_or(0)))
    };
    let all: BTreeSet<u32> = lists().flatten().gather();
    let numbers: BTreeMap<u32, u32> = all.iter().copied().zip(0..).gather();
    let number = |region: u32| numbers.get(&region).copied().unwrap_or(0);
    MergedDefinitions { maps: lists().map(|list| list.map(number).collect()).collect(), all: all.into_iter().collect() }
}

/// The region groups: name, and the regions in the group.
pub(crate) fn region_groups(regions: &[RegionDefinition]) -> BTreeMap<&str, BTreeSet<u64>> {
    let mut groups: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (number, region) in (0..).zip(regions) {
        groups.entry(&region.group).or_default().insert(number);
    }
    groups
}

/// The properties of a location. `comms` has the archive's communicators by the part's numbers.
pub(crate) fn location_properties(location: &LocationDefinition, comms: &[&Communicator]) -> Vec<Property> {
    let mut properties = vec![kind(kind_of(&location.kind))];
    if let LocationKind::Communicator { comm, .. } = &location.kind {
        properties.extend(comms.get(index(*comm)).and_then(|comm| comm_id(comm)));
    }
    let thread_id = match &location.kind {
        LocationKind::Thread { thread_id, .. } => Some(*thread_id),
        LocationKind::Proxy { thread_ids } => thread_ids.first().copied(),
        _ => None,
    };
    properties.extend(thread_id.filter(|id| *id != 0).map(|id| property(ThreadId, id.into())));
    if let LocationKind::Stream { stream, .. } = location.kind {
        properties.push(property(StreamId, stream));
    }
    properties
}

/// The property with a location's kind.
pub(crate) fn kind(kind: Kind) -> Property {
    property(LocationKindProperty, kind.name().to_owned())
}

/// The property with a communicator's id, as NCCL's log has it.
pub(crate) fn comm_id(comm: &Communicator) -> Option<Property> {
    Some(property(CommId, format!("{:#x}", comm.id?)))
}

const fn kind_of(kind: &LocationKind) -> Kind {
    match kind {
        LocationKind::Thread { is_callback: true, .. } => Kind::CallbackThread,
        LocationKind::Thread { .. } => Kind::ApiThread,
        LocationKind::Proxy { .. } => Kind::ProxyThread,
        LocationKind::Communicator { .. } => Kind::Communicator,
        LocationKind::Stream { .. } => Kind::Stream,
        LocationKind::Ranges { .. } => Kind::Ranges,
    }
}

/// The name of a location. `comms` has the archive's communicators by the part's numbers.
pub(crate) fn location_name(location: &LocationDefinition, comms: &[&Communicator]) -> String {
    match &location.kind {
        LocationKind::Thread { thread_id, is_callback, .. } => {
            let what = match is_callback {
                true => "CUDA callback thread",
                false => "API thread",
            };
            with_id(what, *thread_id)
        }
        LocationKind::Proxy { thread_ids } => match thread_ids.as_slice() {
            [] => "proxy thread".to_owned(),
            [thread_id] => with_id("proxy thread", *thread_id),
            [first, others @ ..] => format!("{} and {} more", with_id("proxy thread", *first), others.len()),
        },
        LocationKind::Communicator { comm, rank, .. } => {
            let comm = comms.get(index(*comm));
            format!("NCCL {} rank {rank}", comm.map_or("?", |comm| comm.name.as_str()))
        }
        LocationKind::Stream { context, stream, is_ambiguous, .. } => match is_ambiguous {
            false => format!("CUDA stream {stream}"),
            true => format!("CUDA stream {stream} of context {context}"),
        },
        LocationKind::Ranges { domain } if domain.is_empty() => "NVTX".to_owned(),
        LocationKind::Ranges { domain } => format!("NVTX {domain}"),
    }
}

fn with_id(what: &str, thread_id: u32) -> String {
    match thread_id {
        0 => what.to_owned(),
        thread_id => format!("{what} {thread_id}"),
    }
}
