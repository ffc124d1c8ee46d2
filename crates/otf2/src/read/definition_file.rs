//! Checks that a definition file is complete and consists of records. libotf2's messages about a truncated file do not
//! say so. After a damaged record libotf2 may take old contents of its memory for the next chunk, without end.

use std::path::Path;

use crate::error::{Error, Result, io};
use crate::layout::{BIG_ENDIAN, END, END_OF_CHUNK, HEADER_BYTES, HEADER_MARK};

/// The length of a record with more bytes is in the next eight.
const LONG: u8 = 0xff;

/// Checks a definition file of at most `most_bytes`: its chunks, their records, and its end.
pub(super) fn check_definition_file(path: &Path, most_bytes: u64, chunk_bytes: u64) -> Result<()> {
    let bytes = regular_files::read(path, most_bytes).map_err(|source| io("read the definitions", path, source))?;
    let damaged = |reason: String| Err(Error::Damaged { path: path.to_owned(), reason });
    if bytes.len() < HEADER_BYTES + END.len() || !bytes.ends_with(&END) {
        return damaged(format!("was cut short: it has no end after {} bytes", bytes.len()));
    }
    let mut chunks = bytes.chunks(usize::try_from(chunk_bytes).unwrap_or(usize::MAX).max(1)).peekable();
    let mut number = 0;
    while let Some(chunk) = chunks.next() {
        number += 1;
        if check_chunk(chunk, chunks.peek().is_none()).is_none() {
            return damaged(format!("has a damaged definition in its chunk {number}"));
        }
    }
    Ok(())
}

/// Skips all records; `None` if one goes beyond the chunk, or another end follows than the chunk is to have.
fn check_chunk(chunk: &[u8], is_last: bool) -> Option<()> {
    let (&[HEADER_MARK, byte_order, ..], mut rest) = chunk.split_first_chunk::<HEADER_BYTES>()? else { return None };
    loop {
        let (kind, record) = rest.split_first()?;
        match *kind {
            END_OF_CHUNK => return (!is_last).then_some(()),
            1..=HEADER_MARK => return (is_last && rest == END).then_some(()),
            _ => {}
        }
        let (length, record) = match record.split_first()? {
            (&LONG, record) => {
                let (length, record) = record.split_first_chunk()?;
                let is_big = byte_order == BIG_ENDIAN;
                (if is_big { u64::from_be_bytes(*length) } else { u64::from_le_bytes(*length) }, record)
            }
            (short, record) => (u64::from(*short), record),
        };
        rest = record.get(usize::try_from(length).ok()?..)?;
    }
}
