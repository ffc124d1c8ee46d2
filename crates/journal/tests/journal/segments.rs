//! Segments, files and slots, and torn journals.

use std::sync::atomic::{AtomicBool, Ordering};

use journal::format::{HEADER_WORDS, SEGMENT_BYTES, header};
use journal::format::{Record, RecordBody};
use journal::reader::Journal;
use nccl_events::{Body, event};

use super::{GROUP, Recording, start};

/// The number of starts that fill a file of 64 segments.
const FILE_STEPS: usize = 64 * SEGMENT_BYTES / 48;

#[test]
fn segments_and_files_follow_one_another() {
    let mut recording = Recording::new(u64::MAX);
    recording.steps(FILE_STEPS + 1000);
    let mut next = 0;
    let outcome = Journal::open(recording.directory.path()).unwrap().read(&mut |record: Record| {
        if let RecordBody::Start(start) = record.body {
            assert_eq!(start.body, Body::ProxyStep(event::ProxyStep { step: next }));
            next += 1;
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!(usize::try_from(next).unwrap(), FILE_STEPS + 1000);
    assert_eq!(outcome.problems, []);
    assert!(outcome.losses.stalls > 60, "without a maintenance thread every segment is a stall");
    assert!(recording.directory.path().join("0.1").exists());
}

#[test]
fn a_thread_that_maintenance_keeps_up_with_never_stalls() {
    let mut recording = Recording::new(u64::MAX);
    for _ in 0..FILE_STEPS / 1000 + 100 {
        recording.steps(1000);
        let _lasts = recording.writer.keep();
    }
    let (_, outcome) = recording.read();
    assert_eq!(outcome.losses.stalls, 0);
}

/// The maintenance thread inspects slots at any moment, even while a thread moves from one file to the next.
#[test]
fn the_maintenance_thread_never_touches_what_is_not_reserved() {
    let mut recording = Recording::new(u64::MAX);
    let writer = std::sync::Arc::clone(&recording.writer);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                writer.keep();
            }
        });
        recording.steps(4 * FILE_STEPS);
        done.store(true, Ordering::Relaxed);
    });
    let (records, outcome) = recording.read();
    assert_eq!(records.len(), 1 + 4 * FILE_STEPS);
    assert_eq!(outcome.problems, []);
}

#[test]
fn a_bad_record_ends_its_segment_and_is_reported() {
    let mut recording = Recording::new(u64::MAX);
    recording.steps(10);
    let mut bytes = recording.bytes();
    // The THREAD_BEGIN record has 6 words, a step's start 6: break the sixth start.
    let at = 8 * (HEADER_WORDS + 6 + 5 * 6);
    bytes[at + 4] ^= 0x10;
    std::fs::write(recording.file(), &bytes).unwrap();
    let (records, outcome) = recording.read();
    let starts = records.iter().filter(|record| matches!(record.body, RecordBody::Start(_))).count();
    assert_eq!(starts, 5);
    assert_eq!(outcome.problems.len(), 1);
    assert_eq!((outcome.problems[0].offset, outcome.problems[0].lost_bytes), (at as u64, 5 * 48));
}

/// A process can die between any two words of a segment's header, whose magic is written last.
#[test]
fn a_segment_that_was_being_begun_is_no_damage() {
    let recording = Recording::new(u64::MAX);
    let mut bytes = recording.bytes();
    let mut problems_with = |word: usize, value: usize| {
        bytes[8 * word..8 * (word + 1)].copy_from_slice(&(value as u64).to_le_bytes());
        std::fs::write(recording.file(), &bytes).unwrap();
        let journal = Journal::open(recording.directory.path()).unwrap();
        journal.read(&mut |record| panic!("{record:?}")).unwrap().problems.len()
    };
    assert_eq!(problems_with(header::MAGIC, 0), 1, "it has a record");
    assert_eq!(problems_with(header::COMMITTED, 8 * HEADER_WORDS), 0);
    assert_eq!(problems_with(header::COMMITTED, 0), 0);
}

/// What a process commits between a reader's two reads of the header is not damage; what it never commits is.
#[test]
fn records_behind_the_committed_bytes() {
    let mut recording = Recording::new(u64::MAX);
    const COMMITTED: std::ops::Range<usize> = 8 * header::COMMITTED..8 * header::COMMITTED + 8;
    let before = recording.bytes()[COMMITTED].to_vec();
    let journal = Journal::open(recording.directory.path()).unwrap();
    recording.steps(10);
    let outcome = journal.read(&mut |_| {}).unwrap();
    assert_eq!(outcome.problems, [], "the process runs");
    let mut bytes = recording.bytes();
    bytes[COMMITTED].copy_from_slice(&before);
    std::fs::write(recording.file(), &bytes).unwrap();
    assert_eq!(recording.read().1.problems.len(), 1, "the number is wrong");
}

/// Segments that a crashed machine had not written to its disk, and the segments behind them.
#[test]
fn segments_that_are_missing_among_others_are_reported() {
    let mut recording = Recording::new(u64::MAX);
    recording.steps(4 * SEGMENT_BYTES / 48);
    let mut bytes = recording.bytes();
    bytes[SEGMENT_BYTES..3 * SEGMENT_BYTES].fill(0);
    std::fs::write(recording.file(), &bytes).unwrap();
    let (_, outcome) = recording.read();
    let [problem] = &outcome.problems[..] else { panic!("{:?}", outcome.problems) };
    assert_eq!((problem.offset, problem.lost_bytes), (3 * SEGMENT_BYTES as u64, 2 * SEGMENT_BYTES as u64));
    assert_eq!(problem.reason, "segments 1 to 2 of slot 0 are missing before this one");
}

#[test]
fn a_slot_goes_on_with_the_next_thread() {
    let Recording { directory, writer, slot } = Recording::new(u64::MAX);
    writer.retire(slot);
    let mut second = writer.register("two").unwrap();
    let _id = second.start(&start(GROUP));
    let (records, _) = super::read(directory.path());
    let thread = |record: &Record| match &record.body {
        RecordBody::ThreadBegin { name, .. } => Some(format!("{}:{name}", record.slot)),
        RecordBody::ThreadEnd => Some("end".to_owned()),
        _ => None,
    };
    assert_eq!(records.iter().filter_map(thread).collect::<Vec<_>>(), ["0:tester", "end", "0:two"]);
}
