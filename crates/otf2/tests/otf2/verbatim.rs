//! Definitions are copied unchanged from one archive to another: every kind, every field.

use std::collections::BTreeSet;
use std::path::Path;

use crate::sample::{self, GPU_STREAM, HOST_THREAD, QUIET, every_kind, text};
use otf2::verbatim::{Definition, ReferenceKind};
use otf2::{
    Archive, ArchiveWriter, AttributeValue, CallpathRef, ChunkBytes, ClockOffset, LEAST_CHUNK_BYTES, LargestDefinition,
    LocationRef, MappingType, RegionRef, StringRef, write_stub_events,
};

fn archive(directory: &Path, definitions: &[Definition], chunk_bytes: u64) -> Archive {
    let chunks = ChunkBytes { definitions: chunk_bytes, ..ChunkBytes::default() };
    let mut writer = ArchiveWriter::create_with_chunks(directory, "traces", chunks).expect("an archive can be made");
    for location in [HOST_THREAD, GPU_STREAM, QUIET] {
        write_stub_events(&writer.event_file(location)).expect("a stub");
        if location != HOST_THREAD {
            writer.local_definitions(location).and_then(|local| local.close()).expect("a stub");
        }
    }
    let mut local = writer.local_definitions(HOST_THREAD).expect("a writer");
    local.mapping_table_dense(MappingType::IoHandle, &[0, 5, 2]).expect("a table");
    local.mapping_table_sparse(MappingType::Location, &[(7 << 33, 8)]).expect("a table");
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
    let written = every_kind([0, 0]);
    let kinds: BTreeSet<&str> = written.iter().map(Definition::kind).collect();
    // The number of kinds of global definitions in OTF2's manual.
    assert_eq!(kinds.len(), 38, "{kinds:?}");
    let first = archive(&scratch.path().join("first"), &written, 1 << 20);
    assert_eq!(first.definitions_chunk_bytes(), 1 << 20);
    let read = first.verbatim_definitions().expect("definitions");
    assert_eq!(read, written);
    let again = archive(&scratch.path().join("again"), &read, 256 << 10);
    let bytes = |archive: &Archive| std::fs::read(archive.anchor_file().with_extension("def")).expect("definitions");
    // Equal bytes: nothing is lost, not even what this test does not check.
    assert_eq!(bytes(&first), bytes(&again));
    let _printed = sample::otf2_print(again.anchor_file());
}

#[test]
fn local_definitions_are_read() {
    let scratch = tempfile::tempdir().expect("a directory");
    let archive = archive(scratch.path(), &every_kind([0, 0]), 1 << 20);
    let local = archive.local_definitions(HOST_THREAD).expect("they are there");
    let offset = |time, offset, standard_deviation| ClockOffset { time, offset, standard_deviation };
    assert_eq!(local.clock_offsets, [offset(10, -5, 0.0), offset(20, 1 << 40, 1.5)]);
    let table = |mapping| local.mapping_tables.get(&mapping).cloned().unwrap_or_default();
    let stands_for = |mapping, id| table(mapping).pairs.get(&id).copied().unwrap_or(id);
    assert_eq!([0, 1, 2].map(|id| stands_for(MappingType::IoHandle, id)), [0, 5, 2]);
    assert_eq!(stands_for(MappingType::Location, 7 << 33), 8);
    let none = archive.local_definitions(LocationRef::new(99)).expect("no file");
    assert!(none.mapping_tables.is_empty() && none.clock_offsets.is_empty());
}

#[test]
fn every_reference_can_be_renumbered() {
    let mut definitions = every_kind([0, 0]);
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
            Definition::MetricInstance { scope, recorder, .. } => {
                assert_eq!((*scope, recorder.get()), (100, 100));
            }
            Definition::Callpath { parent, region, .. } => {
                assert_eq!((*parent, region.get()), (CallpathRef::UNDEFINED, 100));
            }
            Definition::CallingContextProperty { value, .. } => {
                assert_eq!(*value, AttributeValue::Region(RegionRef::new(100)));
            }
            Definition::Group { this, members, .. } if this.get() == 100 => {
                assert_eq!(members, &[GPU_STREAM, QUIET].map(|location| location.get() + 100));
            }
            Definition::Group { this, members, .. } if this.get() == 101 => assert_eq!(members, &[1, 0]),
            _ => {}
        }
    }
}

#[test]
fn a_definition_larger_than_a_chunk_is_refused() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut writer = ArchiveWriter::create(scratch.path(), "traces").expect("an archive can be made");
    let mut to = writer.definitions().expect("a writer");
    let error = to.verbatim(&text(0, &vec![b'x'; 300 << 10])).expect_err("too large");
    assert!(error.to_string().contains("a chunk of the archive has 262144"), "{error}");
    drop(writer);
    for bytes in [1000, 32 << 20] {
        for chunks in [
            ChunkBytes { definitions: bytes, ..ChunkBytes::default() },
            ChunkBytes { events: bytes, ..ChunkBytes::default() },
        ] {
            let archive = ArchiveWriter::create_with_chunks(&scratch.path().join("wrong"), "traces", chunks);
            assert!(archive.is_err(), "{chunks:?}");
        }
    }
}

/// The locations of all communicators of 100 000 ranks are one group.
#[test]
fn chunks_can_hold_a_group_of_two_million_members() {
    let scratch = tempfile::tempdir().expect("a directory");
    let all = [GPU_STREAM, QUIET].map(LocationRef::get).repeat(1_000_000);
    let mut large = every_kind([0, 0]);
    for definition in &mut large {
        if let Definition::Group { this, members, .. } = definition
            && this.get() == 0
        {
            members.clone_from(&all);
        }
    }
    let mut largest = LargestDefinition::default();
    largest.group(&all[..10]);
    assert_eq!(largest.chunk_bytes(), LEAST_CHUNK_BYTES);
    large.iter().for_each(|definition| largest.definition(definition));
    let archive = archive(scratch.path(), &large, largest.chunk_bytes());
    assert_eq!(archive.definitions_chunk_bytes(), 16 << 20);
    let definitions = archive.definitions().expect("readable");
    assert!(definitions.groups.values().any(|group| group.members == all));
}

/// A chunk is the smallest that holds the largest definition, whatever kind it is.
#[test]
fn chunks_are_as_large_as_the_largest_definition() {
    let text = "x".repeat(300 << 10);
    let table: Vec<u32> = (1..=100_000).collect();
    let sizes = |add: &dyn Fn(&mut LargestDefinition)| {
        let mut largest = LargestDefinition::default();
        largest.text("short");
        add(&mut largest);
        largest.chunk_bytes()
    };
    assert_eq!(sizes(&|_| ()), 256 << 10);
    assert_eq!(sizes(&|largest| largest.text(&text)), 512 << 10);
    assert_eq!(sizes(&|largest| largest.group(&[1 << 30; 60_000])), 512 << 10);
    assert_eq!(sizes(&|largest| largest.mapping_table(table.len() as u64)), 512 << 10);
    assert_eq!(sizes(&|largest| largest.bytes(u64::MAX)), 16 << 20);
    // libotf2 takes what fits by this reckoning.
    let scratch = tempfile::tempdir().expect("a directory");
    let chunks = ChunkBytes { definitions: 512 << 10, ..ChunkBytes::default() };
    let mut writer = ArchiveWriter::create_with_chunks(scratch.path(), "traces", chunks).expect("an archive");
    let mut local = writer.local_definitions(HOST_THREAD).expect("a writer");
    local.mapping_table_dense(MappingType::String, &table).expect("it fits");
    local.close().expect("closed");
    let mut definitions = writer.definitions().expect("a writer");
    definitions.verbatim(&sample::text(0, text.as_bytes())).expect("it fits");
    writer.close().expect("closed");
    let archive = Archive::open(&scratch.path().join("traces.otf2")).expect("an archive");
    assert_eq!(archive.definitions().expect("definitions").string(StringRef::new(0)), Some(text.as_str()));
    let local = archive.local_definitions(HOST_THREAD).expect("local definitions");
    assert_eq!(local.mapping_tables[&MappingType::String].pairs[&99_999], 100_000);
}
