//! What a proxy waits for: the oldest step of a transfer that has not ended, and the state it is in.

use nccl_events::event;
use std::collections::BTreeMap;

use nccl_events::Body;
use nccl_events::state;
use trace::tables::assembly::{Assembly, Operation};

use super::job::{Wait, WaitState};

/// A connection: context, channel, peer, direction.
type Connection = (u64, u8, i32, bool);

/// The open transfers of a process.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    /// By id of the transfer: its oldest open step, its state and since when.
    steps: BTreeMap<u64, (i32, WaitState, u64)>,
    /// By place of an operation: its last state and since when.
    states: BTreeMap<u32, (u32, u64)>,
    /// Connections of which NCCL reports nothing but starts: they say nothing about ends.
    speaking: BTreeMap<Connection, bool>,
    begins_with_state: bool,
}

fn connection(assembly: &Assembly, operation: &Operation) -> Option<Connection> {
    match assembly.fields_of(operation) {
        Body::ProxyOp(event::ProxyOp {
            channel,
            peer,
            is_send,
            ..
        }) => Some((assembly.context_of(operation), channel, peer, is_send)),
        _ => None,
    }
}

const fn wait_state(number: u32) -> WaitState {
    match number {
        state::PROXY_STEP_SEND_GPU_WAIT => WaitState::SendGpu,
        state::PROXY_STEP_SEND_PEER_WAIT | state::PROXY_OP_SEND_REM_FIFO_WAIT => {
            WaitState::SendPeer
        }
        state::PROXY_STEP_SEND_WAIT => WaitState::SendNetwork,
        state::PROXY_STEP_RECV_WAIT => WaitState::Receive,
        state::PROXY_STEP_RECV_FLUSH_WAIT => WaitState::Flush,
        state::PROXY_STEP_RECV_GPU_WAIT => WaitState::ReceiveGpu,
        _ => WaitState::Unknown,
    }
}

impl Proxies {
    /// Finds what is open. `table`: the version of the interface that NCCL called.
    pub(crate) fn of(assembly: &Assembly, table: u8) -> Self {
        let mut proxies = Self {
            // From 2.27 on a transfer enters a state when the proxy begins with it.
            begins_with_state: table >= 4,
            ..Self::default()
        };
        for change in &assembly.states {
            let open = assembly
                .operation(change.operation)
                .is_some_and(|operation| operation.end().is_none());
            if open {
                // In the order of time: the last one stays.
                proxies
                    .states
                    .insert(change.operation, (change.state, change.time));
            }
        }
        for operation in &assembly.operations {
            match assembly.fields_of(operation) {
                Body::ProxyOp(event::ProxyOp { .. }) => {
                    if let Some(connection) = connection(assembly, operation) {
                        let speaks = operation.end().is_some() || operation.states_seen != 0;
                        *proxies.speaking.entry(connection).or_default() |= speaks;
                    }
                }
                Body::ProxyStep(event::ProxyStep { step }) => {
                    proxies.step(assembly, operation, step)
                }
                _ => {}
            }
        }
        proxies
    }

    fn step(&mut self, assembly: &Assembly, operation: &Operation, step: i32) {
        let parent = assembly.find(operation.parent);
        let parent = parent.and_then(|at| assembly.operation(at));
        if let Some(connection) = parent.and_then(|parent| connection(assembly, parent)) {
            self.speaking.insert(connection, true);
        }
        if operation.end().is_some() {
            return;
        }
        let state = assembly.find(operation.id);
        let state = state.and_then(|at| self.states.get(&at));
        let (waits_for, since) = state.map_or((WaitState::Unknown, operation.start), |state| {
            (wait_state(state.0), state.1)
        });
        let oldest = self
            .steps
            .entry(operation.parent)
            .or_insert((step, waits_for, since));
        // Eight slots: up to 2.26 a step may lack its stop, and is over when its slot is used again.
        let is_older = step < oldest.0 && oldest.0 - step < 8;
        if is_older || step >= oldest.0.saturating_add(8) {
            *oldest = (step, waits_for, since);
        }
    }

    /// Whether a transfer tells when it ends.
    pub(crate) fn speaks(&self, assembly: &Assembly, operation: &Operation) -> bool {
        connection(assembly, operation)
            .and_then(|connection| self.speaking.get(&connection))
            .copied()
            .unwrap_or(false)
    }

    /// What an open transfer waits for; nothing of other operations. Times as in the assembly.
    pub(crate) fn wait(&self, assembly: &Assembly, operation: &Operation) -> Option<Wait> {
        let Body::ProxyOp(event::ProxyOp {
            channel,
            peer,
            steps,
            is_send,
            ..
        }) = assembly.fields_of(operation)
        else {
            return None;
        };
        let own = assembly.find(operation.id);
        let own = own.and_then(|at| self.states.get(&at)).copied();
        let (step, waits_for, since_ns) = match (self.steps.get(&operation.id), own) {
            (Some(&(step, waits_for, since)), _) => (Some(step), waits_for, since),
            (None, None) if self.begins_with_state => (None, WaitState::Queued, operation.start),
            (None, Some((number, since))) => (None, wait_state(number), since),
            (None, None) => (None, WaitState::Unknown, operation.start),
        };
        Some(Wait {
            channel,
            peer,
            is_send,
            state: waits_for,
            step,
            steps,
            since_ns,
        })
    }
}
