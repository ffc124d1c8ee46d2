//! Ranges of threads and marks: which record ends which range.
//!
//! A thread's pushed ranges are a stack: a pop names the level that it ends, so a lost pop costs one range its end. A
//! started range is ended by its id, on any thread.

use std::collections::HashMap;

use clocks::ticks::ClockReader;
use journal::format::Symbol;
use nccl_events::ids::{index, index_u32};
use nccl_events::range::{Range, RangeCount, RangeFields, RangeRecord};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeKind {
    /// Pushed on its thread, at this level.
    Pushed { level: u16 },
    /// Started, and ended by any thread; with the recorder's id.
    Started { id: u64 },
    /// A moment: it ends when it starts.
    Mark,
}

/// A range of the program's or of NCCL's.
#[derive(Clone, Copy, Debug)]
pub struct RangeAt {
    pub kind: RangeKind,
    /// The thread on which it began: an index in [`super::Tables::threads`].
    pub thread: u32,
    pub start: u64,
    /// When it ended; `None` if the recording has no end of it.
    pub stop: Option<u64>,
    /// When its thread ended, or pushed another range at its level: it lasted no longer, whatever ended it.
    pub cut: Option<u64>,
    /// Orders it among the events of its thread: what is recorded earlier is around what is recorded later.
    pub order: u32,
    /// The range, with what became known at its end.
    pub range: Range<Symbol>,
}

impl RangeAt {
    /// When it ended, as far as is known; `last` is the last time seen in the process.
    pub fn end(&self, last: u64) -> u64 {
        self.stop.or(self.cut).unwrap_or(last).max(self.start)
    }
}

/// The ranges of a process.
#[derive(Debug, Default)]
pub struct Ranges {
    /// In the order of the journal: slot by slot, by time within a slot, but for those that began before it.
    pub all: Vec<RangeAt>,
    /// Running totals, by [`RangeCount`].
    pub counts: [u64; RangeCount::COUNT],
}

/// Which ranges are open while the records are read.
#[derive(Debug, Default)]
pub(super) struct OpenRanges {
    /// The index of the range at each level, by thread.
    pushed: HashMap<u32, Vec<Option<u32>>>,
    started: HashMap<u64, u32>,
    /// Ends whose start has not been read yet: slots are read one after the other.
    waiting: Vec<(u64, u64, RangeFields)>,
}

impl OpenRanges {
    pub(super) fn take(
        &mut self,
        ranges: &mut Ranges,
        (thread, ticks, id): (u32, u64, u64),
        order: u32,
        record: &RangeRecord<Symbol>,
    ) {
        let new = |kind, range| RangeAt { kind, thread, start: ticks, stop: None, cut: None, order, range };
        match *record {
            RangeRecord::Push { level, is_repeated, range } => {
                let one = new(RangeKind::Pushed { level }, range);
                self.push(ranges, level, is_repeated, one);
            }
            RangeRecord::Pop { level, fields } => {
                let open = self.levels(thread).get_mut(usize::from(level)).and_then(Option::take);
                stop(ranges, open, ticks, &fields);
            }
            RangeRecord::Mark(range) => {
                let mark = RangeAt { stop: Some(ticks), ..new(RangeKind::Mark, range) };
                ranges.all.push(mark);
            }
            RangeRecord::Start { range, .. } => {
                let next = index_u32(ranges.all.len());
                if *self.started.entry(id).or_insert(next) == next {
                    ranges.all.push(new(RangeKind::Started { id }, range));
                }
            }
            RangeRecord::End { fields } => match self.started.get(&id) {
                Some(&at) => stop(ranges, Some(at), ticks, &fields),
                None => self.waiting.push((id, ticks, fields)),
            },
            RangeRecord::Counts(counts) => {
                for (total, count) in ranges.counts.iter_mut().zip(counts) {
                    *total = (*total).max(count);
                }
            }
        }
    }

    fn levels(&mut self, thread: u32) -> &mut Vec<Option<u32>> {
        self.pushed.entry(thread).or_default()
    }

    fn push(&mut self, ranges: &mut Ranges, level: u16, is_repeated: bool, one: RangeAt) {
        let levels = self.levels(one.thread);
        let at = usize::from(level);
        let before = levels.get(at).copied().flatten().and_then(|known| ranges.all.get(index(known)));
        if is_repeated && before.is_some_and(|known| known.start == one.start) {
            return;
        }
        for lost in levels.drain(at.min(levels.len())..).flatten() {
            if let Some(range) = ranges.all.get_mut(index(lost)) {
                range.cut = Some(one.start.max(range.start));
            }
        }
        levels.resize(at, None);
        levels.push(Some(index_u32(ranges.all.len())));
        ranges.all.push(one);
    }

    /// A thread ended, or its slot went to another one.
    pub(super) fn end_thread(&mut self, ranges: &mut Ranges, thread: u32, ticks: u64) {
        let open = self.pushed.remove(&thread).unwrap_or_default();
        for at in open.into_iter().flatten() {
            if let Some(range) = ranges.all.get_mut(index(at)) {
                range.cut = Some(ticks.max(range.start));
            }
        }
    }

    pub(super) fn finish(mut self, ranges: &mut Ranges) {
        for (id, ticks, fields) in std::mem::take(&mut self.waiting) {
            stop(ranges, self.started.get(&id).copied(), ticks, &fields);
        }
    }
}

fn stop(ranges: &mut Ranges, at: Option<u32>, ticks: u64, fields: &RangeFields) {
    if let Some(range) = at.and_then(|at| ranges.all.get_mut(index(at))) {
        // A program that ends a range twice has ended it the first time.
        range.stop.get_or_insert(ticks.max(range.start));
        range.range.fields.complete(fields);
    }
}

impl Ranges {
    /// Drops the ranges that ended before a time.
    pub fn keep_since(&mut self, time: u64) {
        self.all.retain(|range| range.stop.or(range.cut).is_none_or(|end| end >= time));
    }

    pub(super) fn convert_to_nanoseconds(&mut self, clock: &mut ClockReader<'_>) {
        for range in &mut self.all {
            range.start = clock.nanoseconds(range.start);
            range.stop = range.stop.map(|ticks| clock.nanoseconds(ticks));
            range.cut = range.cut.map(|ticks| clock.nanoseconds(ticks));
        }
    }
}
