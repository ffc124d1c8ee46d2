//! This crate and otf2-print read back what is written.

use std::ops::ControlFlow;

use tempfile::TempDir;

use crate::sample::{self, GPU_STREAM, HOST_THREAD, QUIET};
use otf2::{
    Archive, ArchiveWriter, AttributeValue, EVENT_CHUNK_BYTES, Event, EventKind, LEAST_CHUNK_BYTES, LocationGroupRef,
    LocationGroupType, Paradigm, RegionRef, RegionRole, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

/// The sample with one event of every kind.
fn sample_archive() -> (TempDir, Archive, Vec<Event>) {
    let directory = tempfile::tempdir().expect("a directory");
    let events = sample::sample_events();
    let anchor = sample::write_archive(directory.path(), &events).expect("the sample is written");
    let archive = Archive::open(&anchor).expect("the archive opens");
    (directory, archive, events)
}

#[test]
fn definitions_and_properties_come_back() {
    let (_directory, archive, events) = sample_archive();
    assert_eq!(archive.creator(), "otf2 tests 1.0");
    assert_eq!(archive.machine_name(), "cluster");
    assert_eq!(archive.description(), "a sample\nof two lines");
    assert_eq!(archive.property("sample::dropped"), Some("17"));
    let names = archive.properties().iter().map(|(name, _)| name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["NCCL_OTF2::DEFINITIONS_CHECKSUM", "SAMPLE::DROPPED"]);
    let (major, minor, bugfix) = archive.version();
    let version = (major.into(), minor.into(), bugfix.into());
    assert_eq!(version, otf2_sys::HEADER_VERSION, "header and library come from two installations");
    assert_eq!(archive.number_of_locations(), 3);
    assert_eq!(archive.event_chunk_bytes(), EVENT_CHUNK_BYTES);
    let definitions = archive.definitions().expect("the definitions are read");
    assert_eq!(definitions.records, archive.number_of_global_definitions());
    assert_eq!(definitions.locations[&GPU_STREAM].number_of_events, u64::try_from(events.len()).expect("few"));
    assert_eq!(definitions.string(StringRef::new(1)), Some("name"));
    assert_eq!(definitions.string(StringRef::new(2)), Some("\u{fffd}\u{fffd}x"));
}

/// Compares records, which are typed, with the sample's definitions, which are numbers.
#[test]
fn records_are_read_and_written() {
    let sample = sample::records();
    let of = |number| (sample.location_groups[&LocationGroupRef::new(number)].group_type, number);
    assert_eq!([0, 1].map(of), [(LocationGroupType::Process, 0), (LocationGroupType::Accelerator, 1)]);
    let (node, region) = (&sample.system_tree_nodes[&SystemTreeNodeRef::new(0)], &sample.regions[&RegionRef::new(1)]);
    assert_eq!(node.domains, [SystemTreeDomain::Machine]);
    assert_eq!(node.properties, [(StringRef::new(1), AttributeValue::U64(7))]);
    assert_eq!((region.role, region.paradigm, region.end_line), (RegionRole::Unknown(40), Paradigm::Mpi, 4));
    assert_eq!(sample.paradigms[&Paradigm::Mpi].properties.len(), 1);
    assert_eq!(sample.clock.map(|clock| clock.timer_resolution), Some(2_445_450_361));

    let directory = tempfile::tempdir().expect("a directory");
    let mut archive = ArchiveWriter::create(directory.path(), "traces").expect("it is made");
    sample::write_records(&mut archive.definitions().expect("a writer"), &sample).expect("the records are good");
    let anchor = archive.anchor_file();
    archive.close().expect("it is closed");
    let mut again = Archive::open(&anchor).and_then(|archive| archive.definitions()).expect("it is read");
    assert!(again.records < sample.records && again.others.is_empty() && !sample.others.is_empty());
    (again.records, again.others) = (sample.records, sample.others.clone());
    assert_eq!(again, sample);
}

#[test]
fn every_kind_of_event_comes_back_in_the_order_of_time() {
    let (_directory, archive, events) = sample_archive();
    let read = sample::read_events(&archive, &[GPU_STREAM, QUIET]).expect("the events are read");
    let expected: Vec<_> = events.into_iter().map(|event| (GPU_STREAM, event)).collect();
    assert_eq!(read, expected);

    let read = sample::read_events(&archive, &[HOST_THREAD, GPU_STREAM]).expect("it is read");
    assert!(read.is_sorted_by_key(|(_, event)| event.time));
    let ends = [read.first(), read.last()].map(|event| event.map(|(location, _)| *location));
    assert_eq!(ends, [Some(HOST_THREAD); 2]);

    let mut seen = 0;
    let total = archive.for_each_event(&[GPU_STREAM], |_, _| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((total.expect("it is read"), seen), (3, 3), "reading stops when asked");
    assert_eq!(sample::read_events(&archive, &[]).expect("nothing is read"), []);
    assert_eq!(sample::read_events(&archive, &[QUIET]).expect("nothing is read"), []);
}

#[test]
fn many_chunks_come_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let count = 500_000_u64;
    let events: Vec<Event> = (0..count)
        .map(|number| Event {
            time: 1000 + number,
            kind: EventKind::Enter(RegionRef::new(u32::from(number % 2 == 0))),
            attributes: Vec::new(),
        })
        .collect();
    let anchor = sample::write_archive(directory.path(), &events).expect("it is written");
    let archive = Archive::open(&anchor).expect("the archive opens");
    let size = archive.event_file(GPU_STREAM).metadata().expect("the file is there").len();
    assert!(size > 20 * EVENT_CHUNK_BYTES, "more than libotf2's file buffer of 4 MiB: {size}");
    let mut next = events.iter();
    let total = archive.for_each_event(&[GPU_STREAM], |_, event| {
        assert_eq!(Some(event), next.next());
        ControlFlow::Continue(())
    });
    assert_eq!(total.expect("it is read"), count);
}

/// libotf2 keeps one byte free for the end of a chunk and writes two at the end of a file, so that it crashes on a
/// full chunk. This test fills the first or second chunk to all levels near its end.
#[test]
fn a_chunk_that_is_full_to_the_last_byte_is_whole() {
    const HEADER_BYTES: u64 = 18;
    const TIME_BYTES: u64 = 9;
    /// Time, kind, and a region number that takes 1 or 5 bytes.
    const NARROW_BYTES: u64 = TIME_BYTES + 1 + 1;
    const WIDE_BYTES: u64 = TIME_BYTES + 1 + 5;
    /// Bytes that libotf2 keeps free.
    const FREE_BYTES: u64 = 1;
    let first_room = EVENT_CHUNK_BYTES - HEADER_BYTES - FREE_BYTES;
    // The second chunk begins with the time of its first event, which therefore has no time record of its own.
    for (before, room) in [(0, first_room), (first_room / WIDE_BYTES, first_room)] {
        let mut full = 0;
        for narrow in 0..WIDE_BYTES {
            let wide = (room - narrow * NARROW_BYTES) / WIDE_BYTES;
            let region = |number| {
                let is_narrow = (before + 1..=before + narrow).contains(&number);
                RegionRef::new(if is_narrow { 0 } else { u32::MAX - 1 })
            };
            let event =
                |number| Event { time: 1000 + number, kind: EventKind::Enter(region(number)), attributes: Vec::new() };
            let events: Vec<Event> = (0..before + narrow + wide).map(event).collect();
            let directory = tempfile::tempdir().expect("a directory");
            let anchor = sample::write_archive(directory.path(), &events).expect("it is written");
            let archive = Archive::open(&anchor).expect("the archive opens");
            let file = archive.event_file(GPU_STREAM);
            let size = file.metadata().expect("the file is there").len();
            if size % EVENT_CHUNK_BYTES == 20 {
                full += 1;
                let _printed = sample::otf2_print(&anchor);
            }
            assert_ne!(size % EVENT_CHUNK_BYTES, 1, "readers crash on it");
            let read = sample::read_events(&archive, &[GPU_STREAM]).expect("it is read");
            assert!(read.into_iter().map(|(_, event)| event).eq(events), "{before} {narrow}");
        }
        assert_eq!(full, 1, "one of the fill levels after {before} events is the bad one");
    }
}

#[test]
fn definitions_that_fill_a_chunk_to_the_last_byte_are_whole() {
    let long = "x".repeat(usize::try_from(LEAST_CHUNK_BYTES).expect("256 KiB") - 256);
    let mut full = 0;
    for length in 190..250 {
        let short = "y".repeat(length);
        let directory = tempfile::tempdir().expect("a directory");
        let mut archive = ArchiveWriter::create(directory.path(), "traces").expect("it is made");
        let mut definitions = archive.definitions().expect("a writer");
        definitions.string(StringRef::new(0), &long).expect("it fits");
        definitions.string(StringRef::new(1), &short).expect("it fits");
        let anchor = archive.anchor_file();
        archive.close().expect("it is closed");
        let size = directory.path().join("traces.def").metadata().expect("it is there").len();
        full += u64::from(size % LEAST_CHUNK_BYTES == 20);
        let archive = Archive::open(&anchor).expect("the archive opens");
        let definitions = archive.definitions().expect("it is read");
        assert_eq!(definitions.string(StringRef::new(0)), Some(long.as_str()), "{length}");
        assert_eq!(definitions.string(StringRef::new(1)), Some(short.as_str()), "{length}");
    }
    assert_eq!(full, 1, "one of the lengths is the bad one");
}

#[test]
fn otf2_print_has_nothing_to_complain_about() {
    let (_directory, archive, _) = sample_archive();
    if let Some(text) = sample::otf2_print(archive.anchor_file()) {
        let enters = text.lines().filter(|line| line.starts_with("ENTER ")).count();
        assert_eq!(enters, 2, "{text}");
    }
}
