//! Proxy operations: the bytes of their steps, connections that NCCL does not report on, and their owners.

use super::operations::Activities;
use job::transfers::Reporting;
use nccl_events::Kind;
use tables::{Event, ProxyOp, Row, Tables};

#[derive(Debug, Default)]
pub struct Transfers {
    /// The bytes of an operation's steps, by row of the proxy operation.
    bytes: Vec<u64>,
    /// `None` if every operation has a stop.
    reporting: Option<Reporting>,
    /// Proxy operations that are, or may be, for operations of other processes.
    pub for_others: Vec<Row<ProxyOp>>,
}

impl Transfers {
    pub(super) fn of(tables: &Tables) -> Self {
        let mut bytes = vec![0; tables.events.proxy_ops.len()];
        for step in &tables.events.proxy_steps {
            let op = tables.find_as::<ProxyOp>(step.parent);
            if let Some(bytes) = op.and_then(|op| bytes.get_mut(op.index())) {
                *bytes += step.state_value();
            }
        }
        let has_open = tables.counts.kinds.get(Kind::ProxyOp).unfinished > 0;
        let for_others =
            tables.rows::<ProxyOp>().filter(|(_, op)| tables.is_foreign(op) || tables.is_of_another_process(op.parent));
        Self {
            bytes,
            reporting: has_open.then(|| Reporting::of(tables)),
            for_others: for_others.map(|(row, _)| row).collect(),
        }
    }

    /// The network bytes of a proxy operation: the sum of its steps, or the size that v1–v3 report on the operation.
    pub fn bytes(&self, row: Row<ProxyOp>, op: &Event<ProxyOp>) -> u64 {
        self.bytes.get(row.index()).copied().unwrap_or(0).max(op.state_value())
    }

    pub(super) fn sent_and_received(&self, row: Row<ProxyOp>, op: &Event<ProxyOp>) -> (u64, u64) {
        let bytes = self.bytes(row, op);
        if op.fields.is_send { (bytes, 0) } else { (0, bytes) }
    }

    /// Whether NCCL never reports on the connection of this proxy operation; a missing stop then means nothing.
    pub fn is_silent(&self, row: Row<ProxyOp>) -> bool {
        self.reporting.as_ref().is_some_and(|reporting| !reporting.on(row))
    }

    pub(super) fn add_to(&self, tables: &Tables, activities: &mut Activities) {
        for (row, op) in tables.rows::<ProxyOp>() {
            let Some(activity) = activities.get_mut(tables, op.parent) else {
                continue;
            };
            let (sent, received) = self.sent_and_received(row, op);
            activity.proxies += 1;
            activity.proxy_last = activity.proxy_last.max(op.stop());
            activity.unfinished |= op.stop().is_none() && !self.is_silent(row);
            activity.bytes_sent += sent;
            activity.bytes_received += received;
        }
    }
}
