//! The words of records about ranges, and how they are read. The slot writer encodes them.

use crate::format::layout::{flag, kind};
use crate::format::record::Symbol;
use crate::format::words::{Word, field16, numbers, word_at};
use nccl_events::range::{Range, RangeFields, RangeRecord};

/// The first word of a record that begins a range: name, domain, category, level.
#[inline]
pub(crate) const fn begin_word([name, domain, category]: [u16; 3], level: u16) -> u64 {
    name as u64 | (domain as u64) << 16 | (category as u64) << 32 | (level as u64) << 48
}

/// The first word of a record that ends a range.
#[inline]
pub(crate) const fn end_word(level: u16) -> u64 {
    begin_word([0; 3], level)
}

/// Decodes the payload of a record about ranges. `None` if the words do not fit the kind.
pub(crate) fn decode(
    record_kind: u8,
    flags: u8,
    payload: &[Word],
    symbol: &impl Fn(u16) -> Option<Symbol>,
) -> Option<RangeRecord<Symbol>> {
    if record_kind == kind::RANGE_COUNTS {
        return Some(RangeRecord::Counts(numbers(payload)?));
    }
    let first = word_at(payload, 0)?;
    let [name, domain, category, level] = [0, 1, 2, 3].map(|index| field16(first, index));
    let values = payload.iter().skip(2).map(|word| u64::from_le_bytes(*word));
    let fields = RangeFields::from_words(word_at(payload, 1).unwrap_or(0), values)?;
    let range = || Some(Range { domain: symbol(domain)?, name: symbol(name)?, category: symbol(category)?, fields });
    let is_repeated = flags & flag::TRUE != 0;
    Some(match record_kind {
        kind::RANGE_PUSH => RangeRecord::Push { level, is_repeated, range: range()? },
        kind::RANGE_POP => RangeRecord::Pop { level, fields },
        kind::RANGE_MARK => RangeRecord::Mark(range()?),
        kind::RANGE_START => RangeRecord::Start { is_repeated, range: range()? },
        kind::RANGE_END => RangeRecord::End { fields },
        _ => return None,
    })
}
