//! What a process settles while it runs equals the interpretation of its whole journal, whenever it is read.

use std::collections::{BTreeMap, BTreeSet};

use clocks::running::RunningClock;
use journal::clock::TickSource;
use journal::format::{CommRecord, Record, RecordBody, Records as _, Symbol};
use journal::part::environment::Level;
use journal::reader::{Losses, Removed, Symbols};
use model::links::intervals::Interval;
use model::process::Process;
use model::running::RunningProcess;
use model::tables::builder::TableBuilder;
use nccl_events::archive::Timing;
use nccl_events::event::{
    CeColl, Coll, CollApi, Group, GroupApi, KernelCh, KernelLaunch, P2p, P2pApi, ProxyOp, ProxyStep,
};
use nccl_events::gpu::{ClockSample, GpuClock, GpuRecord, LaunchTime};
use nccl_events::ids::{ContextId, EventId, ProcessTag};
use nccl_events::{Body, Kind, Start, StateArgs, state};
use proptest::prelude::*;

const TAG: ProcessTag = ProcessTag::new(7);
const PID: u32 = 4242;
const SETTLE_NS: u64 = 1_000_000_000;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Slots: two threads that call NCCL, the proxy, CUDA's callback thread, and ours.
const CALLER: u16 = 0;
const OTHER: u16 = 1;
const PROXY: u16 = 2;
const CUDA: u16 = 3;
const OURS: u16 = 4;

/// Pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.bits() % (most - least + 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.between(0, limit as u64 - 1)).expect("it fits")
    }

    fn once_in(&mut self, n: u64) -> bool {
        self.between(1, n) == 1
    }
}

/// An event before it has an id. Parents and plans are numbers of events.
struct Event {
    slot: u16,
    context: u64,
    parent: Option<usize>,
    plan: Option<usize>,
    start: u64,
    stop: Option<u64>,
    states: Vec<(u64, u32, StateArgs)>,
    body: Body<Symbol>,
    /// Whether its parent is an operation of another process (PXN).
    is_for_another: bool,
}

/// What the records of a job have.
#[derive(Clone, Copy, Debug)]
struct Features {
    has_api: bool,
    has_stamps: bool,
    has_launch_times: bool,
    has_graphs: bool,
    has_network: bool,
    has_channels: bool,
    loses_steps: bool,
}

const NETWORK: Features = Features {
    has_api: true,
    has_stamps: false,
    has_launch_times: false,
    has_graphs: false,
    has_network: true,
    has_channels: false,
    loses_steps: false,
};

struct Job {
    random: Random,
    with: Features,
    symbols: Symbols,
    events: Vec<Event>,
    gpu: Vec<(u64, Option<usize>, GpuRecord<Symbol>)>,
    /// When the GPU is free, by context.
    free: [u64; 2],
    /// When operations ran.
    ran: Vec<(usize, (u64, u64))>,
    sequence: u64,
    now: u64,
}

impl Job {
    fn new(seed: u64, with: Features) -> Self {
        let random = Random(seed);
        let (symbols, events, gpu) = (Symbols::default(), Vec::new(), Vec::new());
        Self { random, with, symbols, events, gpu, ran: Vec::new(), free: [0; 2], sequence: 0, now: 50 * MS }
    }

    fn pass(&mut self, most: u64) -> u64 {
        self.now += self.random.between(1, most);
        self.now
    }

    fn add(&mut self, slot: u16, parent: Option<usize>, body: Body<Symbol>) -> usize {
        let start = self.pass(5 * US);
        let (states, context) = (Vec::new(), 0);
        self.events.push(Event {
            slot,
            context,
            parent,
            plan: None,
            start,
            stop: None,
            states,
            body,
            is_for_another: false,
        });
        self.events.len() - 1
    }

    fn stop(&mut self, event: usize) {
        let now = self.pass(5 * US);
        self.events[event].stop = Some(now);
    }

    fn coll(&mut self, plan: Option<usize>, parent: Option<usize>, slot: u16) -> usize {
        let (func, datatype) = (self.symbols.intern("AllReduce"), self.symbols.intern("ncclFloat32"));
        self.sequence += 1;
        let (sequence, count) = (self.sequence, self.random.between(1, 1 << 20));
        let event = self.add(slot, parent, Body::Coll(Coll { func, sequence, count, datatype, ..Coll::default() }));
        self.events[event].plan = plan;
        event
    }

    fn message(
        &mut self,
        (plan, parent, slot): (Option<usize>, Option<usize>, u16),
        is_send: bool,
        peer: i32,
    ) -> usize {
        let func = self.symbols.intern(if is_send { "Send" } else { "Recv" });
        let datatype = self.symbols.intern("ncclInt8");
        let event = self.add(slot, parent, Body::P2p(P2p { func, peer, count: 100, datatype, ..P2p::default() }));
        self.events[event].plan = plan;
        event
    }

    fn message_call(&mut self, group: usize, is_send: bool) -> usize {
        let func = self.symbols.intern(if is_send { "Send" } else { "Recv" });
        let datatype = self.symbols.intern("ncclInt8");
        let call = P2pApi { func, count: 100, datatype, stream: 1, ..P2pApi::default() };
        let call = self.add(CALLER, Some(group), Body::P2pApi(call));
        self.stop(call);
        call
    }

    fn call(&mut self, slot: u16, group: usize, graph_captured: bool) -> usize {
        let func = self.symbols.intern("AllReduce");
        let call = CollApi { func, stream: 1, graph_captured, ..CollApi::default() };
        let call = self.add(slot, Some(group), Body::CollApi(call));
        self.stop(call);
        call
    }

    fn group(&mut self, slot: u16, depth: i32) -> usize {
        self.add(slot, None, Body::GroupApi(GroupApi { depth, graph_captured: false }))
    }

    /// The operations of a kernel run, one after the kernel before.
    fn run(&mut self, context: u64, launched: u64, operations: &[usize], launch: Option<usize>) {
        let free = &mut self.free[usize::try_from(context).expect("0 or 1")];
        let begin = launched.max(*free) + self.random.between(US, 20 * US);
        let long = if self.random.once_in(12) { 1_500 * MS } else { 5 * MS };
        let end = begin + self.random.between(10 * US, long);
        *free = end;
        let (with, later) = (self.with, |random: &mut Random| random.between(US, 300 * US));
        for &operation in operations {
            self.ran.push((operation, (begin, end)));
            if with.has_network {
                self.transfers(context, operation, (begin, end));
            }
            if with.has_channels {
                for channel in 0..2 {
                    let (reported, stopped) = (begin + later(&mut self.random), end + later(&mut self.random));
                    // The GPU's timer is 5 ms ahead of the clock and 20 ppm slower.
                    let gpu = |ns: u64| if with.has_stamps { ns - ns / 50_000 + 5 * MS } else { 0 };
                    let body = Body::KernelCh(KernelCh { channel, gpu_ns: gpu(begin + u64::from(channel)) });
                    let stop = StateArgs::GpuTime { gpu_ns: gpu(end) };
                    let states = vec![(stopped, state::KERNEL_CH_STOP, stop)];
                    let (parent, stop) = (Some(operation), Some(stopped + US));
                    self.proxy_event(context, parent, (reported, stop), states, body);
                }
            }
        }
        if let Some(launch) = launch.filter(|_| with.has_launch_times) {
            let time = LaunchTime { ordinal: 0, stream: 1, start_ns: begin, end_ns: end, uncertainty_ns: 5 };
            self.gpu.push((end + later(&mut self.random), Some(launch), GpuRecord::LaunchTime(time)));
        }
    }

    fn transfers(&mut self, context: u64, operation: usize, (begin, end): (u64, u64)) {
        for is_send in [true, false] {
            let pid = i32::try_from(PID).expect("it fits");
            let op = ProxyOp { pid, channel: 0, peer: 1, steps: 2, chunk_bytes: 512, is_send };
            let (start, stop) = (begin.saturating_sub(5 * US), Some(end + self.random.between(US, 80 * US)));
            let states = vec![(begin, state::PROXY_OP_IN_PROGRESS, StateArgs::None)];
            let (parent, body) = (Some(operation), Body::ProxyOp(op));
            self.proxy_event(context, parent, (start, stop), states, body);
            let parent = Some(self.events.len() - 1);
            for step in [0, 8] {
                let start = begin + u64::from(step > 0) * (end - begin) / 2;
                let stop = (!self.with.loses_steps || step > 0).then_some(start + (end - begin) / 3);
                let sent = StateArgs::ProxyStep { bytes: 512 };
                let states = vec![(start + 1, state::PROXY_STEP_SEND_WAIT, sent)];
                let body = Body::ProxyStep(ProxyStep { step });
                self.proxy_event(context, parent, (start, stop), states, body);
            }
        }
        if self.random.once_in(5) {
            // A transfer that NCCL never reports on.
            let pid = i32::try_from(PID).expect("it fits");
            let op = ProxyOp { pid, channel: 9, peer: 1, steps: 2, chunk_bytes: 512, is_send: true };
            let (parent, body) = (Some(operation), Body::ProxyOp(op));
            self.proxy_event(context, parent, (begin, None), Vec::new(), body);
        }
        if self.random.once_in(5) {
            self.transfer_for_another(context, begin);
        }
    }

    /// What this process transfers for another one on its host (PXN).
    fn transfer_for_another(&mut self, context: u64, begin: u64) {
        let pid = i32::try_from(PID).expect("it fits") + 1;
        let op = ProxyOp { pid, channel: 0, peer: 1, steps: 1, chunk_bytes: 512, is_send: true };
        let stop = begin + self.random.between(US, 40 * MS);
        self.proxy_event(context, None, (begin, Some(stop)), Vec::new(), Body::ProxyOp(op));
        let transfer = self.events.len() - 1;
        self.events[transfer].is_for_another = true;
        let sent = vec![(begin + 2, state::PROXY_STEP_SEND_WAIT, StateArgs::ProxyStep { bytes: 512 })];
        let step = Body::ProxyStep(ProxyStep { step: 0 });
        self.proxy_event(context, Some(transfer), (begin + 1, Some(stop - 1)), sent, step);
    }

    fn proxy_event(
        &mut self,
        context: u64,
        parent: Option<usize>,
        (start, stop): (u64, Option<u64>),
        states: Vec<(u64, u32, StateArgs)>,
        body: Body<Symbol>,
    ) {
        let is_for_another = false;
        self.events.push(Event { slot: PROXY, context, parent, plan: None, start, stop, states, body, is_for_another });
    }

    /// A user's group, or a lone call: some kernels of some collectives, reported by the caller or by CUDA's thread.
    fn collectives(&mut self) {
        let (context, slot) = if self.random.once_in(3) { (1, OTHER) } else { (0, CALLER) };
        let first = self.events.len();
        let kernels = self.random.between(1, 3);
        let group = self.with.has_api.then(|| self.group(slot, 0));
        let mut plans = Vec::new();
        for _ in 0..kernels {
            let calls = self.random.between(1, 3);
            let calls: Vec<_> = (0..calls).map(|_| group.map(|group| self.call(slot, group, false))).collect();
            plans.push(calls);
        }
        let launches: Vec<_> = plans
            .iter()
            .map(|_| {
                let launch =
                    group.map(|group| self.add(slot, Some(group), Body::KernelLaunch(KernelLaunch { stream: 1 })));
                launch.into_iter().for_each(|launch| self.stop(launch));
                launch
            })
            .collect();
        let reporter = if self.random.once_in(4) { CUDA } else { slot };
        if reporter == CUDA {
            self.pass(900 * MS);
        }
        let mut ran = Vec::new();
        for (calls, launch) in plans.into_iter().zip(launches) {
            let plan = self.add(reporter, None, Body::Group(Group {}));
            let operations: Vec<usize> = calls.into_iter().map(|call| self.coll(Some(plan), call, reporter)).collect();
            for &event in operations.iter().chain([&plan]) {
                self.stop(event);
            }
            ran.push((operations, launch, self.now));
        }
        group.into_iter().for_each(|group| self.stop(group));
        self.events[first..].iter_mut().for_each(|event| event.context = context);
        let again = ran.first().and_then(|(operations, ..)| self.events[operations[0]].parent);
        for (operations, launch, launched) in ran {
            self.run(context, launched, &operations, launch);
        }
        if let Some(call) = again.filter(|_| self.random.once_in(6)) {
            self.again(context, call);
        }
    }

    /// The operation of a call that is not said to be captured is reported again: its graph is launched.
    fn again(&mut self, context: u64, call: usize) {
        self.pass(2_500 * MS);
        let first = self.events.len();
        let plan = self.add(CUDA, None, Body::Group(Group {}));
        let operation = self.coll(Some(plan), Some(call), CUDA);
        self.stop(operation);
        self.stop(plan);
        self.events[first..].iter_mut().for_each(|event| event.context = context);
        let launched = self.now;
        self.run(context, launched, &[operation], None);
    }

    /// What `ncclAlltoAll` does on two ranks.
    fn all_to_all(&mut self) {
        let first = self.events.len();
        let group = self.group(CALLER, 1);
        let members = [(true, 0), (false, 0), (true, 1), (false, 1)];
        let calls: Vec<_> = members.map(|(is_send, _)| self.message_call(group, is_send)).to_vec();
        let launch = self.add(CALLER, Some(group), Body::KernelLaunch(KernelLaunch { stream: 1 }));
        let plan = self.add(CALLER, None, Body::Group(Group {}));
        let operations = members.iter().zip(&calls);
        let operations: Vec<usize> = operations
            .map(|((is_send, peer), call)| self.message((Some(plan), Some(*call), CALLER), *is_send, *peer))
            .collect();
        for &event in operations.iter().chain([&launch, &plan, &group]) {
            self.stop(event);
        }
        self.events[first..].iter_mut().for_each(|event| event.context = 0);
        let launched = self.now;
        self.run(0, launched, &operations, Some(launch));
    }

    fn copies(&mut self) {
        let group = self.group(CALLER, 0);
        let call = self.call(CALLER, group, false);
        let (func, datatype) = (self.symbols.intern("AllGather"), self.symbols.intern("ncclInt8"));
        let operation = CeColl { func, datatype, count: 9, stream: 1, ..CeColl::default() };
        let operation = self.add(CALLER, Some(call), Body::CeColl(operation));
        self.stop(operation);
        self.stop(group);
    }

    /// A graph of two calls, which is launched some times, by CUDA's callback thread.
    fn graph(&mut self) {
        let group = self.group(CALLER, 0);
        let calls: Vec<usize> = (0..2).map(|_| self.call(CALLER, group, true)).collect();
        let launch = self.add(CALLER, Some(group), Body::KernelLaunch(KernelLaunch { stream: 1 }));
        self.stop(launch);
        // NCCL reports what has no children at capture; it did not run.
        let captured = self.coll(None, Some(calls[0]), CALLER);
        self.stop(captured);
        self.stop(group);
        for _ in 0..self.random.between(1, 4) {
            self.pass(2_000 * MS);
            let plan = self.add(CUDA, None, Body::Group(Group {}));
            let operations: Vec<usize> = calls.iter().map(|&call| self.coll(Some(plan), Some(call), CUDA)).collect();
            for &event in operations.iter().chain([&plan]) {
                self.stop(event);
            }
            let launched = self.now;
            self.run(0, launched, &operations, None);
        }
    }

    fn play(mut self) -> Recorded {
        for _ in 0..self.random.between(3, 25) {
            match self.random.between(0, 9) {
                0 if self.with.has_graphs => self.graph(),
                1 if self.with.has_api => self.all_to_all(),
                2 if self.with.has_api => self.copies(),
                _ => self.collectives(),
            }
            let long = if self.random.once_in(10) { 8_000 * MS } else { 20 * MS };
            self.pass(long);
            // The program waits for the GPU before it is far behind.
            self.now = self.now.max(self.free[0].max(self.free[1]).saturating_sub(500 * MS));
        }
        if self.with.has_launch_times {
            let last = self.now.max(self.free[0]).max(self.free[1]) + 3_000 * MS;
            for at in (0..last).step_by(usize::try_from(700 * MS).expect("it fits")) {
                let sample = ClockSample { clock: GpuClock::Events, ordinal: 0, gpu_ns: at, uncertainty_ticks: 10 };
                self.gpu.push((at, None, GpuRecord::Clock(sample)));
            }
        }
        self.record()
    }

    fn record(self) -> Recorded {
        let Self { events, mut gpu, symbols, ran, .. } = self;
        let mut order: Vec<usize> = (0..events.len()).collect();
        order.sort_by_key(|&at| (events[at].slot, events[at].start, at));
        let mut ids = vec![0; events.len()];
        let mut next = [0_u64; 5];
        for at in order {
            let event = &events[at];
            let next = &mut next[usize::from(event.slot)];
            *next += 1;
            ids[at] = EventId::new(TAG, event.slot, *next, event.body.kind()).get();
        }
        let mut slots: Vec<Vec<Record>> = vec![Vec::new(); 5];
        for context in 0..2 {
            let comm = CommRecord {
                end_ticks: 40 * MS,
                comm_id: 0xabc + context,
                name: Symbol::NONE,
                nodes: 1,
                ranks: 2,
                rank: 0,
                table: 6,
                nccl_version: 23007,
                repetition: 0,
            };
            let (id, body) = (ContextId::new(TAG, context + 1).get(), RecordBody::CommInit(comm));
            slots[0].push(Record { slot: 0, ticks: 10 * MS + context, id, body });
        }
        for (at, event) in events.iter().enumerate() {
            let plan = event.plan.map_or(0, |plan| ids[plan]);
            let body = match event.body {
                Body::Coll(coll) => Body::Coll(Coll { parent_group: plan, ..coll }),
                Body::P2p(p2p) => Body::P2p(P2p { parent_group: plan, ..p2p }),
                body => body,
            };
            let parent = match event.parent {
                _ if event.is_for_another => EventId::new(ProcessTag::new(8), 0, 1 + at as u64, Kind::Coll).get(),
                parent => parent.map_or(0, |parent| ids[parent]),
            };
            let start = Start { context: ContextId::new(TAG, event.context + 1).get(), parent, rank: 0, body };
            let (slot, id) = (event.slot, ids[at]);
            let records = &mut slots[usize::from(slot)];
            records.push(Record { slot, ticks: event.start, id, body: RecordBody::Start(start) });
            for &(ticks, state, args) in &event.states {
                records.push(Record { slot, ticks, id, body: RecordBody::State { state, args } });
            }
            records.extend(event.stop.map(|ticks| Record { slot, ticks, id, body: RecordBody::Stop }));
        }
        gpu.sort_by_key(|(ticks, ..)| *ticks);
        for (ticks, launch, record) in gpu {
            let id = launch.map_or(0, |launch| ids[launch]);
            slots[usize::from(OURS)].push(Record { slot: OURS, ticks, id, body: RecordBody::Gpu(record) });
        }
        slots.iter_mut().for_each(|records| records.sort_by_key(|record| record.ticks));
        Recorded { slots, symbols, ran: ran.into_iter().map(|(event, ran)| (ids[event], ran)).collect() }
    }
}

struct Recorded {
    slots: Vec<Vec<Record>>,
    symbols: Symbols,
    /// When operations ran, by id.
    ran: BTreeMap<u64, (u64, u64)>,
}

/// What is known of an operation: when it ran, and how many steps it had.
type Seen = BTreeMap<u64, (Interval, u64)>;

#[derive(Debug, Default, PartialEq)]
struct Interpreted {
    operations: Seen,
    /// First members of derived collectives, with the number of members and the collective's interval.
    derived: BTreeMap<u64, (usize, Option<Interval>)>,
    steps: BTreeMap<u64, (u64, Option<u64>)>,
    /// The stated errors of times on a GPU's timer.
    errors_ns: BTreeMap<u64, Option<u64>>,
}

impl Interpreted {
    fn add(&mut self, process: &Process<'_>) {
        let tables = process.tables;
        for (linked, interval) in process.links.operations.all.iter().zip(&process.intervals) {
            let Some(interval) = interval.filter(|interval| !interval.unfinished && !linked.is_at_capture) else {
                continue;
            };
            let replay = linked.replay.unwrap_or(0);
            if interval.timing == Timing::KernelChannel {
                let operation = tables.operation(linked.operation);
                let clock = &process.gpu_clocks[operation.context_at().expect("a context") as usize];
                self.errors_ns.insert(operation.id, clock.quality.error_ns());
            }
            let known = self.operations.insert(tables.operation(linked.operation).id, (interval, replay));
            assert!(known.is_none(), "settled twice");
        }
        for collective in &process.links.derived.all {
            let members = collective.members.iter().map(|&at| process.links.operations.all[at as usize].operation);
            let ids: Vec<u64> = members.map(|member| tables.operation(member).id).collect();
            let known = self.derived.insert(ids[0], (ids.len(), collective.interval(&process.intervals)));
            assert!(known.is_none(), "settled twice");
        }
        for (row, step) in tables.rows::<ProxyStep>() {
            let known = self.steps.insert(step.id, (step.start, process.step_end(row)));
            assert!(known.is_none(), "settled twice");
        }
    }
}

impl Recorded {
    /// Loses each record with this chance.
    fn losing(mut self, one_in: u64, seed: u64) -> Self {
        let mut random = Random(seed);
        for records in &mut self.slots {
            records.retain(|record| matches!(record.body, RecordBody::CommInit(_)) || !random.once_in(one_in));
        }
        self
    }

    fn whole(&self) -> Interpreted {
        let mut builder = TableBuilder::default();
        for record in self.slots.iter().flatten() {
            builder.record(record.clone());
        }
        let (losses, removed) = (Losses::default(), Removed::default());
        let (mut tables, _clock) = builder.finish_by_clock(&losses, &removed, TAG.get(), TickSource::Monotonic);
        (tables.process_id, tables.process_tag) = (PID, TAG.get());
        let mut seen = Interpreted::default();
        seen.add(&Process::new(&tables, &self.symbols, &[], Level::default()));
        seen
    }

    /// Reads some records of each slot, settles, and so on. Also returns the number of late records and of operations
    /// that are open at the end.
    fn running(&self, reading: u64) -> (Interpreted, u64, usize) {
        let mut random = Random(reading);
        let (mut process, mut clock) = recording_all();
        let mut read = [0; 5];
        let mut seen = Interpreted::default();
        let most = [1, 3, 40, 2_000][random.below(4)];
        loop {
            let slot = random.below(5);
            let until = (read[slot] + random.below(most + 1)).min(self.slots[slot].len());
            for record in &self.slots[slot][read[slot]..until] {
                process.record(record.clone());
            }
            read[slot] = until;
            let unread = self.slots.iter().zip(read).filter_map(|(records, read)| records.get(read));
            let Some(read_up_to) = unread.map(|record| record.ticks).min() else { break };
            if random.once_in(3) {
                process.settle(read_up_to, &mut clock, &self.symbols, |process, _| seen.add(process));
            }
        }
        process.finish(&mut clock, &self.symbols, |process, _| seen.add(process));
        (seen, process.late(), process.open_operations().count())
    }
}

/// A process that records all kinds of events, and its clock.
fn recording_all() -> (RunningProcess, RunningClock) {
    let mask = Kind::ALL.iter().fold(0, |mask, kind| mask | kind.mask());
    (RunningProcess::new(TAG.get(), PID, mask, SETTLE_NS), RunningClock::new(TickSource::Monotonic, None))
}

fn features() -> impl Strategy<Value = Features> {
    any::<[bool; 6]>().prop_map(|[has_api, has_launch_times, has_graphs, has_network, has_channels, loses_steps]| {
        Features {
            has_api,
            has_stamps: false,
            has_launch_times,
            has_graphs: has_graphs && has_api && (has_network || has_channels),
            has_network,
            has_channels,
            loses_steps,
        }
    })
}

/// Stamps of a timer that is only known by bounds: nearer to the truth the more bounds there are.
fn with_stamps() -> impl Strategy<Value = Features> {
    features().prop_map(|with| Features { has_stamps: true, has_channels: true, has_api: true, ..with })
}

/// `PROPTEST_CASES` asks for more.
fn cases() -> ProptestConfig {
    let few = std::env::var_os("PROPTEST_CASES").is_none().then_some(64);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    ProptestConfig { cases: few.unwrap_or(config.cases), ..config }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_settled_equals_the_whole(seed: u64, reading: u64, with in features()) {
        let job = Job::new(seed, with).play();
        let whole = job.whole();
        let (running, late, open) = job.running(reading);
        prop_assert_eq!((late, open), (0, 0));
        prop_assert_eq!(running.operations.keys().collect::<Vec<_>>(), whole.operations.keys().collect::<Vec<_>>());
        for (id, seen) in &whole.operations {
            prop_assert_eq!(running.operations.get(id), Some(seen), "{:#x}", id);
        }
        prop_assert_eq!(&running.steps, &whole.steps);
        prop_assert_eq!(&running.derived, &whole.derived);
    }

    #[test]
    fn times_on_a_gpu_are_near_those_of_the_whole(seed: u64, reading: u64, with in with_stamps()) {
        let job = Job::new(seed, with).play();
        let (whole, (running, ..)) = (job.whole(), job.running(reading));
        prop_assert_eq!(running.operations.len(), whole.operations.len());
        for (id, (one, replay)) in &whole.operations {
            let (other, number) = running.operations.get(id).expect("it is there");
            prop_assert_eq!((one.timing, replay), (other.timing, number));
            let Some(&(begin, end)) = job.ran.get(id).filter(|_| one.timing == Timing::KernelChannel) else { continue };
            let off_ns = other.start.abs_diff(begin).max(other.end.abs_diff(end));
            let known = running.errors_ns.get(id).copied().flatten();
            let is_within = known.is_none_or(|known| off_ns <= known);
            prop_assert!(is_within, "{:#x}: {} beyond {:?}: {:?} {:?}", id, off_ns, known, one, other);
        }
    }

    #[test]
    fn reading_changes_nothing(seed: u64, readings: [u64; 2], with in with_stamps(), loses: bool) {
        let job = Job::new(seed, with).play();
        let job = if loses { job.losing(20, seed) } else { job };
        let [one, other] = readings.map(|reading| job.running(reading).0);
        for (id, seen) in &one.operations {
            prop_assert_eq!(other.operations.get(id), Some(seen), "{:#x}", id);
        }
        prop_assert_eq!(one, other);
    }

    #[test]
    fn what_was_lost_adds_nothing(seed: u64, reading: u64, with in features()) {
        let job = Job::new(seed, with).play();
        let lossy = job.losing(15, seed);
        let ids: BTreeSet<u64> = lossy.whole().operations.into_keys().collect();
        let (running, ..) = lossy.running(reading);
        for (id, seen) in &running.operations {
            let records = lossy.slots.iter().flatten().filter(|record| record.id == *id);
            prop_assert!(ids.contains(id), "{:#x} {:?}: {:?}", id, seen, records.collect::<Vec<_>>());
        }
    }
}

/// A rank is stuck in many operations of one communicator; those of the other go on, and do not wait.
#[test]
fn operations_that_never_end_hold_up_nothing_of_another_communicator() {
    const STUCK: usize = 1 << 16;
    let mut job = Job::new(7, NETWORK);
    for _ in 0..STUCK {
        let group = job.group(CALLER, 0);
        let call = job.call(CALLER, group, false);
        let operation = job.coll(None, Some(call), CALLER);
        [operation, group].into_iter().for_each(|event| job.stop(event));
        let op = ProxyOp { pid: 0, channel: 0, peer: 1, steps: 2, chunk_bytes: 512, is_send: true };
        let states = vec![(job.now, state::PROXY_OP_IN_PROGRESS, StateArgs::None)];
        job.proxy_event(0, Some(operation), (job.now, None), states, Body::ProxyOp(op));
    }
    let mut ended = 0;
    for _ in 0..200 {
        let group = job.group(OTHER, 0);
        let call = job.call(OTHER, group, false);
        let operation = job.coll(None, Some(call), OTHER);
        [operation, group].into_iter().for_each(|event| job.stop(event));
        [group, call, operation].into_iter().for_each(|event| job.events[event].context = 1);
        let launched = job.now;
        job.run(1, launched, &[operation], None);
        job.pass(50 * MS);
        ended += 1;
    }
    let last = job.now;
    let recorded = job.record();
    let (mut process, mut clock) = recording_all();
    let mut seen = Interpreted::default();
    recorded.slots.iter().flatten().for_each(|record| process.record(record.clone()));
    let until = last + 20 * SETTLE_NS;
    process.settle(until, &mut clock, &recorded.symbols, |process, _| seen.add(process));
    assert_eq!((seen.operations.len(), process.open_operations().count(), process.late()), (ended, STUCK, 0));
}

/// An operation stays open for years, and a damaged record has the last of all times.
#[test]
fn years_without_a_record_are_no_steps() {
    let mut job = Job::new(3, NETWORK);
    for slot in [CALLER, OTHER] {
        let group = job.group(slot, 0);
        let call = job.call(slot, group, false);
        let _open = job.coll(None, Some(call), slot);
        job.now = 3_000_000_000 * SETTLE_NS;
    }
    let group = job.group(CALLER, 0);
    job.events[group].start = u64::MAX;
    let recorded = job.record();
    let (mut process, mut clock) = recording_all();
    recorded.slots.iter().flatten().for_each(|record| process.record(record.clone()));
    process.settle(5_000_000_000 * SETTLE_NS, &mut clock, &recorded.symbols, |_, _| {});
    assert_eq!(process.open_operations().count(), 2);
    process.finish(&mut clock, &recorded.symbols, |_, _| {});
    assert_eq!(process.open_operations().count(), 2);
}
