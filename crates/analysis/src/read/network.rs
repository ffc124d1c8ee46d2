//! Reads network transfers and their steps one process at a time: a job has several of each for every operation.

use std::collections::BTreeMap;

use crate::instances::InstanceOf;
use crate::read::archive::{Role, Trace, try_in_parallel};
use crate::read::columns::DeltaColumn;
use crate::read::rows::{NONE, Step, Transfer, Transfers};
use crate::read::tables::{Reading, Tables};
use nccl_events::archive::LocationKind;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::{Kind, Progress};
use otf2::{CommRef, LocationGroupRef, LocationRef};
use rayon::prelude::*;

struct Ids<'a> {
    events: &'a DeltaColumn,
    /// Sorted by event id.
    rows: Vec<u32>,
}

impl<'a> Ids<'a> {
    fn new(events: &'a DeltaColumn) -> Self {
        let mut rows: Vec<u32> = (0..small(events.len())).collect();
        // The event ids of a location mostly ascend, which makes this sort fast.
        rows.par_sort_by_key(|row| events.get(large(*row)));
        Self { events, rows }
    }

    /// The row of an event; [`NONE`] if there is none. Searches first from `near`, where the previous event was found.
    fn row(&self, event: Option<u64>, near: &mut usize) -> u32 {
        let event_of = |row: &u32| self.events.get(large(*row));
        let at = event.and_then(|event| {
            let soon = &self.rows[*near..self.rows.len().min(*near + 32)];
            let is_soon = matches!(soon, [first, .., last] if event_of(first) <= event && event <= event_of(last));
            let (from, rows) = if is_soon { (*near, soon) } else { (0, &self.rows[..]) };
            Some(from + rows.binary_search_by_key(&event, event_of).ok()?)
        });
        *near = at.unwrap_or(*near);
        at.map_or(NONE, |at| self.rows[at])
    }
}

nccl_events::fields! {
    /// The attributes of transfers and steps that are needed here. Faster to read than all attributes.
    struct TransferFields {
        event: Event,
        parent: Parent,
        comm: Comm,
        rank: Rank,
        peer: Peer,
        channel: Channel,
        bytes: Bytes,
        gpu_ns: WaitGpu,
        peer_ns: WaitPeer,
        network_ns: WaitNetwork,
        flush_ns: Flush,
    }
}

/// Receives the steps of one process at a time, and keeps what an analysis needs of them.
pub trait Network: Send {
    /// Announces the number of transfers whose steps follow.
    fn transfers(&mut self, _number: usize) {}
    fn step(&mut self, tables: &Tables, transfer: Option<&Transfer>, step: &Step);
    /// Adds the results of another process.
    fn append(&mut self, other: Self);
}

impl Network for () {
    fn step(&mut self, _tables: &Tables, _transfer: Option<&Transfer>, _step: &Step) {}

    fn append(&mut self, (): Self) {}
}

/// `None` ignores all steps.
impl<N: Network> Network for Option<N> {
    fn step(&mut self, tables: &Tables, transfer: Option<&Transfer>, step: &Step) {
        if let Some(network) = self {
            network.step(tables, transfer, step);
        }
    }

    fn append(&mut self, other: Self) {
        if let (Some(network), Some(other)) = (self, other) {
            network.append(other);
        }
    }
}

/// Passes each step to both, because reading the steps twice would take longer.
impl<A: Network, B: Network> Network for (A, B) {
    fn transfers(&mut self, number: usize) {
        self.0.transfers(number);
        self.1.transfers(number);
    }

    fn step(&mut self, tables: &Tables, transfer: Option<&Transfer>, step: &Step) {
        self.0.step(tables, transfer, step);
        self.1.step(tables, transfer, step);
    }

    fn append(&mut self, other: Self) {
        self.0.append(other.0);
        self.1.append(other.1);
    }
}

impl Tables {
    /// Reads the steps of all processes. Memory holds the transfers of one process per core.
    pub(crate) fn network<N: Network>(
        &self,
        trace: &Trace,
        new: impl Fn() -> N + Sync,
        progress: &dyn Progress,
    ) -> otf2::Result<N> {
        let reading = Reading::new(trace, self, progress);
        let threads = trace.locations_of(&[LocationKind::ProxyThread]);
        progress.begin("network", threads.len() as u64);
        let mut processes: BTreeMap<LocationGroupRef, Vec<LocationRef>> = BTreeMap::new();
        for location in threads {
            processes.entry(trace.process(trace.group(location))).or_default().push(location);
        }
        let processes: Vec<Vec<LocationRef>> = processes.into_values().collect();
        let ids = Ids::new(&self.operations.event);
        let mut network = new();
        for processes in processes.chunks(rayon::current_num_threads().max(1)) {
            let read = try_in_parallel(processes, |locations| reading.network(self, locations, &ids, new()));
            read?.into_iter().for_each(|process_network| network.append(process_network));
        }
        progress.end();
        Ok(network)
    }
}

impl Reading<'_> {
    fn network<N: Network>(
        &self,
        tables: &Tables,
        threads: &[LocationRef],
        ids: &Ids<'_>,
        mut network: N,
    ) -> otf2::Result<N> {
        let mut transfers = Transfers::default();
        for thread in threads {
            transfers.append(self.transfers(*thread, tables, ids)?);
        }
        network.transfers(transfers.len());
        // A step ends before its transfer, so all transfers are read first. It belongs to one of its own process.
        let ids = Ids::new(&transfers.event);
        for thread in threads {
            self.steps(*thread, &ids, |step| {
                let transfer = (step.transfer != NONE).then(|| transfers.row(large(step.transfer)));
                network.step(tables, transfer.as_ref(), step);
            })?;
            self.progress.step();
        }
        Ok(network)
    }

    fn transfers(&self, location: LocationRef, tables: &Tables, ids: &Ids<'_>) -> otf2::Result<Transfers> {
        let mut rows = Transfers::default();
        let mut near = 0;
        self.trace.instances_with(location, |instance: &InstanceOf<TransferFields<'_>>| {
            if instance.role != Some(Role::Work(Kind::ProxyOp)) {
                return;
            }
            let fields = &instance.fields;
            let operation = ids.row(fields.parent, &mut near);
            let own = fields.comm.zip(fields.rank).map(|(comm, rank)| self.member_of(CommRef::new(comm), rank));
            // For a rank of another process (PXN), only the operation says which one.
            let of_operation = || if operation == NONE { NONE } else { tables.operations.member[large(operation)] };
            rows.push(Transfer {
                member: own.unwrap_or_else(of_operation),
                operation,
                peer: fields.peer.unwrap_or(NONE),
                channel: fields.channel.unwrap_or(NONE),
                is_send: self.trace.is_send(instance.region) == Some(true),
                event: fields.event.unwrap_or(0),
            });
        })?;
        Ok(rows)
    }

    fn steps(&self, location: LocationRef, ids: &Ids<'_>, mut each: impl FnMut(&Step)) -> otf2::Result<()> {
        let mut near = 0;
        self.trace.instances_with(location, |instance: &InstanceOf<TransferFields<'_>>| {
            if instance.role != Some(Role::Work(Kind::ProxyStep)) {
                return;
            }
            let fields = &instance.fields;
            let [gpu_ns, peer_ns, network_ns, flush_ns] =
                [fields.gpu_ns, fields.peer_ns, fields.network_ns, fields.flush_ns].map(Option::unwrap_or_default);
            let (first_ns, second_ns, third_ns) = match self.trace.is_send(instance.region) {
                Some(true) => (gpu_ns, peer_ns, network_ns),
                _ => (network_ns, flush_ns, gpu_ns),
            };
            each(&Step {
                transfer: ids.row(fields.parent, &mut near),
                start_ns: self.clock.ns(instance.start),
                first_ns,
                second_ns,
                third_ns,
                bytes: fields.bytes.unwrap_or(0),
            });
        })?;
        Ok(())
    }
}
