//! Every location has its files, whole, with as many events as the definitions promise.

use otf2::records::Location;
use otf2::{LocationRef, check_event_file};

use crate::archive::Trace;

use super::findings::{Findings, Rule};

/// Checks the files of a location; false when its events cannot be read.
pub(crate) fn check(
    trace: &Trace,
    location: LocationRef,
    definition: &Location,
    findings: &mut Findings,
) -> bool {
    let place = || Some((location, trace.location_name(location)));
    let path = trace.archive.definition_file(location);
    if !path.is_file() {
        let message = format!("{} is missing", path.display());
        findings.add(Rule::File, place(), None, message);
    }
    let path = trace.archive.event_file(location);
    if !path.is_file() {
        let message = format!("{} is missing", path.display());
        findings.add(Rule::File, place(), None, message);
        return false;
    }
    match check_event_file(&path, trace.archive.event_chunk_bytes()) {
        Err(error) => {
            findings.add(Rule::File, place(), None, error.to_string());
            false
        }
        Ok(events) => {
            let promised = definition.number_of_events;
            if events != promised {
                let message = format!("{promised} events are promised, {events} are there");
                findings.add(Rule::EventCount, place(), None, message);
            }
            true
        }
    }
}
