//! Collective and point-to-point operations as they ran, on the location of the communicator's rank. The operations of
//! one kernel share a region, and each is a record in it. A derived collective is a region, too: its sends and receives
//! are records in it.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::builder::{LocationKey, TimelineBuilder};
use crate::instance::{FusedKernel, InstanceKind, RegionInstance, RegionKey, RegionName, Source};
use crate::messages::{Exchange, Messages, TimedInstance};
use journal::format::Symbol;
use model::links::intervals::Interval;
use model::process::Process;
use model::tables::OperationRow;
use model::tables::ranges::Coverage;
use nccl_events::archive;
use nccl_events::archive::{RegionClass, Timing};
use nccl_events::collective::Function;
use nccl_events::ids::{index, index_u32};
use nccl_events::{Kind, Table, event};

pub(super) fn build_communicators(model: &Process<'_>, builder: &mut TimelineBuilder) {
    // A rank that did nothing is still a member of its communicator.
    for context in 0..index_u32(model.tables.contexts.len()) {
        builder.create(LocationKey::Communicator(context));
    }
    let mut order: Vec<Vec<ShownOperation>> = vec![Vec::new(); model.tables.contexts.len()];
    for (at, linked) in (0..).zip(&model.links.operations.all) {
        if linked.is_at_capture {
            // Captured in a graph, the operation did not run: only its enqueueing is shown.
            continue;
        }
        let operation = model.tables.operation(linked.operation);
        let interval = model.interval(at);
        let (Some(context), Some(interval)) = (operation.context_at(), interval) else {
            // Without a communicator it has no location; only its enqueueing is shown.
            builder.count_without_communicator(model.tables.is_of_foreign_context(&operation));
            continue;
        };
        let suffix = if linked.operation.is_by_copy_engines() { archive::region::BY_COPY_ENGINES } else { "" };
        let key = RegionKey::func(RegionClass::Operation, operation.func, suffix);
        let region = builder.region(key);
        let shown = ShownOperation {
            context,
            interval,
            enqueued: operation.start,
            instance: RegionInstance::new(Source::Operation(at), at, InstanceKind::Operation, region),
            operation: Some(linked.operation),
            func: operation.func,
            kernel: kernel(model, at),
        };
        add(&mut order, shown);
    }
    for collective in derived(model, builder, order.iter().flatten()) {
        add(&mut order, collective);
    }
    for rank_operations in order {
        build_rank(model, builder, rank_operations);
    }
}

fn add(order: &mut [Vec<ShownOperation>], shown: ShownOperation) {
    if let Some(rank_operations) = order.get_mut(index(shown.context)) {
        rank_operations.push(shown);
    }
}

/// An operation or a derived collective, on its way to the locations.
#[derive(Clone, Copy, Debug)]
struct ShownOperation {
    context: u32,
    interval: Interval,
    enqueued: u64,
    instance: RegionInstance,
    /// The operation; `None` for a derived collective.
    operation: Option<OperationRow>,
    func: Symbol,
    kernel: KernelId,
}

/// What identifies a kernel: launch plan and replay, or, without a launch plan, 0 and the operation.
type KernelId = (u64, u64);

/// The kernel of an operation. One derived collective is shown as one, even if NCCL made several kernels of it.
fn kernel(model: &Process<'_>, at: u32) -> KernelId {
    let collective = model.links.derived.collective_of_member(at);
    let at = collective.and_then(|(collective, _)| collective.leader()).unwrap_or(at);
    let linked = model.links.operation(at);
    let plan = linked.map_or(0, |linked| model.tables.operation(linked.operation).plan);
    match plan {
        0 => (0, at.into()),
        plan => (plan, linked.and_then(|linked| linked.replay).unwrap_or(0)),
    }
}

impl ShownOperation {
    /// The index of its operation, or of its first member's.
    const fn index(&self) -> u32 {
        self.instance.order
    }

    fn is_collective(&self) -> bool {
        self.operation.is_some_and(OperationRow::is_collective)
    }

    /// Whether it is a send or receive of a derived collective.
    fn is_member(&self, model: &Process<'_>) -> bool {
        self.operation.is_some() && model.links.derived.place_of_member(self.index()).is_some()
    }

    fn shown(&self) -> TimedInstance {
        TimedInstance { start: self.interval.start, end: self.interval.end, instance: self.instance }
    }

    /// Whether the begin is known not to be that of an earlier kernel.
    const fn begins_measured(&self) -> bool {
        let Interval { timing, unfinished, .. } = self.interval;
        timing.is_measured() && !(unfinished && matches!(timing, Timing::Proxy))
    }
}

/// The derived collectives: each from its first member to its last.
fn derived<'a>(
    model: &Process<'_>,
    builder: &mut TimelineBuilder,
    operations: impl Iterator<Item = &'a ShownOperation>,
) -> Vec<ShownOperation> {
    let derived = &model.links.derived;
    let mut enqueued: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for shown in operations {
        if let Some(at) = derived.place_of_member(shown.index()) {
            let first = (shown.enqueued, shown.context);
            let first = enqueued.entry(at).or_insert(first);
            first.0 = first.0.min(shown.enqueued);
        }
    }
    let shown = enqueued.into_iter().filter_map(|(at, (enqueued, context))| {
        let collective = derived.all.get(index(at))?;
        let leader = collective.leader()?;
        let name = RegionName::Derived(derived.call(collective)?.pattern);
        let key = RegionKey::new(RegionClass::Operation, name);
        let region = builder.region(key);
        Some(ShownOperation {
            context,
            interval: collective.interval(&model.intervals)?,
            enqueued,
            instance: RegionInstance::new(Source::Derived(leader), leader, InstanceKind::Derived, region),
            operation: None,
            func: Symbol::NONE,
            kernel: kernel(model, leader),
        })
    });
    shown.collect()
}

/// A region of a communicator's location: the operations of one kernel or derived collective, and of others that ran
/// wholly within its time.
#[derive(Debug)]
struct Kernel {
    /// Where they are among the operations of the rank.
    operations: Range<usize>,
    within: Vec<Range<usize>>,
    enqueued: u64,
    start: u64,
    end: u64,
    /// Where its region begins: later than `start` if the one before ends later.
    shown_from: u64,
}

impl Kernel {
    fn new(first: usize, operations: &[ShownOperation]) -> Option<Self> {
        let mut kernel = Self {
            operations: first..first + operations.len(),
            within: Vec::new(),
            enqueued: operations.iter().map(|shown| shown.enqueued).min()?,
            start: 0,
            end: 0,
            shown_from: 0,
        };
        kernel.take_times(operations);
        Some(kernel)
    }

    fn take_times(&mut self, operations: &[ShownOperation]) {
        self.start = operations.iter().map(|shown| shown.interval.start).min().unwrap_or(0);
        self.end = operations.iter().map(|shown| shown.interval.end).max().unwrap_or(self.start);
        self.shown_from = self.start;
    }

    fn all<'a>(&self, operations: &'a [ShownOperation]) -> impl Iterator<Item = &'a ShownOperation> {
        let ranges = [&self.operations].into_iter().chain(&self.within);
        ranges.flat_map(|range| operations.get(range.clone()).into_iter().flatten())
    }

    /// The region, whose number is also its place among those of the location.
    fn shown(
        &self,
        model: &Process<'_>,
        builder: &mut TimelineBuilder,
        (number, operations): (u32, &[ShownOperation]),
    ) -> Option<TimedInstance> {
        let own: Vec<&ShownOperation> = self.all(operations).filter(|shown| !shown.is_member(model)).collect();
        let instance = match own.as_slice() {
            [] => self.all(operations).next()?.instance,
            [one] => one.instance,
            several => {
                let kernel = FusedKernel {
                    operations: index_u32(several.len()),
                    start: self.start,
                    unfinished: several.iter().any(|shown| shown.interval.unfinished),
                };
                let regions = several.iter().map(|shown| shown.instance.region).collect();
                let (at, region) = builder.fused(kernel, regions);
                RegionInstance::new(Source::Fused(at), number, InstanceKind::Fused, region)
            }
        };
        let instance = RegionInstance { order: number, ..instance };
        Some(TimedInstance { start: self.shown_from, end: self.end, instance })
    }
}

/// The kernels of a communicator run one after the other, in the order of enqueueing: when a later one begins, those
/// before it have ended, whatever NCCL reported.
fn end_before_later(kernels: &mut [Kernel], operations: &mut [ShownOperation]) {
    nccl_events::sort::sort_by_key(kernels, |kernel| (kernel.enqueued, kernel.operations.start));
    let mut next: Option<u64> = None;
    for kernel in kernels.iter_mut().rev() {
        let of_kernel = operations.get_mut(kernel.operations.clone()).unwrap_or_default();
        if let Some(next) = next {
            for operation in of_kernel.iter_mut().filter(|one| one.interval.unfinished) {
                let Interval { start, end, .. } = &mut operation.interval;
                (*start, *end) = ((*start).min(next), (*end).min(next));
            }
            kernel.take_times(of_kernel);
        }
        if of_kernel.iter().any(ShownOperation::begins_measured) {
            next = Some(next.map_or(kernel.start, |next| next.min(kernel.start)));
        }
    }
}

/// Makes kernels follow each other. What ran wholly within another's time is shown with it: clocks have errors.
fn in_sequence(mut kernels: Vec<Kernel>, cut: &mut u64) -> Vec<Kernel> {
    nccl_events::sort::sort_by_key(&mut kernels, |kernel| (kernel.start, kernel.end, kernel.enqueued));
    let mut shown: Vec<Kernel> = Vec::with_capacity(kernels.len());
    for mut kernel in kernels {
        match shown.last_mut() {
            Some(last) if kernel.start < last.end && kernel.end <= last.end => last.within.push(kernel.operations),
            Some(last) if kernel.start < last.end => {
                *cut += 1;
                kernel.shown_from = last.end;
                shown.push(kernel);
            }
            _ => shown.push(kernel),
        }
    }
    shown
}

/// An operation, and the region that it is shown in, with its number.
type InRegion<'a> = (&'a ShownOperation, (u32, TimedInstance));

fn build_rank(model: &Process<'_>, builder: &mut TimelineBuilder, mut operations: Vec<ShownOperation>) {
    let Some(context) = operations.first().map(|shown| shown.context) else {
        return;
    };
    let moved = operations.iter().filter(|shown| shown.operation.is_some() && shown.interval.moved_ns > 0);
    builder.counts.starts_moved += moved.count() as u64;
    nccl_events::sort::sort_by_key(&mut operations, |shown| (shown.kernel, shown.interval.start, shown.index()));
    let mut kernels: Vec<Kernel> = Vec::with_capacity(operations.len());
    let mut first = 0;
    for of_kernel in operations.chunk_by(|one, other| one.kernel == other.kernel) {
        kernels.extend(Kernel::new(first, of_kernel));
        first += of_kernel.len();
    }
    end_before_later(&mut kernels, &mut operations);
    let kernels = in_sequence(kernels, &mut builder.counts.starts_cut);
    let mut regions: Vec<TimedInstance> = Vec::with_capacity(kernels.len());
    let mut all: Vec<InRegion<'_>> = Vec::with_capacity(operations.len());
    for kernel in &kernels {
        let number = index_u32(regions.len());
        if let Some(shown) = kernel.shown(model, builder, (number, &operations)) {
            regions.push(shown);
            all.extend(kernel.all(&operations).map(|operation| (operation, (number, shown))));
        }
    }
    builder.on_location(LocationKey::Communicator(context), &regions);
    let mut messages = Messages::for_operations(all.len());
    let is_record = |(one, (_, around)): &&InRegion<'_>| one.instance.source != around.instance.source;
    for (operation, (number, _)) in all.iter().filter(is_record) {
        builder.use_as_record(operation.instance.region);
        messages.record(operation.shown(), *number);
    }
    add_messages(model, builder, (context, &mut messages), all);
    builder.messages(LocationKey::Communicator(context), messages);
}

/// Adds records in the order of enqueueing, which is the same on all ranks: readers match by order. The order in which
/// a kernel's operations end differs from rank to rank.
fn add_messages(
    model: &Process<'_>,
    builder: &mut TimelineBuilder,
    (context, messages): (u32, &mut Messages),
    mut operations: Vec<InRegion<'_>>,
) {
    nccl_events::sort::sort_by_key(&mut operations, |(shown, _)| (shown.enqueued, shown.index()));
    // Readers match the records of ranks by order, so all must be there.
    let is_whole = match model.tables.coverage(context) {
        Coverage::Whole => true,
        // Sends and receives are cut by call time, which differs between ranks.
        Coverage::StepRanges(_) if counts_alike(model, context, &operations) => false,
        // Other ranks may have had other collectives in their steps.
        Coverage::StepRanges(_) | Coverage::NamedSteps(_) | Coverage::Unknown => return,
    };
    for (shown, (number, around)) in operations {
        if !is_whole && !shown.is_collective() {
            continue;
        }
        if let Some(exchange) = exchange(model, builder, shown) {
            let span = (shown.interval.start, shown.interval.end);
            messages.add(shown.index(), exchange, span, (number, &around));
        }
    }
}

/// Whether all ranks count their collectives alike. Up to 2.27 they also count launches of CUDA graphs, which differ.
fn counts_alike(model: &Process<'_>, context: u32, operations: &[InRegion<'_>]) -> bool {
    let table = model.tables.contexts.get(index(context)).and_then(|context| Table::from_number(context.comm.table));
    let has_api_events = table.is_some_and(|table| event::has(table, Kind::CollApi));
    let mut linked = operations.iter().filter_map(|(shown, _)| model.links.operation(shown.index()));
    has_api_events || !linked.any(|linked| linked.shows_graphs(model.tables))
}

/// The communication record of an operation; `None` if a reader could not interpret it.
fn exchange(model: &Process<'_>, builder: &mut TimelineBuilder, shown: &ShownOperation) -> Option<Exchange> {
    let derived = model.links.derived.collective_of_member(shown.index());
    let is_reported_once = derived.is_some_and(|(_, call)| call.pattern.is_collective_record());
    let Some(operation) = shown.operation else {
        return is_reported_once.then_some(Exchange::Collective);
    };
    if is_reported_once {
        return None;
    }
    let comm = model.comms.comm(model.comms.member(shown.context)?)?;
    let OperationRow::P2p(row) = operation else {
        if model.meanings.collective(shown.func).is_some() {
            builder.counts.sizes_unknown += u64::from(comm.ranks == 0);
            return Some(Exchange::Collective);
        }
        builder.counts.collectives_unknown += 1;
        return None;
    };
    let is_send = model.meanings.function(shown.func).and_then(Function::is_send);
    let exchange = is_send.map(|is_send| if is_send { Exchange::Send } else { Exchange::Receive });
    let known =
        u32::try_from(model.tables[row].fields.peer).ok().filter(|&peer| peer < comm.ranks.max(comm.ranks_seen));
    if known.is_none() || exchange.is_none() {
        builder.counts.messages_without_peer += 1;
        return None;
    }
    exchange
}
