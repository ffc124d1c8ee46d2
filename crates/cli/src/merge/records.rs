//! Event files as records, so that events can be put between those of another writer, which stay as they are.
//!
//! | bytes | meaning |
//! |---|---|
//! | `03`, `42` or `23`, u64, u64 | begin of a chunk: byte order, numbers of its first and last event |
//! | `05`, u64 | the time of the records that follow |
//! | `06`, length, … | attributes of the event that follows |
//! | `0c` or `0d`, number of bytes, … | ENTER or LEAVE, and its region |
//! | other type, length, … | another event |
//! | `00` | end of the chunk; the next one begins at the next multiple of its size |
//! | `02` | end of the file |
//!
//! A length is a byte, or `ff` and a u64.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

const CHUNK_BEGIN: u8 = 3;
const CHUNK_END: u8 = 0;
const FILE_END: [u8; 2] = [2, 1];
const TIME: u8 = 5;
const ATTRIBUTES: u8 = 6;
pub(super) const ENTER: u8 = 12;
pub(super) const LEAVE: u8 = 13;
pub(super) const CALLING_CONTEXT_ENTER: u8 = 66;
pub(super) const CALLING_CONTEXT_LEAVE: u8 = 67;
pub(super) const MPI_COLLECTIVE_END: u8 = 23;
const FIRST_EVENT: u8 = 10;
const HEADER_BYTES: usize = 18;
const CHUNK_BYTES: usize = 1 << 20;
const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { b'B' } else { b'#' };

/// An event file in memory.
pub(super) struct Records {
    bytes: Vec<u8>,
    /// The events, in their order.
    pub(super) all: Vec<Record>,
}

/// An event, with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) time: u64,
    pub(super) kind: u8,
    /// The region of an ENTER or LEAVE.
    pub(super) region: Option<u32>,
    at: Range<usize>,
}

impl Records {
    /// Reads an event file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = regular_files::read(path, u64::MAX).with_context(|| format!("cannot read {}", path.display()))?;
        let mut reader = Reader { bytes: &bytes, at: 0 };
        let all = reader.records().with_context(|| format!("{} is damaged", path.display()))?;
        Ok(Self { bytes, all })
    }

    /// The order of these and others by time: whether the next one is another. At one time the others come first.
    pub(super) fn by_time(&self, others: &Self) -> Vec<bool> {
        let mut others_left = others.all.iter().peekable();
        let mut order = Vec::with_capacity(self.all.len() + others.all.len());
        for record in &self.all {
            while others_left.next_if(|other| other.time <= record.time).is_some() {
                order.push(true);
            }
            order.push(false);
        }
        order.extend(others_left.map(|_| true));
        order
    }

    /// Writes these and others as one file in an order, and says how many there are.
    pub(super) fn write_with(&self, others: &Self, order: &[bool], path: &Path) -> Result<u64> {
        let mut to = Writer::default();
        let (mut own_left, mut others_left) = (self.all.iter(), others.all.iter());
        for is_other in order {
            let (from, record) = match is_other {
                true => (others, others_left.next()),
                false => (self, own_left.next()),
            };
            let record = record.context("the order is one of more events")?;
            to.push(record.time, from.bytes.get(record.at.clone()).unwrap_or_default());
        }
        let events = to.events;
        std::fs::write(path, to.finish()).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(events)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn records(&mut self) -> Result<Vec<Record>> {
        let mut all = Vec::new();
        let (mut time, mut from) = (0, None);
        loop {
            let start = self.at;
            match self.byte()? {
                CHUNK_BEGIN => {
                    if self.byte()? != BYTE_ORDER {
                        bail!("its numbers are in the byte order of another machine");
                    }
                    self.skip(HEADER_BYTES - 2)?;
                }
                CHUNK_END => self.at = start - start % CHUNK_BYTES + CHUNK_BYTES,
                kind if kind == FILE_END[0] => return Ok(all),
                TIME => time = self.u64()?,
                ATTRIBUTES => {
                    from = Some(start);
                    self.skip_payload()?;
                }
                kind if kind >= FIRST_EVENT => {
                    let region = match kind {
                        ENTER | LEAVE => Some(self.compressed()?),
                        _ => {
                            self.skip_payload()?;
                            None
                        }
                    };
                    all.push(Record { time, kind, region, at: from.take().unwrap_or(start)..self.at });
                }
                kind => bail!("there is a record of the unknown type {kind} at byte {start}"),
            }
        }
    }

    fn take(&mut self, length: usize) -> Result<&[u8]> {
        let from = self.at;
        self.skip(length)?;
        self.bytes.get(from..self.at).context("it ends within a record")
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.at =
            self.at.checked_add(length).filter(|end| *end <= self.bytes.len()).context("it ends within a record")?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_ne_bytes(self.take(8)?.try_into()?))
    }

    fn skip_payload(&mut self) -> Result<()> {
        let length = match self.byte()? {
            u8::MAX => usize::try_from(self.u64()?)?,
            length => length.into(),
        };
        self.skip(length)
    }

    /// A number without its leading zeros; `ff` for an undefined one.
    fn compressed(&mut self) -> Result<u32> {
        let length = self.byte()?;
        if length == u8::MAX {
            return Ok(u32::MAX);
        }
        let mut number = [0; 4];
        let bytes = self.take(length.into())?;
        let place = match cfg!(target_endian = "little") {
            true => 0..bytes.len(),
            false => 4_usize.saturating_sub(bytes.len())..4,
        };
        number.get_mut(place).context("a number is too long")?.copy_from_slice(bytes);
        Ok(u32::from_ne_bytes(number))
    }
}

#[derive(Default)]
struct Writer {
    file: Vec<u8>,
    chunk: Vec<u8>,
    time: Option<u64>,
    events: u64,
    /// Events of the chunks before.
    before: u64,
}

impl Writer {
    fn push(&mut self, time: u64, record: &[u8]) {
        // A time, and the end of the file.
        if self.chunk.len() + record.len() + 9 + FILE_END.len() > CHUNK_BYTES {
            self.chunk.push(CHUNK_END);
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
        let header = [&[CHUNK_BEGIN, BYTE_ORDER], &first[..], &last[..]].concat();
        if self.chunk.len() < HEADER_BYTES {
            self.chunk.resize(HEADER_BYTES, 0);
        }
        self.chunk.splice(..HEADER_BYTES, header);
        self.file.append(&mut self.chunk);
        self.before = self.events;
    }

    fn finish(mut self) -> Vec<u8> {
        if self.chunk.is_empty() {
            self.chunk.resize(HEADER_BYTES, 0);
        }
        self.chunk.extend_from_slice(&FILE_END);
        self.end_chunk();
        self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use otf2::{Attributes, LocationRef, PartWriter, RegionRef};

    /// Enters and leaves a region `times` times, from a time on.
    fn file(directory: &Path, name: &str, from: u64, times: u64) -> std::path::PathBuf {
        let mut part = PartWriter::create(directory, name).expect("a part");
        let mut to = part.event_writer(LocationRef::new(0)).expect("a writer");
        for number in 0..times {
            let region = RegionRef::new(u32::try_from(number % 1000).expect("small"));
            to.enter(from + 10 * number, region, Attributes::NONE).expect("an event");
            to.leave(from + 10 * number + 1, region, Attributes::NONE).expect("an event");
        }
        let _events = to.close().expect("events");
        let path = part.event_file(LocationRef::new(0));
        part.close().expect("a part");
        path
    }

    #[test]
    fn records_of_two_files_become_one() {
        let scratch = tempfile::tempdir().expect("a directory");
        let at = scratch.path();
        // More than a chunk.
        let (theirs, ours) = (file(at, "theirs", 100, 60_000), file(at, "ours", 105, 3));
        let (theirs, ours) = (Records::read(&theirs).expect("records"), Records::read(&ours).expect("records"));
        assert_eq!((theirs.all.len(), ours.all.len()), (120_000, 6));
        let both = at.join("both.evt");
        assert_eq!(theirs.write_with(&ours, &theirs.by_time(&ours), &both).expect("a file"), 120_006);
        let both = Records::read(&both).expect("records");
        let seen: Vec<(u64, u8, Option<u32>)> = both.all.iter().map(|it| (it.time, it.kind, it.region)).collect();
        assert!(seen.is_sorted_by_key(|(time, ..)| *time));
        assert_eq!(
            seen[..6],
            [(100, ENTER, 0), (101, LEAVE, 0), (105, ENTER, 0), (106, LEAVE, 0), (110, ENTER, 1), (111, LEAVE, 1)]
                .map(|(time, kind, region)| (time, kind, Some(region)))
        );
        // Nothing to add leaves the file as it was.
        let nothing =
            Records::read(&file(at, "nothing", 0, 0)).unwrap_or(Records { bytes: Vec::new(), all: Vec::new() });
        let same = at.join("same.evt");
        let _events = theirs.write_with(&nothing, &theirs.by_time(&nothing), &same).expect("a file");
        assert!(std::fs::read(same).expect("a file") == theirs.bytes, "byte for byte");
    }
}
