//! The journal of one process as tables: a table for each kind of event, a row for each event. A row has start, stop,
//! parent, context and thread, the descriptor's fields and the times of the kind's states. A [`Row`] identifies a row;
//! ids are mapped to rows. Operations ([`OperationRow`]) are the rows of three tables, and what the journal lacks is
//! counted.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

use std::ops::{Deref, Index};

use crate::tables::events::ContextNames;
use crate::tables::ids::{Ids, Key};
use crate::tables::ranges::{Coverage, Ranges, SwitchAt};
use clocks::ticks::{HostClock, TickClock};
use journal::clock::ClockPair;
use journal::format::{CommRecord, Symbol};
use journal::part::LateCallbacks;
use journal::reader::{Losses, Removed};
use nccl_events::gpu::GpuRecord;
use nccl_events::ids::{ContextId, EventId, index, index_u32};
use nccl_events::schema::Counts;
use nccl_events::{Body, Kind, event as fields};

pub mod builder;
pub(crate) mod events;
mod ids;
pub mod ranges;

pub use crate::tables::events::{ContextName, Event, EventRow, Events, Fields, Head, InTable, Row};
pub use nccl_events::event::{
    CeBatch, CeSync, Group, GroupApi, KernelCh, KernelLaunch, NetPlugin, ProxyCtrl, ProxyOp, ProxyStep, Unknown,
};

pub type Coll = fields::Coll<Symbol>;
pub type P2p = fields::P2p<Symbol>;
pub type CollApi = fields::CollApi<Symbol>;
pub type P2pApi = fields::P2pApi<Symbol>;
pub type CeColl = fields::CeColl<Symbol>;
pub type KernelPhase = fields::KernelPhase<Symbol>;

#[derive(Clone, Copy, Debug)]
pub struct GpuAt {
    /// When the record was written, or the time that [`GpuRecord`] defines.
    pub time: u64,
    /// The id that [`GpuRecord`] defines; 0 if there is none.
    pub id: u64,
    pub record: GpuRecord<Symbol>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub slot: u16,
    /// The system's thread id; 0 if the journal does not have it.
    pub thread_id: u32,
    /// The thread's name when it began.
    pub name: String,
}

/// The identity of a thread: its id, or its slot if the journal has no id.
pub type ThreadKey = (u32, Option<u16>);

impl Thread {
    /// The identity of the thread, which may have written in several slots.
    pub fn key(&self) -> ThreadKey {
        let slot = (self.thread_id == 0).then_some(self.slot);
        (self.thread_id, slot)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct CommCall {
    /// An index in [`Tables::contexts`]; `None` if not recorded.
    pub context: Option<u32>,
    pub is_init: bool,
    /// The calling thread: an index in [`Tables::threads`].
    pub thread: u32,
    pub start: u64,
    pub end: u64,
}

/// A communicator rank of this process.
#[derive(Clone, Debug)]
pub struct Context {
    pub id: u64,
    pub comm: CommRecord,
}

#[derive(Debug, Default)]
pub struct Tables {
    /// The process id as the process itself saw it; 0 if the journal does not have it.
    pub process_id: u32,
    /// The events by kind. Each table is in the order of the journal: slot by slot, by time within a slot.
    pub events: Events,
    pub threads: Vec<Thread>,
    /// The communicator ranks, in order of creation.
    pub contexts: Vec<Context>,
    /// The calls that created and ended communicator ranks.
    pub comm_calls: Vec<CommCall>,
    /// The clock pairs, sorted by ticks.
    pub clock_pairs: Vec<ClockPair>,
    pub counts: Counts,
    /// The first and last time in any record; (0, 0) without records.
    pub span: (u64, u64),
    /// The tag in the ids that this process made; 0 if unknown.
    pub process_tag: u16,
    pub removed: Removed,
    pub switches: Vec<SwitchAt>,
    /// When starts that were not selected were last counted.
    pub last_not_selected: Option<u64>,
    /// Records about GPUs, in the order of the journal.
    pub gpu: Vec<GpuAt>,
    pub ranges: Ranges,
    ids: Ids<EventRow>,
    context_ids: Ids<u32>,
    context_names: ContextNames,
}

impl Tables {
    #[inline]
    pub fn find(&self, id: u64) -> Option<EventRow> {
        let is_of = |row| self.events.head(row).is_some_and(|head| head.id == id);
        self.ids.get(id, event_key(id), is_of)
    }

    /// The row of the event with this id, if it is of the kind with the fields `F`.
    #[inline]
    pub fn find_as<F: InTable>(&self, id: u64) -> Option<Row<F>> {
        self.find(id)?.as_row()
    }

    /// The event with this id, if it is of the kind with the fields `F`.
    #[inline]
    pub fn get<F: InTable>(&self, id: u64) -> Option<&Event<F>> {
        Some(&self[self.find_as(id)?])
    }

    /// The head of the event with this id.
    pub fn head_of(&self, id: u64) -> Option<&Head> {
        self.head(self.find(id)?)
    }

    #[inline]
    pub fn head(&self, row: EventRow) -> Option<&Head> {
        self.events.head(row)
    }

    pub fn body(&self, row: EventRow) -> Option<Body<Symbol>> {
        self.events.body(row)
    }

    /// The events of a kind with their rows, in the order of the journal.
    #[inline]
    pub fn rows<F: InTable>(&self) -> impl Iterator<Item = (Row<F>, &Event<F>)> {
        F::table(&self.events).iter().enumerate().filter_map(|(at, event)| Some((Row::new(at)?, event)))
    }

    /// The id of an event's context as NCCL passed it.
    pub fn context_of(&self, event: &Head) -> u64 {
        self.context_id(event.context)
    }

    pub(crate) fn context_id(&self, context: ContextName) -> u64 {
        match context.number() {
            Some(number) => self.context_names.id(number),
            None => context.at().and_then(|at| self.contexts.get(index(at))).map_or(0, |context| context.id),
        }
    }

    /// The index of the communicator rank with this context id.
    pub fn find_context(&self, id: u64) -> Option<u32> {
        let is_of = |at: u32| self.contexts.get(index(at)).is_some_and(|one| one.id == id);
        self.context_ids.get(id, context_key(id), is_of)
    }

    /// Which calls and operations of a rank were recorded, losses aside. Unless all were, their order means nothing.
    pub fn coverage(&self, context: u32) -> Coverage {
        let context = self.contexts.get(index(context)).map_or(0, |context| context.id);
        Coverage::new(&self.switches, &self.removed, context)
    }

    /// Whether an event belongs to a communicator of another process (PXN): its context is not this process's.
    pub fn is_of_foreign_context(&self, event: &Head) -> bool {
        event.context_at().is_none() && !self.is_own_context(self.context_of(event))
    }

    /// Whether a proxy operation is work for a communicator of another process (PXN): its context is not this
    /// process's, or it names another process. NCCL 2.23 gives such a transfer a context of this process.
    #[inline]
    pub fn is_foreign(&self, op: &Event<ProxyOp>) -> bool {
        self.names_another_process(op) || self.is_of_foreign_context(op)
    }

    pub fn is_of_another_process(&self, id: u64) -> bool {
        let tag = EventId::from_raw(id).tag();
        tag != 0 && self.process_tag != 0 && tag != self.process_tag
    }

    /// Whether a proxy operation names another process.
    #[inline]
    pub fn names_another_process(&self, op: &Event<ProxyOp>) -> bool {
        let origin = u32::try_from(op.fields.pid).unwrap_or(0);
        origin != 0 && self.process_id != 0 && origin != self.process_id
    }

    /// Whether this process handed out this context, even if its record was lost.
    pub fn is_own_context(&self, id: u64) -> bool {
        let id = ContextId::from_raw(id);
        id.is_context() && self.process_tag != 0 && id.tag() == self.process_tag
    }

    pub fn is_finalized(&self, context: u32) -> bool {
        self.comm_calls.iter().any(|call| !call.is_init && call.context == Some(context))
    }

    /// When a communicator rank began: the end of its `init`, if recorded.
    pub fn began(&self, context: u32) -> Option<u64> {
        self.comm_calls.iter().find(|call| call.is_init && call.context == Some(context)).map(|call| call.end)
    }

    /// The first index of a thread, which may have written in several slots.
    pub fn first_index_of_thread(&self, thread: u32) -> u32 {
        let key = self.threads.get(index(thread)).map(Thread::key);
        self.threads.iter().position(|one| Some(one.key()) == key).map_or(thread, index_u32)
    }

    /// Converts all times from ticks to CLOCK_MONOTONIC nanoseconds.
    pub fn to_nanoseconds(&mut self, clock: &HostClock) {
        let mut clock = clock.reader();
        self.events.convert(&mut clock);
        self.rest_to_nanoseconds(&mut clock);
    }

    /// Converts all times except those of events.
    fn rest_to_nanoseconds(&mut self, clock: &mut impl TickClock) {
        for call in &mut self.comm_calls {
            call.start = clock.nanoseconds(call.start);
            call.end = clock.nanoseconds(call.end);
        }
        for switch in &mut self.switches {
            switch.time = clock.nanoseconds(switch.time);
        }
        self.ranges.convert_to_nanoseconds(clock);
        self.last_not_selected = self.last_not_selected.map(|ticks| clock.nanoseconds(ticks));
        for at in &mut self.gpu {
            if let GpuRecord::Clock(sample) = &mut at.record {
                let until = at.time.saturating_add(sample.uncertainty_ticks);
                let length = clock.nanoseconds(until) - clock.nanoseconds(at.time);
                sample.uncertainty_ticks = length;
            }
            at.time = clock.nanoseconds(at.time);
        }
        self.span = (clock.nanoseconds(self.span.0), clock.nanoseconds(self.span.1));
    }
}

impl<F: InTable> Index<Row<F>> for Tables {
    type Output = Event<F>;

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "only a table makes rows, of what it has, and tables only grow")]
    fn index(&self, row: Row<F>) -> &Event<F> {
        &F::table(&self.events)[row.index()]
    }
}

/// The place of an event id in [`Ids`].
const fn event_key(id: u64) -> Key {
    let id = EventId::from_raw(id);
    (id.slot(), id.sequence())
}

/// The place of a context id in [`Ids`].
const fn context_key(id: u64) -> Key {
    let id = ContextId::from_raw(id);
    (id.slot(), id.sequence())
}

/// A Coll, P2p or CeColl. A CeColl has no children that show when it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationRow {
    Coll(Row<Coll>),
    P2p(Row<P2p>),
    CeColl(Row<CeColl>),
}

impl OperationRow {
    #[inline]
    pub const fn from_event(event: EventRow) -> Option<Self> {
        match event {
            EventRow::Coll(row) => Some(Self::Coll(row)),
            EventRow::P2p(row) => Some(Self::P2p(row)),
            EventRow::CeColl(row) => Some(Self::CeColl(row)),
            EventRow::Group(_) | EventRow::GroupApi(_) | EventRow::CollApi(_) | EventRow::P2pApi(_) => None,
            EventRow::KernelLaunch(_) | EventRow::KernelCh(_) | EventRow::KernelPhase(_) => None,
            EventRow::ProxyOp(_) | EventRow::ProxyStep(_) | EventRow::ProxyCtrl(_) | EventRow::NetPlugin(_) => None,
            EventRow::CeSync(_) | EventRow::CeBatch(_) | EventRow::Unknown(_) => None,
        }
    }

    pub const fn event(self) -> EventRow {
        match self {
            Self::Coll(row) => EventRow::Coll(row),
            Self::P2p(row) => EventRow::P2p(row),
            Self::CeColl(row) => EventRow::CeColl(row),
        }
    }

    pub const fn kind(self) -> Kind {
        match self {
            Self::Coll(_) => Kind::Coll,
            Self::P2p(_) => Kind::P2p,
            Self::CeColl(_) => Kind::CeColl,
        }
    }

    pub const fn is_collective(self) -> bool {
        !matches!(self, Self::P2p(_))
    }

    pub const fn is_by_copy_engines(self) -> bool {
        matches!(self, Self::CeColl(_))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    head: &'a Head,
    pub func: Symbol,
    pub count: u64,
    pub datatype: Symbol,
    /// The launch plan (one kernel) of a Coll or P2p: the handle of its Group; 0 if there is none.
    pub plan: u64,
}

impl Deref for Operation<'_> {
    type Target = Head;

    #[inline]
    fn deref(&self) -> &Head {
        self.head
    }
}

impl Tables {
    #[inline]
    pub fn operation(&self, row: OperationRow) -> Operation<'_> {
        macro_rules! operation {
            ($event:expr, $plan:expr) => {{
                let (event, plan) = ($event, $plan);
                let fields = &event.fields;
                Operation {
                    head: event.head(),
                    func: fields.func,
                    count: fields.count,
                    datatype: fields.datatype,
                    plan,
                }
            }};
        }
        match row {
            OperationRow::Coll(row) => operation!(&self[row], self[row].fields.parent_group),
            OperationRow::P2p(row) => operation!(&self[row], self[row].fields.parent_group),
            OperationRow::CeColl(row) => operation!(&self[row], 0),
        }
    }

    pub fn is_captured(&self, call: EventRow) -> bool {
        match call {
            EventRow::CollApi(row) => self[row].fields.graph_captured,
            EventRow::P2pApi(row) => self[row].fields.graph_captured,
            _ => false,
        }
    }
}

/// Adds what the recorder could not record.
pub fn add_losses(counts: &mut Counts, losses: &Losses) {
    let by_kind = losses.starts.iter().zip(&losses.stops).zip(&losses.states);
    for (kind, ((starts, stops), states)) in Kind::ALL.into_iter().zip(by_kind) {
        let kind_counts = counts.kind_mut(kind);
        kind_counts.lost += starts;
        kind_counts.stops_lost += stops;
        kind_counts.states_lost += states;
        counts.stops_lost += stops;
        counts.states_lost += states;
    }
    counts.communicators_lost += losses.communicators;
    counts.stalls += losses.stalls;
    counts.states_repeated += losses.repeated_waits;
    counts.waits_counted_only += losses.repeated_waits;
    counts.controls_counted_only += losses.empty_controls;
    if losses.empty_controls > 0 {
        let controls = counts.kind_mut(Kind::ProxyCtrl);
        controls.seen += losses.empty_controls;
        controls.not_shown += losses.empty_controls;
    }
}

/// Adds events that came although they were not selected.
pub fn add_not_selected(counts: &mut Counts, starts: &[u64; Kind::COUNT]) {
    for (kind, starts) in Kind::ALL.into_iter().zip(starts) {
        counts.kind_mut(kind).not_selected += starts;
    }
}

/// Adds callbacks and communicators that came after recording had ended.
pub fn add_late(counts: &mut Counts, late: &LateCallbacks) {
    for kind in Kind::ALL {
        if let Some(starts) = late.starts.get(kind.name()) {
            let sum = &mut counts.kind_mut(kind).late;
            *sum = sum.saturating_add(*starts);
        }
    }
    counts.stops_late = counts.stops_late.saturating_add(late.stops);
    counts.states_late = counts.states_late.saturating_add(late.states);
    counts.communicators_lost = counts.communicators_lost.saturating_add(late.communicators);
}
