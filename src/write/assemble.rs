//! Joins the records of one process into operations, by event id.
//!
//! ```text
//! slot 0: Start(7) … Stop(7)                 Operation { id 7, start, end, fields }
//! slot 3: Start(9) State(9, 19) … Stop(9) →  Operation { id 9, … }, StateChange { operation of 9, 19 }
//! ```
//!
//! Nothing is thrown away unseen: a start that is there twice, a stop without a start and a state that
//! repeats are counted; an operation without a stop stays open. Records come slot by slot, so a stop or
//! a state of another thread may be read before its start: it waits until all is read. Times are ticks
//! until [`Assembly::to_nanoseconds`] has run.

use std::collections::HashMap;

use super::clocks::HostClock;
use super::counts::Counts;
use super::place::{NOWHERE, index, place};
use crate::clock::ClockPair;
use crate::event::{Kind, StateArgs, state};
use crate::journal::reader::Losses;
use crate::journal::record::{CommRecord, Fields, Record, RecordBody, StartRecord};

/// A started event with everything that was said about it.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its event id.
    pub id: u64,
    /// The parent's handle as NCCL passed it; 0 for none.
    pub parent: u64,
    /// The context as NCCL passed it.
    pub context: u64,
    /// When it started.
    pub start: u64,
    end: u64,
    /// The one number of its states: bytes (proxy) or GPU time of the stop (kernel channel); else 0.
    pub value: u64,
    /// The descriptor's rank; the context's counts where it has one.
    pub rank: i32,
    /// The thread that started it: a place in [`Assembly::threads`].
    pub thread: u32,
    /// Bit n: state n was seen.
    pub states_seen: u32,
    /// The descriptor's fields.
    pub fields: Fields,
}

const OPEN: u64 = u64::MAX;

impl Operation {
    /// When it stopped, if it did.
    #[must_use]
    pub const fn end(&self) -> Option<u64> {
        if self.end == OPEN {
            None
        } else {
            Some(self.end)
        }
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.fields.kind()
    }

    /// Whether NCCL reported this state.
    #[must_use]
    pub const fn saw(&self, state: u32) -> bool {
        state < 32 && self.states_seen & (1 << state) != 0
    }
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

/// A call of `init` or `finalize`.
#[derive(Clone, Copy, Debug)]
pub struct CommCall {
    /// Place in [`Assembly::contexts`], or [`NOWHERE`].
    pub(super) context: u32,
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
    /// The operations, in the order their starts were read: slot by slot, in time within a slot.
    pub operations: Vec<Operation>,
    /// The states, by operation and then by time.
    pub states: Vec<StateChange>,
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
    by_id: HashMap<u64, u32>,
    by_context: HashMap<u64, u32>,
}

impl Assembly {
    /// The place of the operation with this id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// The operation at a place.
    #[must_use]
    pub fn operation(&self, at: u32) -> Option<&Operation> {
        self.operations.get(index(at))
    }

    /// The place of the communicator rank with this context id.
    #[must_use]
    pub fn find_context(&self, id: u64) -> Option<u32> {
        self.by_context.get(&id).copied()
    }

    /// The states of an operation, by time.
    #[must_use]
    pub fn states_of(&self, at: u32) -> &[StateChange] {
        let begin = self.states.partition_point(|change| change.operation < at);
        let end = self.states.partition_point(|change| change.operation <= at);
        self.states.get(begin..end).unwrap_or(&[])
    }

    /// When an operation first entered a state.
    #[must_use]
    pub fn state_time(&self, at: u32, state: u32) -> Option<u64> {
        let changes = self.states_of(at).iter();
        changes
            .filter(|change| change.state == state)
            .map(|change| change.time)
            .next()
    }

    /// Turns every time from ticks into CLOCK_MONOTONIC nanoseconds.
    pub fn to_nanoseconds(&mut self, clock: &HostClock) {
        for operation in &mut self.operations {
            operation.start = clock.nanoseconds(operation.start);
            if operation.end != OPEN {
                operation.end = clock.nanoseconds(operation.end);
            }
        }
        for change in &mut self.states {
            change.time = clock.nanoseconds(change.time);
        }
        for call in &mut self.comm_calls {
            call.start = clock.nanoseconds(call.start);
            call.end = clock.nanoseconds(call.end);
        }
        self.span = (
            clock.nanoseconds(self.span.0),
            clock.nanoseconds(self.span.1),
        );
    }
}

/// A stop or state whose start has not been read yet.
#[derive(Debug)]
struct Waiting {
    id: u64,
    ticks: u64,
    /// `None`: a stop.
    state: Option<(u32, StateArgs)>,
}

/// Takes records and makes an [`Assembly`].
#[derive(Debug, Default)]
pub struct Assembler {
    assembly: Assembly,
    waiting: Vec<Waiting>,
    finalizes: Vec<(u64, CommCall)>,
    slot_threads: HashMap<u16, u32>,
    seen_any: bool,
}

impl Assembler {
    /// Takes the next record, in the order the reader gives them.
    pub fn record(&mut self, record: Record) {
        self.see(record.ticks);
        let Record {
            slot,
            ticks,
            id,
            body,
        } = record;
        match body {
            RecordBody::ThreadBegin { thread_id, name } => {
                self.assembly.threads.push(Thread {
                    slot,
                    thread_id,
                    name,
                });
                let thread = place(self.assembly.threads.len().saturating_sub(1));
                self.slot_threads.insert(slot, thread);
            }
            RecordBody::ThreadEnd => {}
            RecordBody::ClockPair {
                monotonic_ns,
                realtime_ns,
                monotonic_raw_ns,
                uncertainty_ticks,
            } => self.assembly.clock_pairs.push(ClockPair {
                ticks,
                monotonic_ns,
                realtime_ns,
                monotonic_raw_ns,
                uncertainty_ticks,
            }),
            RecordBody::CommInit(comm) => self.comm_init(slot, ticks, id, comm),
            RecordBody::CommFinalize { end_ticks } => {
                self.see(end_ticks);
                let call = CommCall {
                    context: NOWHERE,
                    is_init: false,
                    thread: self.thread(slot),
                    start: ticks,
                    end: end_ticks.max(ticks),
                };
                self.finalizes.push((id, call));
            }
            RecordBody::Start(start) => self.start(slot, ticks, id, start),
            RecordBody::Stop => self.stop(id, ticks),
            RecordBody::State { state, args } => self.state(id, ticks, state, args),
        }
    }

    /// Joins what had to wait and gives the result.
    #[must_use]
    pub fn finish(mut self, losses: &Losses) -> Assembly {
        for waiting in std::mem::take(&mut self.waiting) {
            match (self.assembly.find(waiting.id), waiting.state) {
                (Some(at), None) => self.stop_at(at, waiting.ticks),
                (Some(at), Some((state, args))) => {
                    self.state_at(at, waiting.ticks, state, args);
                }
                (None, None) => self.assembly.counts.stops_without_start += 1,
                (None, Some(_)) => self.assembly.counts.states_without_start += 1,
            }
        }
        for (id, mut call) in std::mem::take(&mut self.finalizes) {
            match self.assembly.find_context(id) {
                Some(context) => call.context = context,
                None => self.assembly.counts.finalizes_without_init += 1,
            }
            self.assembly.comm_calls.push(call);
        }
        let mut assembly = self.assembly;
        assembly
            .states
            .sort_by_key(|change| (change.operation, change.time));
        assembly.clock_pairs.sort_by_key(|pair| pair.ticks);
        assembly.sort_contexts();
        for operation in &assembly.operations {
            let counts = assembly.counts.kind_mut(operation.kind());
            if operation.end().is_none() {
                counts.unfinished += 1;
            }
            if operation.parent != 0 && !assembly.by_id.contains_key(&operation.parent) {
                counts.orphan += 1;
            }
        }
        assembly.counts.add_losses(losses);
        assembly
    }

    fn see(&mut self, ticks: u64) {
        let (first, last) = self.assembly.span;
        self.assembly.span = if self.seen_any {
            (first.min(ticks), last.max(ticks))
        } else {
            (ticks, ticks)
        };
        self.seen_any = true;
    }

    /// The thread that writes in a slot; one without a name if the journal does not say who.
    fn thread(&mut self, slot: u16) -> u32 {
        if let Some(&thread) = self.slot_threads.get(&slot) {
            return thread;
        }
        self.assembly.threads.push(Thread {
            slot,
            thread_id: 0,
            name: String::new(),
        });
        let thread = place(self.assembly.threads.len().saturating_sub(1));
        self.slot_threads.insert(slot, thread);
        thread
    }

    fn comm_init(&mut self, slot: u16, ticks: u64, id: u64, comm: CommRecord) {
        self.see(comm.end_ticks);
        let context = place(self.assembly.contexts.len());
        let call = CommCall {
            context,
            is_init: true,
            thread: self.thread(slot),
            start: ticks,
            end: comm.end_ticks.max(ticks),
        };
        if self.assembly.by_context.insert(id, context).is_some() {
            self.assembly.counts.contexts_twice += 1;
        }
        self.assembly.contexts.push(Context { id, comm });
        self.assembly.comm_calls.push(call);
    }

    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: StartRecord) {
        let thread = self.thread(slot);
        let counts = self.assembly.counts.kind_mut(start.fields.kind());
        counts.seen += 1;
        let at = place(self.assembly.operations.len());
        if at == NOWHERE || self.assembly.by_id.contains_key(&id) {
            counts.duplicate += 1;
            return;
        }
        self.assembly.by_id.insert(id, at);
        self.assembly.operations.push(Operation {
            id,
            parent: start.parent,
            context: start.context,
            start: ticks,
            end: OPEN,
            value: 0,
            rank: start.rank,
            thread,
            states_seen: 0,
            fields: start.fields,
        });
    }

    fn stop(&mut self, id: u64, ticks: u64) {
        match self.assembly.find(id) {
            Some(at) => self.stop_at(at, ticks),
            None => self.waiting.push(Waiting {
                id,
                ticks,
                state: None,
            }),
        }
    }

    /// The earliest stop counts: NCCL 2.28–2.32 stops stale handles of API events again, later.
    fn stop_at(&mut self, at: u32, ticks: u64) {
        let Some(operation) = self.assembly.operations.get_mut(index(at)) else {
            return;
        };
        if operation.end != OPEN {
            self.assembly.counts.stops_repeated += 1;
        }
        // Two processors' ticks may differ by a few cycles: no operation ends before it starts.
        operation.end = operation.end.min(ticks.max(operation.start));
    }

    fn state(&mut self, id: u64, ticks: u64, state: u32, args: StateArgs) {
        match self.assembly.find(id) {
            Some(at) => self.state_at(at, ticks, state, args),
            None => self.waiting.push(Waiting {
                id,
                ticks,
                state: Some((state, args)),
            }),
        }
    }

    fn state_at(&mut self, at: u32, ticks: u64, number: u32, args: StateArgs) {
        let Some(operation) = self.assembly.operations.get_mut(index(at)) else {
            return;
        };
        match (number, args) {
            // Steps: the size is right here and stale at the other states (facts §4.5).
            (
                state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT,
                StateArgs::ProxyStep { bytes },
            ) => operation.value = bytes,
            // v1–v3 operations: a running total.
            (_, StateArgs::ProxyOp { bytes, .. }) => {
                operation.value = operation.value.max(bytes);
            }
            (_, StateArgs::GpuTime { gpu_ns }) if operation.value == 0 => {
                operation.value = gpu_ns;
            }
            _ => {}
        }
        // Under back-pressure state 20 comes thousands of times for one step: the first one counts.
        if operation.saw(number) {
            self.assembly.counts.states_repeated += 1;
            return;
        }
        if number > state::LAST {
            self.assembly.counts.states_unknown += 1;
        } else {
            operation.states_seen |= 1 << number;
        }
        self.assembly.states.push(StateChange {
            operation: at,
            state: number,
            time: ticks,
        });
    }
}

impl Assembly {
    /// Orders the communicator ranks by context id, which counts up in order of creation.
    fn sort_contexts(&mut self) {
        let mut order: Vec<u32> = (0..place(self.contexts.len())).collect();
        order.sort_by_key(|&at| self.contexts.get(index(at)).map(|context| context.id));
        let mut moved = vec![NOWHERE; order.len()];
        for (now, &before) in order.iter().enumerate() {
            if let Some(slot) = moved.get_mut(index(before)) {
                *slot = place(now);
            }
        }
        let to_now = |at: u32| moved.get(index(at)).copied().unwrap_or(NOWHERE);
        self.contexts.sort_by_key(|context| context.id);
        for call in &mut self.comm_calls {
            call.context = to_now(call.context);
        }
        self.by_context = HashMap::new();
        for (at, context) in self.contexts.iter().enumerate() {
            self.by_context.insert(context.id, place(at));
        }
    }
}
