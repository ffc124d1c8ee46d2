//! Event files as records: merges the event files of two writers and decodes records only as far as needed.

use std::path::Path;

use crate::error::{Error, Result, io, refused};
use crate::event_chunks::{EventRecord, Reader, Writer};

/// An event file in memory, as its records.
pub struct EventRecords {
    bytes: Vec<u8>,
    records: Vec<EventRecord>,
}

impl EventRecords {
    /// Reads an event file with chunks of this size.
    pub fn read(path: &Path, chunk_bytes: u64) -> Result<Self> {
        let bytes = regular_files::read(path, u64::MAX).map_err(|source| io("read the event file", path, source))?;
        match Reader::new(&bytes).records(chunk_bytes) {
            Ok(records) => Ok(Self { bytes, records }),
            Err(reason) => Err(Error::Damaged { path: path.to_owned(), reason }),
        }
    }

    /// The events in file order.
    pub fn as_slice(&self) -> &[EventRecord] {
        &self.records
    }

    /// Merges these and other events by time, at equal times the others first: true where one of the others is next.
    pub fn by_time(&self, others: &Self) -> Vec<bool> {
        let mut others_left = others.records.iter().peekable();
        let mut order = Vec::with_capacity(self.records.len() + others.records.len());
        for record in &self.records {
            while others_left.next_if(|other| other.time <= record.time).is_some() {
                order.push(true);
            }
            order.push(false);
        }
        order.extend(others_left.map(|_| true));
        order
    }

    /// Writes these and other events into one file with chunks of this size, in an order returned by
    /// [`EventRecords::by_time`].
    pub fn write_with(&self, others: &Self, order: &[bool], path: &Path, chunk_bytes: u64) -> Result<()> {
        let mut to = Writer::create(path, chunk_bytes)?;
        let (mut own_left, mut others_left) = (self.records.iter(), others.records.iter());
        for is_other in order {
            let (from, record) = match is_other {
                true => (others, others_left.next()),
                false => (self, own_left.next()),
            };
            let bytes = record.and_then(|record| Some((record.time, from.bytes.get(record.at.clone())?)));
            let Some((time, bytes)) = bytes else {
                return Err(refused(format!("write {}", path.display()), "the order has more events than there are"));
            };
            to.push(time, bytes)?;
        }
        to.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_chunks::{RecordKind, rewrite_events};
    use crate::layout::{BYTE_ORDER, HEADER_MARK};
    use crate::{Attributes, EVENT_CHUNK_BYTES, LocationRef, PartWriter, RegionRef};

    /// Enters and leaves regions `times` times, starting at a time.
    fn file(directory: &Path, name: &str, from: u64, times: u64) -> EventRecords {
        let mut part = PartWriter::create(directory, name).expect("a part");
        let mut to = part.event_writer(LocationRef::new(0)).expect("a writer");
        for number in 0..times {
            let region = RegionRef::new(u32::try_from(number % 1000).expect("small"));
            to.enter(from + 10 * number, region, Attributes::NONE).expect("an event");
            to.leave(from + 10 * number + 1, region, Attributes::NONE).expect("an event");
        }
        let _events = to.close().expect("events");
        let records = EventRecords::read(&part.event_file(LocationRef::new(0)), EVENT_CHUNK_BYTES).expect("records");
        part.close().expect("a part");
        records
    }

    #[test]
    fn records_of_two_files_become_one() {
        let scratch = tempfile::tempdir().expect("a directory");
        // `theirs` exceeds one chunk.
        let (theirs, ours) = (file(scratch.path(), "theirs", 100, 60_000), file(scratch.path(), "ours", 105, 3));
        let both = scratch.path().join("both.evt");
        theirs.write_with(&ours, &theirs.by_time(&ours), &both, EVENT_CHUNK_BYTES).expect("a file");
        let both = EventRecords::read(&both, EVENT_CHUNK_BYTES).expect("records");
        let both = both.as_slice();
        assert_eq!(both.len(), 120_006);
        assert!(both.is_sorted_by_key(|record| record.time));
        let [enter, leave] = [RecordKind::Enter, RecordKind::Leave].map(|kind| move |at| kind(RegionRef::new(at)));
        let first = [(100, enter(0)), (101, leave(0)), (105, enter(0)), (106, leave(0)), (110, enter(1))];
        assert!(both.iter().map(|record| (record.time, record.kind)).take(5).eq(first));
        // Merging with nothing leaves the file unchanged.
        let nothing = EventRecords { bytes: Vec::new(), records: Vec::new() };
        let same = scratch.path().join("same.evt");
        theirs.write_with(&nothing, &theirs.by_time(&nothing), &same, EVENT_CHUNK_BYTES).expect("a file");
        assert!(std::fs::read(same).expect("a file") == theirs.bytes, "byte for byte");
    }

    #[test]
    fn chunks_of_another_size_have_the_same_records() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = |name| scratch.path().join(name);
        let (large, again, short) = (path("large.evt"), path("again.evt"), path("short.evt"));
        let ours = path("ours/0.evt");
        let records = file(scratch.path(), "ours", 100, 60_000);
        assert!(rewrite_events(&ours, EVENT_CHUNK_BYTES, &large, 1 << 20).expect("a file"));
        let read = EventRecords::read(&large, 1 << 20).expect("records");
        let content = |records: &EventRecords| {
            let records = records.as_slice().iter();
            records.map(|record| (record.time, record.kind)).collect::<Vec<(u64, RecordKind)>>()
        };
        assert!(content(&read) == content(&records), "no record is lost");
        assert!(rewrite_events(&large, 1 << 20, &again, EVENT_CHUNK_BYTES).expect("a file"));
        assert!(std::fs::read(again).expect("a file") == records.bytes, "byte for byte, as libotf2 wrote it");
        // A file of one chunk is the same with all sizes, and one of the wanted size, too.
        let _records = file(scratch.path(), "few", 0, 10);
        for (from, bytes, wanted) in [(path("few/0.evt"), 1 << 20, EVENT_CHUNK_BYTES), (large, 1 << 20, 1 << 20)] {
            assert!(!rewrite_events(&from, bytes, &short, wanted).expect("nothing to do"));
            assert!(!short.exists());
        }
        // Damage is an error, not a loop.
        let cut = path("cut.evt");
        std::fs::write(&cut, &records.bytes[..600_000]).expect("a file");
        let error = rewrite_events(&cut, EVENT_CHUNK_BYTES, &short, 1 << 20).expect_err("damaged").to_string();
        assert!(error.contains("ends within a record"), "{error}");
    }

    #[test]
    fn what_is_no_event_file_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("x.evt");
        for (bytes, reason) in [
            (&[HEADER_MARK, BYTE_ORDER][..], "ends within a record"),
            (&[6, u8::MAX, 255, 255, 255, 255, 255, 255, 255, 255], "ends within a record"),
            (&[12, 5, 1, 2, 3, 4, 5], "a number is too long"),
            (&[9], "unknown type 9 at byte 0"),
        ] {
            std::fs::write(&path, bytes).expect("a file");
            let error = EventRecords::read(&path, EVENT_CHUNK_BYTES).err().expect("refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
