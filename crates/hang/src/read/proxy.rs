//! What a proxy waits for: the oldest step of a transfer that has not ended, and the state it is in.

use std::collections::BTreeMap;

use job::transfers::{Connection, STEP_SLOTS, reports};
use nccl_events::{Table, state};
use tables::{Event, ProxyOp, ProxyStep, Tables};

use crate::operation::{Wait, WaitState};

/// The open transfers of a process.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    /// By id of the transfer: its oldest open step, its state and since when.
    steps: BTreeMap<u64, (i32, WaitState, u64)>,
    /// Whether NCCL reports more of a connection than starts.
    reporting: BTreeMap<Connection<u64>, bool>,
    begins_with_state: bool,
}

fn connection(tables: &Tables, op: &Event<ProxyOp>) -> Connection<u64> {
    let ProxyOp { channel, peer, is_send, .. } = op.fields;
    Connection { context: tables.context_of(op), is_foreign: tables.is_foreign(op), channel, peer, is_send }
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
    pub(crate) fn of(tables: &Tables, table: u8) -> Self {
        let mut proxies = Self {
            begins_with_state: Table::of_number(table).is_some_and(|table| table.facts().begins_with_state),
            ..Self::default()
        };
        for op in &tables.events.proxy_ops {
            *proxies.reporting.entry(connection(tables, op)).or_default() |=
                reports(op.stop().is_some(), op.states_seen, false);
        }
        for step in &tables.events.proxy_steps {
            proxies.step(tables, step);
        }
        proxies
    }

    fn step(&mut self, tables: &Tables, event: &Event<ProxyStep>) {
        if let Some(op) = tables.get::<ProxyOp>(event.parent) {
            self.reporting.insert(connection(tables, op), true);
        }
        if event.stop().is_some() {
            return;
        }
        let step = event.fields.step;
        let last = event.states().last();
        let (waits_for, since) =
            last.map_or((WaitState::Unknown, event.start), |(number, time)| (wait_state(number), time));
        let oldest = self.steps.entry(event.parent).or_insert((step, waits_for, since));
        // Up to 2.26 a step may lack its stop, and is over when its slot is used again.
        let slots = i32::from(STEP_SLOTS);
        let is_older = step < oldest.0 && oldest.0 - step < slots;
        if is_older || step >= oldest.0.saturating_add(slots) {
            *oldest = (step, waits_for, since);
        }
    }

    /// Whether NCCL reports the end of a transfer.
    pub(crate) fn reports_ends(&self, tables: &Tables, op: &Event<ProxyOp>) -> bool {
        self.reporting.get(&connection(tables, op)) == Some(&true)
    }

    /// What an open transfer waits for. Times as in the tables.
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
