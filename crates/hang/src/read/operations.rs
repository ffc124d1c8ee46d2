//! The operations of one process in its communicators, from its records, and how far each has got.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::job::{Call, KEPT, Message, OpenCall, Progress, Rank, Signature, Stage, Tail, Wait, WaitState};
use crate::read::part;
use crate::read::part::RemovedCall;
use journal::format::Symbol;
use journal::reader::Symbols;
use model::process::{End, Process};
use model::tables::{Event, EventRow, Head, OperationRow, P2p, Row, Tables};
use nccl_events::collective::{Collective, Function};
use nccl_events::event::{ProxyOp, ProxyStep};
use nccl_events::{Body, STEP_SLOTS, Table, event, state};

/// Reads a process's operations. Times are those of the tables.
pub(super) struct Reader<'a> {
    tables: &'a Tables,
    symbols: &'a Symbols,
    names: BTreeMap<Symbol, Arc<str>>,
    progresses: OperationProgress<'a>,
    below: BTreeMap<EventRow, EventRow>,
}

#[derive(Clone, Copy)]
enum Item {
    /// A call and its collective below the API, or only one of the two.
    Collective {
        call: Option<EventRow>,
        below: Option<EventRow>,
    },
    Replay(EventRow),
    Message(Row<P2p>),
}

impl Item {
    const fn below(self) -> Option<EventRow> {
        match self {
            Self::Collective { below, .. } => below,
            Self::Replay(row) => Some(row),
            Self::Message(row) => Some(EventRow::P2p(row)),
        }
    }
}

/// An item and the time of its call.
type TimedItem = (u64, Item);

impl<'a> Reader<'a> {
    /// `table` is the version of the interface that NCCL called.
    pub(super) fn new(process: &'a Process<'a>, table: u8) -> Self {
        let Process { tables, symbols, links, .. } = process;
        let mut below = BTreeMap::new();
        for linked in links.operations.all.iter().filter(|linked| linked.repetition == 0) {
            let row = linked.operation.event();
            if let EventRow::Coll(_) | EventRow::CeColl(_) = row
                && let Some(call) = tables.find(tables.operation(linked.operation).parent)
            {
                below.insert(call, row);
            }
        }
        Self { tables, symbols, names: BTreeMap::new(), progresses: OperationProgress::new(process, table), below }
    }

    fn name(&mut self, symbol: Symbol) -> Arc<str> {
        Arc::clone(self.names.entry(symbol).or_insert_with(|| self.symbols.text(symbol).into()))
    }

    /// The rank of each context, by context id, without actor and finalization.
    pub(super) fn ranks(&mut self) -> BTreeMap<u64, Rank> {
        let mut items: BTreeMap<u64, Vec<TimedItem>> = BTreeMap::new();
        let mut ranks: BTreeMap<u64, Rank> = BTreeMap::new();
        for row in self.tables.events.in_order() {
            let Some(head) = self.tables.head(row) else {
                continue;
            };
            let context = self.tables.context_of(head);
            if let Some(item) = self.item(row, head) {
                items.entry(context).or_default().push((head.start, item));
            } else if let Some(call) = self.open_call(row, head) {
                ranks.entry(context).or_default().open_calls.push(call);
            }
        }
        for (context, mut items) in items {
            // Sorted by call; calls whose records are removed precede the others.
            items
                .sort_by_cached_key(|(start, item)| self.removed_call(*item).map_or((*start, 0), |number| (0, number)));
            // A removed group may be kept in part: it does not count if there are later calls.
            let is_whole = |item: Item| matches!(item, Item::Collective { .. }) && self.removed_call(item).is_none();
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

    fn item(&self, row: EventRow, head: &Head) -> Option<Item> {
        match row {
            EventRow::CollApi(_) => (!self.tables.is_captured(row))
                .then(|| Item::Collective { call: Some(row), below: self.below.get(&row).copied() }),
            // NCCL reports captured operations at capture, or when they run.
            EventRow::Coll(_) | EventRow::CeColl(_) if self.is_captured(head) => {
                (!self.progresses.is_at_capture(row)).then_some(Item::Replay(row))
            }
            EventRow::Coll(_) | EventRow::CeColl(_) => match self.tables.find(head.parent) {
                // The first operation of a call is counted with the call.
                Some(call @ EventRow::CollApi(_)) => (self.below.get(&call) != Some(&row)).then_some(Item::Replay(row)),
                _ => Some(Item::Collective { call: None, below: Some(row) }),
            },
            // Captured messages cannot be counted: both ends need not report them equally often.
            EventRow::P2p(p2p) => {
                (self.tables[p2p].fields.peer >= 0 && !self.is_captured(head)).then_some(Item::Message(p2p))
            }
            EventRow::Group(_) | EventRow::GroupApi(_) | EventRow::P2pApi(_) | EventRow::KernelLaunch(_) => None,
            EventRow::ProxyOp(_) | EventRow::ProxyStep(_) | EventRow::ProxyCtrl(_) | EventRow::NetPlugin(_) => None,
            EventRow::KernelCh(_) | EventRow::KernelPhase(_) | EventRow::CeSync(_) | EventRow::CeBatch(_) => None,
            EventRow::Unknown(_) => None,
        }
    }

    /// The number of a collective's call on its thread, if the call was removed recently.
    fn removed_call(&self, item: Item) -> Option<u64> {
        let Item::Collective { call: None, below: Some(row) } = item else {
            return None;
        };
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
                "in the call that starts the operations (ncclGroupEnd, or a call without a group)".to_owned()
            }
            EventRow::P2pApi(row) => format!("in nccl{}", self.symbols.text(self.tables[row].fields.func)),
            EventRow::KernelLaunch(_) => "in the launch of a kernel".to_owned(),
            _ => return None,
        };
        Some(OpenCall { what, is_in_nccl, since_ns: head.start })
    }

    fn fill(&mut self, items: &[TimedItem], rank: &mut Rank) {
        let ran_until = self.progresses.ran_until(items.iter().filter_map(|(_, item)| item.below()));
        let (mut calls, mut replays) = (Vec::new(), Vec::new());
        for &(start, item) in items {
            match item {
                Item::Collective { call, below } => calls.extend(self.call(start, call, below, ran_until)),
                Item::Replay(row) => replays.extend(self.call(start, None, Some(row), ran_until)),
                Item::Message(row) => self.message(row, ran_until, rank),
            }
        }
        // Without transfers and kernel channels nothing shows when a message is complete.
        let unneeded = rank.messages.len().saturating_sub(KEPT);
        rank.messages.drain(..unneeded);
        if self.tables.removed.segments > 0 {
            let (all_calls, all_replays) = (calls.clone(), replays.clone());
            part::leave_out_before_holes(&mut calls, &all_replays);
            part::leave_out_before_holes(&mut replays, &all_calls);
        }
        (rank.calls, rank.replays) = (Tail::from_calls(calls), Tail::from_calls(replays));
    }

    fn call(
        &mut self,
        entered_ns: u64,
        call: Option<EventRow>,
        below: Option<EventRow>,
        ran_until: LastRunning,
    ) -> Option<Call> {
        let body = |row: Option<EventRow>| self.tables.body(row?);
        let (sequence, by_copy_engine) = match body(below) {
            Some(Body::Coll(event::Coll { sequence, .. })) => (Some(sequence), false),
            Some(Body::CeColl(event::CeColl { sequence, .. })) => (Some(sequence), true),
            _ => (None, false),
        };
        let (func, count, datatype, root) = match body(call.or(below))? {
            Body::CollApi(coll) => (coll.func, coll.count, coll.datatype, coll.root),
            Body::Coll(coll) => (coll.func, coll.count, coll.datatype, coll.root),
            Body::CeColl(coll) => (coll.func, coll.count, coll.datatype, coll.root),
            _ => return None,
        };
        let func = self.name(func);
        let has_root = Collective::named(&*func).is_some_and(Collective::has_root);
        Some(Call {
            what: Signature { func, count, datatype: self.name(datatype), root: has_root.then_some(root) },
            from_api: call.is_some(),
            sequence,
            by_copy_engine,
            entered_ns,
            progress: self.progresses.progress(call, below, ran_until),
        })
    }

    fn message(&mut self, row: Row<P2p>, ran_until: LastRunning, rank: &mut Rank) {
        let operation = &self.tables[row];
        let P2p { func, datatype, count, peer, .. } = operation.fields;
        let is_send = Function::named(&*self.name(func)).and_then(Function::is_send);
        let (Ok(peer), Some(is_send)) = (u32::try_from(peer), is_send) else {
            return;
        };
        let number = rank.message_counts.entry((peer, is_send)).or_default();
        let number = std::mem::replace(number, *number + 1);
        let progress = self.progresses.progress(None, Some(EventRow::P2p(row)), ran_until);
        if progress.stage.is_over() {
            return;
        }
        let call = self.tables.head_of(operation.parent);
        rank.messages.push(Message {
            peer,
            is_send,
            number,
            count,
            datatype: self.name(datatype),
            entered_ns: call.map_or(operation.start, |call| call.start.min(operation.start)),
            progress,
        });
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
        Progress { stage, waits, channels_open: children.channels_open, began: self.has_begun(at) }
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
