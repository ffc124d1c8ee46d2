//! What an archive has, in the terms of a viewer of lines with events.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use otf2::{Archive, AttributeValue, Definitions, Event, EventKind, LocationRef};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) events: u64,
    pub(crate) time_ns: u64,
    pub(crate) bytes: u64,
}

/// By name; processes may have lines of one name.
pub(crate) type Lines = BTreeMap<String, Seen>;

/// The region instances of each location of the archive of a job.
pub(crate) fn lines_of(directory: &Path) -> Lines {
    let archive = Archive::open(&directory.join("traces.otf2")).expect("an archive");
    let definitions = archive.definitions().expect("definitions");
    assert_eq!(definitions.clock.as_ref().map(|clock| clock.timer_resolution), Some(1_000_000_000));
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let mut open: BTreeMap<LocationRef, Vec<u64>> = BTreeMap::new();
    let mut lines = Lines::new();
    let read = archive.for_each_event(&locations, |location, event| {
        let name = definitions.string(definitions.locations[&location].name).expect("a name");
        match event.kind {
            EventKind::Enter(_) => {
                open.entry(location).or_default().push(event.time);
                lines.entry(name.to_owned()).or_default().bytes += bytes(&definitions, &event);
            }
            EventKind::Leave(_) => {
                let begin = open.get_mut(&location).and_then(Vec::pop).expect("entered");
                let seen = lines.entry(name.to_owned()).or_default();
                seen.events += 1;
                seen.time_ns += event.time - begin;
                seen.bytes += bytes(&definitions, &event);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    read.expect("events");
    lines
}

fn bytes(definitions: &Definitions, event: &Event) -> u64 {
    let is_bytes = |attribute| definitions.string(definitions.attributes[attribute].name) == Some("nccl.bytes");
    let values = event.attributes.iter().filter(|(attribute, _)| is_bytes(attribute));
    let numbers = values.map(|(_, value)| if let AttributeValue::U64(number) = value { *number } else { 0 });
    numbers.sum()
}
