//! The work of GPUs (kernels, copies and times of CUDA events), its names, and the NCCL operations it belongs to, by
//! the launch's event id.
//!
//! ```text
//!  KernelLaunch 7 ─┬─ Kernel, external id 7 ─ clock of CUPTI ──► host time ─► location of the stream
//!                  │         └ the operations of that launch ran then       ─► their interval
//!                  └─ LaunchTime of 7 ─ clock of the device's events ──────► the same, by CUDA events
//!  KernelLaunch 8 (captured)  ╌╌╌╌╌ Kernel of a graph's node, without an id: see `tie`
//! ```
//!
//! Nothing is guessed. A kernel whose launch is unknown is shown on its location and belongs to no operation; a kernel
//! whose times cannot be placed is counted and not shown.

use std::collections::{BTreeMap, BTreeSet};

use crate::communicators::Devices;
use crate::links::launches::Replays;
use crate::links::operations::LinkedOperations;
use crate::tables::ranges::Coverage;
use crate::tables::{EventRow, Operation, OperationRow, Row, Tables};
use clocks::gpu::SampleClocks;
use cpp_demangle::{DemangleOptions, ParseOptions, Symbol as MangledSymbol};
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::event::KernelLaunch;
use nccl_events::gpu::{Backend, Copy, GpuClock, GpuCount, GpuRecord, Kernel, extent, is_of_nccl};
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::GpuCounts;
use nccl_events::sort::Gather;

impl GpuWork {
    /// Joins GPU records to launches. The operations must already have their launches, and times must be nanoseconds.
    /// Only all kernels of a process (`is_whole`) show which nodes of graphs they are.
    pub fn new(
        tables: &Tables,
        symbols: &Symbols,
        operations: &LinkedOperations,
        replays: &Replays,
        is_whole: bool,
    ) -> Self {
        if tables.gpu.is_empty() {
            return Self::default();
        }
        let mut work = Self {
            of_operation: vec![GpuIntervals::default(); operations.all.len()],
            devices: Devices::new(tables),
            clocks: SampleClocks::from_samples(tables.gpu.iter().filter_map(|at| match at.record {
                GpuRecord::Clock(sample) => Some((at.time, sample)),
                _ => None,
            })),
            ..Self::default()
        };
        for at in &tables.gpu {
            match at.record {
                GpuRecord::Notice { backend, text } => work.notices.push((backend, text)),
                GpuRecord::Counts(counts) => {
                    for (total, count) in work.counts.iter_mut().zip(counts) {
                        *total = count.max(*total);
                    }
                }
                _ => {}
            }
        }
        add_work(&mut work, tables, symbols);
        let launched = LaunchedOperations::new(operations);
        link(&mut work, tables, operations, &launched);
        add_events(&mut work, tables, &launched);
        if is_whole {
            link_graph_kernels(&mut work, tables, operations, replays);
        }
        work.streams = work.all.iter().map(|work| work.stream).gather();
        work.count();
        work
    }

    pub fn intervals(&self, at: usize) -> GpuIntervals {
        self.of_operation.get(at).copied().unwrap_or_default()
    }

    pub fn get(&self, at: u32) -> Option<&GpuTask> {
        self.all.get(index(at))
    }

    /// Whether another context on the device has a stream with the same number.
    pub fn is_ambiguous(&self, stream: GpuStream) -> bool {
        let mut others = self.streams.range(GpuStream { context: 0, stream: 0, ..stream }..);
        others.any(|other| {
            let is_like_it = (other.ordinal, other.stream) == (stream.ordinal, stream.stream);
            is_like_it && other.context != stream.context
        })
    }

    /// Whether kernels or copies carry the id of this launch or copy-engine collective.
    pub fn is_joined(&self, launch: EventRow) -> bool {
        self.joined.contains(&launch)
    }

    pub fn texts(&self) -> BTreeSet<String> {
        let (mut extents, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for work in &self.all {
            match work.kind {
                GpuRecordKind::Kernel(kernel) => extents.extend([kernel.grid, kernel.block]),
                GpuRecordKind::Copy(copy) => kinds.extend([copy.source_kind, copy.destination_kind]),
            }
        }
        extents.into_iter().map(extent).chain(kinds.into_iter().map(memory_kind).map(str::to_owned)).gather()
    }

    /// The way GPUs were last recorded.
    pub fn backend(&self) -> Option<Backend> {
        self.notices.last().map(|&(way, _)| way)
    }

    fn count(&mut self) {
        let fates = &mut self.fates;
        for work in &self.all {
            let fate = match (work.kind, work.link) {
                (GpuRecordKind::Copy(_), _) => &mut fates.copies_shown,
                (GpuRecordKind::Kernel(_), Link::Launch) => &mut fates.kernels_joined,
                (GpuRecordKind::Kernel(_), Link::CapturedLaunch) => &mut fates.kernels_of_graphs,
                (GpuRecordKind::Kernel(_), Link::Graph) => &mut fates.kernels_of_graphs_unknown,
                (GpuRecordKind::Kernel(_), Link::LaunchUnknown) => &mut fates.kernels_without_launch,
                (GpuRecordKind::Kernel(_), Link::Other) => &mut fates.kernels_other,
            };
            *fate += 1;
            let is_joined = matches!((work.kind, work.link), (GpuRecordKind::Copy(_), Link::Launch));
            fates.copies_joined += u64::from(is_joined);
        }
    }
}

/// The operations of each launch that ran and of each copy-engine collective: indices of operations.
#[derive(Debug, Default)]
pub struct LaunchedOperations {
    by_launch: BTreeMap<EventRow, Vec<u32>>,
}

impl LaunchedOperations {
    pub fn new(operations: &LinkedOperations) -> Self {
        let mut launched = Self::default();
        for (at, linked) in operations.all.iter().enumerate() {
            let launch = match linked.operation {
                OperationRow::CeColl(row) => Some(EventRow::CeColl(row)),
                _ => linked.own_launch().map(EventRow::KernelLaunch),
            };
            if let Some(launch) = launch {
                launched.by_launch.entry(launch).or_default().push(index_u32(at));
            }
        }
        launched
    }

    fn operations_of_launch(&self, launch: Option<EventRow>) -> &[u32] {
        launch.and_then(|launch| self.by_launch.get(&launch)).map_or(&[], Vec::as_slice)
    }
}

/// Adds kernels and copies, with their times on the host's clock.
pub fn add_work(work: &mut GpuWork, tables: &Tables, symbols: &Symbols) {
    for at in &tables.gpu {
        let (what, row, times, is_graph) = match at.record {
            GpuRecord::Kernel(kernel) => (
                GpuRecordKind::Kernel(kernel),
                (kernel.device, kernel.context, kernel.stream),
                (kernel.start_ns, kernel.end_ns),
                kernel.graph_node != 0 && is_of_nccl(symbols.text(kernel.name)),
            ),
            GpuRecord::Copy(copy) => (
                GpuRecordKind::Copy(copy),
                (copy.device, copy.context, copy.stream),
                (copy.start_ns, copy.end_ns),
                false,
            ),
            _ => continue,
        };
        let (device, context, stream) = row;
        let (start, end) = times;
        // A running kernel has no end.
        let unfinished = end == 0;
        let placed = match start {
            0 => None,
            start => work.clocks.place(GpuClock::Cupti, device, start, if unfinished { start } else { end }),
        };
        let Some((from, to)) = placed else {
            work.fates.not_placed += 1;
            continue;
        };
        let launch = match at.id {
            0 => None,
            id => tables.find(id),
        };
        let launch = launch.filter(|launch| matches!(launch, EventRow::KernelLaunch(_) | EventRow::CeColl(_)));
        let link = match (at.id, launch) {
            (0, _) if is_graph => Link::Graph,
            (0, _) => Link::Other,
            (_, None) => Link::LaunchUnknown,
            (_, Some(_)) => Link::Launch,
        };
        work.all.push(GpuTask {
            start: from.host_ns,
            end: if unfinished { tables.span.1.max(from.host_ns) } else { to.host_ns },
            unfinished,
            uncertainty_ns: from.uncertainty_ns.max(to.uncertainty_ns),
            stream: GpuStream { ordinal: work.devices.ordinal(device), context, stream },
            link,
            launch,
            external: at.id,
            parent: 0,
            kind: what,
        });
    }
    work.all.sort_by_key(|work| (work.start, work.end, work.stream, work.external));
}

impl GpuTask {
    pub const fn interval(&self, is_shared: bool) -> GpuInterval {
        GpuInterval {
            start: self.start,
            end: self.end,
            unfinished: self.unfinished,
            uncertainty_ns: self.uncertainty_ns,
            is_shared,
        }
    }
}

/// The event that a launch's work is part of: the operation, or the plan of several operations.
fn parent(tables: &Tables, operations: &LinkedOperations, launch: Option<EventRow>, of: &[u32]) -> u64 {
    let of = of.iter().filter_map(|&at| operations.all.get(index(at)));
    let launched_operations: Vec<_> = of.map(|linked| tables.operation(linked.operation)).collect();
    let launch = launch.and_then(|launch| tables.head(launch)).map_or(0, |launch| launch.id);
    match launched_operations.as_slice() {
        [] => launch,
        [one] => one.id,
        [first, others @ ..] => {
            let is_one = others.iter().all(|other| other.plan == first.plan);
            // Only a plan with an event can be referred to.
            if is_one && tables.find(first.plan).is_some() { first.plan } else { launch }
        }
    }
}

pub fn link(work: &mut GpuWork, tables: &Tables, operations: &LinkedOperations, launched: &LaunchedOperations) {
    for one in work.all.iter_mut().filter(|one| one.link == Link::Launch) {
        work.joined.extend(one.launch);
        let of = launched.operations_of_launch(one.launch);
        one.parent = parent(tables, operations, one.launch, of);
        let ran = one.interval(of.len() > 1);
        for &at in of {
            if let Some(by) = work.of_operation.get_mut(index(at)) {
                by.by_cupti.get_or_insert(ran).widen(ran);
            }
        }
    }
}

/// Gives the times of CUDA events to the operations of their launch.
pub fn add_events(work: &mut GpuWork, tables: &Tables, launched: &LaunchedOperations) {
    let mut timed = work.joined.clone();
    for at in &tables.gpu {
        let GpuRecord::LaunchTime(time) = at.record else {
            continue;
        };
        let placed = work.clocks.place(GpuClock::Events, time.ordinal, time.start_ns, time.end_ns);
        let launch = tables.find(at.id).filter(|_| at.id != 0);
        let (Some((from, to)), Some(launch)) = (placed, launch) else {
            work.fates.events_not_used += 1;
            continue;
        };
        timed.insert(launch);
        let of = launched.operations_of_launch(Some(launch));
        let ran = GpuInterval {
            start: from.host_ns,
            end: to.host_ns,
            unfinished: false,
            uncertainty_ns: from.uncertainty_ns.max(to.uncertainty_ns) + u64::from(time.uncertainty_ns),
            is_shared: of.len() > 1,
        };
        for &at in of {
            if let Some(by) = work.of_operation.get_mut(index(at)) {
                by.by_events.get_or_insert(ran).widen(ran);
            }
        }
    }
    work.fates.launches_timed = timed.len() as u64;
}

// CUPTI gives the kernels of replayed graphs no external id, only the graph's and the node's numbers:
//
//  captured:  launch a   launch b           on one stream, in this order
//  replay 1:  node 4     node 7             the k-th node by its first start is the k-th launch, where a device has
//  replay 2:  node 4     node 7             as many nodes as launches, and one graph
//
// The k-th kernel of a node is the k-th replay of its operations, if NCCL reported as many replays and each kernel
// starts after its replay was reported: the kernel waits for the report.

/// A graph's node: graph and node, or 0 and node if CUPTI reports the original of a clone.
type Node = (u32, u64);

/// Indices in [`GpuWork::all`] by node, in time order.
type Nodes = BTreeMap<Node, Vec<usize>>;

fn nodes(work: &GpuWork) -> BTreeMap<u32, Nodes> {
    let mut devices: BTreeMap<u32, Nodes> = BTreeMap::new();
    for (at, one) in work.all.iter().enumerate() {
        if let (Link::Graph, GpuRecordKind::Kernel(kernel)) = (one.link, one.kind) {
            let node = match kernel.source_graph_node {
                0 => (kernel.graph, kernel.graph_node),
                source => (0, source),
            };
            devices.entry(one.stream.ordinal).or_default().entry(node).or_default().push(at);
        }
    }
    devices
}

/// A captured launch: start, row and stream.
type CapturedLaunch = (u64, Row<KernelLaunch>, u64);

fn captured(work: &GpuWork, tables: &Tables, replays: &Replays) -> BTreeMap<u32, Vec<CapturedLaunch>> {
    let mut devices: BTreeMap<u32, Vec<CapturedLaunch>> = BTreeMap::new();
    for (row, launch) in tables.rows::<KernelLaunch>().filter(|&(row, _)| replays.is_captured_launch(row)) {
        // A launch on an unknown device could belong to any device.
        let Some(device) = launch.context_at().and_then(|at| work.devices.device_of_context(at)) else {
            return BTreeMap::new();
        };
        devices.entry(device).or_default().push((launch.start, row, launch.fields.stream));
    }
    for launches in devices.values_mut() {
        nccl_events::sort::sort(launches);
    }
    devices
}

/// Ties kernels of graphs to the captured launches, where only one assignment is possible.
pub fn link_graph_kernels(work: &mut GpuWork, tables: &Tables, operations: &LinkedOperations, replays: &Replays) {
    // With events missing, order proves nothing.
    if Coverage::new(&tables.switches, &tables.removed, 0) != Coverage::Whole || work.is_missing_some() {
        return;
    }
    let nodes = nodes(work);
    let captured = captured(work, tables, replays);
    for (device, nodes) in nodes {
        let Some(launches) = captured.get(&device) else {
            continue;
        };
        let graphs: BTreeSet<u32> = nodes.keys().map(|&(graph, _)| graph).gather();
        let streams: BTreeSet<u64> = launches.iter().map(|&(.., stream)| stream).gather();
        if graphs.len() != 1 || streams.len() != 1 || nodes.len() != launches.len() {
            continue;
        }
        let mut in_order: Vec<Vec<usize>> = nodes.into_values().collect();
        // Kernels are sorted by start, so nodes sort by first start.
        nccl_events::sort::sort(&mut in_order);
        for (kernels, &(_, launch, _)) in in_order.iter().zip(launches) {
            tie_node(work, tables, operations, (launch, kernels));
        }
    }
}

fn tie_node(
    work: &mut GpuWork,
    tables: &Tables,
    operations: &LinkedOperations,
    (launch, kernels): (Row<KernelLaunch>, &[usize]),
) {
    for &kernel in kernels {
        if let Some(one) = work.all.get_mut(kernel) {
            one.link = Link::CapturedLaunch;
            one.launch = Some(EventRow::KernelLaunch(launch));
            one.parent = tables[launch].id;
        }
    }
    // The replays of each captured call: number, index of the operation, operation.
    let mut calls: BTreeMap<u64, Vec<(u64, usize, Operation<'_>)>> = BTreeMap::new();
    for (at, linked) in operations.all.iter().enumerate().filter(|(_, linked)| linked.launch == Some(launch)) {
        if let Some(number) = linked.replay {
            let operation = tables.operation(linked.operation);
            calls.entry(operation.parent).or_default().push((number, at, operation));
        }
    }
    let is_shared = calls.len() > 1;
    for mut call_operations in calls.into_values() {
        nccl_events::sort::sort_by_key(&mut call_operations, |&(number, at, _)| (number, at));
        let mut pairs = kernels.iter().zip(&call_operations);
        let waits = pairs.all(|(&kernel, (_, _, operation))| {
            let begun = work.all.get(kernel).map(|one| one.start.saturating_add(one.uncertainty_ns));
            begun.is_some_and(|begun| operation.start <= begun)
        });
        if call_operations.len() != kernels.len() || !waits {
            continue;
        }
        for (&kernel, (_, at, operation)) in kernels.iter().zip(&call_operations) {
            let by = work.of_operation.get_mut(*at);
            if let (Some(one), Some(by)) = (work.all.get_mut(kernel), by) {
                by.by_cupti = Some(one.interval(is_shared));
                if !is_shared {
                    one.parent = operation.id;
                }
            }
        }
    }
}

/// A CUDA stream, whose work runs in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuStream {
    pub ordinal: u32,
    /// CUPTI's number of the CUDA context.
    pub context: u32,
    /// CUPTI's number of the stream in the context.
    pub stream: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuRecordKind {
    Kernel(Kernel<Symbol>),
    Copy(Copy),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// The work carries the id of a launch or a copy-engine collective.
    Launch,
    /// The work carries the id of a launch that is not in the journal.
    LaunchUnknown,
    /// A graph's kernel whose captured launch follows from the order of nodes and launches.
    CapturedLaunch,
    /// An NCCL kernel in a graph, by its name; its operation is unknown.
    Graph,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub struct GpuTask {
    /// CLOCK_MONOTONIC ns.
    pub start: u64,
    /// CLOCK_MONOTONIC ns; the last time seen if the work had not ended.
    pub end: u64,
    pub unfinished: bool,
    /// Largest error of the times, as far as the samples of the clock show.
    pub uncertainty_ns: u64,
    pub stream: GpuStream,
    pub link: Link,
    /// The launch or copy-engine collective that the work belongs to.
    pub launch: Option<EventRow>,
    /// The external correlation id; 0 if there is none.
    pub external: u64,
    /// The event that the work is part of: the only operation, else the launch plan or the launch; 0 if unknown.
    pub parent: u64,
    pub kind: GpuRecordKind,
}

/// When an operation ran, by the records of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuInterval {
    pub start: u64,
    pub end: u64,
    pub unfinished: bool,
    /// Largest error of both times.
    pub uncertainty_ns: u64,
    pub is_shared: bool,
}

impl GpuInterval {
    pub fn widen(&mut self, other: Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.unfinished |= other.unfinished;
        self.uncertainty_ns = self.uncertainty_ns.max(other.uncertainty_ns);
        self.is_shared |= other.is_shared;
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct GpuIntervals {
    /// From CUPTI's records of the kernels or copies.
    pub by_cupti: Option<GpuInterval>,
    /// From CUDA events around the launch.
    pub by_events: Option<GpuInterval>,
}

#[derive(Debug, Default)]
pub struct GpuWork {
    /// Kernels and copies, by start.
    pub all: Vec<GpuTask>,
    /// By index of the operation; empty if no GPU work was recorded.
    pub of_operation: Vec<GpuIntervals>,
    pub streams: BTreeSet<GpuStream>,
    /// Launches and copy-engine collectives with kernels or copies.
    pub joined: BTreeSet<EventRow>,
    pub devices: Devices,
    pub clocks: SampleClocks,
    /// Decisions and failures of GPU recording, in order.
    pub notices: Vec<(Backend, Symbol)>,
    /// Totals counted during recording, by [`GpuCount`].
    pub counts: [u64; GpuCount::COUNT],
    pub fates: GpuCounts,
}

impl GpuWork {
    pub fn is_missing_some(&self) -> bool {
        const LOSSES: [GpuCount; 7] = [
            GpuCount::KernelsWithoutTimes,
            GpuCount::DroppedByCupti,
            GpuCount::BadRecords,
            GpuCount::ForeignBuffers,
            GpuCount::LateBuffers,
            GpuCount::NoBufferLeft,
            GpuCount::NoRoom,
        ];
        self.fates.not_placed + LOSSES.iter().filter_map(|&loss| self.counts.get(loss as usize)).sum::<u64>() > 0
    }
}

/// Limit on template nesting: names come from other people's programs.
const MOST_RECURSION: u32 = 96;

/// A demangled C++ name; the input if it is not a mangled name.
pub fn demangled(mangled: &str) -> String {
    let parsing = ParseOptions::default().recursion_limit(MOST_RECURSION);
    let writing = DemangleOptions::default().recursion_limit(MOST_RECURSION);
    let symbol = MangledSymbol::new_with_options(mangled, &parsing).ok();
    let text = symbol.and_then(|symbol| symbol.demangle_with_options(&writing).ok());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| mangled.to_owned())
}

/// `CUpti_ActivityMemcpyKind`.
pub const fn copy_kind(kind: u8) -> &'static str {
    match kind {
        1 => "memcpy HtoD",
        2 => "memcpy DtoH",
        3 => "memcpy HtoA",
        4 => "memcpy AtoH",
        5 => "memcpy AtoA",
        6 => "memcpy AtoD",
        7 => "memcpy DtoA",
        8 => "memcpy DtoD",
        9 => "memcpy HtoH",
        10 => "memcpy PtoP",
        _ => "memcpy",
    }
}

/// `CUpti_ActivityMemoryKind`.
pub const fn memory_kind(kind: u8) -> &'static str {
    match kind {
        1 => "pageable",
        2 => "pinned",
        3 => "device",
        4 => "array",
        5 => "managed",
        6 => "device static",
        7 => "managed static",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_cpp_or_nested_too_deep_stays_as_it_is() {
        for other in ["", "_Z", "axpy", "_ZN", "no name at all"] {
            assert_eq!(demangled(other), other);
        }
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert!(demangled(&deep).len() >= deep.len() - 4);
    }
}
