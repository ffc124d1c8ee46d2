//! The kernels of a job, from its archive; and the operations of those that come late.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::instances::{Instances as Regions, StepOf};
use crate::lateness::kernels::{Collective, End, Kernel, Kernels};
use crate::lateness::late::{Late, LateRank};
use crate::read::archive::{Clock, Trace, try_in_parallel};
use crate::read::{NONE, Tables};
use crate::statistics::collectives::{Filter, Incomparable, Instances};
use crate::statistics::messages::Pairing;
use crate::statistics::numeric::union;
use crate::units::whole;
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::sort::Gather;
use otf2::{CommRef, EventKind, LocationGroupRef, LocationRef, MeasurementMode};

nccl_events::fields! {
    struct HostFields {
        event: Event,
        stream: Stream,
        bytes: Bytes,
        comm: Comm,
        rank: Rank,
    }
}

/// What threads say of operations: the streams of launches, and the calls of several ranks.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// The id of a launch, its stream, and when it began; sorted.
    launches: Vec<(u64, u64, u64)>,
    /// Processes, and when their recording was off.
    off: Vec<(LocationGroupRef, (u64, u64))>,
    /// The id, the rank's row of [`crate::read::Members`], and when it was called.
    calls: Vec<(u64, u32, u64)>,
}

impl Threads {
    pub(crate) fn read(trace: &Trace, tables: &Tables) -> otf2::Result<Self> {
        let threads = trace.locations_of(&[LocationKind::ApiThread, LocationKind::CallbackThread]);
        let mut found = Self::default();
        for thread in try_in_parallel(threads, |thread| Self::of_thread(trace, tables, thread))? {
            found.launches.extend(thread.launches);
            found.calls.extend(thread.calls);
            found.off.extend(thread.off);
        }
        nccl_events::sort::sort(&mut found.launches);
        Ok(found)
    }

    fn of_thread(trace: &Trace, tables: &Tables, thread: LocationRef) -> otf2::Result<Self> {
        let clock = Clock::from_trace(trace);
        let (mut found, members) = (Self::default(), &tables.members);
        let mut regions: Regions<'_, HostFields<'_>> = Regions::new(trace);
        let process = trace.process(trace.group(thread));
        let mut off_ns = None;
        trace.archive.for_each_event(&[thread], |_, event| {
            if let EventKind::MeasurementOnOff(mode) = event.kind {
                match (mode, off_ns) {
                    (MeasurementMode::Off, None) => off_ns = Some(clock.ns(event.time)),
                    (MeasurementMode::On, Some(from_ns)) => {
                        found.off.push((process, (from_ns, clock.ns(event.time))));
                        off_ns = None;
                    }
                    _ => {}
                }
                return ControlFlow::Continue(());
            }
            let StepOf::Entered(instance) = regions.step(event) else { return ControlFlow::Continue(()) };
            let HostFields { event: Some(id), stream, bytes, comm, rank } = instance.fields else {
                return ControlFlow::Continue(());
            };
            let region = trace.region(instance.region);
            match region.map(|region| region.class) {
                Some(RegionClass::Launch) => {
                    found.launches.extend(stream.map(|stream| (id, stream, clock.ns(instance.start))));
                }
                Some(RegionClass::Api) if bytes != Some(0) && trace.function(instance.region).is_some() => {
                    let comm = comm.and_then(|comm| members.communicators.binary_search(&CommRef::new(comm)).ok());
                    let member = comm.zip(rank).and_then(|(comm, rank)| members.find(small(comm), rank));
                    let is_shared = |row: &u32| members.size(members.row(*row).communicator) > 1;
                    found.calls.extend(member.filter(is_shared).map(|row| (id, row, clock.ns(instance.start))));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        found.off.extend(off_ns.map(|from_ns| (process, (from_ns, u64::MAX))));
        Ok(found)
    }

    /// The stream of a launch, and when it began.
    fn launch(&self, launch: u64) -> Option<(u64, u64)> {
        let at = self.launches.binary_search_by_key(&launch, |(launch, ..)| *launch).ok()?;
        let (_, stream, began_ns) = self.launches[at];
        Some((stream, began_ns))
    }
}

/// A kernel as it is made, with the row of its first operation.
type Row = (u32, Kernel);

/// What the filter selects of the measured operations of ranks that work together.
pub(crate) fn kernels(
    trace: &Trace,
    tables: &Tables,
    filter: &Filter,
    instances: &Instances,
    pairing: &Pairing,
    threads: &Threads,
) -> (Kernels, Vec<u32>) {
    let mut streams = Streams { threads, numbers: BTreeMap::new(), sets: BTreeMap::new() };
    let mut rows: Vec<Row> = Vec::new();
    for (row, operation) in (0..).zip(tables.operations.rows()) {
        let collective = instances.instance_of_operation(row);
        let is_selected = collective.is_some() || filter.wants(trace, &tables.members, &operation);
        let is_wanted = operation.is_known() && is_selected;
        let is_message = pairing.is_message(row);
        // A collective that is made of messages stands for them.
        let is_of_collective =
            trace.function(operation.function).is_none_or(|function| function.is_send().is_some() && !is_message);
        if !is_wanted || is_of_collective {
            continue;
        }
        let member = tables.members.row(operation.member);
        let kernel = Kernel {
            rank: member.job_rank,
            stream: streams.number(tables, operation.launch, operation.member),
            communicator: member.communicator,
            function: if is_message { NONE } else { operation.function.get() },
            collective: collective.unwrap_or(NONE),
            is_root: member.rank == operation.partner && !is_message,
            start_ns: operation.start_ns,
            stop_ns: operation.stop_ns.max(operation.start_ns),
            wait_ns: 0,
            launched_ns: threads.launch(operation.launch).map_or(0, |(_, began_ns)| began_ns),
            before: NONE,
            after: NONE,
            ends: (0, 0),
        };
        rows.push((row, kernel));
    }
    rows.sort_by_key(|(row, kernel)| {
        let is_message = pairing.is_message(*row);
        (kernel.rank, kernel.start_ns, kernel.stop_ns, kernel.communicator, is_message, *row)
    });
    let mut found = Kernels::default();
    let mut kernel_of = vec![NONE; tables.operations.len()];
    let mut firsts: Vec<u32> = Vec::new();
    for (row, kernel) in rows {
        let is_message = pairing.is_message(row);
        let is_same = |last: &&Kernel| {
            let of_last = (last.rank, last.start_ns, last.stop_ns, last.communicator);
            is_message
                && last.function == NONE
                && of_last == (kernel.rank, kernel.start_ns, kernel.stop_ns, kernel.communicator)
        };
        if found.all.last().filter(is_same).is_none() {
            found.all.push(kernel);
            firsts.push(row);
        }
        kernel_of[large(row)] = small(found.all.len() - 1);
    }
    add_ends(&mut found, tables, pairing, &kernel_of);
    add_collectives(&mut found, tables, instances, &kernel_of);
    let count = tables.members.job_ranks.len();
    let at = |all: &[Kernel], rank: usize| all.partition_point(|kernel| large(kernel.rank) < rank);
    found.ranks = (0..count).map(|rank| at(&found.all, rank)..at(&found.all, rank + 1)).collect();
    found.unreported = unreported(tables, threads);
    found.unrecorded = unrecorded(tables, &found, threads);
    found.relate();
    (found, firsts)
}

/// The numbers of streams.
struct Streams<'a> {
    threads: &'a Threads,
    numbers: BTreeMap<(u32, u64), u32>,
    /// By communicator: a number of the set of its ranks.
    sets: BTreeMap<Vec<u32>, u32>,
}

impl Streams<'_> {
    /// The stream of a launch on the rank's GPU. Where it is not recorded, communicators of the same ranks have one.
    fn number(&mut self, tables: &Tables, launch: u64, member: u32) -> u32 {
        let (members, rank) = (&tables.members, tables.members.row(member));
        let stream = (launch != 0).then(|| self.threads.launch(launch)).flatten();
        let next = small(self.numbers.len());
        match stream {
            Some((stream, _)) => *self.numbers.entry((rank.job_rank, stream)).or_insert(next),
            None => {
                let size = small(members.size(rank.communicator));
                let ranks = (0..size).filter_map(|number| members.job_rank(rank.communicator, number)).collect();
                let next_set = small(self.sets.len());
                NONE - 1 - *self.sets.entry(ranks).or_insert(next_set)
            }
        }
    }
}

fn add_ends(found: &mut Kernels, tables: &Tables, pairing: &Pairing, kernel_of: &[u32]) {
    let mut ends: Vec<(u32, End)> = Vec::new();
    for row in 0..small(tables.operations.len()) {
        let (Some(other), kernel) = (pairing.other(row), kernel_of[large(row)]) else { continue };
        let other = kernel_of[large(other)];
        if kernel != NONE && other != NONE && kernel != other {
            let error_ns = tables.error_ns(row, pairing.other(row).unwrap_or(row));
            ends.push((kernel, End { kernel: other, is_send: pairing.is_send(row), error_ns }));
        }
    }
    ends.sort_by_key(|(kernel, end)| (*kernel, end.kernel, end.is_send));
    for of_kernel in ends.chunk_by(|a, b| a.0 == b.0) {
        let from = small(found.ends.len());
        found.ends.extend(of_kernel.iter().map(|(_, end)| *end));
        found.all[large(of_kernel[0].0)].ends = (from, small(found.ends.len()));
    }
}

fn add_collectives(found: &mut Kernels, tables: &Tables, instances: &Instances, kernel_of: &[u32]) {
    for (number, instance) in (0..).zip(&instances.all) {
        let kernels = instances.operations(instance).iter().map(|row| kernel_of[large(*row)]);
        let mut kernels: Vec<u32> = kernels.filter(|kernel| *kernel != NONE).collect();
        nccl_events::sort::sort(&mut kernels);
        let from = small(found.members.len());
        found.members.extend(&kernels);
        let error_ns = instance.arrivals.error_ns.ok();
        let is_compared = !matches!(
            instance.arrivals.error_ns,
            Err(Incomparable::RankMissing | Incomparable::Unfinished | Incomparable::NotMeasured)
        );
        found.collectives.push(Collective {
            communicator: instance.communicator,
            flow: instance.flow,
            members: (from, small(found.members.len())),
            is_whole: is_compared && kernels.len() == tables.members.size(instance.communicator),
            is_warm_up: instance.is_warm_up,
            error_ns,
            is_by_lengths: false,
        });
        for kernel in kernels {
            found.all[large(kernel)].collective = number;
        }
    }
}

/// An operation of a late rank that comes later than if the rank took as long as its peers.
#[derive(Clone, Debug)]
pub struct LateOperation {
    /// Row of [`crate::read::Operations`].
    pub(crate) row: u32,
    /// By how much, in ns.
    pub(crate) later_ns: u64,
    /// When its rank was free: the end of what it follows.
    pub(crate) free_ns: u64,
    /// In the same collective, operations of ranks that are not late, and when these were free.
    pub(crate) peers: Vec<(u32, u64)>,
}

/// Limit on late operations, shared evenly by late ranks, each of which may have [`LEAST_OPERATIONS`] in any case.
const MOST_OPERATIONS: usize = 2_000;
const LEAST_OPERATIONS: usize = 100;
/// Peers of a late operation. Few limit how many threads must be read.
const MOST_PEERS: usize = 5;

/// By late rank: its operations that come latest, and those of its peers. `rows`: the first operation of each kernel.
pub(crate) fn late_operations(kernels: &Kernels, rows: &[u32], late: &Late) -> BTreeMap<u32, Vec<LateOperation>> {
    let is_late = |rank: u32| late.ranks.iter().any(|late| late.rank == rank);
    let free_ns = |kernel: &Kernel| Some(kernels.all.get(large(kernel.before))?.stop_ns);
    let of_kernel = |number: u32, later_ns: f64| {
        let kernel = &kernels.all[large(number)];
        let collective = kernels.collectives.get(large(kernel.collective));
        let members = collective.map_or(&[][..], |collective| kernels.members_of(collective)).iter();
        let peers = members.map(|member| (rows[large(*member)], &kernels.all[large(*member)]));
        let peers = peers.filter(|(_, kernel)| !is_late(kernel.rank));
        let peers: Vec<(u32, u64)> = peers.filter_map(|(row, kernel)| Some((row, free_ns(kernel)?))).collect();
        let every = peers.len().div_ceil(MOST_PEERS).max(1);
        Some(LateOperation {
            row: rows[large(number)],
            later_ns: whole(later_ns),
            free_ns: free_ns(kernel)?,
            peers: peers.into_iter().step_by(every).collect(),
        })
    };
    let of_rank = |rank: &LateRank| {
        let mut latest = rank.kernels.clone();
        latest.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        latest.truncate((MOST_OPERATIONS / late.ranks.len()).max(LEAST_OPERATIONS));
        (rank.rank, latest.into_iter().filter_map(|(number, ns)| of_kernel(number, ns)).collect())
    };
    late.ranks.iter().map(of_rank).gather()
}

/// By rank: when recording was off, and when other ranks were in collectives of which it has no operation.
fn unrecorded(tables: &Tables, kernels: &Kernels, threads: &Threads) -> Vec<Vec<(u64, u64)>> {
    let members = &tables.members;
    let mut found: Vec<Vec<(u64, u64)>> = vec![Vec::new(); members.job_ranks.len()];
    for (rank, intervals) in members.job_ranks.iter().zip(&mut found) {
        let of_process = threads.off.iter().filter(|(process, _)| *process == rank.process);
        intervals.extend(of_process.map(|(_, interval)| *interval));
    }
    for collective in kernels.collectives.iter().filter(|collective| !collective.is_whole) {
        let known = || kernels.members_of(collective).iter().map(|kernel| &kernels.all[large(*kernel)]);
        let (Some(from_ns), Some(to_ns)) =
            (known().map(|kernel| kernel.start_ns).min(), known().map(|kernel| kernel.stop_ns).max())
        else {
            continue;
        };
        let size = small(members.size(collective.communicator));
        let ranks = (0..size).filter_map(|number| members.job_rank(collective.communicator, number));
        for rank in ranks.filter(|rank| known().all(|kernel| kernel.rank != *rank)) {
            found[large(rank)].push((from_ns, to_ns));
        }
    }
    found.into_iter().map(union).collect()
}

/// By rank: when it called for what has no operation.
fn unreported(tables: &Tables, threads: &Threads) -> Vec<Vec<u64>> {
    let mut parents: Vec<u64> = (0..tables.operations.len()).map(|at| tables.operations.parent.get(at)).collect();
    parents.sort_unstable();
    let mut found: Vec<Vec<u64>> = vec![Vec::new(); tables.members.job_ranks.len()];
    for (event, member, called_ns) in &threads.calls {
        if parents.binary_search(event).is_err() {
            found[large(tables.members.row(*member).job_rank)].push(*called_ns);
        }
    }
    found.iter_mut().for_each(|calls| calls.sort_unstable());
    found
}
