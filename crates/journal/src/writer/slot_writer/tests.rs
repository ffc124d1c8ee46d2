use super::*;
use crate::clock::TickSource;
use crate::reader::Journal;
use crate::writer::JournalWriter;
use crate::writer::mapping::WriterOptions;
use nccl_events::ids::ProcessTag;

fn group() -> Start<Name<'static>> {
    Start { context: 1, parent: 0, rank: 0, body: Body::Group(event::Group {}) }
}

/// No id is given twice: when the numbers run out, events are lost and counted.
#[test]
fn a_slot_whose_numbers_are_used_up_loses_events() {
    let directory = tempfile::tempdir().expect("a directory");
    let writer = JournalWriter::new(WriterOptions {
        directory: directory.path().to_owned(),
        tag: ProcessTag::new(0x4e4f),
        process_id: 1,
        tick_source: TickSource::Monotonic,
        session_start_realtime_ns: 0,
        limit_bytes: u64::MAX,
    });
    let mut slot_writer = writer.register("tester").expect("a slot");
    slot_writer.next_sequence = LAST_SEQUENCE;
    let last = slot_writer.start(&group());
    assert_eq!((last.sequence(), last.is_unrecorded()), (LAST_SEQUENCE, false));
    for _ in 0..2 {
        let lost = slot_writer.start(&group());
        assert!(lost.is_unrecorded());
        assert_eq!((lost.slot(), lost.kind()), (0, Kind::Group));
        slot_writer.stop(lost.get());
    }
    slot_writer.stop(last.get());
    let mut records = 0;
    let journal = Journal::open(directory.path()).expect("a journal");
    let outcome = journal.read(&mut |_| records += 1).expect("read");
    assert_eq!(records, 3, "the thread, a start and its stop");
    let group = Kind::Group as usize;
    assert_eq!((outcome.losses.starts[group], outcome.losses.stops[group]), (2, 2));
    assert_eq!(outcome.started, LAST_SEQUENCE + 2);
}
