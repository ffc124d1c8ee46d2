//! Proxy operations: what their steps moved, which of them NCCL does not report on, and whose they are.

use rustc_hash::FxHashMap;

use super::operations::Activities;
use nccl_events::Kind;
use tables::{ContextName, Event, ProxyOp, Row, Tables};

#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// By row of the proxy operation.
    all: Vec<Transfer>,
    /// Proxy operations that are, or may be, for operations of other processes.
    pub for_others: Vec<Row<ProxyOp>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    bytes: u64,
    has_steps: bool,
    is_silent: bool,
}

/// A network connection: context, whether it is another process's, channel, peer, direction.
type Connection = (ContextName, bool, u8, i32, bool);

impl Transfers {
    pub(super) fn of(tables: &Tables) -> Self {
        let mut transfers =
            Self { all: vec![Transfer::default(); tables.events.proxy_ops.len()], for_others: Vec::new() };
        for step in &tables.events.proxy_steps {
            let op = tables.find_as::<ProxyOp>(step.parent);
            if let Some(op) = op.and_then(|op| transfers.all.get_mut(op.index())) {
                op.bytes += step.state_value();
                op.has_steps = true;
            }
        }
        transfers.find_silent(tables);
        let for_others =
            tables.rows::<ProxyOp>().filter(|(_, op)| tables.is_foreign(op) || tables.is_of_another_process(op.parent));
        transfers.for_others = for_others.map(|(row, _)| row).collect();
        transfers
    }

    /// Finds connections of which no operation ever had a state, a step or a stop.
    fn find_silent(&mut self, tables: &Tables) {
        if tables.counts.kinds.get(Kind::ProxyOp).unfinished == 0 {
            return;
        }
        let connection = |op: &Event<ProxyOp>| -> Connection {
            let ProxyOp { channel, peer, is_send, .. } = op.fields;
            (op.context, tables.is_foreign(op), channel, peer, is_send)
        };
        let mut speaks: FxHashMap<Connection, bool> = FxHashMap::default();
        for (op, transfer) in tables.events.proxy_ops.iter().zip(&self.all) {
            let reported = op.stop().is_some() || op.states_seen != 0 || transfer.has_steps;
            *speaks.entry(connection(op)).or_default() |= reported;
        }
        for (op, transfer) in tables.events.proxy_ops.iter().zip(&mut self.all) {
            transfer.is_silent = speaks.get(&connection(op)) == Some(&false);
        }
    }

    /// The network bytes of a proxy operation: the sum of its steps, or what v1–v3 said themselves.
    pub(crate) fn bytes(&self, row: Row<ProxyOp>, op: &Event<ProxyOp>) -> u64 {
        self.all.get(row.index()).map_or(0, |op| op.bytes).max(op.state_value())
    }

    /// Whether NCCL never reports on the connection of this proxy operation: then a missing stop says
    /// nothing (CollNet, shared memory and peer-to-peer proxies since 2.27).
    pub(crate) fn is_silent(&self, row: Row<ProxyOp>) -> bool {
        self.all.get(row.index()).is_some_and(|op| op.is_silent)
    }

    pub(super) fn add_to(&self, tables: &Tables, activities: &mut Activities) {
        for (row, op) in tables.rows::<ProxyOp>() {
            let Some(activity) = activities.get_mut(tables, op.parent) else {
                continue;
            };
            let bytes = self.bytes(row, op);
            activity.proxies += 1;
            activity.proxy_last = activity.proxy_last.max(op.stop());
            activity.unfinished |= op.stop().is_none() && !self.is_silent(row);
            if op.fields.is_send {
                activity.bytes_sent += bytes;
            } else {
                activity.bytes_received += bytes;
            }
        }
    }
}
