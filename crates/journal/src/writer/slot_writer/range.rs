//! Records about ranges. `format::range` reads them back.

use super::SlotWriter;
use crate::format::encode::flags;
use crate::format::layout::kind;
use crate::format::range::{begin_word, end_word};
use crate::writer::names::PermanentName;
use nccl_events::range::{Range, RangeCount, RangeFields};

type Name = Option<PermanentName>;
/// What all records have: kind, flags, ticks, id.
type Head = (u8, u8, u64, u64);

impl SlotWriter {
    /// Records that the thread pushed a range, at `ticks`. Returns false if there was no room.
    #[inline]
    pub fn push_range(&mut self, ticks: u64, level: u16, is_repeated: bool, range: &Range<Name>) -> bool {
        self.begin_range((kind::RANGE_PUSH, flags(is_repeated), ticks, 0), level, range)
    }

    /// Records that the thread popped the range at this level.
    #[inline]
    pub fn pop_range(&mut self, ticks: u64, level: u16, fields: &RangeFields) -> bool {
        self.put_held();
        self.put_fields((kind::RANGE_POP, 0, ticks, 0), end_word(level), fields)
    }

    /// Records a moment.
    pub fn mark_range(&mut self, ticks: u64, range: &Range<Name>) -> bool {
        self.begin_range((kind::RANGE_MARK, 0, ticks, 0), 0, range)
    }

    /// Records the start of a range that any thread can end.
    pub fn start_range(&mut self, ticks: u64, id: u64, is_repeated: bool, range: &Range<Name>) -> bool {
        self.begin_range((kind::RANGE_START, flags(is_repeated), ticks, id), 0, range)
    }

    /// Records its end.
    pub fn end_range(&mut self, ticks: u64, id: u64, fields: &RangeFields) -> bool {
        self.put_held();
        self.put_fields((kind::RANGE_END, 0, ticks, id), end_word(0), fields)
    }

    /// Records what was counted about ranges.
    pub fn range_counts(&mut self, ticks: u64, counts: [u64; RangeCount::COUNT]) -> bool {
        self.put_held();
        self.put_at(kind::RANGE_COUNTS, 0, ticks, 0, counts)
    }

    /// Sets what the thread repeats in each new segment of a flight recording.
    pub(crate) fn repeat_in_new_segments(&mut self, repeat: Option<fn(&mut Self)>) {
        self.repeat = repeat;
    }

    #[inline]
    fn begin_range(&mut self, head: Head, level: u16, range: &Range<Name>) -> bool {
        self.put_held();
        self.make_room_for_names();
        let names = [range.name, range.domain, range.category].map(|name| self.permanent_name(name));
        self.put_fields(head, begin_word(names, level), &range.fields)
    }

    /// Appends a record with its first word and its fields. The length of a record must be known at compile time.
    #[inline]
    fn put_fields(&mut self, (kind, flags, ticks, id): Head, first: u64, fields: &RangeFields) -> bool {
        let (count, kinds, values) = fields.words();
        match (count, values) {
            (0, _) => self.put_at(kind, flags, ticks, id, [first]),
            (1, [a, ..]) => self.put_at(kind, flags, ticks, id, [first, kinds, *a]),
            (2 | 3, [a, b, c, ..]) => self.put_at(kind, flags, ticks, id, [first, kinds, *a, *b, *c]),
            (_, [a, b, c, d, e, f, g, h]) => {
                self.put_at(kind, flags, ticks, id, [first, kinds, *a, *b, *c, *d, *e, *f, *g, *h])
            }
        }
    }
}
