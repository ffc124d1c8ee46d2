//! Damaged files and full disks cause errors that name the file; nothing loops or aborts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::sample::{self, GPU_STREAM, HOST_THREAD};
use otf2::{
    Archive, ArchiveWriter, Attributes, EVENT_CHUNK_BYTES, Error, Event, EventKind, LocationRef, MappingType,
    PartWriter, RegionRef, check_event_file,
};

fn enters(count: u64) -> Vec<Event> {
    let kind = EventKind::Enter(RegionRef::new(0));
    (0..count).map(|number| Event { time: 1000 + number, kind: kind.clone(), attributes: Vec::new() }).collect()
}

fn three_chunks(directory: &Path) -> (Archive, PathBuf) {
    let anchor = sample::write_archive(directory, &enters(50_000)).expect("it is written");
    let archive = Archive::open(&anchor).expect("the archive opens");
    let file = archive.event_file(GPU_STREAM);
    assert!(file.metadata().expect("the file is there").len() > 2 * EVENT_CHUNK_BYTES);
    (archive, file)
}

fn damage(archive: &Archive, file: &Path) -> String {
    match sample::read_events(archive, &[HOST_THREAD, GPU_STREAM]).expect_err("damage is noticed") {
        error @ Error::Damaged { .. } => {
            let text = error.to_string();
            assert!(text.contains(&file.display().to_string()), "{text}");
            text
        }
        other => panic!("not the right error: {other}"),
    }
}

#[test]
fn a_file_that_was_cut_short_or_lacks_a_chunk_is_not_read_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let (archive, file) = three_chunks(directory.path());
    let whole = fs::read(&file).expect("the file is there");
    let chunk = usize::try_from(EVENT_CHUNK_BYTES).expect("256 KiB");
    for length in [0, 1, 19, chunk, 2 * chunk, whole.len() - 1] {
        fs::write(&file, &whole[..length]).expect("the file is written");
        let text = damage(&archive, &file);
        assert!(text.contains("truncated"), "{length}: {text}");
    }
    // A chunk in the middle is missing.
    fs::write(&file, [&whole[..chunk], &whole[2 * chunk..]].concat()).expect("the file is written");
    assert!(damage(&archive, &file).contains("parts of it are missing"));
    // The chunks have another size.
    fs::write(&file, &whole).expect("the file is written");
    assert_eq!(check_event_file(&file, EVENT_CHUNK_BYTES).expect("it is whole"), 50_000);
    let text = check_event_file(&file, EVENT_CHUNK_BYTES / 2).expect_err("no chunk there").to_string();
    assert!(text.contains("no chunk at byte 131072"), "{text}");
    check_event_file(&archive.event_file(LocationRef::new(99)), EVENT_CHUNK_BYTES).expect_err("there is no such file");
}

#[test]
fn a_missing_file_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let (archive, file) = three_chunks(directory.path());
    fs::remove_file(&file).expect("the file was there");
    let text = sample::read_events(&archive, &[GPU_STREAM]).expect_err("it is missing").to_string();
    assert!(text.contains("4294967296.evt"), "{text}");
    fs::remove_file(directory.path().join("traces.def")).expect("the file was there");
    let text = archive.definitions().expect_err("it is missing").to_string();
    assert!(text.contains("traces.def"), "{text}");
}

#[test]
fn a_damaged_definition_is_named_and_not_read_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let anchor = sample::write_archive(directory.path(), &enters(1)).expect("it is written");
    let archive = Archive::open(&anchor).expect("the archive opens");
    let global = directory.path().join("traces.def");
    let local = archive.definition_file(HOST_THREAD);
    let read = |file: &Path| {
        if file == global { archive.definitions().map(drop) } else { archive.local_definitions(HOST_THREAD).map(drop) }
    };
    // Of a kind that libotf2 skips.
    let unknown = [&[200, 18][..], &[0; 18]].concat();
    let empty = fs::read(&local).expect("the file is there");
    fs::write(&local, [&empty[..18], &unknown, &empty[18..]].concat()).expect("the file is written");
    for file in [&global, &local] {
        let whole = fs::read(file).expect("the file is there");
        read(file).expect("it is whole");
        // The kind of the first definition is the mark of a chunk's end, its length goes beyond the end of the file,
        // and a length of eight bytes does.
        for bytes in [&[0][..], &[whole[18], 0xfe], &[whole[18], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]]
        {
            let mut damaged = whole.clone();
            damaged[18..18 + bytes.len()].copy_from_slice(bytes);
            fs::write(file, damaged).expect("the file is written");
            let text = read(file).expect_err("damage is noticed").to_string();
            assert!(text.contains("a damaged definition in its chunk 1"), "{text}");
            assert!(text.contains(&file.display().to_string()), "{text}");
        }
        fs::write(file, whole).expect("the file is written");
    }
}

#[test]
fn what_is_no_anchor_is_not_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let anchor = directory.path().join("traces.otf2");
    Archive::open(&anchor).expect_err("there is none");
    for content in [&b""[..], b"OTF2", b"not an anchor at all, but text", &[0; 4096], &[0xff; 4096]] {
        fs::write(&anchor, content).expect("the file is written");
        let text = Archive::open(&anchor).expect_err("it is no anchor").to_string();
        assert!(text.contains("traces.otf2"), "{text}");
    }
    Archive::open(directory.path()).expect_err("a directory is no anchor");
}

/// The events of one location go to a device that is always full, before and after libotf2's file buffer is full.
#[test]
fn a_full_disk_is_an_error_at_the_event_or_at_close() {
    for count in [10, 100_000, 1_000_000] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut part = PartWriter::create(directory.path(), "traces").expect("a part is made");
        symlink("/dev/full", part.event_file(GPU_STREAM)).expect("a link is made");
        let mut events = part.event_writer(GPU_STREAM).expect("a writer");
        let mut failed_at = None;
        for number in 0..count {
            if let Err(error) = events.enter(number, RegionRef::new(0), Attributes::NONE) {
                failed_at = Some((number, error.to_string()));
                break;
            }
        }
        if let Some((number, text)) = &failed_at {
            assert!(text.contains("No space left on device") && text.contains("4294967296.evt"), "{text}");
            let after = events.enter(*number, RegionRef::new(0), Attributes::NONE);
            assert!(after.expect_err("the file is lost").to_string().contains("before"));
        }
        assert_eq!(failed_at.is_some(), count == 1_000_000, "the buffer of 4 MiB hides the others");
        let text = events.close().expect_err("the disk is full").to_string();
        assert!(text.contains("4294967296.evt"), "{count}: {text}");
        let mut other = part.event_writer(HOST_THREAD).expect("the other files are all right");
        other.enter(1, RegionRef::new(0), Attributes::NONE).expect("an event");
        assert_eq!(other.close().expect("this file is whole"), 1);
        let file = part.event_file(HOST_THREAD);
        assert_eq!(check_event_file(&file, EVENT_CHUNK_BYTES).expect("it is whole"), 1);
        part.close().expect_err("the part is not whole");
    }
}

#[test]
fn a_dropped_writer_that_failed_fails_the_archive() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut part = PartWriter::create(directory.path(), "traces").expect("a part is made");
    symlink("/dev/full", part.event_file(GPU_STREAM)).expect("a link is made");
    let mut events = part.event_writer(GPU_STREAM).expect("a writer");
    events.enter(1, RegionRef::new(0), Attributes::NONE).expect("it is in memory");
    drop(events);
    part.close().expect_err("the part is not whole");
}

#[test]
fn definitions_on_a_full_disk_fail_the_archive() {
    for file in ["traces.def", "traces.otf2", "traces/0.def"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut archive = ArchiveWriter::create(directory.path(), "traces").expect("it is made");
        symlink("/dev/full", directory.path().join(file)).expect("a link is made");
        let mut definitions = archive.definitions().expect("a writer");
        sample::every_kind([0, 0])
            .iter()
            .try_for_each(|definition| definitions.verbatim(definition))
            .expect("it is in memory");
        let mut local = archive.local_definitions(HOST_THREAD).expect("a writer");
        local.mapping_table_dense(MappingType::Region, &[1, 0]).expect("it is in memory");
        let local = local.close();
        assert_eq!(local.is_err(), file == "traces/0.def", "{local:?}");
        archive.close().expect_err(file);
    }
}
