//! Open operations, with what their children show; the communicator ranks of a process; and all events of a process
//! that have not ended, filled in by records.

use std::time::Duration;

use crate::process::calls::{Calls, Derived, OfCall};
use crate::process::network::Network;
use crate::process::{GpuWork, Kernels, Lifecycle, Meanings, RecentBounds, SeenIds};
use crate::sums::{Communicators, Member, StepSums};
use clocks::running::RunningClock;
use journal::clock::{ClockPair, TickSource, monotonic_ns};
use journal::format::{Record, RecordBody, Records, Symbol};
use journal::reader::{Losses, Removed, Symbols};
use model::communicators::Comms;
use model::communicators::Devices;
use model::job::Claim;
use model::links::intervals::PreviousKernel;
use model::links::operations::has_ended;
use model::tables::builder::TableBuilder;
use nccl_events::event::{KernelCh, ProxyOp};
use nccl_events::ids::{ContextId, EventId, index, index_u32};
use nccl_events::{Body, CommInit, Kind, Start, StateArgs, state};
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) start: u64,
    /// When the kernel was enqueued: the start of the launch plan.
    pub(crate) enqueued: u64,
    pub(crate) thread: u32,
    pub(crate) parent: u64,
    /// The launch plan (one kernel); 0 if there is none.
    pub(crate) plan: u64,
    pub(crate) func: Symbol,
    pub(crate) datatype: Symbol,
    pub(crate) count: u64,
    pub(crate) is_by_copy_engines: bool,
    pub(crate) details: Details,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Details {
    Collective { sequence: u64, root: i32, algorithm: Symbol, protocol: Symbol },
    PointToPoint { peer: i32 },
}

impl Started {
    pub(crate) fn of(thread: u32, ticks: u64, start: &Start<Symbol>) -> Option<Self> {
        let (func, datatype, count, plan, details) = match start.body {
            Body::Coll(coll) => {
                let (sequence, root) = (coll.sequence, coll.root);
                let details =
                    Details::Collective { sequence, root, algorithm: coll.algorithm, protocol: coll.protocol };
                (coll.func, coll.datatype, coll.count, coll.parent_group, details)
            }
            Body::P2p(p2p) => {
                (p2p.func, p2p.datatype, p2p.count, p2p.parent_group, Details::PointToPoint { peer: p2p.peer })
            }
            Body::CeColl(coll) => {
                let (algorithm, protocol) = (Symbol::NONE, Symbol::NONE);
                let details = Details::Collective { sequence: coll.sequence, root: coll.root, algorithm, protocol };
                (coll.func, coll.datatype, coll.count, 0, details)
            }
            _ => return None,
        };
        Some(Self {
            start: ticks,
            enqueued: ticks,
            thread,
            parent: start.parent,
            plan,
            func,
            datatype,
            count,
            is_by_copy_engines: matches!(start.body, Body::CeColl(_)),
            details,
        })
    }
}

/// An operation. Times are ticks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// `None` while only children were read.
    pub(crate) started: Option<Started>,
    pub(crate) stop: Option<u64>,
    pub(crate) open: u32,
    /// Proxy operations on connections that NCCL has never reported on.
    pub(crate) unreported: Vec<u64>,
    pub(crate) proxy_last: Option<u64>,
    /// The kernel's interval on the host, and on the GPU's timer.
    pub(crate) kernel_on_host: Option<(u64, u64)>,
    pub(crate) gpu: Option<(u64, u64)>,
    /// A stamp of the GPU's timer and a host time in ns that it was not after: the closest of several pairs.
    pub(crate) not_after: Option<(u64, u64)>,
    /// Ticks of the last record.
    pub(crate) last: u64,
    /// Derived from the call, once all threads were read up to the operation's start.
    pub(crate) call: Option<OfCall>,
    /// Number of kernel channels whose stamps have not been judged.
    pub(crate) unjudged: u32,
}

impl Operation {
    pub(crate) const fn has_times(&self) -> bool {
        self.proxy_last.is_some() || self.kernel_on_host.is_some()
    }

    pub(crate) const fn has_ended(&self) -> bool {
        has_ended(self.open > 0, self.stop.is_some(), self.has_times())
    }
}

pub(super) fn widen(interval: Option<(u64, u64)>, start: u64, stop: u64) -> Option<(u64, u64)> {
    Some(interval.map_or((start, stop), |(first, last)| (first.min(start), last.max(stop))))
}

#[derive(Debug, Default)]
pub(crate) struct Operations {
    all: FxHashMap<u64, Operation>,
    /// Events of operations that are over.
    pub(crate) late: u64,
}

impl Operations {
    /// The operation, marked as having a record at these ticks.
    pub(crate) fn touch(&mut self, id: u64, ticks: u64, seen: &SeenIds) -> Option<&mut Operation> {
        let operation = match self.all.contains_key(&id) {
            true => self.all.get_mut(&id)?,
            false if seen.lifecycle(id) == Lifecycle::NotStarted => self.all.entry(id).or_default(),
            false => {
                self.late += u64::from(seen.lifecycle(id) == Lifecycle::Ended);
                return None;
            }
        };
        operation.last = ticks.max(operation.last);
        Some(operation)
    }

    pub(crate) fn start(&mut self, id: u64, started: Started) -> &mut Operation {
        let operation = self.all.entry(id).or_default();
        operation.last = started.start.max(operation.last);
        operation.started = Some(started);
        operation
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Operation> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Operation> {
        self.all.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Operation> {
        self.all.remove(&id)
    }

    pub(crate) fn forget_unstarted(&mut self, before: u64, seen: &SeenIds) {
        let late = &mut self.late;
        self.all.retain(|id, operation| {
            let is_lost =
                operation.started.is_none() && operation.last < before && seen.lifecycle(*id) == Lifecycle::Ended;
            *late += u64::from(is_lost);
            !is_lost
        });
    }
}

#[derive(Debug, Default)]
pub(crate) struct Context {
    is_known: bool,
    /// Whether `init` reported id, size and rank (v4 and later).
    has_identity: bool,
    pub(crate) is_finalized: bool,
    pub(crate) by_init: (i32, i32),
    /// Whether an operation reported the hash. `highest` is the highest rank seen.
    has_hash: bool,
    highest: i32,
    pub(crate) member: Option<Member>,
    pub(crate) last: u64,
    /// Starts and ids of operations up to whose start not all threads were read.
    pub(crate) coming: Vec<(u64, u64)>,
    /// The other open operations.
    pub(crate) queue: Vec<u64>,
    pub(crate) earlier: PreviousKernel,
    /// Whether NCCL ever reported when an operation ran.
    pub(crate) reports_times: bool,
    pub(crate) gpu: RecentBounds,
}

/// The communicator ranks of a process.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    tag: u16,
    pid: u32,
    places: FxHashMap<u64, u32>,
    pub(crate) all: Vec<Context>,
    records: Vec<Record>,
    is_changed: bool,
}

impl Contexts {
    pub(crate) fn new(tag: u16, pid: u32) -> Self {
        Self { tag, pid, ..Self::default() }
    }

    /// The index of a context; `None` if it belongs to another process.
    #[inline]
    pub(crate) fn place(&mut self, id: u64) -> Option<u32> {
        if let Some(&place) = self.places.get(&id) {
            return Some(place);
        }
        let context = ContextId::from_raw(id);
        (context.is_context() && context.tag() == self.tag).then(|| self.add(id))
    }

    fn add(&mut self, id: u64) -> u32 {
        let place = index_u32(self.all.len());
        self.places.insert(id, place);
        self.all.push(Context { highest: -1, ..Context::default() });
        place
    }

    pub(crate) fn get(&self, place: u32) -> Option<&Context> {
        self.all.get(index(place))
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut Context> {
        self.all.get_mut(index(place))
    }

    /// Takes in `init`, or a record that repeats it.
    pub(crate) fn init(&mut self, record: Record) {
        let place = self.places.get(&record.id).copied().unwrap_or_else(|| self.add(record.id));
        let (RecordBody::CommInit(comm) | RecordBody::CommKnown(comm)) = &record.body else {
            return;
        };
        if let Some(context) = self.all.get_mut(index(place)).filter(|context| !context.is_known) {
            context.is_known = true;
            let is_possible = CommInit::possible(comm.rank, comm.ranks).is_some();
            context.by_init = if is_possible { (comm.rank, comm.ranks) } else { (-1, 0) };
            context.has_identity = comm.comm_id != 0 && is_possible;
            self.records.push(record);
            self.is_changed = true;
        }
    }

    pub(crate) fn finalize(&mut self, id: u64) {
        // The context's `init` may be in a slot that is read later.
        if let Some(context) = self.place(id).and_then(|place| self.get_mut(place)) {
            context.is_finalized = true;
        }
    }

    /// Records what an operation or transfer shows about a context's identity, if `init` reported none (v1–v3).
    #[inline]
    pub(crate) fn record_identity_evidence(
        &mut self,
        place: u32,
        record: impl FnOnce() -> Record,
        body: &Body<Symbol>,
        rank: i32,
    ) {
        let Some(context) = self.all.get_mut(index(place)).filter(|context| !context.has_identity) else {
            return;
        };
        let (hash, highest) = match body {
            Body::Coll(coll) => (coll.comm_hash, rank),
            Body::P2p(p2p) => (p2p.comm_hash, rank.max(p2p.peer)),
            Body::ProxyOp(op) => (0, rank.max(op.peer)),
            _ => return,
        };
        if hash != 0 && !context.has_hash || highest > context.highest {
            context.has_hash |= hash != 0;
            context.highest = highest.max(context.highest);
            self.records.push(record());
            self.is_changed = true;
        }
    }

    /// Determines the communicator and rank of each context.
    pub(crate) fn identify(&mut self, communicators: &mut Communicators, symbols: &Symbols, owner: (usize, &str)) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let mut builder = TableBuilder::default();
        for record in &self.records {
            builder.record(record.clone());
        }
        let mut tables = builder.finish(&Losses::default(), &Removed::default(), self.tag);
        tables.process_id = self.pid;
        let comms = Comms::new(&tables, &Devices::default());
        for known in &mut communicators.all {
            known.members.retain(|_, claimant| *claimant != owner.0);
        }
        let numbers = communicators.add(owner, Claim::all(&comms, symbols, |_, _| owner.0));
        for (context, member) in tables.contexts.iter().zip(&comms.members) {
            if let Some(context) = self.places.get(&context.id).and_then(|&place| self.all.get_mut(index(place))) {
                let number = numbers.get(index(member.comm));
                context.member = number.map(|&number| Member { communicator: index_u32(number), rank: member.rank });
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorder {
    pub(crate) tag: u16,
    pub(crate) pid: u32,
    pub(crate) tick_source: TickSource,
    pub(crate) event_mask: u32,
}

/// Events of one process that are not in the sums yet, and what they refer to, filled in by records.
#[derive(Debug)]
pub(crate) struct OpenEvents {
    pub(super) recorder: Recorder,
    pub(super) seen: SeenIds,
    pub(super) clock: RunningClock,
    pub(super) contexts: Contexts,
    pub(super) calls: Calls,
    pub(super) operations: Operations,
    pub(super) network: Network,
    pub(super) kernels: Kernels,
    pub(super) derived: Derived,
    pub(super) gpu: GpuWork,
    pub(super) meanings: Meanings,
    /// By slot: the system's id of the thread that writes there; 0 if unknown.
    threads: Vec<u32>,
    /// How long to wait for more records of an operation.
    pub(super) settle_ns: u64,
    /// Stamps are judged in spans of 2 to the power of this many ticks, once known.
    pub(super) stamps_shift: Option<u32>,
    /// Where the sums of each connection are.
    pub(super) places: Vec<Option<StepSums>>,
    last: u64,
    /// Operations without a communicator, and operations of calls that were only captured in a graph.
    pub(crate) without_communicator: u64,
}

impl OpenEvents {
    /// `since` is an earlier reading of this process's clocks.
    pub(crate) fn new(recorder: Recorder, since: Option<ClockPair>, settle: Duration) -> Self {
        Self {
            recorder,
            seen: SeenIds::new(recorder.tag),
            clock: RunningClock::new(recorder.tick_source, since),
            contexts: Contexts::new(recorder.tag, recorder.pid),
            calls: Calls::default(),
            operations: Operations::default(),
            network: Network::default(),
            kernels: Kernels::default(),
            derived: Derived::default(),
            gpu: GpuWork::default(),
            meanings: Meanings::default(),
            threads: Vec::new(),
            settle_ns: u64::try_from(settle.as_nanos()).unwrap_or(u64::MAX),
            stamps_shift: None,
            places: Vec::new(),
            last: 0,
            without_communicator: 0,
        }
    }

    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn last_record_ns(&self) -> Option<u64> {
        (self.last > 0).then(|| self.clock.realtime_ns(self.clock.ns(self.last)))
    }

    /// How long ago the clock showed these ticks, in ns.
    pub(crate) fn age_ns(&self, ticks: u64) -> u64 {
        monotonic_ns().saturating_sub(self.clock.ns(ticks))
    }

    /// Events that came after their operation had entered the sums, or whose start is unknown.
    pub(crate) const fn late(&self) -> u64 {
        self.operations.late + self.network.late + self.kernels.late + self.calls.late
    }

    fn thread(&self, slot: u16) -> u32 {
        self.threads.get(usize::from(slot)).copied().filter(|id| *id != 0).unwrap_or(u32::MAX - u32::from(slot))
    }

    fn begin_thread(&mut self, slot: u16, id: u32) {
        let slot = usize::from(slot);
        if slot >= self.threads.len() {
            self.threads.resize(slot + 1, 0);
        }
        if let Some(thread) = self.threads.get_mut(slot) {
            *thread = id;
        }
    }

    fn start_operation(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        let Some(context) = self.contexts.place(start.context) else {
            self.without_communicator += 1;
            return;
        };
        let Some(started) = Started::of(self.thread(slot), ticks, start) else {
            return;
        };
        self.operations.start(id, started);
        self.contexts.record_identity_evidence(context, || of_start(slot, ticks, id, start), &start.body, start.rank);
        if let Some(context) = self.contexts.get_mut(context) {
            context.coming.push((ticks, id));
            context.last = ticks.max(context.last);
        }
    }

    fn start_transfer(&mut self, slot: u16, ticks: u64, id: u64, (start, op): (&Start<Symbol>, &ProxyOp)) {
        let origin = u32::try_from(op.pid).unwrap_or(0);
        let is_foreign = origin != 0 && self.recorder.pid != 0 && origin != self.recorder.pid;
        let context = self.contexts.place(start.context).filter(|_| !is_foreign);
        if let Some(context) = context {
            self.contexts.record_identity_evidence(
                context,
                || of_start(slot, ticks, id, start),
                &start.body,
                start.rank,
            );
            if let Some(context) = self.contexts.get_mut(context) {
                context.last = ticks.max(context.last);
            }
        }
        self.network.start_transfer((id, ticks), (start.parent, op), context, (&mut self.operations, &self.seen));
    }

    fn start_kernel(&mut self, ticks: u64, id: u64, start: &Start<Symbol>, fields: &KernelCh) {
        if let Some(context) = self.contexts.place(start.context) {
            self.kernels.start((id, ticks), (start.parent, context), fields, (&mut self.operations, &self.seen));
        }
    }
}

fn of_start(slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) -> Record {
    Record { slot, ticks, id, body: RecordBody::Start(*start) }
}

impl Records for OpenEvents {
    fn record(&mut self, record: Record) {
        let Record { slot, ticks, id, .. } = record;
        match record.body {
            RecordBody::ClockPair { monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks } => {
                self.last = ticks.max(self.last);
                self.clock.add(ClockPair { ticks, monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks });
            }
            RecordBody::ThreadBegin { thread_id, .. } => self.begin_thread(slot, thread_id),
            RecordBody::Gpu(gpu) => self.gpu.add(ticks, id, &gpu),
            RecordBody::CommInit(_) | RecordBody::CommKnown(_) => self.contexts.init(record),
            RecordBody::CommFinalize { .. } => self.contexts.finalize(id),
            RecordBody::Start(start) => self.start(slot, ticks, id, &start),
            RecordBody::Stop => self.stop(slot, ticks, id),
            RecordBody::State { state, args } => self.state(slot, ticks, id, (state, args)),
            _ => {}
        }
    }

    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        self.last = ticks.max(self.last);
        if !self.seen.note(id) {
            return;
        }
        match &start.body {
            Body::ProxyStep(step) => {
                self.network.start_step((id, ticks), (start.parent, step), (&mut self.operations, &self.seen));
            }
            Body::ProxyOp(op) => self.start_transfer(slot, ticks, id, (start, op)),
            Body::KernelCh(fields) => self.start_kernel(ticks, id, start, fields),
            Body::Coll(_) | Body::P2p(_) | Body::CeColl(_) => self.start_operation(slot, ticks, id, start),
            Body::Group(_) => self.calls.start_plan(id, ticks),
            Body::CollApi(call) => {
                self.calls.start_call(id, (ticks, self.thread(slot), start.parent), call.graph_captured);
            }
            Body::P2pApi(call) => {
                if let Some(context) = self.contexts.place(start.context) {
                    self.calls.start_message(id, (ticks, self.thread(slot), start.parent), (context, call));
                }
            }
            Body::KernelLaunch(_) => {
                if let Some(context) = self.contexts.place(start.context) {
                    self.calls.start_launch(id, (ticks, self.thread(slot), start.parent), context);
                }
            }
            Body::GroupApi(group) => {
                self.calls.start_group(id, ticks, group.depth);
                if let Some(context) = self.contexts.place(start.context).and_then(|at| self.contexts.get_mut(at)) {
                    context.last = ticks.max(context.last);
                }
            }
            Body::ProxyCtrl(_) | Body::NetPlugin(_) | Body::KernelPhase(_) => {}
            Body::CeSync(_) | Body::CeBatch(_) | Body::Unknown(_) => {}
        }
    }

    #[inline]
    fn stop(&mut self, _slot: u16, ticks: u64, id: u64) {
        self.last = ticks.max(self.last);
        let seen = &self.seen;
        match EventId::from_raw(id).kind() {
            Kind::ProxyStep => self.network.stop_step(id, ticks, seen),
            Kind::ProxyOp => self.network.stop_transfer(id, ticks, &mut self.operations, seen),
            Kind::KernelCh => self.kernels.stop(id, ticks, &mut self.operations, seen),
            Kind::Coll | Kind::P2p | Kind::CeColl => {
                if let Some(operation) = self.operations.touch(id, ticks, seen) {
                    operation.stop.get_or_insert(ticks);
                }
            }
            Kind::GroupApi => self.calls.stop_group(id, ticks, seen),
            Kind::KernelLaunch => self.calls.stop_launch(id, ticks),
            Kind::Group | Kind::CollApi | Kind::P2pApi | Kind::ProxyCtrl | Kind::NetPlugin => {}
            Kind::KernelPhase | Kind::CeSync | Kind::CeBatch | Kind::Unknown => {}
        }
    }

    #[inline]
    fn state(&mut self, _slot: u16, ticks: u64, id: u64, (number, args): (u32, StateArgs)) {
        self.last = ticks.max(self.last);
        match (EventId::from_raw(id).kind(), args) {
            (Kind::ProxyStep, _) => self.network.change_step(id, ticks, (number, args), &self.seen),
            (Kind::ProxyOp, _) => self.network.mark_connection_reporting(id, &mut self.operations),
            (Kind::KernelCh, StateArgs::GpuTime { gpu_ns }) if number == state::KERNEL_CH_STOP => {
                self.kernels.gpu_stopped(id, ticks, gpu_ns, &self.seen);
            }
            _ => {}
        }
    }
}
