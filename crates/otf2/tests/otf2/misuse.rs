//! Misuse causes errors, where libotf2 would abort, write a broken archive, or do nothing.

use std::path::Path;

use crate::sample::{self, GPU_STREAM, HOST_THREAD};
use otf2::records::{Comm, Group, InterComm, Location, MetricClass, Region, RmaWin};
use otf2::{
    ArchiveWriter, AttributeRef, AttributeValue, Attributes, Collective, CollectiveOp, CommRef, Error, GroupRef,
    GroupType, LocationGroupRef, LocationRef, LocationType, MappingType, MetricMemberRef, MetricOccurrence, MetricRef,
    MetricValue, Paradigm, ParameterRef, PartWriter, RecorderKind, RegionRef, Result, RmaAccess, RmaWinRef, StringRef,
};

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result.expect_err("misuse is refused") {
        error @ Error::Refused { .. } => error.to_string(),
        other => panic!("refused by libotf2 and not before it: {other}"),
    }
}

fn archive(directory: &Path) -> ArchiveWriter {
    ArchiveWriter::create(directory, "traces").expect("an archive is made")
}

#[test]
fn time_does_not_go_backwards_and_attributes_are_not_left_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut part = PartWriter::create(directory.path(), "traces").expect("a part is made");
    let mut events = part.event_writer(GPU_STREAM).expect("a writer");
    let (region, none) = (RegionRef::new(0), Attributes::NONE);
    let attribute = AttributeRef::new(0);
    let (one, two) = (AttributeValue::U64(1), AttributeValue::U8(2));
    let next = events.next_attributes();
    next.add(attribute, one).expect("the first value");
    next.add(attribute, two).expect_err("an attribute has one value");
    refusal(next.add(AttributeRef::UNDEFINED, two));
    events.enter(10, region, none).expect("it takes the value");
    let next = events.next_attributes();
    next.add(attribute, two).expect("the list is empty again");
    let text = refusal(events.leave(9, region, none));
    assert!(text.contains("Leave at 9") && text.contains("the event before is at 10"), "{text}");
    let next = events.next_attributes();
    next.add(attribute, two).expect("those of the refused are gone");
    refusal(events.leave(11, RegionRef::UNDEFINED, none));
    // Attributes passed with the event are added to those of the next event.
    let given = Attributes::try_from([(attribute, one)]).expect("one attribute");
    let next = events.next_attributes();
    next.add(AttributeRef::new(1), two).expect("another one");
    events.leave(11, region, &given).expect("it takes both");
    assert_eq!(events.close().expect("the file is whole"), 2);
    part.close().expect("the part is whole");
}

#[test]
fn events_do_not_refer_to_undefined() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut part = PartWriter::create(directory.path(), "traces").expect("a part is made");
    let undefined = part.event_writer(LocationRef::UNDEFINED).map(|writer| writer.location());
    assert!(refusal(undefined).contains("UNDEFINED"));
    let mut events = part.event_writer(GPU_STREAM).expect("a writer");
    let none = Attributes::NONE;
    let (op, comm) = (CollectiveOp::Barrier, CommRef::UNDEFINED);
    let collective = Collective { op, comm, root: None, bytes_sent: 0, bytes_received: 0 };
    let access = RmaAccess { win: RmaWinRef::UNDEFINED, remote: 0, bytes: 0, matching: 0 };
    let values = [MetricValue::U64(1)];
    let parameter = ParameterRef::new(0);
    for text in [
        refusal(events.enter(1, RegionRef::UNDEFINED, none)),
        refusal(events.leave(1, RegionRef::UNDEFINED, none)),
        refusal(events.mpi_collective_end(1, &collective, none)),
        refusal(events.non_blocking_collective_complete(1, &collective, 1, none)),
        refusal(events.rma_put(1, &access, none)),
        refusal(events.rma_get(1, &access, none)),
        refusal(events.rma_op_complete_blocking(1, access.win, 1, none)),
        refusal(events.rma_op_complete_non_blocking(1, access.win, 1, none)),
        refusal(events.metric(1, MetricRef::UNDEFINED, &values, none)),
        refusal(events.parameter_i64(1, ParameterRef::UNDEFINED, 1, none)),
        refusal(events.parameter_string(1, parameter, StringRef::UNDEFINED, none)),
    ] {
        assert!(text.contains("is UNDEFINED") && text.contains("LocationRef(4294967296)"), "{text}");
    }
    let many = vec![MetricValue::U64(0); 256];
    assert!(refusal(events.metric(1, MetricRef::new(0), &many, none)).contains("255"));
    assert_eq!(events.close().expect("the file is whole"), 0);
}

#[test]
fn definitions_are_dense_and_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut archive = archive(directory.path());
    let mut definitions = archive.definitions().expect("a writer");
    let text = refusal(definitions.string(StringRef::new(1), "b"));
    assert!(text.contains("the next one is 0"), "{text}");
    definitions.string(StringRef::new(0), "a").expect("the first string");
    refusal(definitions.string(StringRef::new(0), "again"));
    refusal(definitions.string(StringRef::UNDEFINED, "none"));
    refusal(definitions.string(StringRef::new(1), "a\0b"));
    let huge = "x".repeat(4 * 1024 * 1024);
    assert!(refusal(definitions.string(StringRef::new(1), &huge)).contains("a chunk of the archive has"));
    definitions.string(StringRef::new(1), "b").expect("an error leaves the archive as it was");
}

#[test]
fn definitions_refer_to_what_is_defined() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut archive = archive(directory.path());
    let sample = sample::records();
    let mut definitions = archive.definitions().expect("a writer");
    sample::write_records(&mut definitions, &sample).expect("the sample is good");
    refusal(definitions.clock_properties(&sample.clock.expect("a clock")));
    let name = StringRef::new(0);
    let next_region = RegionRef::new(2);
    let bad = Region { name: StringRef::new(999), ..Region::default() };
    assert!(refusal(definitions.region(next_region, &bad)).contains("StringRef(999) is not defined"));
    refusal(definitions.region(next_region, &Region::default()));

    let (location_type, number_of_events) = (LocationType::CpuThread, 0);
    let location = |group| Location { name, location_type, number_of_events, group, properties: Vec::new() };
    let group = LocationGroupRef::new(0);
    assert!(refusal(definitions.location(GPU_STREAM, &location(group))).contains("already"));
    refusal(definitions.location(LocationRef::UNDEFINED, &location(group)));
    refusal(definitions.location(LocationRef::new(99), &location(LocationGroupRef::new(2))));
    let mut twice = location(group);
    twice.properties = vec![(name, AttributeValue::U8(1)), (name, AttributeValue::U8(2))];
    assert!(refusal(definitions.location(LocationRef::new(99), &twice)).contains("twice"));
    twice.properties = vec![(name, AttributeValue::String(StringRef::new(999)))];
    refusal(definitions.location(LocationRef::new(99), &twice));

    let next_group = GroupRef::new(3);
    let group = |group_type, paradigm, members| Group { name, group_type, paradigm, flags: 0, members };
    let comm_locations = group(GroupType::CommLocations, Paradigm::Mpi, vec![GPU_STREAM.get()]);
    assert!(refusal(definitions.group(next_group, &comm_locations)).contains("already"));
    for bad in [
        group(GroupType::CommGroup, Paradigm::Mpi, vec![2]),
        group(GroupType::CommGroup, Paradigm::Cuda, vec![0]),
        group(GroupType::Regions, Paradigm::Mpi, vec![2]),
        group(GroupType::Locations, Paradigm::Mpi, vec![99]),
        group(GroupType::Locations, Paradigm::Mpi, vec![HOST_THREAD.get(); 2]),
        group(GroupType::CommSelf, Paradigm::Mpi, vec![0]),
        group(GroupType::Unspecified, Paradigm::Mpi, vec![]),
        group(GroupType::Regions, Paradigm::Mpi, vec![1; 4 * 1024 * 1024]),
    ] {
        refusal(definitions.group(next_group, &bad));
    }
    let comm = |group, flags| Comm { name, group, parent: CommRef::UNDEFINED, flags };
    refusal(definitions.comm(CommRef::new(2), &comm(GroupRef::new(2), 0)));
    refusal(definitions.comm(CommRef::new(2), &comm(GroupRef::new(1), 1)));
    refusal(definitions.comm(CommRef::new(2), &comm(GroupRef::new(9), 0)));
    let inter = |group_b, common| InterComm { name, group_a: GroupRef::new(1), group_b, common, flags: 0 };
    refusal(definitions.inter_comm(CommRef::new(2), &inter(GroupRef::new(2), CommRef::UNDEFINED)));
    refusal(definitions.inter_comm(CommRef::new(2), &inter(GroupRef::new(1), CommRef::new(9))));
    refusal(definitions.rma_win(RmaWinRef::new(1), &RmaWin { name, comm: CommRef::new(2), flags: 0 }));
    let class =
        |members| MetricClass { members, occurrence: MetricOccurrence::Asynchronous, recorder_kind: RecorderKind::Gpu };
    refusal(definitions.metric_class(MetricRef::new(2), &class(Vec::new())));
    refusal(definitions.metric_class(MetricRef::new(2), &class(vec![MetricMemberRef::new(3)])));
    refusal(definitions.paradigm(Paradigm::Mpi, &sample.paradigms[&Paradigm::Mpi]));
}

#[test]
fn local_definitions_are_given_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut archive = archive(directory.path());
    let undefined = archive.local_definitions(LocationRef::UNDEFINED).map(|_| ());
    refusal(undefined);
    let mut local = archive.local_definitions(GPU_STREAM).expect("a writer");
    local.mapping_table_dense(MappingType::Region, &[1, 0]).expect("the first table");
    refusal(local.mapping_table_dense(MappingType::Region, &[1, 0]));
    refusal(local.mapping_table_sparse(MappingType::Location, &[(1, 2), (1, 3)]));
    refusal(local.mapping_table_dense(MappingType::Unknown(77), &[1]));
    local.clock_offset(10, -5, 0.0).expect("the first offset");
    refusal(local.clock_offset(10, -5, 0.0));
    refusal(local.clock_offset(11, -5, f64::NAN));
    refusal(local.clock_offset(11, -5, -1.0));
    local.close().expect("the file is whole");
    archive.close().expect("the archive is whole");
}

#[test]
fn properties_have_names_that_otf2_takes() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut archive = archive(directory.path());
    for name in ["", "A", "A:B", "A::", "::A", "A::::B", "A::B C", "A::ü", "A::B:", "A::b-1"] {
        assert!(refusal(archive.set_property(name, "x")).contains("::"));
    }
    refusal(archive.set_property("A::B", ""));
    refusal(archive.set_property("A::B", "\0"));
    refusal(archive.set_creator("\0"));
    for (name, value) in [("A::B", "1"), ("a::b", "2"), ("NCCL_OTF2::DROPPED::enter_1", "3")] {
        archive.set_property(name, value).expect("a good name");
    }
    let anchor = archive.anchor_file();
    archive.close().expect("the archive is whole");
    let archive = otf2::Archive::open(&anchor).expect("the archive opens");
    let properties = archive.properties().iter().map(|(name, value)| (name.as_str(), value.as_str()));
    assert_eq!(properties.collect::<Vec<_>>(), [("A::B", "2"), ("NCCL_OTF2::DROPPED::ENTER_1", "3")]);
}

#[test]
fn an_archive_is_not_written_over() {
    let directory = tempfile::tempdir().expect("a directory");
    archive(directory.path()).close().expect("the archive is whole");
    let anchor = directory.path().join("traces.otf2");
    let before = std::fs::read(&anchor).expect("the anchor is there");
    let second = ArchiveWriter::create(directory.path(), "traces").map(|_| ());
    let text = second.expect_err("the directory is taken").to_string();
    assert!(text.contains("traces"), "{text}");
    assert_eq!(std::fs::read(&anchor).expect("the anchor is there"), before);
}

#[test]
fn archive_names_are_file_names() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["", ".", "..", "a/b", "a\0b"] {
        refusal(ArchiveWriter::create(directory.path(), name).map(|_| ()));
        refusal(PartWriter::create(directory.path(), name).map(|_| ()));
    }
    assert_eq!(directory.path().read_dir().expect("a directory").count(), 0);
}
