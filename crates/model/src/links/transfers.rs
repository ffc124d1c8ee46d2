//! Proxy operations and their steps: connections, bytes, and transfers for operations of other processes (PXN).

use std::collections::BTreeMap;

use crate::communicators::Comms;
use crate::links::operations::LinkedOperations;
use crate::tables::{ContextName, Event, Row, Tables};
use nccl_events::Kind;
use nccl_events::event::ProxyOp;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A network connection: context, whether it serves another process (PXN; NCCL 2.23 gives these a context of this
/// process), channel, peer, direction.
pub(crate) type ConnectionKey = (ContextName, bool, u8, i32, bool);

pub(crate) fn connection(tables: &Tables, op: &Event<ProxyOp>) -> ConnectionKey {
    let ProxyOp { channel, peer, is_send, .. } = op.fields;
    (op.context, tables.is_foreign(op), channel, peer, is_send)
}

/// Which proxy operations NCCL reports on. It reports the progress of all operations of a connection or of none
/// (CollNet, shared memory and peer-to-peer proxies since 2.27). On a silent connection a missing stop means nothing.
#[derive(Debug, Default)]
pub struct Reporting {
    all: Vec<bool>,
}

impl Reporting {
    /// An operation with a state, a step or a stop shows that its connection is not silent.
    pub fn new(tables: &Tables) -> Self {
        let mut has_steps = vec![false; tables.events.proxy_ops.len()];
        for step in &tables.events.proxy_steps {
            let op = tables.find_as::<ProxyOp>(step.parent);
            if let Some(has_steps) = op.and_then(|op| has_steps.get_mut(op.index())) {
                *has_steps = true;
            }
        }
        let mut reports: FxHashMap<ConnectionKey, bool> = FxHashMap::default();
        for (op, has_steps) in tables.events.proxy_ops.iter().zip(has_steps) {
            let shown = has_steps || op.stop().is_some() || op.states_seen != 0;
            *reports.entry(connection(tables, op)).or_default() |= shown;
        }
        Self {
            all: tables.events.proxy_ops.iter().map(|op| reports.get(&connection(tables, op)) == Some(&true)).collect(),
        }
    }

    pub fn on(&self, row: Row<ProxyOp>) -> bool {
        self.all.get(row.index()).copied().unwrap_or(true)
    }
}

// PXN: the proxy of one process does the network transfers for an operation of another process on the node.
//
//  worker  ProxyOp, parent: an id of the origin ─► parts/<worker>/remote-transfers   transfers by operation
//  origin  Coll, no ProxyOp of its own ◄── the writer of its part reads the file, and counts the transfers
//  unify   the worker's location ─► named after the rank it worked for, in the origin's group
//
// Processes of a node share a clock, so the worker's times hold for the origin. The process written first cannot know
// what the other did: `finalize` writes its part a second time while the journal still exists.

/// What a process transferred for one operation of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteTransfers {
    /// Event id of the operation in the other process.
    pub parent: u64,
    pub operations: u32,
    /// The last stop of the proxy operations, CLOCK_MONOTONIC ns.
    pub last_ns: Option<u64>,
    pub unfinished: bool,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

/// Total of what a process did for a communicator rank of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteWork {
    /// The context that the other process handed out.
    pub context: u64,
    pub operations: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Time during which at least one operation was in progress, in ns.
    pub busy_ns: u64,
}

/// A rank of a communicator that other processes can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedRank {
    /// The context that this process handed out.
    pub context: u64,
    /// An index into the part's communicators.
    pub comm: u32,
    pub rank: u32,
}

/// A part's name for a rank it does not know; the archive replaces it.
pub fn placeholder(context: u64) -> String {
    format!("<foreign {context:#x}>")
}

pub fn context_of_placeholder(text: &str) -> Option<u64> {
    let context = text.strip_prefix("<foreign 0x")?.strip_suffix('>')?;
    u64::from_str_radix(context, 16).ok()
}

/// What this process transferred for operations of other processes, by operation.
pub fn transfers_for_others(tables: &Tables, own: &Transfers) -> Vec<RemoteTransfers> {
    let mut all: BTreeMap<u64, RemoteTransfers> = BTreeMap::new();
    for &row in &own.for_others {
        let op = &tables[row];
        if !tables.is_of_another_process(op.parent) {
            continue;
        }
        let new = || RemoteTransfers { parent: op.parent, ..RemoteTransfers::default() };
        let sum = all.entry(op.parent).or_insert_with(new);
        sum.operations += 1;
        sum.last_ns = sum.last_ns.max(op.stop());
        sum.unfinished |= op.stop().is_none() && !own.is_silent(row);
        let (sent, received) = own.sent_and_received(row, op);
        sum.bytes_sent += sent;
        sum.bytes_received += received;
    }
    all.into_values().collect()
}

/// Adds what other processes did to this process's operations; returns how many proxy operations count.
pub fn add_remote_transfers(tables: &Tables, remote: &[RemoteTransfers], operations: &mut LinkedOperations) -> u64 {
    let mut counted = 0;
    for transfers in remote {
        let Some(linked) = operations.get_mut(tables, transfers.parent) else {
            continue;
        };
        counted += u64::from(transfers.operations);
        linked.proxies += transfers.operations;
        linked.proxy_last = linked.proxy_last.max(transfers.last_ns);
        linked.has_open_children |= transfers.unfinished;
        linked.bytes_sent += transfers.bytes_sent;
        linked.bytes_received += transfers.bytes_received;
    }
    counted
}

/// Whether a proxy operation is work for a rank of another process, named by its context.
pub fn is_for_another(tables: &Tables, op: &Event<ProxyOp>) -> bool {
    tables.is_foreign(op) && !tables.is_own_context(tables.context_of(op))
}

/// What this process did for ranks of other processes. NCCL 2.23 gives such transfers a context of this process, so
/// their rank is unknown and they are left out.
pub fn work_for_others(tables: &Tables, own: &Transfers) -> Vec<RemoteWork> {
    let mut all: BTreeMap<u64, (RemoteWork, Vec<(u64, u64)>)> = BTreeMap::new();
    for &row in &own.for_others {
        let op = &tables[row];
        if !is_for_another(tables, op) {
            continue;
        }
        let context = tables.context_of(op);
        let (work, spans) = all.entry(context).or_default();
        work.context = context;
        work.operations += 1;
        let (sent, received) = own.sent_and_received(row, op);
        work.bytes_sent += sent;
        work.bytes_received += received;
        spans.extend(op.stop().map(|end| (op.start, end)));
    }
    let works = all.into_values().map(|(mut work, spans)| {
        work.busy_ns = covered(spans);
        work
    });
    works.collect()
}

fn covered(mut spans: Vec<(u64, u64)>) -> u64 {
    nccl_events::sort::sort(&mut spans);
    let (mut covered, mut until) = (0, 0);
    for (start, end) in spans {
        covered += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    covered
}

pub fn exported_ranks(tables: &Tables, comms: &Comms) -> Vec<ExportedRank> {
    let contexts = tables.contexts.iter().zip(&comms.members);
    let ranks =
        contexts.map(|(context, member)| ExportedRank { context: context.id, comm: member.comm, rank: member.rank });
    ranks.collect()
}

/// The bytes of proxy operations, the connections on which NCCL does not report steps, and the operations of others.
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
    pub fn new(tables: &Tables) -> Self {
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
            reporting: has_open.then(|| Reporting::new(tables)),
            for_others: for_others.map(|(row, _)| row).collect(),
        }
    }

    /// The network bytes of a proxy operation: the sum of its steps, or the size that v1–v3 report on the operation.
    pub fn bytes(&self, row: Row<ProxyOp>, op: &Event<ProxyOp>) -> u64 {
        self.bytes.get(row.index()).copied().unwrap_or(0).max(op.state_value())
    }

    pub fn sent_and_received(&self, row: Row<ProxyOp>, op: &Event<ProxyOp>) -> (u64, u64) {
        let bytes = self.bytes(row, op);
        if op.fields.is_send { (bytes, 0) } else { (0, bytes) }
    }

    /// Whether NCCL never reports on the connection of this proxy operation; a missing stop then means nothing.
    pub fn is_silent(&self, row: Row<ProxyOp>) -> bool {
        self.reporting.as_ref().is_some_and(|reporting| !reporting.on(row))
    }

    pub fn add_to_operations(&self, tables: &Tables, operations: &mut LinkedOperations) {
        for (row, op) in tables.rows::<ProxyOp>() {
            let Some(linked) = operations.get_mut(tables, op.parent) else {
                continue;
            };
            let (sent, received) = self.sent_and_received(row, op);
            linked.proxies += 1;
            linked.proxy_last = linked.proxy_last.max(op.stop());
            linked.has_open_children |= op.stop().is_none() && !self.is_silent(row);
            linked.bytes_sent += sent;
            linked.bytes_received += received;
        }
    }
}
