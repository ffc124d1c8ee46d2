//! Segments, files and slots, and a journal that is torn.

use journal::format::record::{Record, RecordBody};
use journal::layout::{HEADER_WORDS, SEGMENT_BYTES, header};
use journal::reader::Journal;
use nccl_events::Body;
use nccl_events::event;

use super::{read, start, writer};

#[test]
fn segments_and_files_follow_one_another() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("filler").unwrap();
    // More than a file of 64 segments: 48 bytes a start.
    let count = 64 * SEGMENT_BYTES / 48 + 1000;
    for step in 0..count {
        let step = i32::try_from(step).unwrap();
        let _id = slot_writer.start(&start(Body::ProxyStep(event::ProxyStep { step })));
    }
    let mut next = 0;
    let outcome = Journal::open(directory.path()).unwrap().read(&mut |record: Record| {
        if let RecordBody::Start(start) = record.body {
            assert_eq!(start.body, Body::ProxyStep(event::ProxyStep { step: next }));
            next += 1;
        }
    });
    assert_eq!(usize::try_from(next).unwrap(), count);
    assert_eq!(outcome.problems, []);
    assert!(outcome.losses.stalls > 60, "without a maintenance thread every segment is a stall");
    assert!(directory.path().join("0.1").exists());
}

/// The maintenance thread looks at slots at any moment, also while a thread goes from one file to the next.
#[test]
fn the_maintenance_thread_never_touches_what_is_not_reserved() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("filler").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                writer.keep();
            }
        });
        // Four files.
        for step in 0..4 * 64 * SEGMENT_BYTES / 48 {
            let step = i32::try_from(step).unwrap();
            let _id = slot_writer.start(&start(Body::ProxyStep(event::ProxyStep { step })));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let (records, outcome) = read(directory.path());
    assert_eq!(records.len(), 1 + 4 * 64 * SEGMENT_BYTES / 48);
    assert_eq!(outcome.problems, []);
}

#[test]
fn a_bad_record_ends_its_segment_and_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("tester").unwrap();
    for step in 0..10 {
        let _id = slot_writer.start(&start(Body::ProxyStep(event::ProxyStep { step })));
    }
    let path = directory.path().join("0.0");
    let mut bytes = std::fs::read(&path).unwrap();
    // The thread's begin has 6 words, a step's start 6: break the sixth start.
    let at = 8 * (HEADER_WORDS + 6 + 5 * 6);
    bytes[at + 4] ^= 0x10;
    std::fs::write(&path, &bytes).unwrap();
    let (records, outcome) = read(directory.path());
    let starts = records.iter().filter(|record| matches!(record.body, RecordBody::Start(_))).count();
    assert_eq!(starts, 5);
    assert_eq!(outcome.problems.len(), 1);
    assert_eq!((outcome.problems[0].offset, outcome.problems[0].lost_bytes), (at as u64, 5 * 48));
}

/// A process can die between any two words of a segment's header, of which the magic is the last.
#[test]
fn a_segment_that_was_being_begun_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let _slot_writer = writer.register("tester").unwrap();
    let path = directory.path().join("0.0");
    let mut bytes = std::fs::read(&path).unwrap();
    let mut set = |word: usize, value: usize| {
        bytes[8 * word..8 * (word + 1)].copy_from_slice(&(value as u64).to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let journal = Journal::open(directory.path()).unwrap();
        let outcome = journal.read(&mut |record| panic!("{record:?}"));
        outcome.problems.len()
    };
    assert_eq!(set(header::MAGIC, 0), 1, "it has a record");
    assert_eq!(set(header::COMMITTED, 8 * HEADER_WORDS), 0);
    assert_eq!(set(header::COMMITTED, 0), 0);
}

/// What a process commits between two looks of a reader is not damage; what it never commits is.
#[test]
fn records_behind_the_committed_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("tester").unwrap();
    let path = directory.path().join("0.0");
    let committed = |bytes: &[u8]| bytes[8 * header::COMMITTED..][..8].to_vec();
    let before = committed(&std::fs::read(&path).unwrap());
    let journal = Journal::open(directory.path()).unwrap();
    for step in 0..10 {
        let _id = slot_writer.start(&start(Body::ProxyStep(event::ProxyStep { step })));
    }
    let outcome = journal.read(&mut |_| {});
    assert_eq!(outcome.problems, [], "the process runs");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8 * header::COMMITTED..][..8].copy_from_slice(&before);
    std::fs::write(&path, &bytes).unwrap();
    let (_, outcome) = read(directory.path());
    assert_eq!(outcome.problems.len(), 1, "the number is wrong");
}

/// What a machine had not written to its disk when it went down, and what is behind it.
#[test]
fn segments_that_are_missing_among_others_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("tester").unwrap();
    for step in 0..4 * SEGMENT_BYTES / 48 {
        let step = i32::try_from(step).unwrap();
        let _id = slot_writer.start(&start(Body::ProxyStep(event::ProxyStep { step })));
    }
    let path = directory.path().join("0.0");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[SEGMENT_BYTES..3 * SEGMENT_BYTES].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let (_, outcome) = read(directory.path());
    let problem = &outcome.problems[0];
    assert_eq!(outcome.problems.len(), 1, "{:?}", outcome.problems);
    assert_eq!(problem.offset, 3 * SEGMENT_BYTES as u64);
    assert_eq!(problem.lost_bytes, 2 * SEGMENT_BYTES as u64);
    assert_eq!(problem.reason, "segments 1 to 2 of slot 0 are missing before this one");
}

#[test]
fn a_slot_goes_on_with_the_next_thread() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let first = writer.register("one").unwrap();
    writer.retire(first);
    let mut second = writer.register("two").unwrap();
    let _id = second.start(&start(Body::Group(event::Group {})));
    let (records, _) = read(directory.path());
    let threads: Vec<String> = records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::ThreadBegin { name, .. } => Some(format!("{}:{name}", record.slot)),
            RecordBody::ThreadEnd => Some("end".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(threads, ["0:one", "end", "0:two"]);
}
