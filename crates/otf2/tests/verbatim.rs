//! Definitions pass from one archive to another as they are: every kind, every field.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use otf2::verbatim::{Definition, ReferenceKind};
use otf2::{
    Archive, ArchiveWriter, AttributeRef, AttributeValue, CallingContextRef, CallpathRef,
    CallsiteRef, CartDimensionRef, CartTopologyRef, ClockOffset, CommRef, GroupRef,
    InterruptGeneratorRef, IoFileRef, IoHandleRef, IoParadigmRef, LocationGroupRef, LocationRef,
    MappingType, MetricMemberRef, MetricRef, ParameterRef, RegionRef, RmaWinRef,
    SourceCodeLocationRef, StringRef, SystemTreeNodeRef, write_stub_events,
};

const LOCATION: LocationRef = LocationRef::new(0);

fn text(number: u32, text: &[u8]) -> Definition {
    Definition::String {
        this: StringRef::new(number),
        text: text.to_vec(),
    }
}

/// One of each kind at least, with values in all fields. Enumerations have numbers that OTF2 3.0 does not have where
/// it stores what it is given.
#[expect(clippy::too_many_lines, reason = "a list of every kind there is")]
fn every_kind() -> Vec<Definition> {
    let name = StringRef::new(1);
    vec![
        Definition::ClockProperties {
            timer_resolution: 2_445_450_361,
            global_offset: 12,
            trace_length: 34,
            realtime_timestamp: u64::MAX,
        },
        text(0, b""),
        text(1, b"name"),
        text(2, &[0xff, 0xfe, b'x']),
        Definition::Paradigm {
            paradigm: 4,
            name,
            class: 0,
        },
        Definition::ParadigmProperty {
            paradigm: 4,
            property: 0,
            value: AttributeValue::String(name),
        },
        Definition::IoParadigm {
            this: IoParadigmRef::new(0),
            identification: name,
            name: StringRef::new(2),
            class: 1,
            flags: 1,
            properties: vec![(0, AttributeValue::String(name))],
        },
        Definition::SystemTreeNode {
            this: SystemTreeNodeRef::new(0),
            name,
            class_name: StringRef::new(2),
            parent: SystemTreeNodeRef::UNDEFINED,
        },
        Definition::SystemTreeNodeProperty {
            of: SystemTreeNodeRef::new(0),
            name,
            value: AttributeValue::U64(7),
        },
        Definition::SystemTreeNodeDomain {
            of: SystemTreeNodeRef::new(0),
            domain: 0,
        },
        Definition::LocationGroup {
            this: LocationGroupRef::new(0),
            name,
            group_type: 1,
            parent: SystemTreeNodeRef::new(0),
            creator: LocationGroupRef::UNDEFINED,
        },
        Definition::LocationGroupProperty {
            of: LocationGroupRef::new(0),
            name,
            value: AttributeValue::F64(0.5),
        },
        Definition::Location {
            this: LOCATION,
            name,
            location_type: 1,
            number_of_events: 0,
            group: LocationGroupRef::new(0),
        },
        Definition::LocationProperty {
            of: LOCATION,
            name,
            value: AttributeValue::I8(-3),
        },
        Definition::Region {
            this: RegionRef::new(0),
            name,
            canonical_name: StringRef::new(2),
            description: StringRef::new(0),
            role: 40,
            paradigm: 4,
            flags: 1,
            source_file: name,
            begin_line: 3,
            end_line: 4,
        },
        Definition::Group {
            this: GroupRef::new(0),
            name,
            group_type: 4,
            paradigm: 4,
            flags: 1,
            members: vec![LOCATION.get()],
        },
        Definition::Group {
            this: GroupRef::new(1),
            name,
            group_type: 5,
            paradigm: 4,
            flags: 0,
            members: vec![0],
        },
        Definition::Comm {
            this: CommRef::new(0),
            name,
            group: GroupRef::new(1),
            parent: CommRef::UNDEFINED,
            flags: 1,
        },
        Definition::InterComm {
            this: CommRef::new(1),
            name,
            group_a: GroupRef::new(1),
            group_b: GroupRef::new(1),
            common: CommRef::new(0),
            flags: 1,
        },
        Definition::RmaWin {
            this: RmaWinRef::new(0),
            name,
            comm: CommRef::new(0),
            flags: 1,
        },
        Definition::Attribute {
            this: AttributeRef::new(0),
            name,
            description: StringRef::new(2),
            attribute_type: 4,
        },
        Definition::MetricMember {
            this: MetricMemberRef::new(0),
            name,
            description: StringRef::new(2),
            metric_type: 1,
            mode: 1,
            value_type: 4,
            base: 1,
            exponent: -9,
            unit: StringRef::new(0),
        },
        Definition::MetricClass {
            this: MetricRef::new(0),
            members: vec![MetricMemberRef::new(0)],
            occurrence: 2,
            recorder_kind: 1,
        },
        Definition::MetricInstance {
            this: MetricRef::new(1),
            class: MetricRef::new(0),
            recorder: LOCATION,
            scope_kind: 1,
            scope: 0,
        },
        Definition::MetricClassRecorder {
            metric: MetricRef::new(0),
            recorder: LOCATION,
        },
        Definition::Parameter {
            this: ParameterRef::new(0),
            name,
            parameter_type: 2,
        },
        Definition::Callsite {
            this: CallsiteRef::new(0),
            source_file: name,
            line: 5,
            entered: RegionRef::new(0),
            left: RegionRef::new(0),
        },
        Definition::Callpath {
            this: CallpathRef::new(0),
            parent: CallpathRef::UNDEFINED,
            region: RegionRef::new(0),
        },
        Definition::CallpathParameter {
            of: CallpathRef::new(0),
            parameter: ParameterRef::new(0),
            value: AttributeValue::U64(9),
        },
        Definition::CartDimension {
            this: CartDimensionRef::new(0),
            name,
            size: 1,
            periodicity: 1,
        },
        Definition::CartTopology {
            this: CartTopologyRef::new(0),
            name,
            comm: CommRef::new(0),
            dimensions: vec![CartDimensionRef::new(0)],
        },
        Definition::CartCoordinate {
            topology: CartTopologyRef::new(0),
            rank: 0,
            coordinates: vec![0],
        },
        Definition::SourceCodeLocation {
            this: SourceCodeLocationRef::new(0),
            file: name,
            line: 8,
        },
        Definition::CallingContext {
            this: CallingContextRef::new(0),
            region: RegionRef::new(0),
            source_code_location: SourceCodeLocationRef::new(0),
            parent: CallingContextRef::UNDEFINED,
        },
        Definition::CallingContextProperty {
            of: CallingContextRef::new(0),
            name,
            value: AttributeValue::Region(RegionRef::new(0)),
        },
        Definition::InterruptGenerator {
            this: InterruptGeneratorRef::new(0),
            name,
            mode: 1,
            base: 1,
            exponent: -3,
            period: 11,
        },
        Definition::IoRegularFile {
            this: IoFileRef::new(0),
            name,
            scope: SystemTreeNodeRef::new(0),
        },
        Definition::IoDirectory {
            this: IoFileRef::new(1),
            name,
            scope: SystemTreeNodeRef::UNDEFINED,
        },
        Definition::IoFileProperty {
            of: IoFileRef::new(0),
            name,
            value: AttributeValue::String(name),
        },
        Definition::IoHandle {
            this: IoHandleRef::new(0),
            name,
            file: IoFileRef::new(0),
            paradigm: IoParadigmRef::new(0),
            flags: 1,
            comm: CommRef::new(0),
            parent: IoHandleRef::UNDEFINED,
        },
        Definition::IoPreCreatedHandleState {
            of: IoHandleRef::new(0),
            mode: 2,
            status_flags: 1,
        },
    ]
}

fn archive(directory: &Path, definitions: &[Definition], chunk_bytes: u64) -> Archive {
    let mut writer = ArchiveWriter::create_with_chunks(directory, "traces", chunk_bytes)
        .expect("an archive can be made");
    write_stub_events(&writer.event_file(LOCATION)).expect("a stub");
    let mut local = writer.local_definitions(LOCATION).expect("a writer");
    local
        .mapping_table_dense(MappingType::IoHandle, &[0, 5, 2])
        .expect("a table");
    local
        .mapping_table_sparse(MappingType::Location, &[(7 << 33, 8)])
        .expect("a table");
    local.clock_offset(10, -5, 0.0).expect("an offset");
    local.clock_offset(20, 1 << 40, 1.5).expect("an offset");
    local.close().expect("closed");
    let mut to = writer.definitions().expect("a writer");
    for definition in definitions {
        to.verbatim(definition).expect("it can be written");
    }
    writer.close().expect("closed");
    Archive::open(&directory.join("traces.otf2")).expect("an archive")
}

#[test]
fn every_kind_passes_through() {
    let scratch = tempfile::tempdir().expect("a directory");
    let written = every_kind();
    let kinds: BTreeSet<&str> = written.iter().map(Definition::kind).collect();
    // OTF2's manual lists so many kinds of global definitions.
    assert_eq!(kinds.len(), 38, "{kinds:?}");
    let first = archive(&scratch.path().join("first"), &written, 1 << 20);
    assert_eq!(first.definitions_chunk_bytes(), 1 << 20);
    let read = first.verbatim_definitions().expect("definitions");
    assert_eq!(read, written);
    let again = archive(&scratch.path().join("again"), &read, 256 << 10);
    let bytes = |archive: &Archive| {
        std::fs::read(archive.anchor_file().with_extension("def")).expect("definitions")
    };
    // Byte for byte the same: nothing is lost that this test does not know either.
    assert_eq!(bytes(&first), bytes(&again));
    if let Some(printed) = common::otf2_print(again.anchor_file()) {
        assert!(
            printed.status.success() && printed.stderr.is_empty(),
            "{printed:?}"
        );
    }
}

#[test]
fn local_definitions_are_read() {
    let scratch = tempfile::tempdir().expect("a directory");
    let archive = archive(scratch.path(), &every_kind(), 1 << 20);
    let local = archive.local_definitions(LOCATION).expect("they are there");
    let offset = |time, offset, standard_deviation| ClockOffset {
        time,
        offset,
        standard_deviation,
    };
    assert_eq!(
        local.clock_offsets,
        [offset(10, -5, 0.0), offset(20, 1 << 40, 1.5)]
    );
    let table = |mapping| {
        local
            .mapping_tables
            .get(&mapping)
            .cloned()
            .unwrap_or_default()
    };
    let stands_for = |mapping, id| table(mapping).pairs.get(&id).copied().unwrap_or(id);
    assert_eq!(
        [0, 1, 2].map(|id| stands_for(MappingType::IoHandle, id)),
        [0, 5, 2]
    );
    assert_eq!(stands_for(MappingType::Location, 7 << 33), 8);
    let none = archive
        .local_definitions(LocationRef::new(99))
        .expect("no file");
    assert!(none.mapping_tables.is_empty() && none.clock_offsets.is_empty());
}

#[test]
fn every_reference_can_be_renumbered() {
    let mut definitions = every_kind();
    let mut kinds = BTreeSet::new();
    for definition in &mut definitions {
        definition.renumber(|kind, number| {
            kinds.insert(kind);
            match kind {
                ReferenceKind::IoParadigm | ReferenceKind::CommIndex(_) => number,
                _ => number + 100,
            }
        });
    }
    let number_of_kinds = 23;
    assert_eq!(kinds.len(), number_of_kinds, "{kinds:?}");
    for definition in &definitions {
        match definition {
            Definition::MetricInstance {
                scope, recorder, ..
            } => {
                assert_eq!((*scope, recorder.get()), (100, 100));
            }
            Definition::Callpath { parent, region, .. } => {
                assert_eq!((*parent, region.get()), (CallpathRef::UNDEFINED, 100));
            }
            Definition::CallingContextProperty { value, .. } => {
                assert_eq!(*value, AttributeValue::Region(RegionRef::new(100)));
            }
            Definition::Group { this, members, .. } if this.get() == 100 => {
                assert_eq!(members, &[100]);
            }
            Definition::Group { members, .. } => assert_eq!(members, &[0]),
            _ => {}
        }
    }
}

#[test]
fn a_definition_larger_than_a_chunk_is_refused() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut writer = ArchiveWriter::create_with_chunks(scratch.path(), "traces", 256 << 10)
        .expect("an archive can be made");
    let mut to = writer.definitions().expect("a writer");
    let error = to
        .verbatim(&text(0, &vec![b'x'; 300 << 10]))
        .expect_err("too large");
    assert!(
        error
            .to_string()
            .contains("a chunk of the archive has 262144"),
        "{error}"
    );
    drop(writer);
    let small = ArchiveWriter::create_with_chunks(&scratch.path().join("small"), "traces", 1000);
    assert!(small.is_err());
}
