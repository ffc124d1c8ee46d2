//! The event file of a location that has no events.

use std::fs;
use std::path::Path;

use crate::error::{Result, io};

/// A whole event file without events. Readers fail on a location that has no event file at all.
///
/// | bytes | meaning |
/// |---|---|
/// | `03` | chunk header |
/// | `42` or `23` | numbers that follow are little- or big-endian |
/// | u64 | number of the chunk's first event: 1 |
/// | u64 | number of its last event: 0, so there is none |
/// | `02` | end of file |
/// | `01` | end of buffer |
#[must_use]
pub fn stub_events() -> [u8; 20] {
    last_chunk(0)
}

/// A chunk without events that ends a file after this many events; definitions do not count as events.
pub(crate) fn last_chunk(events: u64) -> [u8; 20] {
    let endianness = if cfg!(target_endian = "little") {
        b'B'
    } else {
        b'#'
    };
    let [a, b, c, d, e, f, g, h] = (events + 1).to_ne_bytes();
    let [i, j, k, l, m, n, o, p] = events.to_ne_bytes();
    [
        3, endianness, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, 2, 1,
    ]
}

/// Writes [`stub_events`] to a file.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write_stub_events(path: &Path) -> Result<()> {
    fs::write(path, stub_events()).map_err(|source| io("write the event file", path, source))
}
