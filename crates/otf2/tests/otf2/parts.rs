//! Parts written independently of each other become one archive.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sample::{self, GPU_STREAM, HOST_THREAD, QUIET};
use otf2::{
    Archive, ArchiveWriter, AttributeRef, AttributeValue, Attributes, Collective, CollectiveOp, CommRef, EventKind,
    LocationRef, MappingType, PartWriter, RegionRef, StringRef, check_event_file,
};

/// In every part the only attribute has number 0, the only communicator 5, the location 0 and the note's string 0; the
/// parts' regions have each other's numbers in the archive.
fn write_part(directory: &Path, rank: u64) {
    let mut part = PartWriter::create(directory, "traces").expect("a part is made");
    let mut events = part.event_writer(LocationRef::new(0)).expect("a writer");
    let time = 1000 + 100 * rank;
    let attributes = Attributes::try_from([(AttributeRef::new(0), AttributeValue::String(StringRef::new(0)))])
        .expect("one attribute");
    let collective =
        Collective { op: CollectiveOp::Allreduce, comm: CommRef::new(5), root: None, bytes_sent: 8, bytes_received: 8 };
    events.enter(time, RegionRef::new(0), &attributes).expect("an event");
    events.mpi_collective_begin(time, Attributes::NONE).expect("an event");
    events.mpi_collective_end(time + 50, &collective, Attributes::NONE).expect("an event");
    events.leave(time + 50, RegionRef::new(0), Attributes::NONE).expect("an event");
    assert_eq!(events.close().expect("the file is whole"), 4);
    part.close().expect("the part is whole");
}

/// The sample's string attribute, and a string for the note of each part.
const NOTE: u32 = 10;
const NOTES: [u32; 2] = [1, 3];

fn unify(directory: &Path, parts: &[PathBuf]) -> PathBuf {
    let mut archive = ArchiveWriter::create(directory, "traces").expect("an archive is made");
    let mut definitions = archive.definitions().expect("a writer");
    let mut sample = sample::every_kind([4, 4]);
    sample.insert(4, sample::text(3, b"note of 1"));
    sample.iter().try_for_each(|definition| definitions.verbatim(definition)).expect("the definitions are good");
    otf2::write_stub_events(&archive.event_file(QUIET)).expect("a stub");
    archive.local_definitions(QUIET).and_then(|local| local.close()).expect("a stub");
    for ((location, part), note) in [HOST_THREAD, GPU_STREAM].into_iter().zip(parts).zip(NOTES) {
        let mut local = archive.local_definitions(location).expect("a writer");
        local.mapping_table_dense(MappingType::String, &[note]).expect("a table");
        local.mapping_table_dense(MappingType::Attribute, &[NOTE]).expect("a table");
        local.mapping_table_dense(MappingType::Region, &[1, 0]).expect("a table");
        local.mapping_table_sparse(MappingType::Comm, &[(5, 0)]).expect("a table");
        if location == GPU_STREAM {
            local.clock_offset(1000, 300, 0.0).expect("an offset");
            local.clock_offset(2000, 300, 0.0).expect("an offset");
        }
        local.close().expect("the file is whole");
        fs::rename(part.join("traces/0.evt"), archive.event_file(location)).expect("the event file is there");
    }
    let anchor = archive.anchor_file();
    archive.close().expect("the archive is whole");
    anchor
}

#[test]
fn parts_become_one_archive() {
    let directory = tempfile::tempdir().expect("a directory");
    let parts: Vec<PathBuf> = (0..2).map(|rank| directory.path().join("parts").join(rank.to_string())).collect();
    std::thread::scope(|scope| {
        for (rank, part) in (0..).zip(&parts) {
            scope.spawn(move || write_part(part, rank));
        }
    });
    for part in &parts {
        assert_eq!(check_event_file(&part.join("traces/0.evt"), otf2::EVENT_CHUNK_BYTES).expect("it is whole"), 4);
        assert!(!part.join("traces.otf2").exists(), "a part has no anchor");
        assert!(!part.join("traces.def").exists(), "a part has no definitions");
    }
    let anchor = unify(directory.path(), &parts);

    let archive = Archive::open(&anchor).expect("the archive opens");
    let definitions = archive.definitions().expect("it is read");
    let events = sample::read_events(&archive, &[HOST_THREAD, GPU_STREAM]).expect("it is read");
    assert_eq!(events.len(), 8);
    let mut notes = Vec::new();
    for (location, event) in &events {
        match &event.kind {
            EventKind::Enter(region) => {
                assert_eq!(*region, RegionRef::new(1));
                let [(attribute, AttributeValue::String(note))] = event.attributes[..] else {
                    panic!("not the attributes: {:?}", event.attributes);
                };
                assert_eq!(attribute, AttributeRef::new(NOTE));
                notes.push((*location, definitions.string(note).expect("a string"), event.time));
            }
            EventKind::MpiCollectiveEnd(collective) => assert_eq!(collective.comm, CommRef::new(0)),
            _ => {}
        }
    }
    // The second clock is 300 behind: 1100 becomes 1400.
    assert_eq!(notes, [(HOST_THREAD, "name", 1000), (GPU_STREAM, "note of 1", 1400)]);

    if let Some(text) = sample::otf2_print(&anchor) {
        assert!(text.contains("note of 1"), "{text}");
        let enters = text.lines().filter(|line| line.starts_with("ENTER "));
        let times: Vec<_> = enters.filter_map(|line| line.split_whitespace().nth(2)).collect();
        assert_eq!(times, ["1000", "1400"], "{text}");
    }
}

#[test]
fn writers_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<PartWriter>();
    is_send::<ArchiveWriter>();
    is_send::<otf2::EventWriter<'static>>();
    is_send::<otf2::GlobalDefinitions<'static>>();
    is_send::<otf2::LocalDefWriter<'static>>();
    is_send::<Archive>();
}
