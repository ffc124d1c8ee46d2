//! Places in this process's tables: 32 bits, because a million operations hold several of them each.

/// A place as an index. Tables hold fewer than 2³² entries ([`super::assemble`] stops there).
#[must_use]
pub(super) fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// An index as a place.
#[must_use]
pub(super) fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// No place.
pub(super) const NOWHERE: u32 = u32::MAX;
