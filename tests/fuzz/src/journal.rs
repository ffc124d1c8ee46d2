//! The reader of journals.

use journal::format::HEADER_WORDS;
use journal::format::Record;
use journal::reader::{Journal, Symbols};

use crate::pieces;
use crate::segments::{self, Segment};

/// The shortest record, in bytes.
const RECORD_BYTES: u64 = 8;

/// Reads a journal in both ways: slot by slot, and in the order of time.
pub(crate) fn read(input: &[u8]) {
    let (_, pieces) = pieces::split(input);
    let segments = Segment::all(&pieces);
    let scratch = tempfile::tempdir().expect("a directory");
    segments::write_all(&segments, scratch.path());
    let Ok(journal) = Journal::open(scratch.path()) else {
        return;
    };
    let written: u64 = segments.iter().map(|segment| 8 * segment.words.len() as u64).sum();
    let in_order: Vec<Record> = journal.segments().in_order(Symbols::default()).collect();
    let mut slot_by_slot = Vec::new();
    let outcome = journal.read(&mut |record| slot_by_slot.push(record)).expect("files that the system reads");
    assert_eq!(outcome.records, slot_by_slot.len() as u64, "records that are counted");
    assert_eq!(in_order.len(), slot_by_slot.len(), "records in order");
    let headers = 8 * HEADER_WORDS as u64 * u64::from(!segments.is_empty());
    assert!(RECORD_BYTES * outcome.records + headers <= written.max(headers), "{} of {written}", outcome.records);
    for slot in 0..4 {
        let slot_records = |records: &[Record]| -> Vec<(u64, u64)> {
            records.iter().filter(|record| record.slot == slot).map(|record| (record.ticks, record.id)).collect()
        };
        assert_eq!(slot_records(&in_order), slot_records(&slot_by_slot), "records of slot {slot}");
    }
    for problem in &outcome.problems {
        assert!(problem.path.starts_with(scratch.path()), "{problem:?}");
    }
    let _sums = (outcome.losses.total(), outcome.removed.segments, outcome.started);
}
