//! The ranges that a thread has pushed and not popped, kept whether or not anything is recorded.

pub(crate) mod counts;
pub(crate) mod names;

use crate::control::named::{self, StepsOfThread};
use crate::host::left::ThreadCell;
use counts::count;
use journal::uninterrupted::uninterrupted;
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
    /// How many further ranges are open, which are not recorded: all, and by the number of their domain.
    all_deeper: u32,
    deeper: [(Option<u16>, u32); DEEP_DOMAINS],
    steps: StepsOfThread,
}

/// The most domains whose too deep ranges a thread counts. A pop of another domain then ends a recorded range of it.
const DEEP_DOMAINS: usize = 8;

fn number(name: RangeName) -> Option<u16> {
    name.map(PermanentName::number)
}

fn text(name: RangeName) -> &'static [u8] {
    name.map_or(&[], |name| name.text().bytes())
}

impl OpenRanges {
    /// The level of the next push; `None` if it is too deep to be recorded.
    #[inline]
    pub(in crate::record) fn next_level(&self) -> Option<u16> {
        u16::try_from(self.levels.len()).ok().filter(|level| *level < MOST_LEVELS)
    }

    /// A range is pushed that is too deep to be recorded.
    #[cold]
    pub(in crate::record) fn push_deeper(&mut self, domain: RangeName) {
        count(RangeCount::TooDeep);
        let place = self.deeper.iter_mut().find(|(of, open)| *open == 0 || *of == number(domain));
        if let Some((of, open)) = place {
            (*of, *open) = (number(domain), *open + 1);
            self.all_deeper += 1;
        }
    }

    /// Whether the pop belongs to a range that was too deep.
    #[inline]
    pub(in crate::record) fn pops_deeper(&mut self, domain: RangeName) -> bool {
        self.all_deeper > 0 && self.pop_deeper(domain)
    }

    #[cold]
    fn pop_deeper(&mut self, domain: RangeName) -> bool {
        let place = self.deeper.iter_mut().find(|(of, open)| *open > 0 && *of == number(domain));
        place.is_some_and(|(_, open)| {
            *open -= 1;
            self.all_deeper -= 1;
            true
        })
    }

    #[inline]
    pub(in crate::record) fn push(&mut self, begin_ticks: u64, range: Range<RangeName>) {
        if self.levels.capacity() == 0 && !self.has_room() {
            // Its pop is then one without a range.
            count(RangeCount::Lost);
            return;
        }
        self.levels.push(Open { begin_ticks, range, is_open: true });
        if named::is_named() {
            self.steps.begin(text(range.name));
        }
    }

    #[cold]
    fn has_room(&mut self) -> bool {
        uninterrupted(|| self.levels.try_reserve_exact(usize::from(MOST_LEVELS))).is_ok()
    }

    pub(in crate::record) fn steps(&self) -> StepsOfThread {
        self.steps
    }

    /// The level of the innermost open range of a domain.
    #[inline]
    pub(in crate::record) fn innermost(&self, domain: RangeName) -> Option<u16> {
        let is_it = |open: &Open| open.is_open && number(open.range.domain) == number(domain);
        u16::try_from(self.levels.iter().rposition(is_it)?).ok()
    }

    #[inline]
    pub(in crate::record) fn pop(&mut self, level: u16) {
        if let Some(open) = self.levels.get_mut(usize::from(level)) {
            open.is_open = false;
            if named::is_named() {
                self.steps.end(text(open.range.name));
            }
        }
        while self.levels.pop_if(|open| !open.is_open).is_some() {}
    }
}

/// Runs `action` with a thread's open ranges, unless this is a handler that interrupted their use.
#[inline]
pub(super) fn with<R>(ranges: &ThreadCell<OpenRanges>, action: impl FnOnce(&mut OpenRanges) -> R) -> Option<R> {
    ranges.with(after_jump, action)
}

/// What remains of a thread's ranges when a signal handler has left their use with `siglongjmp`: their number, too, is
/// unknown.
#[cold]
fn after_jump() -> OpenRanges {
    count(RangeCount::Lost);
    OpenRanges::default()
}

/// Repeats a thread's open ranges.
pub(super) fn repeat(ranges: &ThreadCell<OpenRanges>, slot_writer: &mut SlotWriter) {
    with(ranges, |ranges| {
        for (level, open) in (0..).zip(&ranges.levels) {
            if open.is_open && !slot_writer.push_range(open.begin_ticks, level, true, &open.range) {
                count(RangeCount::Lost);
            }
        }
    });
}
