//! Words of a record, and parts of words.

pub(crate) use nccl_events::event::Word;

#[inline]
pub(crate) fn word_at(words: &[Word], index: usize) -> Option<u64> {
    words.get(index).map(|word| u64::from_le_bytes(*word))
}

/// The words of a payload with exactly `N` words; `None` for another length.
pub(crate) fn numbers<const N: usize>(words: &[Word]) -> Option<[u64; N]> {
    let words: &[Word; N] = words.try_into().ok()?;
    Some(words.map(u64::from_le_bytes))
}

#[expect(clippy::cast_possible_truncation, reason = "takes one 16-bit field out of a word")]
pub(crate) const fn field16(word: u64, index: u32) -> u16 {
    (word >> (16 * index)) as u16
}

#[expect(clippy::cast_possible_truncation, reason = "takes one 8-bit field out of a word")]
pub(crate) const fn field8(word: u64, index: u32) -> u8 {
    (word >> (8 * index)) as u8
}
