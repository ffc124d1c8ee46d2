//! Indices into tables, stored in 32 bits: each of a million operations has several.

/// Converts a stored index. Tables have fewer than 2³² rows.
#[inline]
pub fn index(kept: u32) -> usize {
    usize::try_from(kept).unwrap_or(usize::MAX)
}

/// Converts an index for storage in tables.
#[inline]
pub fn index_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
