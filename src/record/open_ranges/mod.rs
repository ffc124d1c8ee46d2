//! The ranges that a thread has pushed and not popped, kept whether or not anything is recorded.

pub(crate) mod counts;
pub(crate) mod names;

use std::cell::RefCell;

use crate::host::memory;
use crate::host::per_thread::PerThread;
use counts::count;
use journal::writer::{PermanentName, SlotWriter};
use nccl_events::range::{MOST_LEVELS, Range, RangeCount, RangeRecord};

/// A name of a range, its domain or its category; `None` if there is none.
pub(crate) type RangeName = Option<PermanentName>;

struct Open {
    begin_ticks: u64,
    range: Range<RangeName>,
    /// A range that is popped while ranges of other domains inside it are open stays as a placeholder of its level.
    is_open: bool,
}

pub(in crate::record) struct Stack {
    levels: Vec<Open>,
    /// How many further ranges are open, which are not recorded.
    deeper: u32,
}

static STACK: PerThread<RefCell<Stack>> = PerThread::new();

/// Runs `action` with the calling thread's stack, which is made at the thread's first push.
#[inline]
pub(in crate::record) fn at_push<R>(action: impl FnOnce(&RefCell<Stack>) -> Option<R>) -> Option<R> {
    let room = usize::from(MOST_LEVELS);
    let empty = || {
        let is_possible = !memory::has_failed();
        is_possible.then(|| RefCell::new(Stack { levels: Vec::with_capacity(room), deeper: 0 }))
    };
    STACK.with(empty, action).flatten()
}

/// Runs `action` with the calling thread's stack, if it has one.
#[inline]
pub(in crate::record) fn at_pop<R>(action: impl FnOnce(&RefCell<Stack>) -> Option<R>) -> Option<R> {
    STACK.with(|| None, action).flatten()
}

impl Stack {
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
        self.levels.push(Open { begin_ticks, range, is_open: true });
    }

    /// The level of the innermost open range of a domain.
    #[inline]
    pub(in crate::record) fn innermost(&self, domain: RangeName) -> Option<u16> {
        let number = |name: RangeName| name.map(|name| name.number);
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

/// Repeats the open ranges of the calling thread.
pub(super) fn repeat(slot_writer: &mut SlotWriter) {
    let _none: Option<()> = at_pop(|stack| {
        for (level, open) in (0..).zip(&stack.try_borrow().ok()?.levels) {
            let record = RangeRecord::Push { level, is_repeated: true, range: open.range };
            if open.is_open && !slot_writer.range(open.begin_ticks, 0, &record) {
                count(RangeCount::Lost);
            }
        }
        None
    });
}
