//! What one process recorded, joined: operations with their states, threads and communicators.

mod link;
mod operation;

pub(crate) use self::operation::OPEN;
pub use self::operation::Operation;
use crate::clocks::ticks::HostClock;
use crate::links::pxn::RemoteTransfers;
use crate::tables::by_kind::ByKind;
use crate::tables::counts::Counts;
use crate::tables::ids::{Ids, Key};
use crate::tables::named::Named;
use crate::tables::packed::Larger;
use crate::tables::place::{index, place};
use crate::tables::seen::Seen;
use crate::tables::values::Values;
use crate::timeline::measurement::{Cut, SwitchAt};
use journal::clock::ClockPair;
use journal::format::record::{CommRecord, Symbol};
use journal::reader::NotKept;
use nccl_events::Body;
use nccl_events::Kind;
use nccl_events::event;
use nccl_events::gpu::GpuRecord;
use nccl_events::id::{ContextId, EventId};
use nccl_events::state::LAST;

/// A record about GPUs.
#[derive(Clone, Copy, Debug)]
pub struct GpuAt {
    /// When it was written, or what [`GpuRecord`] says.
    pub time: u64,
    /// What [`GpuRecord`] says; 0 for none.
    pub id: u64,
    /// What it says.
    pub record: GpuRecord<Symbol>,
}

/// A change of state. Of a state that repeats only the first is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// A place in [`Assembly::operations`].
    pub operation: u32,
    /// NCCL's state number.
    pub state: u32,
    /// When.
    pub time: u64,
}

/// A thread that recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The slot it wrote in.
    pub slot: u16,
    /// The system's thread id; 0 if the journal does not say.
    pub thread_id: u32,
    /// Its name when it began.
    pub name: String,
}

/// What tells one thread from another: its id, or the slot where the journal does not say.
pub type ThreadKey = (u32, Option<u16>);

impl Thread {
    /// What tells it from others: a thread may have written in several slots.
    #[must_use]
    pub fn key(&self) -> ThreadKey {
        let slot = (self.thread_id == 0).then_some(self.slot);
        (self.thread_id, slot)
    }
}

/// A call of `init` or `finalize`.
#[derive(Clone, Copy, Debug)]
pub struct CommCall {
    /// Place in [`Assembly::contexts`], or [`NOWHERE`](crate::tables::place::NOWHERE).
    pub(crate) context: u32,
    /// Whether it is `init`.
    pub is_init: bool,
    /// The calling thread.
    pub thread: u32,
    /// When it was called.
    pub start: u64,
    /// When it returned.
    pub end: u64,
}

/// A communicator rank of this process.
#[derive(Clone, Debug)]
pub struct Context {
    /// Its id.
    pub id: u64,
    /// What `init` said.
    pub comm: CommRecord,
}

/// Everything one process recorded, joined.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The id of the process, as it saw it itself; 0 if the journal does not say.
    pub process_id: u32,
    /// The operations, in the order their starts were read: slot by slot, in time within a slot.
    pub operations: Vec<Operation>,
    /// The states, by operation and then by time.
    pub states: Vec<StateChange>,
    /// What other processes did on the network for operations of this one (PXN).
    pub help: Vec<RemoteTransfers>,
    /// The threads.
    pub threads: Vec<Thread>,
    /// The communicator ranks, in order of creation.
    pub contexts: Vec<Context>,
    /// The calls that made and ended them.
    pub comm_calls: Vec<CommCall>,
    /// The clock pairs, by ticks.
    pub clock_pairs: Vec<ClockPair>,
    /// How many of what.
    pub counts: Counts,
    /// The first and last time seen in any record; (0, 0) without records.
    pub span: (u64, u64),
    /// The tag in the ids that this process made; 0 where it is not known.
    pub process_tag: u16,
    /// What is gone because only a window was kept.
    pub not_kept: NotKept,
    /// What was switched, in order.
    pub switches: Vec<SwitchAt>,
    /// What was found out about GPUs, in the order of the journal.
    pub gpu: Vec<GpuAt>,
    pub(crate) ids: Ids,
    pub(crate) context_ids: Ids,
    pub(crate) by_kind: ByKind,
    pub(crate) larger: Larger,
    pub(crate) named: Named,
    pub(crate) values: Values,
    /// By place of the operation: the descriptor's rank.
    pub(crate) ranks: Vec<i32>,
    pub(crate) seen: Seen,
    /// By place of the operation: where its states begin in [`Assembly::states`], and at last where all end.
    states_from: Vec<u32>,
}

impl Assembly {
    /// The place of the operation with this id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<u32> {
        let is_of = |at: u32| self.operation(at).is_some_and(|one| one.id == id);
        self.ids.get(id, event_key(id), is_of)
    }

    /// The operation at a place.
    #[must_use]
    pub fn operation(&self, at: u32) -> Option<&Operation> {
        self.operations.get(index(at))
    }

    /// The descriptor's fields of an operation of this process.
    #[must_use]
    #[inline]
    pub fn fields_of(&self, operation: &Operation) -> Body<Symbol> {
        self.larger.get(&operation.fields)
    }

    /// The context of an operation as NCCL passed it.
    #[must_use]
    pub fn context_of(&self, operation: &Operation) -> u64 {
        match operation.context.number() {
            Some(number) => self.named.id(number),
            None => {
                let context = operation.context_at();
                let context = context.and_then(|at| self.contexts.get(index(at)));
                context.map_or(0, |context| context.id)
            }
        }
    }

    /// The descriptor's rank; the context's counts where it has one.
    #[must_use]
    pub fn rank_of(&self, at: u32) -> i32 {
        self.ranks.get(index(at)).copied().unwrap_or(0)
    }

    /// The one number of an operation's states: bytes (proxy), operations taken (proxy control) or GPU time of the stop
    /// (kernel channel and phase); else 0.
    #[must_use]
    pub fn value_of(&self, at: u32, operation: &Operation) -> u64 {
        match operation.kind() {
            Kind::ProxyStep => operation.step_bytes(),
            _ => self.values.get(at),
        }
    }

    /// The launch plan (one kernel) of a Coll or P2p: the handle of its Group; 0 for none.
    #[must_use]
    pub fn launch_plan(&self, operation: &Operation) -> u64 {
        match self.fields_of(operation) {
            Body::Coll(event::Coll { parent_group, .. })
            | Body::P2p(event::P2p { parent_group, .. }) => parent_group,
            _ => 0,
        }
    }

    /// The place of the communicator rank with this context id.
    #[must_use]
    pub fn find_context(&self, id: u64) -> Option<u32> {
        let is_of = |at: u32| self.contexts.get(index(at)).is_some_and(|one| one.id == id);
        self.context_ids.get(id, context_key(id), is_of)
    }

    /// What is there of the calls and operations of a rank, but for what was lost: where something is not, their places in
    /// the order say nothing.
    #[must_use]
    pub fn cut(&self, context: u32) -> Cut {
        let context = self.contexts.get(index(context));
        Cut::of(self, context.map_or(0, |context| context.id))
    }

    /// Whether an operation is work for a communicator of another process (PXN): its context is none of ours, or it names
    /// another process. NCCL 2.23 gives such a transfer the context of a communicator of ours.
    #[must_use]
    pub fn is_foreign(&self, operation: &Operation) -> bool {
        let of_ours =
            operation.context_at().is_some() || self.is_own_context(self.context_of(operation));
        self.names_another_process(operation) || !of_ours
    }

    /// Whether an event id is one of another process.
    #[must_use]
    pub fn is_of_another_process(&self, id: u64) -> bool {
        let tag = EventId::from_raw(id).tag();
        tag != 0 && self.process_tag != 0 && tag != self.process_tag
    }

    /// Whether NCCL says of an operation that it is another process's.
    #[must_use]
    pub fn names_another_process(&self, operation: &Operation) -> bool {
        let origin = match self.fields_of(operation) {
            Body::ProxyOp(event::ProxyOp { pid, .. }) => u32::try_from(pid).unwrap_or(0),
            _ => 0,
        };
        origin != 0 && self.process_id != 0 && origin != self.process_id
    }

    /// Whether this process handed out this context, whatever became of the record of it.
    #[must_use]
    pub fn is_own_context(&self, id: u64) -> bool {
        let id = ContextId::from_raw(id);
        id.is_context() && self.process_tag != 0 && id.tag() == self.process_tag
    }

    /// Whether the communicator rank at a place was ended by `finalize`.
    #[must_use]
    pub fn is_finalized(&self, context: u32) -> bool {
        let mut calls = self.comm_calls.iter();
        calls.any(|call| !call.is_init && call.context == context)
    }

    /// When a communicator rank began: when its `init` returned, where that is recorded.
    #[must_use]
    pub fn began(&self, context: u32) -> Option<u64> {
        let mut calls = self.comm_calls.iter();
        let init = calls.find(|call| call.is_init && call.context == context);
        init.map(|call| call.end)
    }

    /// The first place of a thread, which may have written in several slots.
    #[must_use]
    pub fn first_place_of_thread(&self, thread: u32) -> u32 {
        let key = self.threads.get(index(thread)).map(Thread::key);
        let first = self.threads.iter().position(|one| Some(one.key()) == key);
        first.map_or(thread, place)
    }

    /// The states of an operation, by time.
    #[must_use]
    pub fn states_of(&self, at: u32) -> &[StateChange] {
        match self.states_from.get(index(at)..) {
            Some(&[begin, end, ..]) => self.states.get(index(begin)..index(end)).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// When an operation first entered a state.
    #[must_use]
    pub fn state_time(&self, at: u32, state: u32) -> Option<u64> {
        // The operation is at hand, its states are elsewhere.
        if state <= LAST && !self.operation(at)?.saw(state) {
            return None;
        }
        let changes = self.states_of(at).iter();
        changes
            .filter(|change| change.state == state)
            .map(|change| change.time)
            .next()
    }

    /// Turns every time from ticks into CLOCK_MONOTONIC nanoseconds.
    pub fn to_nanoseconds(&mut self, clock: &HostClock) {
        let mut reader = clock.reader();
        for operation in &mut self.operations {
            operation.turn_to_nanoseconds(&mut reader);
        }
        self.rest_to_nanoseconds(clock);
    }

    /// The same of all but operations.
    pub(crate) fn rest_to_nanoseconds(&mut self, clock: &HostClock) {
        let mut clock = clock.reader();
        for change in &mut self.states {
            change.time = clock.nanoseconds(change.time);
        }
        for call in &mut self.comm_calls {
            call.start = clock.nanoseconds(call.start);
            call.end = clock.nanoseconds(call.end);
        }
        for switch in &mut self.switches {
            switch.time = clock.nanoseconds(switch.time);
        }
        for at in &mut self.gpu {
            if let GpuRecord::Clock(sample) = &mut at.record {
                let until = at.time.saturating_add(sample.uncertainty_ticks);
                let length = clock.nanoseconds(until) - clock.nanoseconds(at.time);
                sample.uncertainty_ticks = length;
            }
            at.time = clock.nanoseconds(at.time);
        }
        self.span = (
            clock.nanoseconds(self.span.0),
            clock.nanoseconds(self.span.1),
        );
    }
}

/// Where an event id goes in [`Ids`].
const fn event_key(id: u64) -> Key {
    let id = EventId::from_raw(id);
    (id.slot(), id.sequence())
}

/// The same of a context's.
const fn context_key(id: u64) -> Key {
    let id = ContextId::from_raw(id);
    (id.slot(), id.sequence())
}

impl Assembly {
    /// Notes the place of an event id unless it has one; gives whether it had none.
    pub(crate) fn note_event(&mut self, id: u64, at: u32) -> bool {
        let operations = &self.operations;
        let is_of = |at: u32| operations.get(index(at)).is_some_and(|one| one.id == id);
        self.ids.insert_new(id, event_key(id), at, is_of)
    }

    /// Notes the place of a context's id, in place of the one it had.
    pub(crate) fn note_context(&mut self, id: u64, at: u32) {
        let contexts = &self.contexts;
        let is_of = |at: u32| contexts.get(index(at)).is_some_and(|one| one.id == id);
        self.context_ids.put(id, context_key(id), at, is_of);
    }
}
