//! Strings, attributes and regions of the whole archive, and how each part's numbers map to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::part::sidecar::{AttributeDefinition, RegionDefinition, Sidecar};
use crate::tables::place::place;
use journal::part::metrics::Metric;
use journal::part::options::{ArchiveOptions, CommLanes};

/// The strings of the archive, numbered as they are first asked for.
#[derive(Debug, Default)]
pub struct Strings {
    texts: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Strings {
    /// The number of a text. OTF2 strings end at a NUL, so there is none in them.
    pub fn number(&mut self, text: &str) -> u32 {
        let text = text.replace('\0', "");
        if let Some(&number) = self.numbers.get(&text) {
            return number;
        }
        let number = place(self.texts.len());
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// All, by number.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.texts
    }
}

/// Definitions of one kind, each once, in the order of their content.
#[derive(Debug)]
pub struct Union<T> {
    /// All, by number.
    pub all: Vec<T>,
    /// For each part: the archive's number of each of its own.
    pub maps: Vec<Vec<u32>>,
}

fn union<'a, T, K>(
    parts: impl Iterator<Item = &'a [T]> + Clone,
    key: impl Fn(&'a T) -> K,
) -> Union<T>
where
    T: Clone + 'a,
    K: Ord,
{
    let mut known: BTreeMap<K, &T> = BTreeMap::new();
    for definition in parts.clone().flatten() {
        known.entry(key(definition)).or_insert(definition);
    }
    let numbers: BTreeMap<&K, u32> = known.keys().zip(0..).collect();
    let maps = parts.map(|part| {
        let part = part.iter();
        part.map(|definition| numbers.get(&key(definition)).copied().unwrap_or(0))
            .collect()
    });
    let maps: Vec<Vec<u32>> = maps.collect();
    Union {
        maps,
        all: known.into_values().cloned().collect(),
    }
}

/// The attributes of the archive.
#[must_use]
pub fn attributes(parts: &[&Sidecar]) -> Union<AttributeDefinition> {
    let parts = parts.iter().map(|part| part.attributes.as_slice());
    union(parts, |attribute| {
        (attribute.name.as_str(), attribute.value_type)
    })
}

/// The regions of the archive.
#[must_use]
pub fn regions(parts: &[&Sidecar]) -> Union<RegionDefinition> {
    let parts = parts.iter().map(|part| part.regions.as_slice());
    union(parts, |region| region)
}

/// The metrics of the archive.
#[derive(Debug, Default)]
pub struct Metrics {
    /// All, by number.
    pub all: Vec<Metric>,
    /// What communicator lanes are, where all parts agree.
    pub comm_lanes: Option<CommLanes>,
}

impl Metrics {
    /// The archive's number of each metric of a part.
    #[must_use]
    pub fn numbers(&self, part: &ArchiveOptions) -> Vec<u32> {
        let number = |metric: Metric| self.all.iter().position(|known| *known == metric);
        part.metrics.iter().filter_map(number).map(place).collect()
    }
}

/// The metrics of the archive.
#[must_use]
pub fn metrics(parts: &[&Sidecar]) -> Metrics {
    let options = || parts.iter().map(|part| part.options);
    let all: BTreeSet<Metric> = options().flat_map(|o| o.metrics.iter()).collect();
    let mut lanes = options().map(|options| options.comm_lanes);
    let first = lanes.next();
    Metrics {
        all: all.into_iter().collect(),
        comm_lanes: first.filter(|first| lanes.all(|other| other == *first)),
    }
}

/// The region groups: name, and which regions are in it.
#[must_use]
pub fn region_groups(regions: &[RegionDefinition]) -> BTreeMap<&str, BTreeSet<u64>> {
    let mut groups: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (number, region) in (0..).zip(regions) {
        groups.entry(&region.group).or_default().insert(number);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(names: &[&str]) -> Sidecar {
        let attributes = names.iter().map(|name| AttributeDefinition {
            name: (*name).to_owned(),
            value_type: 1,
            description: String::new(),
        });
        Sidecar {
            attributes: attributes.collect(),
            ..Sidecar::default()
        }
    }

    #[test]
    fn parts_map_to_one_numbering() {
        let (a, b) = (part(&["x", "z"]), part(&["y", "x"]));
        let union = attributes(&[&a, &b]);
        let names: Vec<&str> = union.all.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["x", "y", "z"]);
        assert_eq!(union.maps, [vec![0, 2], vec![1, 0]]);
    }

    #[test]
    fn a_string_has_one_number() {
        let mut strings = Strings::default();
        assert_eq!(
            [
                strings.number("a"),
                strings.number("b"),
                strings.number("a\0")
            ],
            [0, 1, 0]
        );
    }
}
