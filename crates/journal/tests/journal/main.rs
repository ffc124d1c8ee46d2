//! What the recording side writes is what the reading side gets, record by record, and a torn journal is
//! read up to the tear.

mod follow;
mod gpu;
mod in_order;
mod losses;
mod quiet;
mod round_trip;
mod segments;

use std::path::Path;
use std::sync::Arc;

use journal::clock;
use journal::reader::{Journal, Outcome};
use journal::record::Record;
use journal::writer::{JournalWriter, WriterOptions};
use nccl_events::id::ProcessTag;
use nccl_events::{Body, Name, Start};

/// The process that records here.
const TAG: ProcessTag = ProcessTag::new(0x4e4f);

fn options(directory: &Path, limit_bytes: u64) -> WriterOptions {
    WriterOptions {
        directory: directory.to_owned(),
        tag: TAG,
        process_id: std::process::id(),
        tick_source: clock::select(),
        session_start_realtime_ns: 42,
        limit_bytes,
    }
}

fn writer(directory: &Path, limit_bytes: u64) -> Arc<JournalWriter> {
    JournalWriter::new(options(directory, limit_bytes))
}

fn read(directory: &Path) -> (Vec<Record>, Outcome) {
    let mut records = Vec::new();
    let journal = Journal::open(directory).unwrap();
    assert_eq!((journal.process_tag, journal.session_start_realtime_ns), (TAG.get(), 42));
    assert_eq!(journal.process_id, std::process::id());
    let outcome = journal.read(&mut |record| records.push(record));
    (records, outcome)
}

fn start(body: Body<Name<'_>>) -> Start<Name<'_>> {
    Start { context: 1, parent: 2, rank: 0, body }
}
