//! Checks that a definition file is complete. libotf2's messages about a truncated file do not say so.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result, io};

/// Size of an empty file: `03`, endianness, two numbers that definitions do not use; end of file, end of buffer.
const LEAST_BYTES: u64 = 20;
const HEADER_MARK: u8 = 3;
const END: [u8; 2] = [2, 1];

/// Checks the beginning and the end of a definition file of at most `most_bytes`.
pub fn check_definition_file(path: &Path, most_bytes: u64) -> Result<()> {
    let read = |source| io("read the definitions", path, source);
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let mut file = regular_files::open(path, most_bytes).map_err(read)?;
    let size = file.metadata().map_err(read)?.len();
    let cut_short = || damaged(format!("was cut short: it has no end after {size} bytes"));
    if size < LEAST_BYTES {
        return Err(cut_short());
    }
    let (mut mark, mut end) = ([0], [0; 2]);
    file.read_exact(&mut mark).map_err(read)?;
    file.seek(SeekFrom::End(-2)).map_err(read)?;
    file.read_exact(&mut end).map_err(read)?;
    if mark != [HEADER_MARK] {
        return Err(damaged("is no definition file".to_owned()));
    }
    if end == END { Ok(()) } else { Err(cut_short()) }
}
