//! Parts that know nothing of each other become one archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sample;
use otf2::records::{Attribute, ClockProperties, Comm, Group, Location, LocationGroup, Region, SystemTreeNode};
use otf2::{
    Archive, ArchiveWriter, AttributeRef, AttributeType, AttributeValue, Attributes, Collective, CollectiveOp, CommRef,
    EventKind, GroupRef, GroupType, LocationGroupRef, LocationGroupType, LocationRef, LocationType, MappingType,
    Paradigm, PartWriter, RegionRef, StringRef, SystemTreeNodeRef,
};

/// In a part: region 0 is the operation, region 1 the call; in the archive of rank 1's part the other way
/// round. Every part calls its only attribute 0, its only communicator 5, and its location 0.
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

/// The strings of the archive; each rank's part calls its own note string 0.
const STRINGS: [&str; 9] =
    ["machine", "host", "location", "ncclAllReduce", "call", "nccl.note", "note of 0", "note of 1", "comm"];

fn unify(directory: &Path, parts: &[PathBuf]) -> PathBuf {
    let mut archive = ArchiveWriter::create(directory, "traces").expect("an archive is made");
    let mut definitions = archive.definitions().expect("a writer");
    let write = || -> otf2::Result<()> {
        let name = StringRef::new;
        definitions.clock_properties(&ClockProperties {
            timer_resolution: 1_000_000_000,
            global_offset: 0,
            trace_length: 10_000,
            realtime_timestamp: u64::MAX,
        })?;
        for (number, text) in (0..).zip(STRINGS) {
            definitions.string(name(number), text)?;
        }
        let machine = SystemTreeNode { name: name(1), class_name: name(0), ..SystemTreeNode::default() };
        definitions.system_tree_node(SystemTreeNodeRef::new(0), &machine)?;
        for rank in 0..2 {
            let group = LocationGroup {
                name: name(1),
                group_type: LocationGroupType::Process,
                system_tree_parent: SystemTreeNodeRef::new(0),
                creator: LocationGroupRef::UNDEFINED,
                properties: Vec::new(),
            };
            definitions.location_group(LocationGroupRef::new(rank), &group)?;
        }
        for rank in 0..2 {
            let location = Location {
                name: name(2),
                location_type: LocationType::CpuThread,
                number_of_events: 4,
                group: LocationGroupRef::new(rank),
                properties: Vec::new(),
            };
            definitions.location(LocationRef::new(u64::from(rank)), &location)?;
        }
        for (number, text) in [(0, 4), (1, 3)] {
            let region = Region { name: name(text), paradigm: Paradigm::Mpi, ..Region::default() };
            definitions.region(RegionRef::new(number), &region)?;
        }
        definitions.attribute(
            AttributeRef::new(0),
            &Attribute { name: name(2), description: StringRef::UNDEFINED, attribute_type: AttributeType::U8 },
        )?;
        definitions.attribute(
            AttributeRef::new(1),
            &Attribute { name: name(5), description: StringRef::UNDEFINED, attribute_type: AttributeType::String },
        )?;
        let group =
            |group_type, members| Group { name: name(8), group_type, paradigm: Paradigm::Mpi, flags: 0, members };
        definitions.group(GroupRef::new(0), &group(GroupType::CommLocations, vec![0, 1]))?;
        definitions.group(GroupRef::new(1), &group(GroupType::CommGroup, vec![0, 1]))?;
        let parent = CommRef::UNDEFINED;
        let comm = Comm { name: name(8), group: GroupRef::new(1), parent, flags: 0 };
        definitions.comm(CommRef::new(0), &comm)
    };
    let mut write = write;
    write().expect("the definitions are good");
    for (rank, part) in (0..).zip(parts) {
        let location = LocationRef::new(rank);
        let mut local = archive.local_definitions(location).expect("a writer");
        let note = if rank == 0 { 6 } else { 7 };
        local.mapping_table_dense(MappingType::String, &[note]).expect("a table");
        local.mapping_table_dense(MappingType::Attribute, &[1]).expect("a table");
        local.mapping_table_dense(MappingType::Region, &[1, 0]).expect("a table");
        local.mapping_table_sparse(MappingType::Comm, &[(5, 0)]).expect("a table");
        if rank == 1 {
            local.clock_offset(1000, 300, 0.0).expect("an offset");
            local.clock_offset(2000, 300, 0.0).expect("an offset");
        }
        local.close().expect("the file is whole");
        let events = part.join("traces").join("0.evt");
        fs::rename(events, archive.event_file(location)).expect("the event file is there");
    }
    let anchor = archive.anchor_file();
    archive.close().expect("the archive is whole");
    anchor
}

/// Run by `parts_of_processes_become_one_archive` in processes of its own.
#[test]
fn part_of_one_process() {
    let Some(directory) = std::env::var_os("OTF2_TEST_PART") else {
        return;
    };
    let rank = std::env::var("OTF2_TEST_RANK").expect("a rank").parse().expect("a number");
    write_part(Path::new(&directory), rank);
}

#[test]
fn parts_of_processes_become_one_archive() {
    let directory = tempfile::tempdir().expect("a directory");
    let parts: Vec<PathBuf> = (0..2).map(|rank| directory.path().join("parts").join(rank.to_string())).collect();
    let this = std::env::current_exe().expect("a test has a file");
    let children: Vec<_> = (0..)
        .zip(&parts)
        .map(|(rank, part): (u64, _)| {
            Command::new(&this)
                .args(["--exact", "parts::part_of_one_process"])
                .env("OTF2_TEST_PART", part)
                .env("OTF2_TEST_RANK", rank.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .expect("the test starts")
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("the process ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert!(!parts[0].join("traces.otf2").exists(), "a part has no anchor");
    assert!(!parts[0].join("traces.def").exists(), "a part has no definitions");
    let anchor = unify(directory.path(), &parts);

    let archive = Archive::open(&anchor).expect("the archive opens");
    let definitions = archive.definitions().expect("it is read");
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let events = sample::read_events(&archive, &locations).expect("it is read");
    assert_eq!(events.len(), 8);
    let mut notes = Vec::new();
    for (location, event) in &events {
        match &event.kind {
            EventKind::Enter(region) => {
                let name = definitions.string(definitions.regions[region].name);
                assert_eq!(name, Some("ncclAllReduce"));
                let [(attribute, AttributeValue::String(note))] = event.attributes[..] else {
                    panic!("not the attributes: {:?}", event.attributes);
                };
                let attribute = &definitions.attributes[&attribute];
                assert_eq!(definitions.string(attribute.name), Some("nccl.note"));
                notes.push((location.get(), definitions.string(note).expect("a string"), event.time));
            }
            EventKind::MpiCollectiveEnd(collective) => assert_eq!(collective.comm, CommRef::new(0)),
            _ => {}
        }
    }
    // Rank 1's clock is 300 behind: 1100 is 1400.
    assert_eq!(notes, [(0, "note of 0", 1000), (1, "note of 1", 1400)]);

    match sample::otf2_print(&anchor) {
        None => sample::skip("otf2-print is not installed (apt-get install otf2-tools)"),
        Some(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            assert!(text.contains("note of 1"), "{text}");
            let enters = text.lines().filter(|line| line.starts_with("ENTER "));
            let times: Vec<_> = enters.filter_map(|line| line.split_whitespace().nth(2)).collect();
            assert_eq!(times, ["1000", "1400"], "{text}");
        }
    }
}

#[test]
fn parts_are_written_by_threads_of_one_process() {
    let directory = tempfile::tempdir().expect("a directory");
    std::thread::scope(|scope| {
        for rank in 0..4 {
            let part = directory.path().join(rank.to_string());
            let writer = std::thread::Builder::new().name(format!("writer {rank}"));
            writer.spawn_scoped(scope, move || write_part(&part, rank)).expect("a thread starts");
        }
    });
    for rank in 0..4 {
        let file = directory.path().join(rank.to_string()).join("traces/0.evt");
        assert_eq!(otf2::check_event_file(&file, otf2::EVENT_CHUNK_BYTES).expect("it is whole"), 4);
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
