//! Records about ranges. `format::range` reads them back.

use super::SlotWriter;
use crate::format::encode::flags;
use crate::format::layout::kind;
use crate::format::range::{BEGIN_WORDS, begin_word, end_word};
use crate::writer::names::PermanentName;
use nccl_events::range::{Range, RangeFields, RangeRecord};

/// What all records have: kind, flags, ticks, id.
type Head = (u8, u8, u64, u64);

impl SlotWriter {
    /// Records what happens to a range, at `ticks`. Returns false if there was no room.
    #[inline]
    pub fn range(&mut self, ticks: u64, id: u64, record: &RangeRecord<Option<PermanentName>>) -> bool {
        self.put_held();
        self.make_room_for_names();
        let head = |kind: u8, is_repeated: bool| (kind, flags(is_repeated), ticks, id);
        match record {
            RangeRecord::Push { level, is_repeated, range } => {
                self.begin_range(head(kind::RANGE_PUSH, *is_repeated), *level, range)
            }
            RangeRecord::Pop { level, fields } => {
                self.put_fields(head(kind::RANGE_POP, false), end_word(*level), fields)
            }
            RangeRecord::Mark(range) => self.begin_range(head(kind::RANGE_MARK, false), 0, range),
            RangeRecord::Start { is_repeated, range } => {
                self.begin_range(head(kind::RANGE_START, *is_repeated), 0, range)
            }
            RangeRecord::End { fields } => self.put_fields(head(kind::RANGE_END, false), end_word(0), fields),
            RangeRecord::Counts(counts) => self.put_at(kind::RANGE_COUNTS, 0, ticks, id, *counts),
        }
    }

    /// Sets what the thread repeats in each new segment of a flight recording.
    pub(crate) fn repeat_in_new_segments(&mut self, repeat: Option<fn(&mut Self)>) {
        self.repeat = repeat;
    }

    #[inline]
    fn begin_range(&mut self, head: Head, level: u16, range: &Range<Option<PermanentName>>) -> bool {
        let names = [range.name, range.domain, range.category].map(|name| self.permanent_name(name));
        self.put_fields(head, begin_word(names, level), &range.fields)
    }

    /// Appends a record with its first word and its fields. The length of a record must be known at compile time.
    #[inline]
    fn put_fields(&mut self, (kind, flags, ticks, id): Head, first: u64, fields: &RangeFields) -> bool {
        let (count, kinds, values) = fields.words();
        let mut words = [0; BEGIN_WORDS];
        let [head, of_kinds, rest @ ..] = &mut words;
        (*head, *of_kinds, *rest) = (first, kinds, *values);
        macro_rules! put {
            ($($count:literal)*) => {
                match count {
                    0 => self.put_at(kind, flags, ticks, id, [first]),
                    $($count => match words.first_chunk::<{ $count + 2 }>() {
                        Some(words) => self.put_at(kind, flags, ticks, id, *words),
                        None => false,
                    },)*
                    _ => self.put_at(kind, flags, ticks, id, words),
                }
            };
        }
        put!(1 2 3 4)
    }
}
