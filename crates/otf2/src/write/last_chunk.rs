//! Writes last chunks that libotf2 does not: of event files without events, and of files whose last chunk is full.
//!
//! A writer of libotf2 keeps one byte of a chunk free, but ends a file with two bytes. If the last record leaves
//! only that byte, the second goes beyond the chunk, and the flush that follows clears what it takes for the rest
//! of the chunk: nearly the whole address space. The process crashes. The probability is one in a million, and
//! there are millions of files.
//!
//! Therefore the flush is declined in this case ([`super::chunks`]), libotf2 closes the file without its last
//! chunk, and this module writes the chunk, with its end in a second chunk.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::error::{Result, io};
use crate::layout::{BYTE_ORDER, END, END_OF_CHUNK, HEADER_MARK};

/// A chunk that libotf2 was not allowed to flush.
pub(super) struct FullChunk {
    /// The complete chunk. Its last byte is the first of the two that end a file.
    pub(super) bytes: Vec<u8>,
    /// Whether the file has no chunks yet, in which case libotf2 has not opened it.
    pub(super) is_first: bool,
}

/// Place of the last event's number in a chunk header.
const LAST_EVENT: std::ops::Range<usize> = 10..18;

impl FullChunk {
    /// Writes the chunk and the end to the file that libotf2 has closed. `events` counts all events of the file.
    pub(super) fn append_to(mut self, path: &Path, events: u64) -> Result<()> {
        if let Some(last_event) = self.bytes.get_mut(LAST_EVENT) {
            last_event.copy_from_slice(&events.to_ne_bytes());
        }
        if let Some(end) = self.bytes.last_mut() {
            *end = END_OF_CHUNK;
        }
        self.bytes.extend_from_slice(&last_chunk(events));
        let failed = |source| io("write the last chunk of", path, source);
        let mut file = if self.is_first {
            File::create(path).map_err(failed)?
        } else {
            File::options().append(true).open(path).map_err(failed)?
        };
        file.write_all(&self.bytes).map_err(failed)
    }
}

/// A chunk without events that ends a file with this many events; definitions do not count as events.
///
/// | bytes | meaning |
/// |---|---|
/// | `03` | chunk header |
/// | `42` or `23` | the following numbers are little- or big-endian |
/// | u64 | number of the chunk's first event: one more than the events of the file |
/// | u64 | number of its last event: one less than the first, so the chunk has none |
/// | `02` | end of file |
/// | `01` | end of buffer |
fn last_chunk(events: u64) -> [u8; 20] {
    let [a, b, c, d, e, f, g, h] = (events + 1).to_ne_bytes();
    let [i, j, k, l, m, n, o, p] = events.to_ne_bytes();
    [HEADER_MARK, BYTE_ORDER, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, END[0], END[1]]
}

/// Writes an event file without events. Readers fail on a location without an event file.
pub fn write_stub_events(path: &Path) -> Result<()> {
    fs::write(path, last_chunk(0)).map_err(|source| io("write the event file", path, source))
}
