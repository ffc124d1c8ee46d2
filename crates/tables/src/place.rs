//! Places in this process's tables: 32 bits, because a million operations hold several of them each.

/// A place as an index. Tables hold fewer than 2³² rows.
#[must_use]
#[inline]
pub fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// An index as a place.
#[must_use]
#[inline]
pub fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// No place.
pub const NOWHERE: u32 = u32::MAX;
