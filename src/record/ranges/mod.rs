//! What threads say through NVTX, into the journal.
//!
//! A thread keeps its open ranges whether or not anything is recorded, so that a recording that begins later has their
//! true begin. The journal repeats them where a thread takes its slot, and in each new segment of a flight recording.

mod put;
mod started;

pub(crate) use started::repeat_started;
pub(crate) use started::{end, start};

use journal::clock::ticks;
use nccl_events::range::{Range, RangeCount, RangeFields};
use put::{put, put_anyway};

use super::open_ranges::counts::count;
use super::open_ranges::{self, RangeName};
use super::slot::SLOT;
use crate::control::named::StepsOfThread;
use crate::host::shared;
use journal::writer::SlotWriter;

/// What NVTX functions return where there is no level.
pub(crate) const NO_LEVEL: i32 = -1;

/// A range begins on this thread. Returns its level.
#[inline]
pub(crate) fn push(range: &Range<RangeName>) -> i32 {
    let begin_ticks = ticks();
    let level = shared::kept(&SLOT, true, |mine| {
        let level = open_ranges::with(mine.kept(), |stack| {
            let level = stack.next_level();
            if level.is_none() {
                stack.push_deeper(range.domain);
            }
            level
        })
        .flatten()?;
        // First, because a thread that takes its slot now repeats all ranges of its stack.
        put(mine, |slot_writer| slot_writer.push_range(begin_ticks, level, false, range));
        open_ranges::with(mine.kept(), |stack| stack.push(begin_ticks, *range))?;
        Some(i32::from(level))
    });
    level.unwrap_or(NO_LEVEL)
}

/// The innermost open range of this domain ends on this thread. Returns its level.
#[inline]
pub(crate) fn pop(domain: RangeName, fields: &RangeFields) -> i32 {
    let level = shared::kept(&SLOT, false, |mine| {
        let level = open_ranges::with(mine.kept(), |stack| match stack.pops_deeper(domain) {
            true => Some(None),
            false => stack.innermost(domain).map(Some),
        })
        .flatten()?;
        let Some(level) = level else {
            return Some(NO_LEVEL);
        };
        put(mine, |slot_writer| slot_writer.pop_range(ticks(), level, fields));
        open_ranges::with(mine.kept(), |stack| stack.pop(level))?;
        Some(i32::from(level))
    });
    level.unwrap_or_else(|| {
        count(RangeCount::UnbalancedPops);
        NO_LEVEL
    })
}

/// The calling thread's named steps.
pub(super) fn steps() -> StepsOfThread {
    let steps = shared::kept(&SLOT, false, |mine| open_ranges::with(mine.kept(), |stack| stack.steps()));
    steps.unwrap_or_default()
}

/// Records a moment.
pub(crate) fn mark(range: &Range<RangeName>) {
    put_anyway(|slot_writer| slot_writer.mark_range(ticks(), range));
}

/// A recording has begun: this thread takes its slot, which repeats its open ranges.
pub(crate) fn join() {
    put_anyway(|_slot_writer| true);
}

/// Repeats the open ranges of the calling thread.
pub(super) fn repeat(slot_writer: &mut SlotWriter) {
    let _nothing_kept = shared::kept(&SLOT, false, |mine| {
        open_ranges::repeat(mine.kept(), slot_writer);
        Some(())
    });
}
