//! What a proxy waits for: the oldest open step of a transfer, and the state of the step.

use std::collections::BTreeMap;

use job::transfers::{Reporting, STEP_SLOTS};
use nccl_events::{Table, state};
use tables::{Event, ProxyOp, ProxyStep, Tables};

use crate::operation::{Wait, WaitState};

#[derive(Debug, Default)]
pub(crate) struct Proxies {
    /// By id of the transfer: its oldest open step, the state, and the time of the state.
    steps: BTreeMap<u64, (i32, WaitState, u64)>,
    pub(super) reporting: Reporting,
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
    pub(crate) fn of(tables: &Tables, table: u8) -> Self {
        let mut proxies = Self {
            begins_with_state: Table::of_number(table).is_some_and(|table| table.facts().begins_with_state),
            reporting: Reporting::of(tables),
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
