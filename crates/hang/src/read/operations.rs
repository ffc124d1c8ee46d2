//! The operations of one process in its communicators, from its records, and how far each has got.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::job::{
    Call, KEPT, Message, OpenCall, Place, Progress, Rank, Signature, Stage, Tail, Tuning, Wait, WaitState,
};
use crate::read::part;
use crate::read::part::RemovedCall;
use crate::read::range_calls::{RangeCall, RangeCalls};
use crate::read::{OF_CALLS, OF_PLANS};
use journal::format::Symbol;
use journal::reader::Symbols;
use model::process::{End, Process};
use model::program_ranges::reduction_name;
use model::tables::{Coll, Event, EventRow, GroupApi, Head, OperationRow, P2p, P2pApi, Row, Tables};
use nccl_events::collective::{Collective, Function};
use nccl_events::event::{ProxyOp, ProxyStep};
use nccl_events::gpu::GpuRecord;
use nccl_events::ids::index;
use nccl_events::range::RangeField;
use nccl_events::{Body, STEP_SLOTS, Table, event, state};

/// Reads a process's operations. Times are those of the tables.
pub(super) struct Reader<'a> {
    process: &'a Process<'a>,
    tables: &'a Tables,
    symbols: &'a Symbols,
    names: BTreeMap<Symbol, Arc<str>>,
    progresses: OperationProgress<'a>,
    below: BTreeMap<EventRow, EventRow>,
    ranges: RangeCalls<'a>,
}

/// A call as the interface, or else as NCCL's range shows it, and its operation below the API; or only some of these.
#[derive(Clone, Copy, Default)]
struct Item<'a> {
    call: Option<EventRow>,
    range: Option<RangeCall<'a>>,
    below: Option<EventRow>,
    is_message: bool,
    /// Whether it belongs to a launched graph.
    is_replay: bool,
}

/// An item and the time of its call.
type TimedItem<'a> = (u64, Item<'a>);

/// The groups of ranges, beside those of calls and of launch plans.
const OF_RANGES: u64 = 2;

impl<'a> Reader<'a> {
    /// `table` is the version of the interface that NCCL called.
    pub(super) fn new(process: &'a Process<'a>, table: u8) -> Self {
        let Process { tables, symbols, links, .. } = process;
        let mut below = BTreeMap::new();
        for linked in links.operations.all.iter().filter(|linked| linked.repetition == 0) {
            if let Some(call) = tables.find(tables.operation(linked.operation).parent) {
                below.insert(call, linked.operation.event());
            }
        }
        let (names, progresses) = (BTreeMap::new(), OperationProgress::new(process, table));
        Self { process, tables, symbols, names, progresses, below, ranges: RangeCalls::new(process) }
    }

    fn name(&mut self, symbol: Symbol) -> Arc<str> {
        Arc::clone(self.names.entry(symbol).or_insert_with(|| self.symbols.text(symbol).into()))
    }

    /// The rank of each context, by context id, without actor and finalization.
    pub(super) fn ranks(&mut self) -> BTreeMap<u64, Rank> {
        let mut items: BTreeMap<u64, Vec<TimedItem<'a>>> = BTreeMap::new();
        let mut ranks: BTreeMap<u64, Rank> = BTreeMap::new();
        for row in self.tables.events.in_order() {
            let Some(head) = self.tables.head(row) else {
                continue;
            };
            let context = self.tables.context_of(head);
            if let Some(item) = self.item(row, head) {
                let start = item.range.map_or(head.start, |call| call.range.start.min(head.start));
                items.entry(context).or_default().push((start, item));
            }
            if self.tables.is_captured(row) {
                ranks.entry(context).or_default().has_graphs = true;
            }
            if let Some(call) = self.open_call(row, head) {
                ranks.entry(context).or_default().open_calls.push(call);
            }
        }
        for (context, range) in self.ranges.without_operation() {
            let id = self.tables.contexts.get(index(context)).map_or(0, |context| context.id);
            let item = Item { range: Some(range), is_message: range.function.is_send().is_some(), ..Item::default() };
            items.entry(id).or_default().push((range.range.start, item));
        }
        for (context, mut items) in items {
            // Sorted by call; calls whose records are removed precede the others.
            items
                .sort_by_cached_key(|(start, item)| self.removed_call(*item).map_or((*start, 0), |number| (0, number)));
            // A removed group may be kept in part: it does not count if there are later calls.
            let is_whole = |item: Item<'_>| !item.is_message && !item.is_replay && self.removed_call(item).is_none();
            if items.iter().any(|(_, item)| is_whole(*item)) {
                items.retain(|(_, item)| self.removed_call(*item).is_none());
            }
            self.fill(&items, ranks.entry(context).or_default());
        }
        ranks
    }

    /// Whether an operation belongs to a launched graph: its call was captured.
    fn is_captured(&self, operation: &Head) -> bool {
        match self.tables.find(operation.parent) {
            Some(call) => self.tables.is_captured(call),
            None => part::removed_call(self.tables, operation) == Some(RemovedCall::Captured),
        }
    }

    fn item(&self, row: EventRow, head: &Head) -> Option<Item<'a>> {
        let below = Item { below: Some(row), is_message: matches!(row, EventRow::P2p(_)), ..Item::default() };
        let replay = Item { is_replay: true, ..below };
        match row {
            EventRow::CollApi(_) | EventRow::P2pApi(_) => (!self.tables.is_captured(row)).then(|| Item {
                call: Some(row),
                below: self.below.get(&row).copied(),
                is_message: matches!(row, EventRow::P2pApi(_)),
                ..Item::default()
            }),
            // NCCL reports captured operations at capture, or when they run. Captured messages cannot be counted: both
            // ends need not report them equally often.
            EventRow::Coll(_) | EventRow::CeColl(_) if self.is_captured(head) => {
                (!self.progresses.is_at_capture(row)).then_some(replay)
            }
            EventRow::P2p(_) if self.is_captured(head) => None,
            EventRow::Coll(_) | EventRow::CeColl(_) | EventRow::P2p(_) => match self.tables.find(head.parent) {
                // The first operation of a call is counted with the call.
                Some(call @ (EventRow::CollApi(_) | EventRow::P2pApi(_))) => {
                    (self.below.get(&call) != Some(&row) && !below.is_message).then_some(replay)
                }
                _ => Some(Item { range: self.ranges.of_operation(row), ..below }),
            },
            EventRow::Group(_) | EventRow::GroupApi(_) | EventRow::KernelLaunch(_) => None,
            EventRow::ProxyOp(_) | EventRow::ProxyStep(_) | EventRow::ProxyCtrl(_) | EventRow::NetPlugin(_) => None,
            EventRow::KernelCh(_) | EventRow::KernelPhase(_) | EventRow::CeSync(_) | EventRow::CeBatch(_) => None,
            EventRow::Unknown(_) => None,
        }
    }

    /// The number of a collective's call on its thread, if the call was removed recently.
    fn removed_call(&self, item: Item<'_>) -> Option<u64> {
        let row = item.below.filter(|_| item.call.is_none() && !item.is_replay && !item.is_message)?;
        let removed = part::removed_call(self.tables, self.tables.head(row)?)?;
        if let RemovedCall::Near(number) = removed { Some(number) } else { None }
    }

    fn open_call(&self, row: EventRow, head: &Head) -> Option<OpenCall> {
        if head.stop().is_some() {
            return None;
        }
        let is_in_nccl = !matches!(row, EventRow::GroupApi(_)) || head.has_state(state::GROUP_END_API_START);
        let what = match row {
            EventRow::GroupApi(_) if !is_in_nccl => "between ncclGroupStart and ncclGroupEnd".to_owned(),
            EventRow::GroupApi(_) => {
                "in the call that starts the operations (ncclGroupEnd, or a call outside groups)".to_owned()
            }
            EventRow::P2pApi(row) => format!("in nccl{}", self.symbols.text(self.tables[row].fields.func)),
            EventRow::KernelLaunch(_) => "in the launch of a kernel".to_owned(),
            _ => return None,
        };
        Some(OpenCall { what, is_in_nccl, since_ns: head.start })
    }

    fn fill(&mut self, items: &[TimedItem<'a>], rank: &mut Rank) {
        let ran_until = self.progresses.ran_until(items.iter().filter_map(|(_, item)| item.below));
        let (mut calls, mut replays) = (Vec::new(), Vec::new());
        for &(start, item) in items {
            if item.is_message {
                self.message(start, item, ran_until, rank);
            } else if let Some(call) = self.call(start, item, ran_until) {
                if item.is_replay { replays.push(call) } else { calls.push(call) }
            }
        }
        let unneeded = rank.messages.len().saturating_sub(KEPT);
        rank.messages.drain(..unneeded);
        if self.tables.removed.segments > 0 {
            let (all_calls, all_replays) = (calls.clone(), replays.clone());
            part::leave_out_before_holes(&mut calls, &all_replays);
            part::leave_out_before_holes(&mut replays, &all_calls);
        }
        (rank.calls, rank.replays) = (Tail::from_calls(calls), Tail::from_calls(replays));
    }

    fn call(&mut self, entered_ns: u64, item: Item<'a>, ran_until: LastRunning) -> Option<Call> {
        let body = |row: Option<EventRow>| self.tables.body(row?);
        let (sequence, by_copy_engine) = match body(item.below) {
            Some(Body::Coll(event::Coll { sequence, .. })) => (Some(sequence), false),
            Some(Body::CeColl(event::CeColl { sequence, .. })) => (Some(sequence), true),
            _ => (None, false),
        };
        let stated = match body(item.call.or(item.below)) {
            Some(Body::CollApi(coll)) => Some((coll.func, coll.count, coll.datatype, coll.root)),
            Some(Body::Coll(coll)) => Some((coll.func, coll.count, coll.datatype, coll.root)),
            Some(Body::CeColl(coll)) => Some((coll.func, coll.count, coll.datatype, coll.root)),
            _ => None,
        };
        let range = item.range.map(|call| call.range);
        let range = range.or_else(|| self.process.links.ranges.around_call(self.tables, item.call?));
        let number = |field| range.and_then(|range| range.range.fields.get(field));
        let root =
            |root: Option<i32>, func: &str| root.filter(|_| Collective::named(func).is_some_and(Collective::has_root));
        let mut what = match stated {
            Some((func, count, datatype, of)) => {
                let (func, bytes) = (self.name(func), self.process.meanings.bytes(count, datatype));
                let root = root(Some(of), &func);
                Signature {
                    root,
                    func,
                    count,
                    datatype: self.name(datatype),
                    bytes: Some(bytes),
                    ..Signature::default()
                }
            }
            None => {
                let func = item.range?.function.name();
                let root = root(number(RangeField::Root).and_then(|root| i32::try_from(root).ok()), func);
                Signature { func: func.into(), bytes: number(RangeField::Bytes), root, ..Signature::default() }
            }
        };
        what.reduction = number(RangeField::Reduction).map(|number| reduction_name(number).into());
        what.tuning = match item.below {
            Some(EventRow::Coll(row)) => Some(self.tuning(row)),
            _ => None,
        };
        Some(Call {
            what,
            from_api: item.call.is_some(),
            sequence,
            by_copy_engine,
            entered_ns,
            place: self.place(item),
            progress: self.progress(item, ran_until),
        })
    }

    fn tuning(&mut self, row: Row<Coll>) -> Tuning {
        let Coll { algorithm, protocol, channels, .. } = self.tables[row].fields;
        Tuning { algorithm: self.name(algorithm), protocol: self.name(protocol), channels: channels.into() }
    }

    fn progress(&self, item: Item<'a>, ran_until: LastRunning) -> Progress {
        let Some(call) = item.range.filter(|_| item.below.is_none() && item.call.is_none()) else {
            return self.progresses.progress(item.call, item.below, ran_until);
        };
        // NCCL starts nothing for no elements.
        if call.range.range.fields.get(RangeField::Bytes) == Some(0) {
            return Progress { stage: Stage::Done, ended_ns: Some(call.range.start), ..Progress::default() };
        }
        let stage = if call.has_returned { Stage::Called } else { Stage::Calling };
        Progress { stage, ..Progress::default() }
    }

    fn place(&self, item: Item<'a>) -> Place {
        let tables = self.tables;
        let linked = item.below.and_then(|row| self.progresses.at(row)).and_then(|at| self.process.links.operation(at));
        let launch = linked.and_then(|linked| linked.own_launch());
        let plan = linked.map(|linked| tables.operation(linked.operation).plan).filter(|plan| *plan != 0);
        let call = item.call.and_then(|call| tables.head(call));
        let head = call.or_else(|| tables.head(item.below?));
        let thread = head.map(|head| head.thread).or(item.range.map(|call| call.range.thread));
        let stream = match item.call {
            Some(EventRow::CollApi(row)) => Some(tables[row].fields.stream),
            Some(EventRow::P2pApi(row)) => Some(tables[row].fields.stream),
            _ => None,
        };
        let of_call = call.map(|call| call.parent).filter(|parent| *parent != 0);
        let group = tables.get::<GroupApi>(of_call.unwrap_or(0));
        let is_program_group = group.is_some_and(|group| {
            group.fields.depth > 1 && group.stop().is_none() && !group.has_state(state::GROUP_END_API_START)
        });
        let of_range = item.range.and_then(|call| call.group);
        Place {
            group: of_call
                .map(|group| (group, OF_CALLS))
                .or(of_range.map(|group| (group, OF_RANGES)))
                .or(plan.map(|plan| (plan, OF_PLANS))),
            stream: stream.or_else(|| launch.map(|launch| tables[launch].fields.stream)),
            thread: thread.map(|thread| tables.first_index_of_thread(thread)),
            launched_ns: launch.map(|launch| tables[launch].start),
            is_group_open: is_program_group || item.range.is_some_and(|call| call.is_group_open),
        }
    }

    fn message(&mut self, entered_ns: u64, item: Item<'a>, ran_until: LastRunning, rank: &mut Rank) {
        let below = item.below.and_then(EventRow::as_row::<P2p>).map(|row| self.tables[row].fields);
        let call = item.call.and_then(EventRow::as_row::<P2pApi>).map(|row| self.tables[row].fields);
        let range = item.range.map(|call| call.range);
        let range = range.or_else(|| self.process.links.ranges.around_call(self.tables, item.call?));
        let number = |field| range.and_then(|range| range.range.fields.get(field));
        let func = call.map(|call| call.func).or(below.map(|below| below.func));
        let function = match func {
            Some(func) => Function::named(&*self.name(func)),
            None => item.range.map(|call| call.function),
        };
        let Some(is_send) = function.and_then(Function::is_send) else {
            return;
        };
        let peer = below.and_then(|below| u32::try_from(below.peer).ok());
        let peer = peer.or_else(|| number(RangeField::Peer).and_then(|peer| u32::try_from(peer).ok()));
        let stated = call.map(|call| (call.count, call.datatype)).or(below.map(|below| (below.count, below.datatype)));
        let bytes = stated.map(|(count, datatype)| self.process.meanings.bytes(count, datatype));
        let mut message = Message {
            peer: peer.unwrap_or(u32::MAX),
            is_send,
            number: 0,
            count: stated.map_or(0, |(count, _)| count),
            datatype: stated.map_or_else(|| "".into(), |(_, datatype)| self.name(datatype)),
            bytes: bytes.or_else(|| number(RangeField::Bytes)),
            entered_ns,
            place: self.place(item),
            progress: self.progress(item, ran_until),
        };
        if peer.is_none() {
            if !message.progress.stage.is_over() {
                rank.without_peer.push(message);
            }
            return;
        }
        let number = rank.message_counts.entry((message.peer, is_send)).or_default();
        message.number = std::mem::replace(number, *number + 1);
        rank.messages.push(message);
    }
}

/// What an operation's transfers and kernel channels show besides its end.
#[derive(Clone, Debug, Default)]
struct Children {
    open: Vec<Row<ProxyOp>>,
    /// Whether the kernel takes part in a transfer.
    transfers_began: bool,
    channels_open: u32,
}

/// The last operation of a communicator that was seen running: its start and its launch plan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastRunning {
    start: u64,
    launch_plan: u64,
}

/// The progress of a process's operations, from their network transfers, kernel channels and launches. Times are those
/// of the tables.
pub(super) struct OperationProgress<'a> {
    process: &'a Process<'a>,
    tables: &'a Tables,
    proxies: Proxies,
    /// By index of the operation.
    children: BTreeMap<u32, Children>,
    /// Whether a launch has not returned, by group and context.
    launches: BTreeMap<(u64, u64), bool>,
    /// Whether GPUs are timed, so that the end of each launch would be recorded.
    times_launches: bool,
}

impl<'a> OperationProgress<'a> {
    /// `table` is the version of the interface that NCCL called.
    fn new(process: &'a Process<'a>, table: u8) -> Self {
        let tables = process.tables;
        let mut progresses = Self {
            process,
            tables,
            proxies: Proxies::new(tables, table),
            children: BTreeMap::new(),
            launches: BTreeMap::new(),
            times_launches: tables
                .gpu
                .iter()
                .any(|at| matches!(at.record, GpuRecord::LaunchTime(_) | GpuRecord::Kernel(_))),
        };
        progresses.join_children();
        for launch in &tables.events.kernel_launches {
            let of = (launch.parent, tables.context_of(launch));
            *progresses.launches.entry(of).or_default() |= launch.stop().is_none();
        }
        progresses
    }

    fn join_children(&mut self) {
        let (tables, links) = (self.tables, &self.process.links);
        for (row, op) in tables.rows::<ProxyOp>().filter(|(_, op)| op.stop().is_none()) {
            if let Some(at) = links.operations.find(tables, op.parent).filter(|_| !links.transfers.is_silent(row)) {
                self.children.entry(at).or_default().open.push(row);
            }
        }
        for step in &tables.events.proxy_steps {
            // The kernel runs if a step no longer waits for the GPU, or the GPU took data.
            let kernel_runs = step.has_state(state::PROXY_STEP_SEND_WAIT)
                || (step.stop().is_some() && step.has_state(state::PROXY_STEP_RECV_GPU_WAIT));
            let transfer = tables.head_of(step.parent).filter(|_| kernel_runs);
            if let Some(at) = transfer.and_then(|transfer| links.operations.find(tables, transfer.parent)) {
                self.children.entry(at).or_default().transfers_began = true;
            }
        }
        for channel in tables.events.kernel_chs.iter().filter(|channel| channel.stop().is_none()) {
            if let Some(at) = links.operations.find(tables, channel.parent) {
                self.children.entry(at).or_default().channels_open += 1;
            }
        }
    }

    fn at(&self, row: EventRow) -> Option<u32> {
        self.process.links.operations.at(OperationRow::from_event(row)?)
    }

    /// Whether an operation was reported when its call was captured in a graph, and did not run.
    fn is_at_capture(&self, row: EventRow) -> bool {
        self.at(row).and_then(|at| self.process.links.operation(at)).is_some_and(|linked| linked.is_at_capture)
    }

    /// Whether an operation was seen running, or ended.
    fn has_begun(&self, at: u32) -> bool {
        self.process.links.operation(at).is_some_and(|linked| linked.kernel_channels > 0)
            || self.children.get(&at).is_some_and(|children| children.transfers_began)
            || matches!(self.process.end_of_operation(at), End::Timed | End::KernelChannels | End::Transfers)
    }

    /// The kernels of a communicator run in order: those launched before a running one have ended.
    pub(super) fn ran_until(&self, operations: impl DoubleEndedIterator<Item = EventRow>) -> LastRunning {
        let has_begun = |row: &EventRow| self.at(*row).is_some_and(|at| self.has_begun(at));
        let last = operations.rev().filter(has_begun).find_map(OperationRow::from_event);
        last.map(|row| self.tables.operation(row)).map_or_else(LastRunning::default, |operation| LastRunning {
            start: operation.start,
            launch_plan: operation.plan,
        })
    }

    /// The progress of a call and its operation below the API.
    pub(super) fn progress(&self, call: Option<EventRow>, below: Option<EventRow>, ran_until: LastRunning) -> Progress {
        let call = call.and_then(|row| self.tables.head(row));
        let links = &self.process.links;
        let at = below.and_then(|row| self.at(row));
        let Some((at, operation)) = at.and_then(|at| Some((at, links.operation(at)?.operation))) else {
            let stage = call.map_or(Stage::Calling, |call| self.stage_of_call(call));
            return Progress { stage, ..Progress::default() };
        };
        let operation = self.tables.operation(operation);
        let children = self.children.get(&at).cloned().unwrap_or_default();
        let mut waits: Vec<_> = children.open.iter().map(|&row| self.proxies.wait(&self.tables[row])).collect();
        nccl_events::sort::sort_by_key(&mut waits, |wait| (wait.since_ns, wait.channel, wait.is_send));
        let ran_after = operation.start < ran_until.start && operation.plan != ran_until.launch_plan;
        let end = self.process.end_of_operation(at);
        let stage = if end == End::Open {
            Stage::Running
        } else if matches!(end, End::Timed | End::KernelChannels) || ran_after {
            Stage::Done
        } else if end == End::Transfers {
            Stage::Transferred
        } else if operation.stop().is_none() {
            Stage::Calling
        } else {
            let call = call.or_else(|| self.tables.head_of(operation.parent));
            match call.and_then(|call| self.launches.get(&(call.parent, self.tables.context_of(&operation)))) {
                Some(true) => Stage::Launching,
                Some(false) => Stage::Launched,
                None => Stage::Enqueued,
            }
        };
        let linked = links.operation(at);
        let (proxies, channels) = linked.map_or((0, 0), |linked| (linked.proxies, linked.kernel_channels));
        let is_launched = linked.is_some_and(|linked| linked.own_launch().is_some());
        Progress {
            stage,
            ended_ns: self.ended_ns(at, end),
            shows_end: proxies > 0 || channels > 0 || (is_launched && self.times_launches),
            waits,
            channels_open: children.channels_open,
            began: self.has_begun(at),
        }
    }

    fn ended_ns(&self, at: u32, end: End) -> Option<u64> {
        let linked = self.process.links.operation(at)?;
        let gpu = self.process.links.gpu.intervals(index(at));
        match end {
            End::Timed => gpu.by_cupti.or(gpu.by_events).map(|ran| ran.end),
            End::KernelChannels => linked.kernel_host.map(|(_, last)| last),
            End::Transfers => linked.proxy_last,
            End::Open | End::Unknown => None,
        }
    }

    /// The stage of a call without a record below the API.
    fn stage_of_call(&self, call: &Head) -> Stage {
        let launch = (call.parent, self.tables.context_of(call));
        let group = self.tables.head_of(call.parent);
        let in_group = group.is_some_and(|group| group.stop().is_none());
        if self.launches.get(&launch) == Some(&true) {
            Stage::Launching
        } else if in_group || call.stop().is_none() {
            Stage::Calling
        } else {
            Stage::Called
        }
    }
}

/// What a proxy waits for: the oldest open step of a transfer, and the state of the step.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    /// By id of the transfer: its oldest open step, the state, and the time of the state.
    steps: BTreeMap<u64, (i32, WaitState, u64)>,
    begins_with_state: bool,
}

const fn wait_state(number: u32) -> WaitState {
    match number {
        state::PROXY_STEP_SEND_GPU_WAIT => WaitState::SendGpu,
        state::PROXY_STEP_SEND_PEER_WAIT | state::PROXY_OP_SEND_REM_FIFO_WAIT => WaitState::SendPeer,
        state::PROXY_STEP_SEND_WAIT => WaitState::SendNetwork,
        state::PROXY_STEP_RECV_WAIT => WaitState::Receive,
        state::PROXY_STEP_RECV_FLUSH_WAIT => WaitState::Flush,
        state::PROXY_STEP_RECV_GPU_WAIT => WaitState::ReceiveGpu,
        _ => WaitState::Unknown,
    }
}

impl Proxies {
    /// `table` is the version of the interface that NCCL called.
    fn new(tables: &Tables, table: u8) -> Self {
        let mut proxies = Self {
            begins_with_state: Table::from_number(table).is_some_and(|table| table.properties().begins_with_state),
            steps: BTreeMap::new(),
        };
        tables.events.proxy_steps.iter().filter(|step| step.stop().is_none()).for_each(|step| proxies.step(step));
        proxies
    }

    fn step(&mut self, event: &Event<ProxyStep>) {
        let step = event.fields.step;
        let last = event.states().last();
        let (waits_for, since) =
            last.map_or((WaitState::Unknown, event.start), |(number, time)| (wait_state(number), time));
        let oldest = self.steps.entry(event.parent).or_insert((step, waits_for, since));
        // Up to 2.26 a step may lack its stop; it is over when its slot is used again.
        let slots = i32::from(STEP_SLOTS);
        if (step < oldest.0 && oldest.0 - step < slots) || step >= oldest.0.saturating_add(slots) {
            *oldest = (step, waits_for, since);
        }
    }

    /// What an open transfer waits for. Times are those of the tables.
    pub(crate) fn wait(&self, op: &Event<ProxyOp>) -> Wait {
        let ProxyOp { channel, peer, steps, is_send, .. } = op.fields;
        let (step, waits_for, since_ns) = match (self.steps.get(&op.id), op.states().last()) {
            (Some(&(step, waits_for, since)), _) => (Some(step), waits_for, since),
            (None, None) if self.begins_with_state => (None, WaitState::Queued, op.start),
            (None, Some((number, since))) => (None, wait_state(number), since),
            (None, None) => (None, WaitState::Unknown, op.start),
        };
        Wait { channel, peer, is_send, state: waits_for, step, steps, since_ns }
    }
}
