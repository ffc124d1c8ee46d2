//! Network transfers, their steps and the plugins' reports, on the thread of the proxy that does them; the states of
//! these threads; and kernel channels with their phases, on the location of their communicator rank.
//!
//! All but the states are records at the end of what they show: transfers overlap, and a thread has hundreds of
//! connections. While a thread has transfers in flight it is in the region `NCCL network`, which any reader shows.

use std::collections::BTreeMap;

use crate::builder::{LocationKey, RecordPlace, TimelineBuilder};
use crate::instance::{InstanceKind, RegionInstance, RegionKey, RegionName, RegionNumber, Source};
use crate::messages::TimedInstance;
use clocks::gpu::GpuClock;
use model::links::gpu_stamps::{Distrust, check_stamps, count_distrusted};
use model::process::{Owner, Process};
use model::tables::{Event, EventRow, Head, KernelPhase, Row};
use nccl_events::archive;
use nccl_events::archive::RegionClass;
use nccl_events::event::{KernelCh, NetPlugin, ProxyCtrl, ProxyOp, ProxyStep};
use nccl_events::ids::{index, index_u32};
use nccl_events::{Kind, NetData, state};

/// What a step waited for, one after the other, in ns; 0 for what NCCL did not report.
///
/// ```text
///   send:  start ─ gpu ─ 20 ─ peer ──── 9 ─ network ─ stop
///   recv:  start ─ network ─ 11 ─ flush ─ 12 ─ gpu ── stop
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepWaits {
    /// For the GPU: to fill the buffer, or to take the data.
    pub gpu_ns: u64,
    /// For the peer's credit.
    pub peer_ns: u64,
    /// For the network: to send, or to deliver.
    pub network_ns: u64,
    /// For the data to be flushed to the GPU's memory.
    pub flush_ns: u64,
}

impl StepWaits {
    /// The waits of a step that ended at `end`.
    pub fn new(step: &Event<ProxyStep>, end: u64) -> Self {
        let mut waits = Self::default();
        let mut since = step.start;
        let mut last = None;
        for (number, time) in step.states().filter(|(number, _)| Self::default().of_state(*number).is_some()) {
            let time = time.clamp(since, end.max(since));
            // Before the first reported state, a step is in the state that it begins with.
            let before = last.unwrap_or(match number {
                state::PROXY_STEP_SEND_PEER_WAIT | state::PROXY_STEP_SEND_WAIT => state::PROXY_STEP_SEND_GPU_WAIT,
                state::PROXY_STEP_RECV_FLUSH_WAIT | state::PROXY_STEP_RECV_GPU_WAIT => state::PROXY_STEP_RECV_WAIT,
                number => number,
            });
            waits.add(before, time - since);
            (since, last) = (time, Some(number));
        }
        if let Some(last) = last {
            waits.add(last, end.saturating_sub(since));
        }
        waits
    }

    const fn of_state(&mut self, number: u32) -> Option<&mut u64> {
        match number {
            state::PROXY_STEP_SEND_GPU_WAIT | state::PROXY_STEP_RECV_GPU_WAIT => Some(&mut self.gpu_ns),
            state::PROXY_STEP_SEND_PEER_WAIT => Some(&mut self.peer_ns),
            state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_WAIT => Some(&mut self.network_ns),
            state::PROXY_STEP_RECV_FLUSH_WAIT => Some(&mut self.flush_ns),
            _ => None,
        }
    }

    fn add(&mut self, number: u32, ns: u64) {
        if let Some(wait) = self.of_state(number) {
            *wait += ns;
        }
    }
}

/// Data of a step that the network puts into the memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmaPut {
    /// The part's number of the communicator and of its window.
    pub comm: u32,
    pub peer: u32,
    pub bytes: u64,
}

/// What a step puts, if it got as far as sending. `None` also for communicators of other processes, whose members are
/// unknown, and for peers outside the communicator.
pub fn rma_put(model: &Process<'_>, row: Row<ProxyStep>) -> Option<RmaPut> {
    let step = &model.tables[row];
    sends_at(step)?;
    let op = model.tables.get::<ProxyOp>(step.parent)?;
    if !op.fields.is_send || model.tables.is_foreign(op) {
        return None;
    }
    let member = model.member_of(op)?;
    let peer = u32::try_from(op.fields.peer).ok();
    Some(RmaPut { comm: member.comm, peer: peer.filter(|peer| *peer < member.ranks)?, bytes: step.state_value() })
}

/// When the network was seen to send the step, with a size: early releases report none, which is not a put of 0 B.
fn sends_at(step: &Event<ProxyStep>) -> Option<u64> {
    step.state_time(state::PROXY_STEP_SEND_WAIT).filter(|_| step.state_value() > 0).map(|at| at.max(step.start))
}

/// The rows of threads that work on the network. Threads whose lives do not overlap share one: NCCL makes a thread for
/// each communicator that shares none, and some programs make communicators all the time.
#[derive(Debug, Default)]
struct ProxyRows {
    /// The first and last time of each thread, by its first index.
    lives: BTreeMap<u32, (u64, u64)>,
}

impl ProxyRows {
    fn see(&mut self, model: &Process<'_>, event: &Head, end: u64) {
        let thread = model.tables.first_index_of_thread(event.thread);
        let life = self.lives.entry(thread).or_insert((event.start, end));
        *life = (life.0.min(event.start), life.1.max(end));
    }

    /// The row of each thread, and the threads of each row.
    fn assign(self) -> (BTreeMap<u32, u32>, Vec<Vec<u32>>) {
        let mut lives: Vec<(u64, u64, u32)> =
            self.lives.into_iter().map(|(thread, (from, to))| (from, to, thread)).collect();
        nccl_events::sort::sort(&mut lives);
        let (mut rows, mut threads) = (BTreeMap::new(), Vec::<Vec<u32>>::new());
        let mut free_from: Vec<u64> = Vec::new();
        for (from, to, thread) in lives {
            let row = free_from.iter().position(|free| *free < from).unwrap_or(free_from.len());
            if row == free_from.len() {
                free_from.push(to);
                threads.push(Vec::new());
            }
            if let (Some(free), Some(threads)) = (free_from.get_mut(row), threads.get_mut(row)) {
                *free = to;
                threads.push(thread);
            }
            rows.insert(thread, index_u32(row));
        }
        (rows, threads)
    }
}

/// The work of the proxy's threads on its way to their locations.
struct ProxyWork<'m, 'a> {
    model: &'m Process<'a>,
    /// By the first index of the thread.
    rows: BTreeMap<u32, u32>,
    /// From when to when a row has transfers in flight.
    transfers: BTreeMap<u32, Vec<(u64, u64)>>,
    /// From when to when a row is in a state of its thread.
    states: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl ProxyWork<'_, '_> {
    fn row(&self, event: &Head) -> u32 {
        let thread = self.model.tables.first_index_of_thread(event.thread);
        self.rows.get(&thread).copied().unwrap_or(0)
    }

    fn place(&self, event: &Head) -> RecordPlace {
        RecordPlace::Location(LocationKey::Proxy(self.row(event)))
    }
}

pub(super) fn build_network(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let mut rows = ProxyRows::default();
    let tables = model.tables;
    for (row, op) in tables.rows::<ProxyOp>() {
        rows.see(model, op, end(model, row, op).max(op.start));
    }
    tables.rows::<ProxyStep>().for_each(|(row, step)| rows.see(model, step, step_end(model, row, step)));
    tables.rows::<NetPlugin>().for_each(|(_, event)| rows.see(model, event, model.end(event)));
    for (row, control) in tables.rows::<ProxyCtrl>().filter(|(_, control)| !thread_states(control).is_empty()) {
        rows.see(model, control, control_end(model, row, control));
    }
    let (rows, threads) = rows.assign();
    builder.proxy_threads = threads;
    let mut work = ProxyWork { model, rows, transfers: BTreeMap::new(), states: BTreeMap::new() };
    build_transfers(&mut work, builder);
    build_steps(&work, builder);
    build_plugins(&work, builder);
    build_thread_states(&mut work, builder);
    build_busy(work, builder);
}

fn build_transfers(work: &mut ProxyWork<'_, '_>, builder: &mut TimelineBuilder) {
    let model = work.model;
    let names = [archive::region::NET_RECV, archive::region::NET_SEND];
    let regions = names.map(|name| builder.region(RegionKey::fixed(RegionClass::Network, name)));
    for (row, op) in model.tables.rows::<ProxyOp>() {
        count_foreign(model, builder, op);
        builder.counts.closed += u64::from(model.links.transfers.is_silent(row));
        builder.shown(Kind::ProxyOp);
        let (start, end) = (op.start, end(model, row, op).max(op.start));
        let [receive, send] = regions;
        let region = if op.fields.is_send { send } else { receive };
        let instance = RegionInstance::for_event(row, op.order, InstanceKind::Net, region);
        builder.record(Kind::ProxyOp, work.place(op), TimedInstance { start, end, instance });
        work.transfers.entry(work.row(op)).or_default().push((start, end));
    }
}

fn count_foreign(model: &Process<'_>, builder: &mut TimelineBuilder, op: &Event<ProxyOp>) {
    if model.owner_of_transfer(op).is_foreign() {
        builder.count_without_communicator(model.tables.is_foreign(op));
    }
}

/// When an operation ended. On a connection that NCCL never reports on, it ends with its collective.
fn end(model: &Process<'_>, row: Row<ProxyOp>, op: &Event<ProxyOp>) -> u64 {
    if !model.links.transfers.is_silent(row) {
        return model.end(op);
    }
    let interval = model.links.operations.find(model.tables, op.parent).and_then(|at| model.interval(at));
    interval.map_or(op.start, |interval| interval.end)
}

fn step_end(model: &Process<'_>, row: Row<ProxyStep>, step: &Event<ProxyStep>) -> u64 {
    model.step_end(row).unwrap_or_else(|| model.end(step)).max(step.start)
}

fn build_steps(work: &ProxyWork<'_, '_>, builder: &mut TimelineBuilder) {
    let model = work.model;
    let names = [archive::region::RECEIVE_STEP, archive::region::SEND_STEP];
    let regions = names.map(|name| builder.region(RegionKey::fixed(RegionClass::Network, name)));
    for (row, step) in model.tables.rows::<ProxyStep>() {
        let Some(op) = model.tables.get::<ProxyOp>(step.parent) else {
            continue;
        };
        count_foreign(model, builder, op);
        builder.counts.closed += u64::from(model.links.inferred_ends.steps.contains_key(&row));
        builder.shown(Kind::ProxyStep);
        let (start, end) = (step.start, step_end(model, row, step));
        let place = work.place(step);
        match (sends_at(step), rma_put(model, row)) {
            (Some(at), Some(_)) => {
                let completes = model.step_end(row).map(|_| end);
                builder.put(place, (row, step.order), (at.min(end), completes));
            }
            (Some(_), None) if !model.owner_of_transfer(op).is_foreign() => builder.counts.messages_without_peer += 1,
            _ => {}
        }
        let [receive, send] = regions;
        let region = if op.fields.is_send { send } else { receive };
        let instance = RegionInstance::for_event(row, step.order, InstanceKind::Step, region);
        builder.record(Kind::ProxyStep, place, TimedInstance { start, end, instance });
    }
}

/// The region of a network plugin's work, named after the plugin if known.
fn region(fields: &NetPlugin, sends: bool) -> RegionKey {
    let name = match (fields.data, sends) {
        (NetData::IbQueuePair { .. }, true) => RegionName::Fixed("ibSend"),
        (NetData::IbQueuePair { .. }, false) => RegionName::Fixed("ibRecv"),
        (NetData::Socket { .. }, true) => RegionName::Fixed("socketSend"),
        (NetData::Socket { .. }, false) => RegionName::Fixed("socketRecv"),
        (NetData::Opaque, is_send) => RegionName::Plugin { id: fields.id, is_send },
    };
    RegionKey::new(RegionClass::Network, name)
}

/// Shows what a network plugin reports of its own work for a step, e.g. each queue pair's part of a message.
fn build_plugins(work: &ProxyWork<'_, '_>, builder: &mut TimelineBuilder) {
    let model = work.model;
    for (row, event) in model.tables.rows::<NetPlugin>() {
        let step = model.tables.get::<ProxyStep>(event.parent);
        let Some(op) = step.and_then(|step| model.tables.get::<ProxyOp>(step.parent)) else {
            continue;
        };
        count_foreign(model, builder, op);
        builder.shown(Kind::NetPlugin);
        let kind = if op.fields.is_send { InstanceKind::PluginSend } else { InstanceKind::PluginReceive };
        let region = builder.region(region(&event.fields, op.fields.is_send));
        let instance = RegionInstance::for_event(row, event.order, kind, region);
        let (start, end) = (event.start, model.end(event).max(event.start));
        builder.record(Kind::NetPlugin, work.place(event), TimedInstance { start, end, instance });
    }
}

/// Shows when threads have transfers in flight, but for the time in which they are in a state that NCCL reports.
fn build_busy(work: ProxyWork<'_, '_>, builder: &mut TimelineBuilder) {
    let region = builder.region(RegionKey::fixed(RegionClass::Network, archive::region::NETWORK));
    for (row, mut transfers) in work.transfers {
        nccl_events::sort::sort(&mut transfers);
        let mut states = work.states.get(&row).cloned().unwrap_or_default();
        nccl_events::sort::sort(&mut states);
        let mut around = states.into_iter().peekable();
        let mut transfers = transfers.into_iter().peekable();
        // A state may last from one run of transfers into the next.
        let mut in_state_until = 0;
        while let Some((mut start, mut end)) = transfers.next() {
            let mut number = 1;
            while let Some((_, next)) = transfers.next_if(|(next, _)| *next <= end) {
                (end, number) = (end.max(next), number + 1);
            }
            start = start.max(in_state_until);
            // A region of its own between two states of the thread.
            while let Some((from, to)) = around.next_if(|(from, _)| *from < end) {
                add_busy(builder, row, (start, from), (region, number));
                in_state_until = in_state_until.max(to);
                start = start.max(to);
            }
            add_busy(builder, row, (start, end), (region, number));
        }
    }
}

fn add_busy(
    builder: &mut TimelineBuilder,
    row: u32,
    (start, end): (u64, u64),
    (region, transfers): (RegionNumber, u32),
) {
    if start < end {
        let instance = RegionInstance::new(Source::Transfers(transfers), transfers, InstanceKind::Busy, region);
        builder.on_location_of_level(Kind::ProxyOp, LocationKey::Proxy(row), TimedInstance { start, end, instance });
    }
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

/// The channel that phases are shown in.
#[derive(Clone, Copy, Debug)]
struct ShownChannel<'a> {
    place: RecordPlace,
    span: (u64, u64),
    /// The clock that converted the span.
    clock: &'a GpuClock,
}

fn build_phases(
    model: &Process<'_>,
    builder: &mut TimelineBuilder,
    phases: &[Row<KernelPhase>],
    around: ShownChannel<'_>,
) {
    let (from, to) = around.span;
    let mut spans: Vec<(u64, u64, Row<KernelPhase>)> = Vec::with_capacity(phases.len());
    for &row in phases {
        let phase = &model.tables[row];
        let (start, stop) = match check_stamps(phase.fields.gpu_ns, phase.state_value()) {
            Ok(stamps) => stamps,
            Err(why) => {
                count_distrusted(why, &mut builder.counts);
                continue;
            }
        };
        let (start, stop) = (around.clock.host_ns(start), around.clock.host_ns(stop));
        // A phase outside its channel belongs to another: the ring has been overrun.
        if start < from || stop > to {
            count_distrusted(Distrust::Outside, &mut builder.counts);
            continue;
        }
        spans.push((start, stop, row));
    }
    nccl_events::sort::sort(&mut spans);
    let mut free_from = from;
    for (start, end, row) in spans {
        // Phases follow each other; stamps that overlap belong to different works.
        if start < free_from {
            count_distrusted(Distrust::Outside, &mut builder.counts);
            continue;
        }
        free_from = end;
        let phase = &model.tables[row];
        builder.shown(Kind::KernelPhase);
        let region = builder.region(RegionKey::new(RegionClass::Channel, RegionName::Text(phase.fields.name)));
        let instance = RegionInstance::for_event(row, phase.order, InstanceKind::Phase, region);
        builder.record(Kind::KernelPhase, around.place, TimedInstance { start, end, instance });
    }
}

/// Shows kernel channels, with GPU times if they can be trusted, on the location of their communicator rank.
pub(super) fn build_channels(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let phases = by_channel(model);
    let region = builder.region(RegionKey::fixed(RegionClass::Channel, archive::region::KERNEL_CHANNEL));
    for (row, event) in model.tables.rows::<KernelCh>() {
        let owner = model.owner(event);
        if owner.is_foreign() {
            builder.count_without_communicator(model.tables.is_of_foreign_context(event));
        }
        if let Some(why) = model.links.stamps.distrust(row) {
            count_distrusted(why, &mut builder.counts);
        }
        builder.shown(Kind::KernelCh);
        let (start, end) = span(model, row, event);
        let place = match owner {
            Owner::Context(context) => RecordPlace::Location(LocationKey::Communicator(context)),
            // Its communicator's beginning was lost.
            Owner::Foreign(_) => RecordPlace::Thread(event.thread),
        };
        let instance = RegionInstance::for_event(row, event.order, InstanceKind::Channel, region);
        builder.record(Kind::KernelCh, place, TimedInstance { start, end, instance });
        if let (Some(phases), Some((clock, _))) = (phases.get(&row), on_gpu(model, row, event)) {
            build_phases(model, builder, phases, ShownChannel { place, span: (start, end), clock });
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

// Between transfers a proxy thread idles, sleeps, wakes up and takes operations. `NCCL network` is shown only between
// these states.
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
fn thread_states(control: &Event<ProxyCtrl>) -> ThreadStates {
    let mut phases = ThreadStates::new();
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

fn control_end(model: &Process<'_>, row: Row<ProxyCtrl>, control: &Event<ProxyCtrl>) -> u64 {
    let inferred = model.links.inferred_ends.controls.get(&row).copied();
    inferred.unwrap_or_else(|| model.end(control)).max(control.start)
}

fn build_thread_states(work: &mut ProxyWork<'_, '_>, builder: &mut TimelineBuilder) {
    let model = work.model;
    let mut order: Vec<(u32, u64, Row<ProxyCtrl>)> =
        model.tables.rows::<ProxyCtrl>().map(|(row, control)| (work.row(control), control.start, row)).collect();
    nccl_events::sort::sort(&mut order);
    let mut free_from: BTreeMap<u32, u64> = BTreeMap::new();
    for (proxy, start, row) in order {
        let control = &model.tables[row];
        let states = thread_states(control);
        if states.is_empty() {
            continue;
        }
        builder.counts.closed += u64::from(model.links.inferred_ends.controls.contains_key(&row));
        builder.shown(Kind::ProxyCtrl);
        // A thread does one thing after the other.
        let free = free_from.entry(proxy).or_insert(0);
        let start = start.max(*free);
        let end = control_end(model, row, control).max(start);
        *free = end;
        let source = (Source::Event(EventRow::ProxyCtrl(row)), control.order);
        builder.add_parts(Kind::ProxyCtrl, LocationKey::Proxy(proxy), source, states.all(), (start, end));
        work.states.entry(proxy).or_default().push((start, end));
    }
}

/// More states than NCCL reports of a thread.
const MOST: usize = 8;

/// The consecutive states of a thread: instance kinds with their beginnings, in order, each at most once. They take
/// no memory of their own: each event computes them again.
#[derive(Clone, Copy, Debug)]
struct ThreadStates {
    all: [(InstanceKind, u64); MOST],
    number: usize,
}

impl ThreadStates {
    const fn new() -> Self {
        Self { all: [(InstanceKind::ProxyIdle, 0); MOST], number: 0 }
    }

    /// Adds a part unless present: a state that repeats adds nothing.
    fn add(&mut self, kind: InstanceKind, begin: u64) {
        if self.all().iter().any(|&(before, _)| before == kind) {
            return;
        }
        if let Some(free) = self.all.get_mut(self.number) {
            *free = (kind, begin);
            self.number += 1;
        }
    }

    fn all(&self) -> &[(InstanceKind, u64)] {
        self.all.get(..self.number).unwrap_or(&self.all)
    }

    const fn is_empty(&self) -> bool {
        self.number == 0
    }
}
