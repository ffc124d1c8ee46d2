//! The locations of the network and of kernel channels: proxy operations on their connection, proxy steps (chunks in
//! transfer) each on its slot of the connection, plugins' reports, proxy threads, kernel channels and their phases.
//!
//! The states of a step tell what it waits for; the location shows them one after the other:
//!
//! ```text
//!   send:  start ─ SendGPUWait ─ 20 ─ SendPeerWait ─ 9 ─ SendWait ──────── stop
//!   recv:  start ─ RecvWait ──── 11 ─ RecvFlushWait ─ 12 ─ RecvGPUWait ─── stop
//! ```

use std::collections::BTreeMap;

use crate::builder::{ByLocation, LocationBuilder, LocationKey, Siblings, TimelineBuilder};
use crate::instance::{InstanceKind, RegionInstance, RegionKey, RegionName, RegionNumber, Source};
use crate::messages::TimedInstance;
use clocks::gpu::GpuClock;
use model::links::gpu_stamps::{Distrust, check_stamps, count_distrusted};
use model::links::transfers::slot;
use model::process::{Owner, Process};
use model::tables::{Event, EventRow, KernelPhase, Row};
use nccl_events::archive;
use nccl_events::archive::RegionClass;
use nccl_events::event::{KernelCh, NetPlugin, ProxyCtrl, ProxyOp, ProxyStep};
use nccl_events::ids::index;
use nccl_events::{Kind, NetData, state};

/// The phase that begins with a state.
const fn step_phase(number: u32) -> Option<InstanceKind> {
    match number {
        state::PROXY_STEP_SEND_GPU_WAIT => Some(InstanceKind::SendGpuWait),
        state::PROXY_STEP_SEND_PEER_WAIT => Some(InstanceKind::SendPeerWait),
        state::PROXY_STEP_SEND_WAIT => Some(InstanceKind::SendWait),
        state::PROXY_STEP_RECV_WAIT => Some(InstanceKind::RecvWait),
        state::PROXY_STEP_RECV_FLUSH_WAIT => Some(InstanceKind::RecvFlushWait),
        state::PROXY_STEP_RECV_GPU_WAIT => Some(InstanceKind::RecvGpuWait),
        _ => None,
    }
}

/// Most steps have at least this many phases.
const PHASES: usize = 2;

/// The phase of a step before the first reported state.
const fn first(seen: InstanceKind) -> InstanceKind {
    match seen {
        InstanceKind::SendPeerWait | InstanceKind::SendWait => InstanceKind::SendGpuWait,
        InstanceKind::RecvFlushWait | InstanceKind::RecvGpuWait => InstanceKind::RecvWait,
        seen => seen,
    }
}

/// The phases of a step with their beginnings, in order; one for the whole step if NCCL reported no state.
fn step_phases(step: &Event<ProxyStep>) -> OperationPhases {
    let mut phases = OperationPhases::new();
    for (number, time) in step.states() {
        let Some(kind) = step_phase(number) else {
            continue;
        };
        if phases.is_empty() {
            phases.add(first(kind), step.start);
        }
        phases.add(kind, time.max(step.start));
    }
    if phases.is_empty() {
        phases.add(InstanceKind::Step, step.start);
    }
    phases
}

/// Data of a step that the network puts into the memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmaPut {
    /// The part's number of the communicator and of its window.
    pub comm: u32,
    pub peer: u32,
    pub bytes: u64,
    /// Whether it is known when the data was all sent.
    pub completes: bool,
}

/// What a step puts, if it got as far as sending. `None` also for communicators of other processes, whose members are
/// unknown, and for peers outside the communicator.
pub fn rma_put(model: &Process<'_>, row: Row<ProxyStep>) -> Option<RmaPut> {
    let step = &model.tables[row];
    if !sends(step) {
        return None;
    }
    let op = model.tables.get::<ProxyOp>(step.parent)?;
    if !op.fields.is_send || model.tables.is_foreign(op) {
        return None;
    }
    let member = model.member_of(op)?;
    let peer = u32::try_from(op.fields.peer).ok();
    Some(RmaPut {
        comm: member.comm,
        peer: peer.filter(|peer| *peer < member.ranks)?,
        bytes: step.state_value(),
        completes: model.step_end(row).is_some(),
    })
}

/// Whether the network was seen to send the step, with a size: early releases report none, which is not a put of 0 B.
fn sends(step: &Event<ProxyStep>) -> bool {
    step.state_value() > 0 && step.has_state(state::PROXY_STEP_SEND_WAIT)
}

/// The location of a step: its slot of its proxy operation's connection. `None` if the operation is not known.
pub(super) fn location(
    model: &Process<'_>,
    builder: &mut TimelineBuilder,
    step: &Event<ProxyStep>,
) -> Option<LocationKey> {
    let op = model.tables.get::<ProxyOp>(step.parent)?;
    let ProxyOp { channel, peer, is_send, .. } = op.fields;
    let owner = model.owner_of_transfer(op);
    if owner.is_foreign() {
        builder.count_without_communicator(model.tables.is_foreign(op));
    }
    Some(LocationKey::Step(owner, channel, is_send, peer, slot(step.fields.step)))
}

pub(super) fn build_steps(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let mut order = ByLocation::new();
    for (row, step) in model.tables.rows::<ProxyStep>() {
        if let Some(key) = location(model, builder, step) {
            let inferred = model.links.inferred_ends.steps.get(&row).copied();
            builder.counts.closed += u64::from(inferred.is_some());
            let end = inferred.unwrap_or_else(|| model.end(step));
            let is_own = matches!(key, LocationKey::Step(Owner::Context(_), ..));
            if is_own && sends(step) && rma_put(model, row).is_none() {
                builder.counts.messages_without_peer += 1;
            }
            order.add(key, (step.start, row, end.max(step.start)));
        }
    }
    for (key, location_steps) in order.in_order() {
        let mut siblings = Siblings::default();
        let mut location = builder.location(key);
        location.reserve(PHASES * location_steps.len());
        for (start, row, end) in location_steps {
            let step = &model.tables[row];
            let sibling = siblings.take(start, end);
            location.builder().shown(Kind::ProxyStep);
            let of = (Source::Event(EventRow::ProxyStep(row)), step.order);
            location.add_parts(sibling, of, step_phases(step).all(), end);
        }
    }
}

// Proxy operations are network transfers, on the location of their connection. Since NCCL 2.27 a proxy operation starts
// when it is appended and may wait for earlier ones on the same connection. The location shows one at a time: the wait
// begins when the previous one has ended, nested as `queued` until the first progress (attribute `nccl.queued_ns` has
// the whole wait).

/// A proxy operation on its way to its location, by start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Transfer {
    start: u64,
    row: Row<ProxyOp>,
    end: u64,
    /// When it first made progress; if unknown, its start, or its end if it is unfinished.
    waits_until: u64,
    is_reported: bool,
    order: u32,
}

pub(super) fn build_connections(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let mut order = ByLocation::new();
    for (row, op) in model.tables.rows::<ProxyOp>() {
        let owner = model.owner_of_transfer(op);
        if owner.is_foreign() {
            builder.count_without_communicator(model.tables.is_foreign(op));
        }
        let ProxyOp { channel, is_send, peer, .. } = op.fields;
        let start = op.start;
        let end = end(model, builder, row, op).max(start);
        let progress = op.state_time(state::PROXY_OP_IN_PROGRESS);
        let waits_until = match progress {
            Some(progress) => progress.clamp(start, end),
            None if model.is_unfinished(EventRow::ProxyOp(row)) => end,
            None => start,
        };
        let transfer = Transfer { start, row, end, waits_until, is_reported: progress.is_some(), order: op.order };
        order.add(LocationKey::Net(owner, channel, is_send, peer), transfer);
    }
    for (key, location_transfers) in order.in_order() {
        let name = match key {
            LocationKey::Net(_, _, false, _) => archive::region::NET_RECV,
            _ => archive::region::NET_SEND,
        };
        let regions = [archive::region::QUEUED, name].map(|name| builder.region(RegionKey::fixed(RegionClass::Network, name)));
        let mut siblings = Siblings::default();
        let mut location = builder.location(key);
        location.reserve(location_transfers.len());
        for transfer in location_transfers {
            add_transfer(&mut location, &mut siblings, transfer, regions);
        }
    }
}

fn add_transfer(
    location: &mut LocationBuilder<'_>,
    siblings: &mut Siblings,
    transfer: Transfer,
    [queued, whole]: [RegionNumber; 2],
) {
    let Transfer { start, row, end, waits_until, is_reported, order } = transfer;
    let start = start.max(siblings.free_from().min(waits_until));
    let sibling = siblings.take(start, end);
    location.builder().shown(Kind::ProxyOp);
    let instance = RegionInstance::for_event(row, order, InstanceKind::Net, whole);
    location.add(sibling, TimedInstance { start, end, instance });
    if is_reported && waits_until > start {
        let (end, instance) = (waits_until, RegionInstance::for_event(row, order, InstanceKind::Queued, queued));
        location.add(sibling, TimedInstance { start, end, instance });
    }
}

/// When an operation ended. On a connection that NCCL never reports on, it ends with its collective.
fn end(model: &Process<'_>, builder: &mut TimelineBuilder, row: Row<ProxyOp>, op: &Event<ProxyOp>) -> u64 {
    if !model.links.transfers.is_silent(row) {
        return model.end(op);
    }
    builder.counts.closed += 1;
    let interval = model.links.operations.find(model.tables, op.parent).and_then(|at| model.interval(at));
    interval.map_or(op.start, |interval| interval.end)
}

// The phases of a kernel channel are nested in it. Only their GPU times mean something: NCCL reports all three after
// the fact. A phase is shown only if its channel and the phase itself have plausible GPU times.

pub(super) type Phases = BTreeMap<Row<KernelCh>, Vec<Row<KernelPhase>>>;

pub(super) fn by_channel(model: &Process<'_>) -> Phases {
    let mut phases = Phases::new();
    for (row, phase) in model.tables.rows::<KernelPhase>() {
        if let Some(channel) = model.tables.find_as::<KernelCh>(phase.parent) {
            phases.entry(channel).or_default().push(row);
        }
    }
    phases
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelSpan<'a> {
    pub(super) sibling: usize,
    pub(super) span: (u64, u64),
    /// The clock that converted the span.
    pub(super) clock: &'a GpuClock,
}

pub(super) fn build_phases(
    model: &Process<'_>,
    location: &mut LocationBuilder<'_>,
    phases: &[Row<KernelPhase>],
    around: ChannelSpan<'_>,
) {
    let (from, to) = around.span;
    let mut spans: Vec<(u64, u64, Row<KernelPhase>)> = Vec::with_capacity(phases.len());
    for &row in phases {
        let phase = &model.tables[row];
        let (start, stop) = match check_stamps(phase.fields.gpu_ns, phase.state_value()) {
            Ok(stamps) => stamps,
            Err(why) => {
                count_distrusted(why, &mut location.builder().counts);
                continue;
            }
        };
        let (start, stop) = (around.clock.host_ns(start), around.clock.host_ns(stop));
        // A phase outside its channel belongs to another: the ring has been overrun.
        if start < from || stop > to {
            count_distrusted(Distrust::Outside, &mut location.builder().counts);
            continue;
        }
        spans.push((start, stop, row));
    }
    nccl_events::sort::sort(&mut spans);
    let mut free_from = from;
    for (start, end, row) in spans {
        // Phases follow each other; stamps that overlap belong to different works.
        if start < free_from {
            count_distrusted(Distrust::Outside, &mut location.builder().counts);
            continue;
        }
        free_from = end;
        let phase = &model.tables[row];
        location.builder().shown(Kind::KernelPhase);
        let name = RegionName::Text(phase.fields.name);
        let key = RegionKey::new(RegionClass::Channel, name);
        let region = location.builder().region(key);
        let instance = RegionInstance::for_event(row, phase.order, InstanceKind::Phase, region);
        location.add(around.sibling, TimedInstance { start, end, instance });
    }
}

/// Shows kernel channels with GPU times, each on the location of its channel.
pub(super) fn build_channels(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let mut order = ByLocation::new();
    for (row, event) in model.tables.rows::<KernelCh>() {
        let owner = model.owner(event);
        if owner.is_foreign() {
            builder.count_without_communicator(model.tables.is_of_foreign_context(event));
        }
        if let Some(why) = model.links.stamps.distrust(row) {
            count_distrusted(why, &mut builder.counts);
        }
        let (start, end) = span(model, row, event);
        order.add(LocationKey::Channel(owner, event.fields.channel), (start, end, row));
    }
    let phases = by_channel(model);
    for (key, location_channels) in order.in_order() {
        let mut siblings = Siblings::default();
        let region = builder.region(RegionKey::fixed(RegionClass::Channel, archive::region::KERNEL_CHANNEL));
        let mut location = builder.location(key);
        for (start, end, row) in location_channels {
            location.builder().shown(Kind::KernelCh);
            let event = &model.tables[row];
            let instance = RegionInstance::for_event(row, event.order, InstanceKind::Channel, region);
            let sibling = siblings.take(start, end);
            location.add(sibling, TimedInstance { start, end, instance });
            let clock = on_gpu(model, row, event);
            if let (Some(phases), Some((clock, _))) = (phases.get(&row), clock) {
                let span = (start, end);
                let around = ChannelSpan { sibling, span, clock };
                build_phases(model, &mut location, phases, around);
            }
        }
    }
}

fn span(model: &Process<'_>, row: Row<KernelCh>, event: &Event<KernelCh>) -> (u64, u64) {
    match on_gpu(model, row, event) {
        Some((clock, (start, stop))) => (clock.host_ns(start), clock.host_ns(stop)),
        None => (event.start, model.end(event).max(event.start)),
    }
}

/// The clock and stamps that a channel is shown with; `None` if it is shown by host times.
fn on_gpu<'a>(
    model: &'a Process<'_>,
    row: Row<KernelCh>,
    event: &Event<KernelCh>,
) -> Option<(&'a GpuClock, (u64, u64))> {
    let stamps = model.links.stamps.trusted_stamps(row, event)?;
    let clock = model.gpu_clocks.get(index(event.context_at()?))?;
    Some((clock, stamps))
}

// Between transfers a proxy thread idles, sleeps, wakes up and takes operations. These states have a row of their own:
// a thread's calls nest, and these states belong to no call.
//
//   sleep:   start ─ ProxySleep ── 16 ─ ProxyWakeup ─ stop
//   append:  start ─ ProxyAppend ─ 18 ─────────────── stop
//
// Up to NCCL 2.26 every turn of the loop starts and stops an event without a state, which is counted and not shown.

const fn thread_state(number: u32) -> Option<InstanceKind> {
    match number {
        state::PROXY_CTRL_IDLE => Some(InstanceKind::ProxyIdle),
        state::PROXY_CTRL_ACTIVE => Some(InstanceKind::ProxyActive),
        state::PROXY_CTRL_SLEEP => Some(InstanceKind::ProxySleep),
        state::PROXY_CTRL_WAKEUP => Some(InstanceKind::ProxyWakeup),
        state::PROXY_CTRL_APPEND | state::PROXY_CTRL_APPEND_END => Some(InstanceKind::ProxyAppend),
        _ => None,
    }
}

/// The states of the thread with their beginnings, in order; empty if NCCL reported none.
fn thread_states(control: &Event<ProxyCtrl>) -> OperationPhases {
    let mut phases = OperationPhases::new();
    for (number, time) in control.states() {
        let Some(kind) = thread_state(number) else {
            continue;
        };
        // Nothing is known about the time before the first state, so the first begins at the start.
        let begin = if phases.is_empty() { control.start } else { time.max(control.start) };
        phases.add(kind, begin);
    }
    phases
}

pub(super) fn build_proxy_threads(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let mut order: Vec<(LocationKey, u64, Row<ProxyCtrl>)> = Vec::new();
    for (row, control) in model.tables.rows::<ProxyCtrl>() {
        let thread = model.tables.first_index_of_thread(control.thread);
        order.push((LocationKey::Proxy(thread), control.start, row));
    }
    nccl_events::sort::sort(&mut order);
    for thread_controls in order.chunk_by(|a, b| a.0 == b.0) {
        let mut siblings = Siblings::default();
        for &(key, start, row) in thread_controls {
            let control = &model.tables[row];
            let phases = thread_states(control);
            if phases.is_empty() {
                continue;
            }
            let inferred = model.links.inferred_ends.controls.get(&row).copied();
            builder.counts.closed += u64::from(inferred.is_some());
            let end = inferred.unwrap_or_else(|| model.end(control)).max(start);
            let sibling = siblings.take(start, end);
            builder.shown(Kind::ProxyCtrl);
            let of = (Source::Event(EventRow::ProxyCtrl(row)), control.order);
            builder.location(key).add_parts(sibling, of, phases.all(), end);
        }
    }
}

// A network plugin reports its own work for a step, e.g. each queue pair's part of a message. Its events overlap the
// phases of a step, so they have a row of their own under that of the step's slot; overlapping parts of one message go
// to its siblings.

/// The region of a network plugin's work, named after the plugin if known.
fn region(fields: &NetPlugin, sends: bool) -> RegionKey {
    let name = match (fields.data, sends) {
        (NetData::IbQueuePair { .. }, true) => RegionName::Fixed("ibSend"),
        (NetData::IbQueuePair { .. }, false) => RegionName::Fixed("ibRecv"),
        (NetData::Socket { .. }, true) => RegionName::Fixed("socketSend"),
        (NetData::Socket { .. }, false) => RegionName::Fixed("socketRecv"),
        (NetData::Opaque, _) => RegionName::Plugin(fields.id),
    };
    RegionKey::new(RegionClass::Network, name)
}

pub(super) fn build_plugins(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let mut order: Vec<(LocationKey, u64, Row<NetPlugin>)> = Vec::new();
    for (row, event) in model.tables.rows::<NetPlugin>() {
        let step = model.tables.get::<ProxyStep>(event.parent);
        let location = step.and_then(|step| location(model, builder, step));
        if let Some(LocationKey::Step(owner, channel, send, peer, slot)) = location {
            order.push((LocationKey::Plugin(owner, channel, send, peer, slot), event.start, row));
        }
    }
    nccl_events::sort::sort(&mut order);
    for location_events in order.chunk_by(|a, b| a.0 == b.0) {
        let mut siblings = Siblings::default();
        for &(key, start, row) in location_events {
            let event = &model.tables[row];
            let sends = matches!(key, LocationKey::Plugin(_, _, true, ..));
            let kind = if sends { InstanceKind::PluginSend } else { InstanceKind::PluginReceive };
            let region = builder.region(region(&event.fields, sends));
            let instance = RegionInstance::for_event(row, event.order, kind, region);
            let end = model.end(event).max(start);
            let sibling = siblings.take(start, end);
            builder.shown(Kind::NetPlugin);
            builder.on_location(key, sibling, TimedInstance { start, end, instance });
        }
    }
}

/// More than any operation has: a step has at most six.
const MOST: usize = 8;

/// The consecutive parts of an operation: instance kinds with their beginnings, in order, each at most once. They take
/// no memory of their own: each event computes them again.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationPhases {
    all: [(InstanceKind, u64); MOST],
    number: usize,
}

impl OperationPhases {
    pub(super) const fn new() -> Self {
        Self { all: [(InstanceKind::Step, 0); MOST], number: 0 }
    }

    /// Adds a part unless present: a state that repeats adds nothing.
    pub(super) fn add(&mut self, kind: InstanceKind, begin: u64) {
        if self.all().iter().any(|&(before, _)| before == kind) {
            return;
        }
        if let Some(free) = self.all.get_mut(self.number) {
            *free = (kind, begin);
            self.number += 1;
        }
    }

    pub(super) fn all(&self) -> &[(InstanceKind, u64)] {
        self.all.get(..self.number).unwrap_or(&self.all)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.number == 0
    }
}
