//! Encodes records about ranges; `format::range` reads them back.

use super::SlotWriter;
use crate::format::encode::flags;
use crate::format::layout::kind;
use crate::format::range::{BEGIN_WORDS, begin_word, end_word};
use crate::writer::names::PermanentName;
use nccl_events::range::{Range, RangeFields, RangeRecord};

#[inline]
pub(super) fn put(to: &mut SlotWriter, ticks: u64, id: u64, record: &RangeRecord<Option<PermanentName>>) -> bool {
    match record {
        RangeRecord::Push { level, is_repeated, range } => {
            begin(to, kind::RANGE_PUSH, flags(*is_repeated), ticks, (id, *level), range)
        }
        RangeRecord::Pop { level, fields } => numbers(to, kind::RANGE_POP, 0, (ticks, id), end_word(*level), fields),
        RangeRecord::Mark(range) => begin(to, kind::RANGE_MARK, 0, ticks, (id, 0), range),
        RangeRecord::Start { is_repeated, range } => {
            begin(to, kind::RANGE_START, flags(*is_repeated), ticks, (id, 0), range)
        }
        RangeRecord::End { fields } => numbers(to, kind::RANGE_END, 0, (ticks, id), end_word(0), fields),
        RangeRecord::Counts(counts) => to.put_at(kind::RANGE_COUNTS, 0, ticks, id, *counts),
    }
}

#[inline]
fn begin(
    to: &mut SlotWriter,
    record: u8,
    flags: u8,
    ticks: u64,
    (id, level): (u64, u16),
    range: &Range<Option<PermanentName>>,
) -> bool {
    let names = [range.name, range.domain, range.category].map(|name| to.permanent_name(name));
    numbers(to, record, flags, (ticks, id), begin_word(names, level), &range.fields)
}

/// Appends a record with its first word and its numbers. The length of a record must be known at compile time.
#[inline]
fn numbers(
    to: &mut SlotWriter,
    record: u8,
    flags: u8,
    (ticks, id): (u64, u64),
    first: u64,
    fields: &RangeFields,
) -> bool {
    let (count, kinds, values) = fields.words();
    let mut words = [0; BEGIN_WORDS];
    let [head, of_kinds, rest @ ..] = &mut words;
    (*head, *of_kinds, *rest) = (first, kinds, *values);
    macro_rules! put {
        ($($count:literal)*) => {
            match count {
                0 => to.put_at(record, flags, ticks, id, [first]),
                $($count => match words.first_chunk::<{ $count + 2 }>() {
                    Some(words) => to.put_at(record, flags, ticks, id, *words),
                    None => false,
                },)*
                _ => to.put_at(record, flags, ticks, id, words),
            }
        };
    }
    put!(1 2 3 4)
}
