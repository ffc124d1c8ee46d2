//! Event files as records, which are mixed and written anew.

use std::fs;

use otf2::EVENT_CHUNK_BYTES;
use otf2::verbatim::EventRecords;

/// Reads an event file, and writes it twice into one.
pub(crate) fn read(input: &[u8]) {
    let scratch = tempfile::tempdir().expect("a directory");
    let (path, both) = (scratch.path().join("0.evt"), scratch.path().join("both.evt"));
    fs::write(&path, input).expect("written");
    let Ok(records) = EventRecords::read(&path, EVENT_CHUNK_BYTES) else { return };
    records.write_with(&records, &records.by_time(&records), &both, EVENT_CHUNK_BYTES).expect("written");
    let again = EventRecords::read(&both, EVENT_CHUNK_BYTES).expect("what we wrote");
    let sorted = |records: &EventRecords| {
        let mut all: Vec<_> = records.as_slice().iter().map(|record| (record.time, record.kind)).collect();
        all.sort_unstable();
        all
    };
    let twice: Vec<_> = sorted(&records).into_iter().flat_map(|record| [record; 2]).collect();
    assert_eq!(sorted(&again), twice);
}
