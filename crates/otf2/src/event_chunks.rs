//! The chunks of event files, and the records in them, which are decoded only as far as needed.
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

use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, io, refused};
use crate::event::{BYTE_ORDER, END, END_OF_CHUNK, HEADER_BYTES, HEADER_MARK};
use crate::vocabulary::RegionRef;

const TIME: u8 = 5;
const ATTRIBUTES: u8 = 6;
const FIRST_EVENT: u8 = 10;
const ENTER: u8 = 12;
const LEAVE: u8 = 13;
const MPI_COLLECTIVE_END: u8 = 23;
const CALLING_CONTEXT_ENTER: u8 = 66;
const CALLING_CONTEXT_LEAVE: u8 = 67;
const TIME_BYTES: usize = 9;

const WRITE: &str = "write the event file";

/// An event with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// The time in the file, not corrected by the location's clock offsets.
    pub time: u64,
    /// The kind of the event.
    pub kind: RecordKind,
    /// Its bytes in the file.
    pub(crate) at: Range<usize>,
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

/// Reads the records of a file, or of one chunk.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    time: u64,
}

enum NextRecord {
    Event(EventRecord),
    EndOfChunk,
    EndOfFile,
}

type Parsed<T> = std::result::Result<T, String>;

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, time: 0 }
    }

    /// All events of a file.
    pub(crate) fn records(&mut self, chunk_bytes: u64) -> Parsed<Vec<EventRecord>> {
        let chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(usize::MAX).max(1);
        let mut all = Vec::new();
        loop {
            match self.next()? {
                NextRecord::Event(record) => all.push(record),
                NextRecord::EndOfChunk => self.at = self.at.next_multiple_of(chunk_bytes),
                NextRecord::EndOfFile => return Ok(all),
            }
        }
    }

    fn next(&mut self) -> Parsed<NextRecord> {
        let mut from = None;
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
                END_OF_CHUNK => return Ok(NextRecord::EndOfChunk),
                TIME => {
                    self.time = u64::from_ne_bytes(self.array()?);
                    continue;
                }
                ATTRIBUTES => {
                    from = Some(start);
                    self.skip_payload()?;
                    continue;
                }
                end if end == END[0] => return Ok(NextRecord::EndOfFile),
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
                unknown => return Err(format!("it has a record of unknown type {unknown} at byte {start}")),
            };
            return Ok(NextRecord::Event(EventRecord { time: self.time, kind, at: from.unwrap_or(start)..self.at }));
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

/// Writes records into chunks as libotf2 does.
pub(crate) struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    chunk_bytes: usize,
    chunk: Vec<u8>,
    time: Option<u64>,
    events: u64,
    /// Events in earlier chunks.
    before: u64,
}

impl Writer {
    pub(crate) fn create(path: &Path, chunk_bytes: u64) -> Result<Self> {
        let file = File::create(path).map_err(|source| io(WRITE, path, source))?;
        let chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
        let (file, chunk) = (BufWriter::new(file), Vec::new());
        Ok(Self { path: path.to_owned(), file, chunk_bytes, chunk, time: None, events: 0, before: 0 })
    }

    pub(crate) fn push(&mut self, time: u64, record: &[u8]) -> Result<()> {
        let bytes = TIME_BYTES + record.len() + END.len();
        if HEADER_BYTES + bytes > self.chunk_bytes {
            let reason = format!("an event takes {bytes} bytes, a chunk has {}", self.chunk_bytes);
            return Err(refused(format!("write {}", self.path.display()), reason));
        }
        if self.chunk.len() + bytes > self.chunk_bytes {
            self.chunk.push(END_OF_CHUNK);
            self.chunk.resize(self.chunk_bytes, 0);
            self.end_chunk()?;
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
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<()> {
        let [first, last] = [self.before + 1, self.events].map(u64::to_ne_bytes);
        self.chunk.splice(..HEADER_BYTES, [&[HEADER_MARK, BYTE_ORDER], &first[..], &last[..]].concat());
        self.file.write_all(&self.chunk).map_err(|source| io(WRITE, &self.path, source))?;
        self.chunk.clear();
        self.before = self.events;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        if self.chunk.is_empty() {
            self.chunk.resize(HEADER_BYTES, 0);
        }
        self.chunk.extend_from_slice(&END);
        self.end_chunk()?;
        self.file.flush().map_err(|source| io(WRITE, &self.path, source))
    }
}

/// Writes an event file anew with chunks of another size, in memory for one chunk. Returns false, and writes nothing,
/// if the file is the same with both: it has one chunk.
pub fn rewrite_events(from: &Path, chunk_bytes: u64, to: &Path, other_chunk_bytes: u64) -> Result<bool> {
    let read = |source| io("read the event file", from, source);
    let file = regular_files::open(from, u64::MAX).map_err(read)?;
    let size = file.metadata().map_err(read)?.len();
    if chunk_bytes == other_chunk_bytes || size <= chunk_bytes.min(other_chunk_bytes) {
        return Ok(false);
    }
    let damaged = |reason| Error::Damaged { path: from.to_owned(), reason };
    let mut to = Writer::create(to, other_chunk_bytes)?;
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        (&file).take(chunk_bytes).read_to_end(&mut chunk).map_err(read)?;
        let mut records = Reader::new(&chunk);
        loop {
            match records.next().map_err(damaged)? {
                NextRecord::Event(EventRecord { time, at, .. }) => to.push(time, chunk.get(at).unwrap_or_default())?,
                NextRecord::EndOfChunk => break,
                NextRecord::EndOfFile => return to.finish().map(|()| true),
            }
        }
    }
}
