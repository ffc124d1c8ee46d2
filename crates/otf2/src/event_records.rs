//! Event files as records: merges the event files of two writers and decodes records only as far as needed.
//!
//! | bytes | meaning |
//! |---|---|
//! | `03`, `42` or `23`, u64, u64 | start of a chunk: byte order, numbers of its first and last event |
//! | `05`, u64 | the time of the records that follow |
//! | `06`, length, … | attributes of the event that follows |
//! | `0c` or `0d`, number of bytes, … | ENTER or LEAVE, and its region |
//! | other type, length, … | another event |
//! | `00` | end of the chunk; the next chunk begins at the next multiple of the chunk size |
//! | `02` | end of the file |
//!
//! A length is one byte, or `ff` and a u64.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result, io, refused};
use crate::layout::{BYTE_ORDER, END, END_OF_CHUNK, HEADER_BYTES, HEADER_MARK};
use crate::refs::RegionRef;
use crate::write::EVENT_CHUNK_BYTES;

const TIME: u8 = 5;
const ATTRIBUTES: u8 = 6;
const FIRST_EVENT: u8 = 10;
const ENTER: u8 = 12;
const LEAVE: u8 = 13;
const MPI_COLLECTIVE_END: u8 = 23;
const CALLING_CONTEXT_ENTER: u8 = 66;
const CALLING_CONTEXT_LEAVE: u8 = 67;
const TIME_BYTES: usize = 9;
const CHUNK_BYTES: usize = 1 << 20;
const _: () = assert!(CHUNK_BYTES as u64 == EVENT_CHUNK_BYTES);

/// An event file in memory, as its records. Its chunks have [`EVENT_CHUNK_BYTES`].
pub struct EventRecords {
    bytes: Vec<u8>,
    records: Vec<EventRecord>,
}

/// An event with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// The time in the file, not corrected by the location's clock offsets.
    pub time: u64,
    /// The kind of the event.
    pub kind: RecordKind,
    at: Range<usize>,
}

/// The kind of an event. Regions have the file's numbers: the location's mapping table translates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKind {
    /// ENTER.
    Enter(RegionRef),
    /// LEAVE.
    Leave(RegionRef),
    /// CALLING_CONTEXT_ENTER.
    CallingContextEnter,
    /// CALLING_CONTEXT_LEAVE.
    CallingContextLeave,
    /// MPI_COLLECTIVE_END.
    MpiCollectiveEnd,
    /// Any other event.
    Other,
}

impl EventRecords {
    /// Reads an event file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = regular_files::read(path, u64::MAX).map_err(|source| io("read the event file", path, source))?;
        match (Reader { bytes: &bytes, at: 0 }).records() {
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

    /// Writes these and other events into one file, in an order returned by [`EventRecords::by_time`].
    pub fn write_with(&self, others: &Self, order: &[bool], path: &Path) -> Result<()> {
        let mut to = Writer::default();
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
            to.push(time, bytes);
        }
        std::fs::write(path, to.finish()).map_err(|source| io("write the event file", path, source))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Parsed<T> = std::result::Result<T, String>;

impl Reader<'_> {
    fn records(&mut self) -> Parsed<Vec<EventRecord>> {
        let mut all = Vec::new();
        let (mut time, mut from) = (0, None);
        loop {
            let start = self.at;
            let [record] = self.array()?;
            let kind = match record {
                HEADER_MARK => {
                    if self.array()? != [BYTE_ORDER] {
                        return Err("its numbers are in the byte order of another machine".to_owned());
                    }
                    self.skip(HEADER_BYTES - 2)?;
                    continue;
                }
                END_OF_CHUNK => {
                    self.at = start - start % CHUNK_BYTES + CHUNK_BYTES;
                    continue;
                }
                TIME => {
                    time = u64::from_ne_bytes(self.array()?);
                    continue;
                }
                ATTRIBUTES => {
                    from = Some(start);
                    self.skip_payload()?;
                    continue;
                }
                end if end == END[0] => return Ok(all),
                ENTER => RecordKind::Enter(self.region()?),
                LEAVE => RecordKind::Leave(self.region()?),
                FIRST_EVENT.. => {
                    self.skip_payload()?;
                    match record {
                        CALLING_CONTEXT_ENTER => RecordKind::CallingContextEnter,
                        CALLING_CONTEXT_LEAVE => RecordKind::CallingContextLeave,
                        MPI_COLLECTIVE_END => RecordKind::MpiCollectiveEnd,
                        _ => RecordKind::Other,
                    }
                }
                unknown => return Err(format!("there is a record of the unknown type {unknown} at byte {start}")),
            };
            all.push(EventRecord { time, kind, at: from.take().unwrap_or(start)..self.at });
        }
    }

    fn skip(&mut self, length: usize) -> Parsed<&[u8]> {
        let rest = self.bytes.get(self.at..).and_then(|rest| rest.get(..length));
        self.at += rest.map_or(0, <[u8]>::len);
        rest.ok_or_else(|| "it ends within a record".to_owned())
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        self.skip(N)?.try_into().map_err(|_| "it ends within a record".to_owned())
    }

    fn skip_payload(&mut self) -> Parsed<()> {
        let length = match self.array()? {
            [u8::MAX] => u64::from_ne_bytes(self.array()?),
            [length] => length.into(),
        };
        // A length that exceeds `usize` also exceeds the file.
        self.skip(usize::try_from(length).unwrap_or(usize::MAX)).map(drop)
    }

    /// Reads a number without its leading zeros; the length `ff` means undefined.
    fn region(&mut self) -> Parsed<RegionRef> {
        let [length] = self.array()?;
        if length == u8::MAX {
            return Ok(RegionRef::UNDEFINED);
        }
        let mut number = [0; 4];
        let bytes = self.skip(length.into())?;
        let place = match cfg!(target_endian = "little") {
            true => 0..bytes.len(),
            false => number.len().saturating_sub(bytes.len())..number.len(),
        };
        number.get_mut(place).ok_or("a number is too long")?.copy_from_slice(bytes);
        Ok(RegionRef::new(u32::from_ne_bytes(number)))
    }
}

#[derive(Default)]
struct Writer {
    file: Vec<u8>,
    chunk: Vec<u8>,
    time: Option<u64>,
    events: u64,
    /// Events in earlier chunks.
    before: u64,
}

impl Writer {
    fn push(&mut self, time: u64, record: &[u8]) {
        if self.chunk.len() + TIME_BYTES + record.len() + END.len() > CHUNK_BYTES {
            self.chunk.push(END_OF_CHUNK);
            self.chunk.resize(CHUNK_BYTES, 0);
            self.end_chunk();
        }
        if self.chunk.is_empty() {
            self.chunk.resize(HEADER_BYTES, 0);
            self.time = None;
        }
        if self.time != Some(time) {
            self.chunk.push(TIME);
            self.chunk.extend_from_slice(&time.to_ne_bytes());
            self.time = Some(time);
        }
        self.chunk.extend_from_slice(record);
        self.events += 1;
    }

    fn end_chunk(&mut self) {
        let [first, last] = [self.before + 1, self.events].map(u64::to_ne_bytes);
        self.chunk.splice(..HEADER_BYTES, [&[HEADER_MARK, BYTE_ORDER], &first[..], &last[..]].concat());
        self.file.append(&mut self.chunk);
        self.before = self.events;
    }

    fn finish(mut self) -> Vec<u8> {
        if self.chunk.is_empty() {
            self.chunk.resize(HEADER_BYTES, 0);
        }
        self.chunk.extend_from_slice(&END);
        self.end_chunk();
        self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, LocationRef, PartWriter};

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
        let records = EventRecords::read(&part.event_file(LocationRef::new(0))).expect("records");
        part.close().expect("a part");
        records
    }

    #[test]
    fn records_of_two_files_become_one() {
        let scratch = tempfile::tempdir().expect("a directory");
        // `theirs` exceeds one chunk.
        let (theirs, ours) = (file(scratch.path(), "theirs", 100, 60_000), file(scratch.path(), "ours", 105, 3));
        let both = scratch.path().join("both.evt");
        theirs.write_with(&ours, &theirs.by_time(&ours), &both).expect("a file");
        let both = EventRecords::read(&both).expect("records");
        let both = both.as_slice();
        assert_eq!(both.len(), 120_006);
        assert!(both.is_sorted_by_key(|record| record.time));
        let [enter, leave] = [RecordKind::Enter, RecordKind::Leave].map(|kind| move |at| kind(RegionRef::new(at)));
        let first = [(100, enter(0)), (101, leave(0)), (105, enter(0)), (106, leave(0)), (110, enter(1))];
        assert!(both.iter().map(|record| (record.time, record.kind)).take(5).eq(first));
        // Merging with nothing leaves the file unchanged.
        let nothing = EventRecords { bytes: Vec::new(), records: Vec::new() };
        let same = scratch.path().join("same.evt");
        theirs.write_with(&nothing, &theirs.by_time(&nothing), &same).expect("a file");
        assert!(std::fs::read(same).expect("a file") == theirs.bytes, "byte for byte");
    }

    #[test]
    fn what_is_no_event_file_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("x.evt");
        for (bytes, reason) in [
            (&[HEADER_MARK, BYTE_ORDER][..], "ends within a record"),
            (&[ATTRIBUTES, u8::MAX, 255, 255, 255, 255, 255, 255, 255, 255], "ends within a record"),
            (&[ENTER, 5, 1, 2, 3, 4, 5], "a number is too long"),
            (&[9], "unknown type 9 at byte 0"),
        ] {
            std::fs::write(&path, bytes).expect("a file");
            let error = EventRecords::read(&path).err().expect("refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
