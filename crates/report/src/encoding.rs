//! Compact data for the page: numbers as LEB128, deflated, in base64.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Maps signed to unsigned numbers such that small ones stay small.
pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(super) fn pack(bytes: &[u8]) -> Result<String> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(bytes).and_then(|()| encoder.finish()).context("cannot deflate")?;
    Ok(STANDARD.encode(deflated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_leb128() {
        let mut bytes = Vec::new();
        for value in [0, 127, 128, 300] {
            put(&mut bytes, value);
        }
        assert_eq!(bytes, [0, 127, 0x80, 1, 0xac, 2]);
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }
}
