//! Checks that an event file is complete. libotf2 never finishes reading a truncated one.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::error::{Error, Result, io};
use crate::layout::{self, BIG_ENDIAN, END, HEADER_MARK, LITTLE_ENDIAN};

const HEADER_BYTES: u64 = layout::HEADER_BYTES as u64;
const END_BYTES: u64 = END.len() as u64;

/// Checks an event file's chunks and its end, and returns its number of events. Reads a few bytes of each chunk.
pub fn check_event_file(path: &Path, chunk_bytes: u64) -> Result<u64> {
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let read = |source| io("read the event file", path, source);
    let file = regular_files::open(path, u64::MAX).map_err(read)?;
    let size = file.metadata().map_err(read)?.len();
    let cut_short = || damaged("was cut short, or its writer did not close it: it has no end".to_owned());
    if size < HEADER_BYTES + END_BYTES || chunk_bytes < HEADER_BYTES {
        return Err(cut_short());
    }
    let mut end = [0; 2];
    file.read_exact_at(&mut end, size - END_BYTES).map_err(read)?;
    if end != END {
        return Err(cut_short());
    }
    // libotf2 crashes on the rest of an end that was written beyond a full chunk.
    let rest = size % chunk_bytes;
    if rest != 0 && rest < HEADER_BYTES + END_BYTES {
        let reason = format!("has {rest} bytes after its last chunk: they are no chunk");
        return Err(damaged(reason));
    }
    let mut events = 0;
    let mut start = 0;
    while start + HEADER_BYTES <= size {
        let mut header = [0; layout::HEADER_BYTES];
        file.read_exact_at(&mut header, start).map_err(read)?;
        let [mark, endianness, numbers @ ..] = header;
        let (first, last) = (numbers.first_chunk(), numbers.last_chunk());
        let [first, last] = [first, last].map(|number| number.copied().unwrap_or_default());
        let (first, last) = match [mark, endianness] {
            [HEADER_MARK, LITTLE_ENDIAN] => (u64::from_le_bytes(first), u64::from_le_bytes(last)),
            [HEADER_MARK, BIG_ENDIAN] => (u64::from_be_bytes(first), u64::from_be_bytes(last)),
            _ => {
                let reason = format!(
                    "has no chunk at byte {start}: it is damaged, or its chunks are not of {chunk_bytes} bytes"
                );
                return Err(damaged(reason));
            }
        };
        if first != events + 1 || last < events {
            let reason = format!(
                "has a chunk at byte {start} with events {first} to {last} after event {events}: \
                 parts of it are missing"
            );
            return Err(damaged(reason));
        }
        events = last;
        start += chunk_bytes;
    }
    Ok(events)
}
