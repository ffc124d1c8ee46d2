//! The regions of an archive with all references resolved, for tests.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use otf2::{AttributeRef, AttributeValue, Definitions, EventKind, LocationGroupRef, LocationRef, LocationType};

use crate::archive::Archive;

#[derive(Clone, Debug)]
pub struct Region {
    pub name: String,
    pub location: String,
    pub location_type: LocationType,
    pub group: LocationGroupRef,
    pub start_ns: u64,
    pub end_ns: u64,
    pub attributes: BTreeMap<String, String>,
}

impl Region {
    pub fn text(&self, attribute: &str) -> Option<&str> {
        self.attributes.get(attribute).map(String::as_str)
    }

    pub fn number(&self, attribute: &str) -> Option<u64> {
        self.text(attribute).map(|text| text.parse().unwrap_or_else(|error| panic!("{attribute}: {error}: {self:?}")))
    }
}

type Entered = (u64, BTreeMap<String, String>);

fn attributes(definitions: &Definitions, list: &[(AttributeRef, AttributeValue)]) -> BTreeMap<String, String> {
    let text = |string| definitions.string(string).expect("defined").to_owned();
    let named = list.iter().map(|(attribute, value)| {
        let value = match *value {
            AttributeValue::String(string) => text(string),
            AttributeValue::U8(number) => number.to_string(),
            AttributeValue::U16(number) => number.to_string(),
            AttributeValue::U32(number) => number.to_string(),
            AttributeValue::U64(number) => number.to_string(),
            AttributeValue::I32(number) => number.to_string(),
            AttributeValue::I64(number) => number.to_string(),
            AttributeValue::Comm(comm) => text(definitions.comms[&comm].name),
            other => format!("{other:?}"),
        };
        (text(definitions.attributes[attribute].name), value)
    });
    named.collect()
}

impl Archive {
    pub fn reader(&self) -> otf2::Archive {
        otf2::Archive::open(self.anchor()).unwrap_or_else(|error| panic!("{}: {error}", self.anchor().display()))
    }

    /// The instances of regions, and what records show that stand for one.
    pub fn regions(&self) -> Vec<Region> {
        let archive = self.reader();
        let definitions = archive.definitions().expect("definitions");
        let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
        let text = |string| definitions.string(string).expect("defined").to_owned();
        let mut open: BTreeMap<LocationRef, Vec<Entered>> = BTreeMap::new();
        let mut regions = Vec::new();
        let take = |location, event: &otf2::Event| {
            let said = attributes(&definitions, &event.attributes);
            let mut add = |name, start_ns, attributes| {
                let location = &definitions.locations[&location];
                regions.push(Region {
                    name,
                    location: text(location.name),
                    location_type: location.location_type,
                    group: location.group,
                    start_ns,
                    end_ns: event.time,
                    attributes,
                });
            };
            match event.kind {
                EventKind::Enter(_) => open.entry(location).or_default().push((event.time, said)),
                EventKind::Leave(region) => {
                    let (start_ns, mut attributes) = open.entry(location).or_default().pop().expect("entered");
                    attributes.extend(said);
                    add(text(definitions.regions[&region].name), start_ns, attributes);
                }
                EventKind::ParameterUnsignedInt { parameter, .. } => {
                    let duration_ns: u64 = said["nccl.duration_ns"].parse().expect("a number");
                    add(text(definitions.parameters[&parameter].name), event.time - duration_ns, said);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        archive.for_each_event(&locations, take).expect("events");
        regions
    }
}

/// The row in which exports show a region instance, or a record.
pub fn row_of(region: &Region) -> String {
    if region.text("nccl.duration_ns").is_none() {
        return region.location.clone();
    }
    let text = |attribute: &str| region.text(attribute).unwrap_or_default();
    let channel = format!("{:0>2}", text("nccl.channel"));
    let rank = match region.text("nccl.comm") {
        Some(comm) => format!("{comm} r{}", text("nccl.rank")),
        None => region.text("nccl.origin").unwrap_or("unknown rank").to_owned(),
    };
    let arrow = if region.name.to_lowercase().contains("send") { "send→" } else { "recv←" };
    let connection = format!("net {rank} ch{channel} {arrow}{}", text("nccl.peer"));
    let slot = || region.number("nccl.step").unwrap_or(0) % 8;
    match region.name.as_str() {
        name if name.starts_with("NCCL ") => format!("{} operations", region.location),
        "kernel channel" => format!("{} channel {channel}", region.location),
        _ if region.text("nccl.phase").is_some() => format!("{} channel {channel} phases", region.location),
        "netSend" | "netRecv" => connection,
        "send step" | "receive step" => format!("{connection} s{}", slot()),
        _ => format!("{connection} s{} plugin", slot()),
    }
}

/// The name of a row without the number of a further one for what overlaps.
pub fn first_of_lane(row: &str) -> &str {
    let is_lane = row.starts_with("net ") || row.contains(" channel ") || row.contains(" operations");
    let further = row.rsplit_once(" #").filter(|(_, number)| is_lane && number.parse::<u32>().is_ok());
    further.map_or(row, |(first, _)| first)
}
