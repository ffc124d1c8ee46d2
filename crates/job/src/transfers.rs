//! Proxy operations and their steps.

use rustc_hash::FxHashMap;
use tables::{ContextName, Event, ProxyOp, Row, Tables};

/// Limit on the steps in progress of a proxy operation: NCCL keeps one handle for each.
pub const STEP_SLOTS: u8 = 8;

/// The slot of a step: 0 … 7.
pub fn slot(step: i32) -> u8 {
    u8::try_from(step.rem_euclid(STEP_SLOTS.into())).unwrap_or(0)
}

/// A network connection: context, whether it serves another process (PXN; NCCL 2.23 gives these a context of this
/// process), channel, peer, direction.
type Connection = (ContextName, bool, u8, i32, bool);

/// Which proxy operations NCCL reports on. It reports the progress of all operations of a connection or of none
/// (CollNet, shared memory and peer-to-peer proxies since 2.27). On a silent connection a missing stop means nothing.
#[derive(Debug, Default)]
pub struct Reporting {
    all: Vec<bool>,
}

impl Reporting {
    /// An operation with a state, a step or a stop shows that its connection is not silent.
    pub fn of(tables: &Tables) -> Self {
        let mut has_steps = vec![false; tables.events.proxy_ops.len()];
        for step in &tables.events.proxy_steps {
            let op = tables.find_as::<ProxyOp>(step.parent);
            if let Some(has_steps) = op.and_then(|op| has_steps.get_mut(op.index())) {
                *has_steps = true;
            }
        }
        let connection = |op: &Event<ProxyOp>| -> Connection {
            let ProxyOp { channel, peer, is_send, .. } = op.fields;
            (op.context, tables.is_foreign(op), channel, peer, is_send)
        };
        let mut reports: FxHashMap<Connection, bool> = FxHashMap::default();
        for (op, has_steps) in tables.events.proxy_ops.iter().zip(has_steps) {
            let shown = has_steps || op.stop().is_some() || op.states_seen != 0;
            *reports.entry(connection(op)).or_default() |= shown;
        }
        Self { all: tables.events.proxy_ops.iter().map(|op| reports.get(&connection(op)) == Some(&true)).collect() }
    }

    pub fn on(&self, row: Row<ProxyOp>) -> bool {
        self.all.get(row.index()).copied().unwrap_or(true)
    }
}
