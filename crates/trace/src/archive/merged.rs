//! Strings, attributes and regions of the whole archive, and the maps from each part's numbers to the archive's.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::part::manifest::{AttributeDefinition, Manifest, RegionDefinition};
use nccl_events::ids::index_u32;
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
pub(crate) struct Merged<T> {
    pub(crate) all: Vec<T>,
    /// For each part: the archive's numbers of its definitions.
    pub(crate) maps: Vec<Vec<u32>>,
}

fn merge<'a, T, K>(parts: impl Iterator<Item = &'a [T]> + Clone, key: impl Fn(&'a T) -> K) -> Merged<T>
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
    Merged { maps: maps.collect(), all: known.into_values().cloned().collect() }
}

pub(crate) fn attributes(parts: &[&Manifest]) -> Merged<AttributeDefinition> {
    let parts = parts.iter().map(|part| &*part.attributes);
    merge(parts, |attribute| (attribute.name.as_str(), attribute.value_type))
}

pub(crate) fn regions(parts: &[&Manifest]) -> Merged<RegionDefinition> {
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
