//! Indices into tables, kept in 32 bits: a million operations hold several of them each.

/// From the index as tables keep it. They hold fewer than 2³² rows.
#[inline]
pub fn index(kept: u32) -> usize {
    usize::try_from(kept).unwrap_or(usize::MAX)
}

/// To the index as tables keep it.
#[inline]
pub fn index_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
