//! Proxy operations and their steps that have not ended.

use crate::process::operations::Operations;
use crate::process::{Lifecycle, SeenIds};
use model::links::transfers::{STEP_SLOTS, slot};
use nccl_events::event::{ProxyOp, ProxyStep};
use nccl_events::ids::{index, index_u32};
use nccl_events::{StateArgs, state};
use rustc_hash::FxHashMap;

/// Proxy operations of one rank that go to the same peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    pub(crate) context: u32,
    pub(crate) channel: u8,
    pub(crate) peer: i32,
    pub(crate) is_send: bool,
}

/// How many of the last steps are searched for one with an inferred end when its own stop comes.
const MOST_INFERRED: usize = 256;

/// A step that ended. Times are ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub(crate) connection: u32,
    pub(crate) start: u64,
    /// Start of waiting for room at the receiver, or for flushing; 0 if never.
    pub(crate) second: u64,
    /// Start of the network transfer, or of waiting for the GPU to take the data; 0 if never.
    pub(crate) third: u64,
    pub(crate) stop: u64,
    pub(crate) bytes: u64,
    slot: u8,
    /// The proxy operation; 0 until the step's start is read.
    transfer: u64,
    has_states: bool,
    /// The step's id if its end was inferred, else 0.
    inferred: u64,
}

#[derive(Debug, Default)]
struct Transfer {
    is_started: bool,
    /// `None` if the operation belongs to another process (PXN).
    connection: Option<u32>,
    operation: u64,
    is_awaited: bool,
    stop: Option<u64>,
    steps: [u64; STEP_SLOTS as usize],
    /// Steps that ended before the operation's start was read.
    early: Vec<Step>,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    transfers: FxHashMap<u64, Transfer>,
    steps: FxHashMap<u64, Step>,
    numbers: FxHashMap<Connection, u32>,
    pub(crate) connections: Vec<Connection>,
    /// Whether NCCL ever reported anything on the connection, by connection.
    reports: Vec<bool>,
    /// Steps that ended and are not in the sums yet.
    pub(crate) ended: Vec<Step>,
    pub(crate) late: u64,
}

impl Network {
    fn connection(&mut self, connection: Connection) -> u32 {
        *self.numbers.entry(connection).or_insert_with(|| {
            self.connections.push(connection);
            self.reports.push(false);
            index_u32(self.connections.len() - 1)
        })
    }

    /// A proxy operation begins; `context` is `None` if the operation belongs to another process.
    pub(crate) fn start_transfer(
        &mut self,
        (id, ticks): (u64, u64),
        (parent, op): (u64, &ProxyOp),
        context: Option<u32>,
        (operations, seen): (&mut Operations, &SeenIds),
    ) {
        let connection = context.map(|context| {
            let ProxyOp { channel, peer, is_send, .. } = *op;
            self.connection(Connection { context, channel, peer, is_send })
        });
        let reports = connection.is_some_and(|number| self.reports.get(index(number)).copied().unwrap_or(false));
        let transfer = self.transfers.entry(id).or_default();
        transfer.is_started = true;
        transfer.connection = connection;
        transfer.operation = parent;
        if let Some(operation) = operations.touch(parent, ticks, seen) {
            transfer.is_awaited = reports;
            if reports {
                operation.open += 1;
            } else {
                operation.unreported.push(id);
            }
        }
        let early = std::mem::take(&mut transfer.early);
        let (stop, has_steps) = (transfer.stop, !early.is_empty() || transfer.steps.iter().any(|step| *step != 0));
        if has_steps || stop.is_some() {
            self.mark_connection_reporting(id, operations);
        }
        self.ended.extend(early.into_iter().map(|step| Step { connection: connection.unwrap_or(u32::MAX), ..step }));
        if let Some(stop) = stop {
            self.stop_transfer(id, stop, operations, seen);
        }
    }

    /// NCCL reported on the connection of a proxy operation, so it will report the ends of the others on it, too.
    pub(crate) fn mark_connection_reporting(&mut self, id: u64, operations: &mut Operations) {
        let Some(number) = self.transfers.get(&id).and_then(|transfer| transfer.connection) else {
            return;
        };
        let Some(reports @ false) = self.reports.get_mut(index(number)) else {
            return;
        };
        *reports = true;
        let unawaited = self.transfers.values_mut().filter(|it| it.connection == Some(number) && !it.is_awaited);
        unawaited.for_each(|transfer| {
            if let Some(operation) = operations.get_mut(transfer.operation) {
                transfer.is_awaited = true;
                operation.open += 1;
            }
        });
    }

    pub(crate) fn stop_transfer(&mut self, id: u64, ticks: u64, operations: &mut Operations, seen: &SeenIds) {
        match self.transfers.get_mut(&id) {
            Some(transfer) if transfer.is_started => {}
            Some(transfer) => {
                transfer.stop.get_or_insert(ticks);
                return;
            }
            None => {
                match seen.lifecycle(id) {
                    Lifecycle::NotStarted => self.transfers.entry(id).or_default().stop = Some(ticks),
                    Lifecycle::Ended => self.late += 1,
                    Lifecycle::Foreign => {}
                }
                return;
            }
        }
        self.mark_connection_reporting(id, operations);
        let steps = self.transfers.get(&id).map_or_else(Default::default, |transfer| transfer.steps);
        // NCCL 2.24–2.26 forgets the stop of some steps.
        for step in steps.into_iter().filter(|step| *step != 0) {
            self.infer_end(step, ticks);
        }
        let Some(transfer) = self.transfers.remove(&id) else {
            return;
        };
        if let Some(operation) = operations.get_mut(transfer.operation) {
            operation.open = operation.open.saturating_sub(u32::from(transfer.is_awaited));
            operation.proxy_last = operation.proxy_last.max(Some(ticks));
            operation.last = ticks.max(operation.last);
        }
    }

    pub(crate) fn start_step(
        &mut self,
        (id, ticks): (u64, u64),
        (parent, step): (u64, &ProxyStep),
        (operations, seen): (&mut Operations, &SeenIds),
    ) {
        if !self.transfers.contains_key(&parent) {
            if seen.lifecycle(parent) != Lifecycle::NotStarted {
                self.late += u64::from(seen.lifecycle(parent) == Lifecycle::Ended);
                self.steps.remove(&id);
                return;
            }
            self.transfers.entry(parent).or_default();
        }
        self.mark_connection_reporting(parent, operations);
        let slot = slot(step.step);
        let before = self.transfers.get_mut(&parent).and_then(|transfer| transfer.steps.get_mut(usize::from(slot)));
        let before = before.map_or(0, |place| std::mem::replace(place, id));
        if before != 0 {
            self.infer_end(before, ticks);
        }
        let step = self.steps.entry(id).or_default();
        (step.start, step.transfer, step.slot) = (ticks, parent, slot);
        if step.stop != 0 {
            let stop = step.stop;
            self.end_step(id, stop);
        }
    }

    /// A step, or an empty entry for a step whose start has not been read.
    fn step(&mut self, id: u64, seen: &SeenIds) -> Option<&mut Step> {
        if !self.steps.contains_key(&id) {
            if seen.lifecycle(id) != Lifecycle::NotStarted {
                self.late += u64::from(seen.lifecycle(id) == Lifecycle::Ended);
                return None;
            }
            self.steps.insert(id, Step::default());
        }
        self.steps.get_mut(&id)
    }

    /// A step enters another phase. Under back-pressure a state comes thousands of times: the first one counts.
    pub(crate) fn change_step(&mut self, id: u64, ticks: u64, (number, args): (u32, StateArgs), seen: &SeenIds) {
        let Some(step) = self.step(id, seen) else {
            return;
        };
        let is_first = |time: &mut u64| {
            if *time == 0 {
                *time = ticks;
            }
        };
        match number {
            state::PROXY_STEP_SEND_GPU_WAIT | state::PROXY_STEP_RECV_WAIT => {}
            state::PROXY_STEP_SEND_PEER_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT => is_first(&mut step.second),
            state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_GPU_WAIT => is_first(&mut step.third),
            _ => return,
        }
        step.has_states = true;
        // Only these states report the size correctly; at the others it is stale.
        if let (state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT, StateArgs::ProxyStep { bytes }) =
            (number, args)
        {
            step.bytes = bytes;
        }
    }

    pub(crate) fn stop_step(&mut self, id: u64, ticks: u64, seen: &SeenIds) {
        let is_ended = !self.steps.contains_key(&id) && seen.lifecycle(id) == Lifecycle::Ended;
        // The step's own stop replaces the inferred end, unless the step is in the sums already.
        let inferred =
            is_ended.then(|| self.ended.iter_mut().rev().take(MOST_INFERRED).find(|step| step.inferred == id));
        if let Some(step) = inferred.flatten() {
            (step.stop, step.inferred) = (ticks.max(step.start), 0);
            return;
        }
        match self.step(id, seen) {
            Some(step) if step.transfer == 0 => step.stop = ticks,
            Some(_) => self.end_step(id, ticks),
            None => {}
        }
    }

    /// Ends a step whose slot is used again, or whose proxy operation stopped.
    fn infer_end(&mut self, id: u64, ticks: u64) {
        if let Some(step) = self.steps.get_mut(&id) {
            step.inferred = id;
        }
        self.end_step(id, ticks);
    }

    fn end_step(&mut self, id: u64, ticks: u64) {
        let Some(step) = self.steps.remove(&id) else {
            return;
        };
        let step = Step { stop: ticks.max(step.start), ..step };
        let Some(transfer) = self.transfers.get_mut(&step.transfer) else {
            return;
        };
        if let Some(place) = transfer.steps.get_mut(usize::from(step.slot)).filter(|place| **place == id) {
            *place = 0;
        }
        if !step.has_states {
            return;
        }
        match (transfer.is_started, transfer.connection) {
            (true, Some(connection)) => self.ended.push(Step { connection, ..step }),
            (true, None) => {}
            (false, _) => transfer.early.push(step),
        }
    }

    /// Drops the open transfers of an operation that is over.
    pub(crate) fn forget(&mut self, transfers: &[u64]) {
        for id in transfers {
            self.transfers.remove(id);
        }
    }
}

impl Step {
    /// The start of the step, and the lengths of its phases, in ns of the clock.
    pub(crate) fn phases(&self, mut ns: impl FnMut(u64) -> u64) -> (u64, [u64; 3]) {
        let start = ns(self.start);
        let stop = ns(self.stop).max(start);
        let third = if self.third == 0 { stop } else { ns(self.third).clamp(start, stop) };
        let second = if self.second == 0 { third } else { ns(self.second).clamp(start, third) };
        let (second_ns, third_ns) = match (self.second, self.third) {
            // The step ended while it waited.
            (1.., 0) => (stop - second, 0),
            _ => (third - second, stop - third),
        };
        (start, [second - start, second_ns, third_ns])
    }
}
