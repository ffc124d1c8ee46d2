//! The last chunk of a file: of the event file of a location without events, and of a file whose chunk is full.
//!
//! A writer of libotf2 keeps one byte of a chunk free and ends a file with two. When the last record leaves no
//! more than the one, the second goes past the chunk, and the flush that follows clears what it takes for the
//! rest of the chunk: nearly all addresses there are. The process dies. It takes bad luck of one in a million,
//! and there are millions of files.
//!
//! So the flush is declined at that moment ([`super::chunks`]), libotf2 closes the file without its last chunk,
//! and the chunk is written here, its end in a chunk of its own.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::error::{Result, io};

/// A chunk that libotf2 was not allowed to flush.
pub(super) struct FullChunk {
    /// All of the chunk. The last byte is the first of the two that end a file.
    pub(super) bytes: Vec<u8>,
    /// Whether the file has no chunks yet; then libotf2 has not opened it.
    pub(super) is_first: bool,
}

const END_OF_CHUNK: u8 = 0;
/// Where a chunk header has the number of the chunk's last event.
const LAST_EVENT: std::ops::Range<usize> = 10..18;

impl FullChunk {
    /// Writes the chunk and the end to the file that libotf2 has closed. `events` are all events of the file.
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

/// A chunk without events that ends a file after this many events; definitions do not count as events.
///
/// | bytes | meaning |
/// |---|---|
/// | `03` | chunk header |
/// | `42` or `23` | numbers that follow are little- or big-endian |
/// | u64 | number of the chunk's first event: the one after those of the file |
/// | u64 | number of its last event: the one before, so there is none |
/// | `02` | end of file |
/// | `01` | end of buffer |
fn last_chunk(events: u64) -> [u8; 20] {
    let endianness = if cfg!(target_endian = "little") { b'B' } else { b'#' };
    let [a, b, c, d, e, f, g, h] = (events + 1).to_ne_bytes();
    let [i, j, k, l, m, n, o, p] = events.to_ne_bytes();
    [3, endianness, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, 2, 1]
}

/// Writes an event file without events. Readers fail on a location that has no event file at all.
pub fn write_stub_events(path: &Path) -> Result<()> {
    fs::write(path, last_chunk(0)).map_err(|source| io("write the event file", path, source))
}
