//! A process that still runs, in steps: [`RunningProcess::settle`] interprets the events that are over with the same
//! functions as a whole journal, [`Process`], and then forgets them.
//!
//! ```text
//!   records ─► rows ─► units: events that belong together
//!                       │  over, and quiet for a while ─► tables of their own ─► Process ─► the caller's sums
//!                       └─ else: they stay
//!
//!   time    ──── epoch ────┼──── epoch ────┼──── epoch ────┼─── unread
//!            units settled │  must be quiet: no record     │ now
//! ```
//!
//! Time is cut into epochs of 2^k ticks, and a step is taken at the end of each epoch, in order, when all records up
//! to it have been read. So what a step settles does not depend on when records are read, nor in which order of slots.
//! What follows depends on settled events in few ways; `History` has them.

use std::time::Duration;

use crate::links::operations::has_ended;
use crate::links::transfers::ConnectionKey;
use crate::process::{History, Process};
use crate::running::batch::GpuTimes;
use crate::running::units::{CapturedGroup, Connection, Later, Place, Unit};
use crate::tables::builder::TableBuilder;
use crate::tables::events::{ByRow, ContextName};
use crate::tables::{EventRow, GpuAt, OperationRow, Tables};
use clocks::running::RunningClock;
use journal::format::{Record, RecordBody, Records, Symbol};
use journal::reader::Symbols;
use nccl_events::ids::{EventId, index, index_u32};
use nccl_events::{Kind, Start, StateArgs};
use rustc_hash::{FxHashMap, FxHashSet};

mod batch;
mod units;

/// How many epochs fit at least into the settle time, without a record for which events that are over are settled.
const EPOCHS: u64 = 2;
/// Settle times to wait for an earlier operation of the communicator rank, and for the GPU's times.
const FOR_EARLIER: u64 = 4;
const FOR_GPU: u64 = 3;
/// Settle times to wait for an operation's children: if others had children, and if none had but some may. Also for the
/// operations of calls, and for the end of a group.
const FOR_CHILDREN: u64 = 60;
const FOR_FIRST_CHILDREN: u64 = 5;
/// Each step looks at all events that are not settled.
const SHORTEST_EPOCH_NS: u64 = 1_000_000;
/// A clock pair may be recorded this long after it was read; events since then wait for it.
const FOR_CLOCK_PAIRS_NS: u64 = 300_000_000;
/// Limit on groups that wait for operations or for replays.
const MOST_WAITING: usize = 1 << 17;

/// The kinds that are read. Parents come before their children.
const KINDS: [Kind; 11] = [
    Kind::GroupApi,
    Kind::CollApi,
    Kind::P2pApi,
    Kind::KernelLaunch,
    Kind::Group,
    Kind::Coll,
    Kind::P2p,
    Kind::CeColl,
    Kind::ProxyOp,
    Kind::KernelCh,
    Kind::ProxyStep,
];
const OPERATIONS: [Kind; 3] = [Kind::Coll, Kind::P2p, Kind::CeColl];

const fn is_in(kinds: &[Kind], kind: Kind) -> bool {
    let mut rest = kinds;
    while let [first, others @ ..] = rest {
        if first.mask() & kind.mask() != 0 {
            return true;
        }
        rest = others;
    }
    false
}

/// The place of a kind in [`KINDS`].
const fn order_of(kind: Kind) -> usize {
    let (mut rest, mut place) = (KINDS.as_slice(), 0);
    while let [first, others @ ..] = rest {
        if first.mask() & kind.mask() != 0 {
            break;
        }
        (rest, place) = (others, place + 1);
    }
    place
}

const fn is_operation(kind: Kind) -> bool {
    is_in(&OPERATIONS, kind)
}

const fn is_read(kind: Kind) -> bool {
    is_in(&KINDS, kind)
}

/// Whether a lost record of a kind would be missed in the sums. API events do not count: NCCL 2.28–2.32 stops their
/// stale handles again.
const fn is_work(kind: Kind) -> bool {
    is_operation(kind) || matches!(kind, Kind::ProxyOp | Kind::ProxyStep | Kind::KernelCh)
}

/// Which events of a process have been read: ids count up within their slot.
#[derive(Debug, Default)]
struct SeenIds {
    tag: u16,
    last: Vec<u64>,
}

impl SeenIds {
    /// Returns whether the event is new.
    #[inline]
    fn note(&mut self, id: u64) -> bool {
        let id = EventId::from_raw(id);
        let slot = usize::from(id.slot());
        if slot >= self.last.len() {
            self.last.resize(slot + 1, 0);
        }
        self.last.get_mut(slot).is_some_and(|last| {
            let is_new = id.sequence() > *last;
            *last = id.sequence().max(*last);
            is_new
        })
    }

    fn is_own(&self, id: u64) -> bool {
        let id = EventId::from_raw(id);
        !id.is_none() && id.tag() == self.tag
    }

    /// Whether an event of this process began before the last one read of its slot.
    #[inline]
    fn has_begun(&self, id: u64) -> bool {
        let event = EventId::from_raw(id);
        let last = self.last.get(usize::from(event.slot())).copied().unwrap_or(0);
        self.is_own(id) && event.sequence() <= last
    }
}

/// How long after its last record what is over is settled at the latest, if it is settled after `settle` without one: a
/// step is at the end of an epoch.
pub fn until_settled(settle: Duration) -> Duration {
    settle.saturating_mul(2) + Duration::from_nanos(FOR_CLOCK_PAIRS_NS)
}

/// When an operation began that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOperation {
    /// The context's id.
    pub context: u64,
    pub func: Symbol,
    /// Ticks.
    pub start: u64,
}

/// The events of a running process that are not settled.
#[derive(Debug)]
pub struct RunningProcess {
    rows: TableBuilder,
    seen: SeenIds,
    places: ByRow<Place>,
    /// Start and id of events without a unit, by place of the kind in [`KINDS`].
    coming: [Vec<(u64, u64)>; KINDS.len()],
    /// By number; the first is not used.
    units: Vec<Unit>,
    free: Vec<u32>,
    /// The units that are not settled, by number.
    active: Vec<u32>,
    later: Vec<Later>,
    connections: FxHashMap<ConnectionKey, Connection>,
    captured: FxHashMap<u32, CapturedGroup>,
    /// The units of launch plans whose start was not recorded, by id.
    lost_plans: FxHashMap<u64, u32>,
    /// Contexts with an operation whose children had times.
    timed_contexts: FxHashSet<ContextName>,
    gpu: GpuTimes,
    history: History,
    /// Tables of what is settled in a step.
    batch: Tables,
    /// An epoch has 2 to the power of this many ticks; 0 if not known yet.
    epoch_shift: u32,
    /// Epochs without a record after which events that are over are settled.
    quiet: u64,
    /// The number of the next epoch whose end is a step.
    next_epoch: u64,
    /// Rows of settled units that are still there.
    settled_rows: usize,
    settle_ns: u64,
    may_have_operations: bool,
    may_have_children: bool,
    /// Records of events that had been settled, or whose start was not recorded.
    late: u64,
    /// The ticks of the last record of an event.
    last: u64,
}

impl Records for RunningProcess {
    fn record(&mut self, record: Record) {
        let Record { slot, ticks, id, body } = record;
        match body {
            RecordBody::Start(start) => self.start(slot, ticks, id, &start),
            RecordBody::Stop => self.stop(slot, ticks, id),
            RecordBody::State { state, args } => self.state(slot, ticks, id, (state, args)),
            RecordBody::Gpu(record) => self.gpu.add(GpuAt { time: ticks, id, record }),
            RecordBody::ThreadBegin { .. } | RecordBody::CommInit(_) | RecordBody::CommKnown(_) => {
                self.rows.record(Record { slot, ticks, id, body });
            }
            _ => {}
        }
    }

    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        self.last = self.last.max(ticks);
        let kind = start.body.kind();
        if self.seen.note(id) && is_read(kind) {
            self.rows.start_at(slot, ticks, id, start);
            if let Some(coming) = self.coming.get_mut(order_of(kind)) {
                coming.push((ticks, id));
            }
        }
    }

    #[inline]
    fn stop(&mut self, _slot: u16, ticks: u64, id: u64) {
        self.change(ticks, id, None);
    }

    #[inline]
    fn state(&mut self, _slot: u16, ticks: u64, id: u64, state: (u32, StateArgs)) {
        self.change(ticks, id, Some(state));
    }
}

impl RunningProcess {
    /// A process with this tag in its ids, and this id; `event_mask` says which events it records. What is over is
    /// settled after about `settle_ns` without a record.
    pub fn new(tag: u16, process_id: u32, event_mask: u32, settle_ns: u64) -> Self {
        let tables = || {
            let mut tables = Tables::default();
            (tables.process_id, tables.process_tag) = (process_id, tag);
            tables
        };
        let records = |kinds: &[Kind]| kinds.iter().any(|kind| event_mask & kind.mask() != 0);
        Self {
            rows: TableBuilder::new(tables()),
            seen: SeenIds { tag, last: Vec::new() },
            places: ByRow::default(),
            coming: std::array::from_fn(|_| Vec::new()),
            units: vec![Unit::default()],
            free: Vec::new(),
            active: Vec::new(),
            later: Vec::new(),
            connections: FxHashMap::default(),
            captured: FxHashMap::default(),
            lost_plans: FxHashMap::default(),
            timed_contexts: FxHashSet::default(),
            gpu: GpuTimes::default(),
            history: History::default(),
            batch: tables(),
            epoch_shift: 0,
            quiet: 1,
            next_epoch: 0,
            settled_rows: 0,
            settle_ns,
            may_have_operations: records(&OPERATIONS),
            may_have_children: records(&[Kind::KernelCh, Kind::ProxyOp]),
            late: 0,
            last: 0,
        }
    }

    /// Records that came after their event was settled, or whose event's start was not recorded.
    pub const fn late(&self) -> u64 {
        self.late
    }

    #[inline]
    fn change(&mut self, ticks: u64, id: u64, state: Option<(u32, StateArgs)>) {
        self.last = self.last.max(ticks);
        if !is_read(EventId::from_raw(id).kind()) || !self.seen.is_own(id) {
            return;
        }
        let Some(row) = self.rows.tables.find(id) else {
            if !self.seen.has_begun(id) {
                self.rows.wait(id, ticks, state);
            } else {
                self.count_late(id);
            }
            return;
        };
        let unit = self.places.get(row).unit;
        if unit != 0 && self.is_settled(unit) {
            self.count_late(id);
            return;
        }
        match state {
            None => self.rows.stop_at(row, ticks),
            Some(state) => self.rows.state_at(row, ticks, state),
        }
        if unit != 0 {
            self.later.push(Later { ticks, id, is_stop: state.is_none() });
        }
    }

    /// Counts a record whose event has left, or whose event's start was not recorded.
    fn count_late(&mut self, id: u64) {
        self.late += u64::from(is_work(EventId::from_raw(id).kind()));
    }

    /// Operations that have not ended, as far as steps have been taken.
    pub fn open_operations(&self) -> impl Iterator<Item = OpenOperation> {
        let tables = &self.rows.tables;
        let rows = OPERATIONS.into_iter().flat_map(|kind| rows_of(tables, kind));
        rows.filter_map(|row| {
            let place = self.places.get(row);
            // What was reported at capture did not run.
            let may_run = |unit: &Unit| !unit.is_settled && !unit.is_captured;
            let is_open = place.unit != 0
                && self.unit(place.unit).is_some_and(may_run)
                && !has_ended(place.open > 0, place.is_marked, place.is_marked);
            let operation = tables.operation(OperationRow::from_event(row).filter(|_| is_open)?);
            Some(OpenOperation { context: tables.context_of(&operation), func: operation.func, start: operation.start })
        })
    }

    /// Takes the steps for which all records have been read: all up to `read_up_to`, in ticks. Calls `settled` with
    /// the interpretation of what each step settles.
    pub fn settle(
        &mut self,
        read_up_to: u64,
        clock: &mut RunningClock,
        symbols: &Symbols,
        mut settled: impl FnMut(&Process<'_>, &RunningClock),
    ) {
        let clock_pairs = clock.before(read_up_to, FOR_CLOCK_PAIRS_NS);
        clock.update(clock_pairs);
        let shift = self.epoch_shift(clock);
        loop {
            // The end of an epoch in which nothing is there is no step.
            if self.active.is_empty() {
                let Some(first) = self.first_work() else { return };
                // Events before the first one may be unread.
                self.next_epoch = self.next_epoch.max(first.min(read_up_to) >> shift);
            } else if let Some(next) = self.next_record(self.next_epoch << shift) {
                self.next_epoch = self.next_epoch.max(next.min(read_up_to) >> shift);
            }
            // A damaged record can have any time.
            let Some(end) = self.next_epoch.checked_add(1).and_then(|next| next.checked_mul(1 << shift)) else {
                return;
            };
            if end > read_up_to || end.saturating_sub(self.settle_times(1)) > clock_pairs {
                return;
            }
            self.next_epoch += 1;
            self.step(end, false, clock, symbols, &mut settled);
        }
    }

    fn epoch_shift(&mut self, clock: &RunningClock) -> u32 {
        if self.epoch_shift == 0 {
            let epoch_ns = (self.settle_ns / EPOCHS).max(SHORTEST_EPOCH_NS);
            self.epoch_shift = clock.ticks_of(epoch_ns).clamp(2, 1 << 62).ilog2();
            self.quiet = clock.ticks_of(self.settle_ns).div_ceil(1 << self.epoch_shift).max(1);
        }
        self.epoch_shift
    }

    /// Settles all that has ended; the process records no more.
    pub fn finish(
        &mut self,
        clock: &mut RunningClock,
        symbols: &Symbols,
        mut settled: impl FnMut(&Process<'_>, &RunningClock),
    ) {
        // The steps that a reader takes if it waits, as far as they can make a difference.
        self.epoch_shift(clock);
        let waiting = self.settle_times(FOR_EARLIER + 1);
        let until = self.last.saturating_add(waiting).saturating_add(clock.ticks_of(FOR_CLOCK_PAIRS_NS));
        self.settle(until, clock, symbols, &mut settled);
        self.step(u64::MAX, true, clock, symbols, &mut settled);
    }

    /// A number of settle times, in ticks: whole epochs.
    fn settle_times(&self, times: u64) -> u64 {
        (1_u64 << self.epoch_shift).saturating_mul(self.quiet).saturating_mul(times)
    }

    /// If nothing waits any more for time to pass: when the next record follows that is not before `now`.
    fn next_record(&self, now: u64) -> Option<u64> {
        let active = self.active.iter().filter_map(|number| self.units.get(index(*number)));
        let last = active.map(|unit| unit.last).max().unwrap_or(0);
        if last.saturating_add(self.settle_times(FOR_CHILDREN + 1)) >= now {
            return None;
        }
        let later = self.later.iter().map(|later| later.ticks);
        let next = later.chain(self.first_work()).chain(self.gpu.next_time(now));
        Some(next.min().unwrap_or(u64::MAX))
    }

    /// The first tick of a row without a unit.
    fn first_work(&self) -> Option<u64> {
        self.coming.iter().flatten().map(|(start, _)| *start).min()
    }

    /// Settles what is over, all records before `now` being read; at the end of the process, all that has ended.
    fn step(
        &mut self,
        now: u64,
        is_end: bool,
        clock: &RunningClock,
        symbols: &Symbols,
        settled: &mut impl FnMut(&Process<'_>, &RunningClock),
    ) {
        let late = &mut self.late;
        self.rows.apply_waiting(|id| {
            let has_begun = self.seen.has_begun(id);
            *late += u64::from(has_begun && is_work(EventId::from_raw(id).kind()));
            has_begun
        });
        self.assign(now);
        self.take_later(now);
        let over = self.over(now, is_end);
        if over.is_empty() {
            return;
        }
        for &unit in &over {
            if let Some(unit) = self.units.get_mut(index(unit)) {
                unit.is_settled = true;
            }
        }
        self.active.retain(|unit| self.units.get(index(*unit)).is_some_and(|unit| !unit.is_settled));
        self.fill_batch(&over, now);
        self.collect_coming(now);
        self.batch.finish_by_running_clock(clock);
        settled(&Process::after(&self.batch, symbols, &mut self.history), clock);
        let active = self.active.iter().filter_map(|number| self.units.get(index(*number)));
        let oldest = active.filter(|unit| unit.operations > 0).map(|unit| unit.enqueued).min();
        let oldest_ns = oldest.map_or(u64::MAX, |oldest| clock.ns(oldest));
        self.history.previous.values_mut().for_each(|previous| previous.unite_before(oldest_ns));
        self.forget(&over);
    }

    fn is_settled(&self, unit: u32) -> bool {
        self.unit(unit).is_none_or(|unit| unit.is_settled)
    }

    /// The number of the unit that a unit is part of, or its own.
    fn whole(&self, mut number: u32) -> u32 {
        while let Some(unit) = self.units.get(index(number))
            && unit.part_of != 0
        {
            number = unit.part_of;
        }
        number
    }

    fn unit(&self, number: u32) -> Option<&Unit> {
        self.units.get(index(self.whole(number)))
    }

    fn unit_mut(&mut self, number: u32) -> Option<&mut Unit> {
        let number = self.whole(number);
        self.units.get_mut(index(number))
    }

    fn new_unit(&mut self) -> u32 {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.units.push(Unit::default());
                index_u32(self.units.len() - 1)
            }
        };
        self.active.push(number);
        number
    }

    /// Makes two units one, unless one of them stays for replays; returns its number.
    fn unite(&mut self, one: u32, other: u32) -> u32 {
        let (one, other) = (self.whole(one), self.whole(other));
        let stays = |number: u32| self.units.get(index(number)).is_none_or(|unit| unit.is_captured || unit.is_settled);
        if one == other || stays(one) || stays(other) {
            return one;
        }
        let (one, other) = (one.min(other), one.max(other));
        let mut part = self.units.get_mut(index(other)).map(std::mem::take).unwrap_or_default();
        if let Some(unit) = self.units.get_mut(index(one)) {
            unit.add(&mut part);
        }
        if let Some(unit) = self.units.get_mut(index(other)) {
            unit.part_of = one;
        }
        one
    }
}

fn rows_of(tables: &Tables, kind: Kind) -> impl Iterator<Item = EventRow> {
    (0..tables.events.count(kind)).filter_map(move |at| EventRow::new(kind, at))
}

impl RunningProcess {
    /// The units that are over, in the order in which their kernels were enqueued.
    fn over(&mut self, now: u64, is_end: bool) -> Vec<u32> {
        let before = |times: u64| match is_end {
            true => u64::MAX,
            false => now.saturating_sub(self.settle_times(times)),
        };
        let [quiet, without_earlier, without_gpu, without_children, without_first] =
            [1, FOR_EARLIER, FOR_GPU, FOR_CHILDREN, FOR_FIRST_CHILDREN].map(before);
        let mut over = Vec::new();
        let mut order: Vec<(u64, u32)> = Vec::new();
        let mut waiting: Vec<(u64, u32)> = Vec::new();
        for &number in &self.active {
            let Some(unit) = self.units.get(index(number)) else {
                continue;
            };
            if unit.operations > 0 {
                order.push((unit.enqueued, number));
            } else if unit.is_captured {
                waiting.push((unit.last, number));
            } else {
                let awaits_operations = self.may_have_operations && (unit.calls > 0 || !unit.has_work);
                let since = if awaits_operations { without_children } else { quiet };
                if unit.has_ended() && unit.last < since || is_end && unit.has_ended() {
                    over.push(number);
                } else if awaits_operations {
                    waiting.push((unit.last, number));
                }
            }
        }
        over.extend(self.too_many(waiting));
        order.sort_unstable();
        self.timed_contexts.extend(
            order
                .iter()
                .filter_map(|(_, number)| self.units.get(index(*number)))
                .filter(|unit| unit.has_times)
                .flat_map(|unit| unit.contexts.iter().copied()),
        );
        // An operation without times is over when a later one with times is.
        let mut has_later_times: FxHashSet<ContextName> = FxHashSet::default();
        let mut is_timed = vec![false; order.len()];
        for ((_, number), is_timed) in order.iter().zip(&mut is_timed).rev() {
            if let Some(unit) = self.units.get(index(*number)) {
                let is_alone = unit.by_copy_engines == unit.operations;
                *is_timed = unit.has_times
                    || is_alone
                    || self.gpu.has_timed_all(unit, now)
                    || unit.contexts.iter().all(|context| has_later_times.contains(context));
                if unit.has_times && unit.has_ended() {
                    has_later_times.extend(unit.contexts.iter().copied());
                }
            }
        }
        let mut blocked: FxHashSet<ContextName> = FxHashSet::default();
        for ((_, number), is_timed) in order.into_iter().zip(is_timed) {
            let Some(unit) = self.units.get(index(number)) else {
                continue;
            };
            let patience = match unit.contexts.iter().any(|context| self.timed_contexts.contains(context)) {
                _ if is_timed => quiet,
                true => without_children,
                false if self.may_have_children => without_first,
                false => quiet,
            };
            // If the GPU reports the end, a missing stop was lost.
            let has_ended = unit.has_ended() || unit.last < without_children && self.gpu.has_timed_all(unit, now);
            let is_whole = (unit.open_groups == 0 && unit.is_served()) || unit.last < without_children;
            let is_quiet = has_ended && is_whole && unit.last < patience;
            let awaits_gpu = || is_timed && unit.last >= without_gpu && self.gpu.awaits(unit, now);
            let is_in_order =
                unit.last < without_earlier || unit.contexts.iter().all(|context| !blocked.contains(context));
            if is_quiet && is_in_order && !awaits_gpu() {
                over.push(number);
            } else {
                blocked.extend(unit.contexts.iter().copied());
            }
        }
        over
    }

    /// Of too many units that wait for operations, the oldest.
    fn too_many(&mut self, mut waiting: Vec<(u64, u32)>) -> Vec<u32> {
        let Some(most) = waiting.len().checked_sub(MOST_WAITING).filter(|most| *most > 0) else {
            return Vec::new();
        };
        waiting.sort_unstable();
        waiting.truncate(most);
        for (_, number) in &waiting {
            self.late += self
                .units
                .get(index(*number))
                .map_or(0, |unit| u64::from(unit.calls - unit.calls_served.min(unit.calls)));
            self.captured.remove(number);
        }
        waiting.into_iter().map(|(_, number)| number).collect()
    }
}
