//! Events of a process that have not ended, and what they refer to, filled in by records.

use std::time::Duration;

use journal::clock::{ClockPair, TickSource, monotonic_ns};
use journal::format::{Record, RecordBody, Records, Symbol};
use nccl_events::event::{KernelCh, ProxyOp};
use nccl_events::ids::EventId;
use nccl_events::{Body, Kind, Start, StateArgs, state};

use super::calls::Calls;
use super::clock::ProcessClock;
use super::contexts::Contexts;
use super::derived::Derived;
use super::gpu::{GpuWork, Kernels};
use super::ids::SeenIds;
use super::meanings::Meanings;
use super::network::Network;
use super::operations::{Operations, Started};
use crate::sums::Places;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorder {
    pub(crate) tag: u16,
    pub(crate) pid: u32,
    pub(crate) tick_source: TickSource,
    pub(crate) event_mask: u32,
}

/// Events of one process that are not in the sums yet.
#[derive(Debug)]
pub(crate) struct OpenEvents {
    pub(super) recorder: Recorder,
    pub(super) seen: SeenIds,
    pub(super) clock: ProcessClock,
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
    pub(super) places: Vec<Option<Places>>,
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
            clock: ProcessClock::new(recorder.tick_source, since),
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
