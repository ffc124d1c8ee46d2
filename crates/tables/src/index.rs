//! Indices into the tables of a process, kept in 32 bits: a million operations hold several of them each.

/// A kept index, to be used. Tables hold fewer than 2³² rows.
#[must_use]
#[inline]
pub fn index(kept: u32) -> usize {
    usize::try_from(kept).unwrap_or(usize::MAX)
}

/// An index, to be kept.
#[must_use]
#[inline]
pub fn index_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
