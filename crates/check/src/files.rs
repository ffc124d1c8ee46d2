//! Every location has its files, complete, with as many events as the definitions state, and there are no other files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use analysis::Trace;
use otf2::records::Location;
use otf2::{LocationRef, check_event_file};

use crate::findings::Findings;
use crate::rules::Rule;

/// Files that belong to no location: no reader shows their events. Score-P leaves such files of locations that it did
/// not need, without events.
pub(super) fn strays(trace: &Trace, findings: &mut Findings) {
    let Ok(entries) = std::fs::read_dir(trace.anchor.with_extension("")) else {
        return; // every location's files are missing then, and found so
    };
    let mut strays: Vec<(PathBuf, bool)> = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let [stem, extension] = [path.file_stem(), path.extension()].map(|part| part.and_then(|part| part.to_str()));
        if let (Some(id), Some("evt" | "def")) = (stem.and_then(|stem| stem.parse().ok()), extension)
            && !trace.definitions.locations.contains_key(&LocationRef::new(id))
        {
            let is_events = extension == Some("evt");
            strays.push((path, is_events));
        }
    }
    small_sort::sort(&mut strays);
    for (path, is_events) in strays {
        let shown = path.display();
        let is_empty = || path.metadata().is_ok_and(|file| file.len() == 0);
        if !is_events || is_empty() {
            findings.general(Rule::UnusedFile, format!("{shown} belongs to no location"));
            continue;
        }
        match check_event_file(&path, trace.archive.event_chunk_bytes()) {
            Ok(0) => findings.general(Rule::UnusedFile, format!("{shown} belongs to no location, and has no events")),
            Ok(events) => {
                findings.general(Rule::StrayFile, format!("{shown}, with {events} events, belongs to no location"));
            }
            Err(error) => findings.general(Rule::StrayFile, format!("a file of no location: {error}")),
        }
    }
}

/// Checks the files of a location; false if its events cannot be read, or lack local definitions.
pub(super) fn check(
    trace: &Trace,
    location: LocationRef,
    definition: &Location,
    findings: &mut Findings,
    is_as_written: bool,
) -> bool {
    let place = (trace, location);
    let is_missing = |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let missing = |path: &Path| format!("{} is missing", path.display());
    let path = trace.archive.definition_file(location);
    let lacks_definitions = is_missing(&path);
    if lacks_definitions {
        findings.at(place, None, Rule::File, missing(&path));
    }
    let path = trace.archive.event_file(location);
    if is_missing(&path) {
        findings.at(place, None, Rule::File, missing(&path));
        return false;
    }
    match check_event_file(&path, trace.archive.event_chunk_bytes()) {
        Err(error) => {
            findings.at(place, None, Rule::File, error.to_string());
            false
        }
        Ok(events) => {
            let promised = definition.number_of_events;
            if events != promised {
                let message = format!("{promised} events are promised, {events} are there");
                findings.at(place, None, Rule::EventCount, message);
            }
            is_as_written || !lacks_definitions
        }
    }
}
