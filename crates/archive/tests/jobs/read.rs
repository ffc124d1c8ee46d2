//! Reads archives back with our reader, otf2-print and the Python package.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use archive::ANCHOR;
use otf2::{Archive, AttributeValue, Definitions, Event, LocationRef, StringRef};

pub(crate) fn events(archive: &Archive) -> BTreeMap<LocationRef, Vec<Event>> {
    let definitions = archive.definitions().expect("definitions");
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let mut events: BTreeMap<LocationRef, Vec<Event>> = BTreeMap::new();
    archive
        .for_each_event(&locations, |location, event| {
            events.entry(location).or_default().push(event.clone());
            ControlFlow::Continue(())
        })
        .expect("events");
    events
}

/// otf2-print treats every warning as an error; the Python package and `nccl-otf2 print` must read the same.
pub(crate) fn print(out: &Path) -> String {
    let output = Command::new("otf2-print").args(["-Werror", "-G"]).arg(out.join(ANCHOR)).output();
    match output {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && error.is_empty(), "{error}");
        }
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("SKIPPED: otf2-print: {error}");
            return String::new();
        }
        Err(error) => panic!("otf2-print: {error}"),
    }
    let output = Command::new("otf2-print").arg("-Werror").arg(out.join(ANCHOR)).output().expect("it ran before");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{error}");
    if let Some(python) = whole_plugin::machine::python() {
        let agreed = whole_plugin::archive::Archive::open(out).readers_agree(&python);
        assert_eq!(agreed["agree"], true, "{agreed:#}");
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn text(definitions: &Definitions, string: StringRef) -> &str {
    definitions.string(string).expect("defined")
}

/// The value of an attribute or a property; a time or a rate is `…`.
pub(crate) fn value(definitions: &Definitions, value: &AttributeValue) -> String {
    match value {
        AttributeValue::String(string) => text(definitions, *string).to_owned(),
        AttributeValue::U8(number) => number.to_string(),
        AttributeValue::U32(number) => number.to_string(),
        AttributeValue::U64(number) => number.to_string(),
        AttributeValue::I32(number) => number.to_string(),
        AttributeValue::F64(_) => "…".to_owned(),
        AttributeValue::Comm(comm) => text(definitions, definitions.comms[comm].name).to_owned(),
        other => format!("{other:?}"),
    }
}

/// The attributes of an event, by name.
pub(crate) fn attributes(definitions: &Definitions, event: &Event) -> BTreeMap<String, String> {
    let name = |attribute| text(definitions, definitions.attributes[attribute].name).to_owned();
    event.attributes.iter().map(|(attribute, of)| (name(attribute), value(definitions, of))).collect()
}
