//! The progress of one process's operations, from their network transfers, kernel channels and launches.

use std::collections::BTreeMap;

use nccl_events::state;
use tables::{EventRow, Head, OperationRow, ProxyOp, Row, Tables};

use super::proxy::Proxies;
use crate::operation::{Progress, Stage};

#[derive(Clone, Copy, Debug, Default)]
struct Children {
    transfers: u32,
    transfers_open: u32,
    transfers_began: bool,
    channels: u32,
    channels_open: u32,
}

impl Children {
    const fn began(self) -> bool {
        self.channels > 0 || self.transfers_began || (self.transfers > 0 && self.transfers_open == 0)
    }
}

/// The last operation of a communicator that was seen running: its start and its launch plan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RanUntil {
    start: u64,
    launch_plan: u64,
}

/// The progress of a process's operations. Times are those of the tables.
pub(super) struct Progresses<'a> {
    tables: &'a Tables,
    proxies: Proxies,
    children: BTreeMap<EventRow, Children>,
    open: BTreeMap<EventRow, Vec<Row<ProxyOp>>>,
    /// Whether a launch has not returned, by group and context.
    launches: BTreeMap<(u64, u64), bool>,
}

impl<'a> Progresses<'a> {
    /// `table` is the version of the interface that NCCL called.
    pub(super) fn of(tables: &'a Tables, table: u8) -> Self {
        let mut progresses = Self {
            tables,
            proxies: Proxies::of(tables, table),
            children: BTreeMap::new(),
            open: BTreeMap::new(),
            launches: BTreeMap::new(),
        };
        progresses.join_transfers();
        progresses.join_channels();
        for launch in &tables.events.kernel_launches {
            let of = (launch.parent, tables.context_of(launch));
            *progresses.launches.entry(of).or_default() |= launch.stop().is_none();
        }
        progresses
    }

    fn join_transfers(&mut self) {
        let tables = self.tables;
        for (row, op) in tables.rows::<ProxyOp>() {
            let parent = tables.find(op.parent);
            let Some(parent) = parent.filter(|_| self.proxies.reporting.on(row)) else {
                continue;
            };
            let is_open = op.stop().is_none();
            if is_open {
                self.open.entry(parent).or_default().push(row);
            }
            let children = self.children.entry(parent).or_default();
            children.transfers += 1;
            children.transfers_open += u32::from(is_open);
        }
        for step in &tables.events.proxy_steps {
            // The kernel runs if a step no longer waits for the GPU, or the GPU took data.
            let kernel_runs = step.has_state(state::PROXY_STEP_SEND_WAIT)
                || (step.stop().is_some() && step.has_state(state::PROXY_STEP_RECV_GPU_WAIT));
            let transfer = tables.head_of(step.parent).filter(|_| kernel_runs);
            if let Some(owner) = transfer.and_then(|transfer| tables.find(transfer.parent)) {
                self.children.entry(owner).or_default().transfers_began = true;
            }
        }
    }

    fn join_channels(&mut self) {
        for channel in &self.tables.events.kernel_chs {
            if let Some(parent) = self.tables.find(channel.parent) {
                let children = self.children.entry(parent).or_default();
                children.channels += 1;
                children.channels_open += u32::from(channel.stop().is_none());
            }
        }
    }

    fn children(&self, of: EventRow) -> Children {
        self.children.get(&of).copied().unwrap_or_default()
    }

    pub(super) fn has_children(&self, of: EventRow) -> bool {
        let children = self.children(of);
        children.transfers + children.channels > 0
    }

    /// The kernels of a communicator run in order: those launched before a running one have ended.
    pub(super) fn ran_until(&self, operations: impl DoubleEndedIterator<Item = EventRow>) -> RanUntil {
        let last = operations.rev().filter(|row| self.children(*row).began()).find_map(OperationRow::of);
        last.map(|row| self.tables.operation(row)).map_or_else(RanUntil::default, |operation| RanUntil {
            start: operation.start,
            launch_plan: operation.plan,
        })
    }

    /// The progress of a call and its operation below the API.
    pub(super) fn progress(&self, call: Option<EventRow>, below: Option<EventRow>, ran_until: RanUntil) -> Progress {
        let call = call.and_then(|row| self.tables.head(row));
        let Some((row, operation)) = below.and_then(|row| Some((row, OperationRow::of(row)?))) else {
            let stage = call.map_or(Stage::Calling, |call| self.stage_of_call(call));
            return Progress { stage, ..Progress::default() };
        };
        let operation = self.tables.operation(operation);
        let children = self.children(row);
        let open = self.open.get(&row).into_iter().flatten();
        let mut waits: Vec<_> = open.map(|&transfer| self.proxies.wait(&self.tables[transfer])).collect();
        nccl_events::sort::sort_by_key(&mut waits, |wait| (wait.since_ns, wait.channel, wait.is_send));
        let ran_after = operation.start < ran_until.start && operation.plan != ran_until.launch_plan;
        let stage = if children.transfers_open + children.channels_open > 0 {
            Stage::Running
        } else if children.channels > 0 || ran_after {
            Stage::Done
        } else if children.transfers > 0 {
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
        Progress { stage, waits, channels_open: children.channels_open, began: children.began() }
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
