//! One plane per rank, numbered by the GPU's rank in the largest communicator.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use analysis::Trace;
use nccl_events::archive::LocationKind;
use nccl_events::sort::Gather;
use otf2::{AttributeRef, CommRef, LocationGroupRef, LocationRef, RegionRef, StringRef};
use proto_messages::xspace::{CUSTOM_DEVICE, XEventMetadata, XPlane, XStatMetadata, begin_plane, line_bytes};

use super::lines::{Line, attribute_id, region_id, text_id};
use crate::value::signed;

pub(super) struct Plane {
    id: i64,
    name: String,
    pub(super) lines: Vec<Line>,
}

impl Plane {
    pub(super) fn all(trace: &Trace, lines: Vec<Line>) -> Vec<Self> {
        let ranks = Ranks::of(trace);
        let mut groups: BTreeMap<LocationGroupRef, Vec<Line>> = BTreeMap::new();
        for line in lines.into_iter().filter(|line| line.events > 0) {
            groups.entry(ranks.group(trace, line.location)).or_default().push(line);
        }
        let mut groups: Vec<(Vec<u32>, LocationGroupRef, Vec<Line>)> =
            groups.into_iter().map(|(group, lines)| (ranks.numbers(trace, group), group, lines)).collect();
        // Ranks first, then threads that work for several.
        nccl_events::sort::sort_by(&mut groups, |one, other| {
            (one.0.len() > 1, &one.0, one.1).cmp(&(other.0.len() > 1, &other.0, other.1))
        });
        let mut taken = BTreeSet::new();
        let planes = (1..).zip(groups).map(|(id, (numbers, group, mut lines))| {
            // The viewer stores a line's id in 32 bits, too few for a location's id.
            for (number, line) in (1..).zip(&mut lines) {
                (line.head.id, line.head.display_id) = (number, number);
            }
            let name = ranks.name(trace, group, &numbers);
            // Ranks of unrelated communicators can have equal names.
            let mut unique = name.clone();
            for number in 2.. {
                if taken.insert(unique.clone()) {
                    break;
                }
                unique = format!("{name} #{number}");
            }
            Self { id, name: unique, lines }
        });
        planes.collect()
    }

    pub(super) fn begin(&self, trace: &Trace, space: &mut Vec<u8>) {
        let regions: BTreeSet<RegionRef> = self.lines.iter().flat_map(|line| line.regions.iter().copied()).gather();
        let attributes: BTreeSet<AttributeRef> =
            self.lines.iter().flat_map(|line| line.attributes.iter().copied()).gather();
        let events = regions.into_iter().map(|region| {
            let id = region_id(region);
            (id, XEventMetadata { id, name: trace.region_name(region) })
        });
        let stats = attributes.into_iter().map(|attribute| {
            let id = attribute_id(attribute);
            let definition = trace.definitions.attributes.get(&attribute);
            let name = definition.and_then(|it| trace.definitions.string(it.name)).unwrap_or_default();
            (id, XStatMetadata { id, name: name.to_owned() })
        });
        let texts: BTreeSet<StringRef> = self.lines.iter().flat_map(|line| line.texts.iter().copied()).gather();
        let texts = texts.into_iter().map(|text| {
            let id = signed(text_id(text));
            (id, XStatMetadata { id, name: trace.definitions.string(text).unwrap_or_default().to_owned() })
        });
        let plane = XPlane {
            id: self.id,
            name: self.name.clone(),
            event_metadata: events.gather(),
            stat_metadata: stats.chain(texts).gather(),
            stats: Vec::new(),
        };
        begin_plane(&plane, self.lines.iter().map(|line| line_bytes(&line.head, line.bytes())).sum(), space);
    }
}

/// The ranks of each GPU, and each process's GPUs that have ranks.
struct Ranks {
    members: BTreeMap<LocationGroupRef, Vec<(CommRef, u32)>>,
    of_process: BTreeMap<LocationGroupRef, Vec<LocationGroupRef>>,
}

impl Ranks {
    fn of(trace: &Trace) -> Self {
        let mut found = Self { members: BTreeMap::new(), of_process: BTreeMap::new() };
        for location in trace.definitions.locations.keys() {
            let is_rank = trace.location_kind(*location) == Some(LocationKind::Communicator);
            if let Some(member) = trace.rank_of(*location).filter(|_| is_rank) {
                found.members.entry(trace.group(*location)).or_default().push(member);
            }
        }
        for group in found.members.keys() {
            found.of_process.entry(trace.process(*group)).or_default().push(*group);
        }
        found
    }

    /// The group whose plane shows a location: a GPU, or the process if it has several GPUs.
    fn group(&self, trace: &Trace, location: LocationRef) -> LocationGroupRef {
        let group = trace.group(location);
        if self.members.contains_key(&group) {
            return group;
        }
        let process = trace.process(group);
        if let Some([only]) = self.of_process.get(&process).map(Vec::as_slice) {
            return *only;
        }
        let member = trace.member_of(location).map(|member| trace.group(member));
        // A proxy thread also works for ranks of other processes.
        member.filter(|gpu| trace.process(*gpu) == process).unwrap_or(group)
    }

    /// The ranks of a group, each in its GPU's largest communicator.
    fn numbers(&self, trace: &Trace, group: LocationGroupRef) -> Vec<u32> {
        let one = [group];
        let gpus = self.of_process.get(&group).map_or(&one[..], Vec::as_slice);
        let mut numbers: Vec<u32> = gpus.iter().filter_map(|gpu| self.number(trace, *gpu)).collect();
        nccl_events::sort::sort(&mut numbers);
        numbers
    }

    fn number(&self, trace: &Trace, gpu: LocationGroupRef) -> Option<u32> {
        let members = self.members.get(&gpu)?.iter();
        members.max_by_key(|(comm, _)| (trace.members(*comm).len(), Reverse(*comm))).map(|(_, rank)| *rank)
    }

    fn name(&self, trace: &Trace, group: LocationGroupRef, numbers: &[u32]) -> String {
        let text: Vec<String> = numbers.iter().map(u32::to_string).collect();
        match numbers {
            [] => format!("{CUSTOM_DEVICE}NCCL {}", trace.group_name(group)),
            [_] => format!("{CUSTOM_DEVICE}NCCL rank {}", text.join("")),
            _ => format!("{CUSTOM_DEVICE}NCCL ranks {}", text.join(", ")),
        }
    }
}
