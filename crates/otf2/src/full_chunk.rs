//! The end of a file whose last chunk is full.
//!
//! A writer of libotf2 keeps one byte of a chunk free and ends a file with two. When the last record leaves no
//! more than the one, the second goes past the chunk, and the flush that follows clears what it takes for the
//! rest of the chunk: nearly all addresses there are. The process dies. It takes bad luck of one in a million,
//! and there are millions of files.
//!
//! So the flush is declined at that moment ([`crate::chunks`]), libotf2 closes the file without its last chunk,
//! and the chunk is written here, its end in a chunk of its own.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::error::{Result, io};
use crate::stub::last_chunk;

/// A chunk that libotf2 was not allowed to flush.
pub(crate) struct FullChunk {
    /// All of the chunk. The last byte is the first of the two that end a file.
    pub(crate) bytes: Vec<u8>,
    /// Whether the file has no chunks yet; then libotf2 has not opened it.
    pub(crate) is_first: bool,
}

const END_OF_CHUNK: u8 = 0;
/// Where a chunk header has the number of the chunk's last event.
const LAST_EVENT: std::ops::Range<usize> = 10..18;

impl FullChunk {
    /// Writes the chunk and the end to the file that libotf2 has closed. `events` are all events of the file.
    pub(crate) fn append_to(mut self, path: &Path, events: u64) -> Result<()> {
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
