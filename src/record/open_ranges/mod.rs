//! The ranges that a thread has pushed and not popped, kept whether or not anything is recorded.

pub(crate) mod counts;
pub(crate) mod names;

use std::cell::RefCell;

use counts::count;
use journal::writer::{PermanentName, SlotWriter};
use nccl_events::range::{MOST_LEVELS, Range, RangeCount};

/// A name of a range, its domain or its category; `None` if there is none.
pub(crate) type RangeName = Option<PermanentName>;

struct Open {
    begin_ticks: u64,
    range: Range<RangeName>,
    /// A range that is popped while ranges of other domains inside it are open stays as a placeholder of its level.
    is_open: bool,
}

#[derive(Default)]
pub(in crate::record) struct OpenRanges {
    levels: Vec<Open>,
    /// How many further ranges are open, which are not recorded.
    deeper: u32,
}

impl OpenRanges {
    /// The level of the next push; `None` if it is too deep to be recorded.
    #[inline]
    pub(in crate::record) fn next_level(&self) -> Option<u16> {
        u16::try_from(self.levels.len()).ok().filter(|level| *level < MOST_LEVELS)
    }

    /// A range is pushed that is too deep to be recorded.
    #[cold]
    pub(in crate::record) fn push_deeper(&mut self) {
        count(RangeCount::TooDeep);
        self.deeper += 1;
    }

    /// The pop belongs to a range that was too deep.
    #[inline]
    pub(in crate::record) fn pops_deeper(&mut self) -> bool {
        let is_deeper = self.deeper > 0;
        self.deeper -= u32::from(is_deeper);
        is_deeper
    }

    #[inline]
    pub(in crate::record) fn push(&mut self, begin_ticks: u64, range: Range<RangeName>) {
        if self.levels.capacity() == 0 {
            self.levels.reserve_exact(usize::from(MOST_LEVELS));
        }
        self.levels.push(Open { begin_ticks, range, is_open: true });
    }

    /// The level of the innermost open range of a domain.
    #[inline]
    pub(in crate::record) fn innermost(&self, domain: RangeName) -> Option<u16> {
        let number = |name: RangeName| name.map(PermanentName::number);
        let is_it = |open: &Open| open.is_open && number(open.range.domain) == number(domain);
        u16::try_from(self.levels.iter().rposition(is_it)?).ok()
    }

    #[inline]
    pub(in crate::record) fn pop(&mut self, level: u16) {
        if let Some(open) = self.levels.get_mut(usize::from(level)) {
            open.is_open = false;
        }
        while self.levels.pop_if(|open| !open.is_open).is_some() {}
    }
}

/// Repeats a thread's open ranges.
pub(super) fn repeat(open_ranges: &RefCell<OpenRanges>, slot_writer: &mut SlotWriter) {
    let Ok(open_ranges) = open_ranges.try_borrow() else {
        return;
    };
    for (level, open) in (0..).zip(&open_ranges.levels) {
        if open.is_open && !slot_writer.push_range(open.begin_ticks, level, true, &open.range) {
            count(RangeCount::Lost);
        }
    }
}
