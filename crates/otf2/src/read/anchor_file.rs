//! Checks that an anchor is complete. libotf2 trusts an anchor's count of properties when it allocates and reads.

use std::path::Path;

use crate::error::{Error, Result, io};
use crate::layout::{BIG_ENDIAN, HEADER_MARK, LITTLE_ENDIAN};

/// OTF2 reserves 256 KiB for properties; other programs may use larger chunks.
const MOST_ANCHOR_BYTES: u64 = 16 << 20;
const MAGIC: &[u8] = b"OTF2\0";
/// Format of the trace, version, chunk sizes, substrate, compression, numbers of locations and definitions.
const FIXED_BYTES: usize = 38;
const TEXTS: usize = 3;

/// Checks that an anchor contains all the strings that it counts.
pub(super) fn check_anchor(path: &Path) -> Result<()> {
    let bytes = regular_files::read(path, MOST_ANCHOR_BYTES).map_err(|source| io("open the archive", path, source))?;
    let reason = "is not the anchor of an archive, or was cut short".to_owned();
    check(&bytes).ok_or_else(|| Error::Damaged { path: path.to_owned(), reason })
}

/// Skips all strings; `None` if the anchor ends too early.
fn check(bytes: &[u8]) -> Option<()> {
    let (&[HEADER_MARK, order], rest) = bytes.split_first_chunk()? else { return None };
    let number = match order {
        LITTLE_ENDIAN => u32::from_le_bytes,
        BIG_ENDIAN => u32::from_be_bytes,
        _ => return None,
    };
    let (format, rest) = rest.strip_prefix(MAGIC)?.split_first()?;
    let rest = after_texts(rest.get(FIXED_BYTES..)?, TEXTS)?;
    // Properties were added in format 2.
    if *format > 1 {
        let (properties, rest) = rest.split_first_chunk()?;
        after_texts(rest, usize::try_from(number(*properties)).ok()?.checked_mul(2)?)?;
    }
    Some(())
}

/// What follows the given number of NUL-terminated strings.
fn after_texts(mut bytes: &[u8], texts: usize) -> Option<&[u8]> {
    for _text in 0..texts {
        let end = bytes.iter().position(|byte| *byte == 0)?;
        bytes = bytes.get(end + 1..)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::check;

    /// An anchor with one property, which claims to have `properties`.
    fn anchor(properties: u32) -> Vec<u8> {
        let fixed = [0; super::FIXED_BYTES];
        let texts = b"machine\0creator\0\0";
        [&b"\x03BOTF2\0\x03"[..], &fixed, texts, &properties.to_le_bytes(), b"NAME\0value\0", &[0; 16], &[2, 1]]
            .concat()
    }

    #[test]
    fn an_anchor_has_the_strings_that_it_counts() {
        let whole = anchor(1);
        assert_eq!(check(&whole), Some(()));
        // libotf2 would fail to allocate memory for these, and write to NULL anyway.
        assert_eq!(check(&anchor(1 << 31)), None);
        assert_eq!(check(&anchor(u32::MAX)), None);
        assert_eq!(check(b"[OTF2]\n"), None);
        let properties = whole.len() - 18;
        for end in 0..properties {
            assert_eq!(check(&whole[..end]), None, "{end} bytes");
        }
    }
}
