//! Collectives, sends and receives, each with what is linked to it: a [`LinkedOperation`] for each operation of the
//! journal. Here are also the rule when an operation has ended, and the links of kernel channels to operations.

use crate::links::gpu_stamps::Stamps;
use crate::tables::{OperationRow, Row, Tables};
use nccl_events::event::{KernelCh, KernelLaunch};
use nccl_events::ids::{index, index_u32};

/// Whether an operation has ended: all its started children have, and it has a stop or an ended child. If its children
/// ended, a missing stop was lost.
pub const fn has_ended(has_open_children: bool, has_stop: bool, has_ended_children: bool) -> bool {
    !has_open_children && (has_stop || has_ended_children)
}

/// An operation, and the events linked to it.
#[derive(Clone, Copy, Debug)]
pub struct LinkedOperation {
    pub operation: OperationRow,
    /// Number of the replay of its captured call, from 1.
    pub replay: Option<u64>,
    /// Whether the operation was reported during capture, and so did not run then.
    pub is_at_capture: bool,
    pub launch: Option<Row<KernelLaunch>>,
    /// Whether the launch is this operation's own, not one captured in a graph before.
    pub launch_is_own: bool,
    /// Number of operations of the same call that began before it.
    pub repetition: u64,
    /// Whether kernel channels or transfers have not stopped.
    pub has_open_children: bool,
    pub proxies: u32,
    /// The last stop of the proxy operations.
    pub proxy_last: Option<u64>,
    pub kernel_channels: u32,
    /// First start and last stop on the GPU's timer, from trusted stamps.
    pub gpu: Option<(u64, u64)>,
    /// First start and last stop of kernel channels as reported on the host.
    pub kernel_host: Option<(u64, u64)>,
    pub unfinished: bool,
    /// Bytes sent on the network, as far as NCCL reported them.
    pub bytes_sent: u64,
    /// Bytes received from the network, as far as NCCL reported them.
    pub bytes_received: u64,
}

impl LinkedOperation {
    const fn new(operation: OperationRow) -> Self {
        Self {
            operation,
            replay: None,
            is_at_capture: false,
            launch: None,
            launch_is_own: false,
            repetition: 0,
            has_open_children: false,
            proxies: 0,
            proxy_last: None,
            kernel_channels: 0,
            gpu: None,
            kernel_host: None,
            unfinished: false,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }

    /// The launch that ran the operation's kernel, not one that put the kernel into a graph.
    pub fn own_launch(&self) -> Option<Row<KernelLaunch>> {
        self.launch.filter(|_| self.launch_is_own)
    }
}

/// One operation for each operation, in the order of the journal.
#[derive(Debug, Default)]
pub struct LinkedOperations {
    pub all: Vec<LinkedOperation>,
    /// Index in `all`, by row.
    of_colls: Vec<u32>,
    of_p2ps: Vec<u32>,
    of_ce_colls: Vec<u32>,
}

impl LinkedOperations {
    /// The operations of a process, not yet linked to anything.
    pub fn new(tables: &Tables) -> Self {
        let mut order: Vec<(u32, OperationRow)> = Vec::new();
        order.extend(tables.rows().map(|(row, event)| (event.order, OperationRow::Coll(row))));
        order.extend(tables.rows().map(|(row, event)| (event.order, OperationRow::P2p(row))));
        order.extend(tables.rows().map(|(row, event)| (event.order, OperationRow::CeColl(row))));
        // A stable sort is faster here: the input is three sorted runs.
        order.sort_by_key(|&(order, _)| order);
        let mut operations = Self {
            all: Vec::with_capacity(order.len()),
            of_colls: vec![0; tables.events.colls.len()],
            of_p2ps: vec![0; tables.events.p2ps.len()],
            of_ce_colls: vec![0; tables.events.ce_colls.len()],
        };
        for (_, operation) in order {
            let at = index_u32(operations.all.len());
            let row_number = match operation {
                OperationRow::Coll(row) => operations.of_colls.get_mut(row.index()),
                OperationRow::P2p(row) => operations.of_p2ps.get_mut(row.index()),
                OperationRow::CeColl(row) => operations.of_ce_colls.get_mut(row.index()),
            };
            if let Some(row_number) = row_number {
                *row_number = at;
            }
            operations.all.push(LinkedOperation::new(operation));
        }
        operations
    }

    #[inline]
    pub fn at(&self, operation: OperationRow) -> Option<u32> {
        let at = match operation {
            OperationRow::Coll(row) => self.of_colls.get(row.index()),
            OperationRow::P2p(row) => self.of_p2ps.get(row.index()),
            OperationRow::CeColl(row) => self.of_ce_colls.get(row.index()),
        };
        at.copied()
    }

    /// The index of the operation of the event with this id.
    #[inline]
    pub fn find(&self, tables: &Tables, id: u64) -> Option<u32> {
        self.at(OperationRow::from_event(tables.find(id)?)?)
    }

    /// The operation of the event with this id, for linking.
    #[inline]
    pub fn get_mut(&mut self, tables: &Tables, id: u64) -> Option<&mut LinkedOperation> {
        let at = self.find(tables, id)?;
        self.all.get_mut(index(at))
    }

    pub fn find_unfinished(&mut self, tables: &Tables) {
        for linked in &mut self.all {
            let ended_children = linked.proxy_last.is_some() || linked.kernel_host.is_some();
            let has_stop = ended_children || tables.operation(linked.operation).stop().is_some();
            linked.unfinished = !has_ended(linked.has_open_children, has_stop, ended_children);
        }
    }
}

fn widen(interval: Option<(u64, u64)>, start: u64, end: u64) -> Option<(u64, u64)> {
    Some(interval.map_or((start, end), |(first, last)| (first.min(start), last.max(end))))
}

/// Links kernel channels to their operations.
pub fn link_kernel_channels(tables: &Tables, stamps: &Stamps, operations: &mut LinkedOperations) {
    for (row, channel) in tables.rows::<KernelCh>() {
        let Some(linked) = operations.get_mut(tables, channel.parent) else {
            continue;
        };
        linked.kernel_channels += 1;
        linked.has_open_children |= channel.stop().is_none();
        if let Some((start, stop)) = stamps.trusted_stamps(row, channel) {
            linked.gpu = widen(linked.gpu, start, stop);
        }
        if let Some(stop) = channel.stop() {
            linked.kernel_host = widen(linked.kernel_host, channel.start, stop);
        }
    }
}
