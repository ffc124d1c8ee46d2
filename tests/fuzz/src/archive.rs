//! The reader of OTF2 archives, and what is derived of them.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use analysis::{Filter, Trace};
use otf2::Archive;

use crate::pieces;

/// Kinds of pieces: the anchor, the global definitions, and with a number events and definitions of a location.
pub(crate) const ANCHOR: u8 = b'A';
pub(crate) const GLOBAL: u8 = b'G';
pub(crate) const EVENTS: u8 = b'E';
pub(crate) const LOCAL: u8 = b'L';

pub(crate) fn read(input: &[u8]) {
    let (_, pieces) = pieces::split(input);
    let scratch = tempfile::tempdir().expect("a directory");
    let at = scratch.path();
    fs::create_dir(at.join("traces")).expect("a directory");
    for piece in pieces {
        let (name, bytes) = match (piece.kind, piece.bytes.split_first()) {
            (ANCHOR, _) => ("traces.otf2".to_owned(), piece.bytes),
            (GLOBAL, _) => ("traces.def".to_owned(), piece.bytes),
            (EVENTS, Some((number, bytes))) => (format!("traces/{number}.evt"), bytes),
            (LOCAL, Some((number, bytes))) => (format!("traces/{number}.def"), bytes),
            _ => continue,
        };
        fs::write(at.join(name), bytes).expect("written");
    }
    let _events = events(&at.join("traces.otf2"));
}

pub(crate) fn read_written(anchor: &Path) -> u64 {
    events(anchor).unwrap_or_else(|error| panic!("our own archive: {error}"))
}

pub(crate) fn read_definitions(anchor: &Path) {
    let archive = Archive::open(anchor).unwrap_or_else(|error| panic!("our own archive: {error}"));
    let trace = Trace::read(anchor.to_owned(), archive).unwrap_or_else(|error| panic!("our own archive: {error}"));
    assert_eq!(trace.definitions.locations.len() as u64, trace.archive.number_of_locations(), "locations");
}

fn events(anchor: &Path) -> otf2::Result<u64> {
    let archive = Archive::open(anchor)?;
    let _verbatim = archive.verbatim_definitions()?;
    let trace = Trace::read(anchor.to_owned(), archive)?;
    let mut total = 0;
    let mut failed = None;
    for location in trace.definitions.locations.keys() {
        let mut given = 0;
        let _local = trace.archive.local_definitions(*location);
        let read = trace.archive.for_each_event(&[*location], |_, event| {
            given += 1;
            let _fields = trace.fields_of(&event.attributes);
            ControlFlow::Continue(())
        });
        match read {
            Ok(events) => assert_eq!(events, given, "events of {location:?}"),
            Err(error) => failed = Some(error),
        }
        total += given;
    }
    let mut analysis = analysis::analyse(&trace, &Filter::default(), &())?;
    analysis::reasons::why::add_reasons_and_path(&trace, &mut analysis, &Filter::default())?;
    failed.map_or(Ok(total), Err)
}
