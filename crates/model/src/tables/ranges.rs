//! Ranges of threads and marks: which record ends which range. A thread's pushed ranges are a stack: a pop names the
//! level that it ends, so a lost pop costs one range its end. A started range is ended by its id, on any thread. Also
//! here: what of a process was recorded when, because recording can be switched while the job runs.

use std::collections::HashMap;

use clocks::ticks::TickClock;
use journal::format::Symbol;
use journal::reader::Removed;
use nccl_events::ids::{index, index_u32};
use nccl_events::range::{Range, RangeCount, RangeFields, RangeRecord};
use nccl_events::{Cause, Kind, Span, StepSwitch, Switch};

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
    /// The thread on which it began: an index in [`crate::tables::Tables::threads`].
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
pub struct OpenRanges {
    /// The index of the range at each level, by thread.
    pushed: HashMap<u32, Vec<Option<u32>>>,
    started: HashMap<u64, u32>,
    /// Ends whose start has not been read yet: slots are read one after the other.
    waiting: Vec<(u64, u64, RangeFields)>,
}

impl OpenRanges {
    pub fn take(
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
    pub fn end_thread(&mut self, ranges: &mut Ranges, thread: u32, ticks: u64) {
        let open = self.pushed.remove(&thread).unwrap_or_default();
        for at in open.into_iter().flatten() {
            if let Some(range) = ranges.all.get_mut(index(at)) {
                range.cut = Some(ticks.max(range.start));
            }
        }
    }

    pub fn finish(mut self, ranges: &mut Ranges) {
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

    pub fn convert_to_nanoseconds(&mut self, clock: &mut impl TickClock) {
        for range in &mut self.all {
            range.start = clock.nanoseconds(range.start);
            range.stop = range.stop.map(|ticks| clock.nanoseconds(ticks));
            range.cut = range.cut.map(|ticks| clock.nanoseconds(ticks));
        }
    }
}

/// The kinds from which the operations of ranks are counted and compared.
const COMPARED: u32 =
    Kind::CollApi.mask() | Kind::P2pApi.mask() | Kind::Coll.mask() | Kind::P2p.mask() | Kind::CeColl.mask();

/// A switch of recording while the job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAt {
    /// In ticks until converted, then in nanoseconds.
    pub time: u64,
    /// The context of the rank that a step range switched; 0 for the whole process.
    pub context: u64,
    /// The calling thread, if one rank was switched: an index in [`crate::tables::Tables::threads`].
    pub thread: Option<u32>,
    pub switch: Switch,
}

impl SwitchAt {
    /// Whether other calls or operations are recorded from here on than before, so that their order means nothing. Step
    /// ranges of a rank are handled by [`Coverage`].
    pub const fn breaks_order(&self) -> bool {
        let Switch { before, after, cause } = self.switch;
        match cause {
            Cause::Steps(_) => self.context == 0,
            _ => before.in_force() & COMPARED != after.in_force() & COMPARED,
        }
    }

    /// Whether some of the process's calls are missing from the recording.
    pub const fn leaves_out(&self) -> bool {
        self.breaks_order() || matches!(self.switch.cause, Cause::Steps(_))
    }

    /// The effect of a step range on a rank.
    pub const fn step_switch(&self) -> Option<StepSwitch> {
        match self.switch.cause {
            Cause::Steps(step_switch) => Some(step_switch),
            _ => None,
        }
    }
}

/// Which calls of a rank were recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All calls, from the first one on.
    Whole,
    /// The collectives of these ranges, which are the same on all ranks that state them.
    StepRanges(Vec<Span>),
    /// The collectives of these ranges, which were in steps that the program names.
    NamedSteps(Vec<Span>),
    /// Some calls are missing, and it is unknown which.
    Unknown,
}

impl Coverage {
    /// The coverage of the rank with this context.
    pub fn new(switches: &[SwitchAt], removed: &Removed, context: u64) -> Self {
        let switches = switches.iter();
        if removed.segments > 0 || switches.clone().any(SwitchAt::breaks_order) {
            return Self::Unknown;
        }
        let step_switches = switches.filter_map(|at| Some((at.context, at.step_switch()?)));
        if step_switches.clone().next().is_none() {
            return Self::Whole;
        }
        let own = step_switches.filter(|&(of, _)| of == context).map(|(_, switch)| switch);
        if own.clone().next().is_none() || own.clone().any(|switch| !switch.is_exact) {
            return Self::Unknown;
        }
        let is_named = own.clone().any(|switch| switch.is_named);
        let mut ranges: Vec<Span> = Vec::new();
        for range in own.filter_map(|switch| switch.range) {
            match ranges.last_mut() {
                // Where the program names steps, a range has its end when the rank leaves it.
                Some(last) if last.first == range.first => *last = range,
                _ => ranges.push(range),
            }
        }
        ranges.retain(|range| !range.is_empty());
        if is_named { Self::NamedSteps(ranges) } else { Self::StepRanges(ranges) }
    }
}

#[cfg(test)]
mod tests {
    use nccl_events::EventSelection;

    use super::*;

    /// The switches of a rank whose named steps hold no collective, collectives 1 and 2, none, and those from 5 on.
    #[test]
    fn a_named_step_without_collectives_covers_none() {
        let spans = [(1, 0), (1, u32::MAX), (1, 0), (1, u32::MAX), (1, 2), (3, u32::MAX), (3, 2), (5, u32::MAX)];
        let wanted = EventSelection { is_on: true, events: 0 };
        let at = |(first, last)| SwitchAt {
            time: 0,
            context: 7,
            thread: None,
            switch: Switch {
                cause: Cause::Steps(StepSwitch {
                    range: Some(Span { first, last }),
                    started: 0,
                    is_exact: true,
                    is_named: true,
                }),
                before: wanted,
                after: wanted,
            },
        };
        let switches = spans.map(at);
        let covered = [Span { first: 1, last: 2 }, Span { first: 5, last: u32::MAX }];
        let of = |context| Coverage::new(&switches, &Removed::default(), context);
        assert_eq!(of(7), Coverage::NamedSteps(covered.to_vec()));
        assert_eq!(of(8), Coverage::Unknown);
    }
}
