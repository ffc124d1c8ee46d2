//! Collective and point-to-point operations as they ran, on the location of the communicator's rank. A derived
//! collective is shown around its sends and receives; those that overlap go to siblings.

use std::collections::BTreeMap;

use crate::builder::{LocationBuilder, LocationKey, Siblings, TimelineBuilder};
use crate::instance::{InstanceKind, RegionInstance, RegionKey, RegionName, Source};
use crate::messages::{Exchange, Messages, TimedInstance};
use journal::format::Symbol;
use model::links::intervals::Interval;
use model::process::Process;
use model::tables::OperationRow;
use model::tables::ranges::Coverage;
use nccl_events::archive;
use nccl_events::archive::RegionClass;
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
            on_primary_location: false,
        };
        add(&mut order, shown);
    }
    for collective in derived(model, builder, order.iter().flatten()) {
        add(&mut order, collective);
    }
    for mut rank_operations in order {
        nccl_events::sort::sort_by_key(&mut rank_operations, |shown| {
            let Interval { start, .. } = shown.interval;
            let RegionInstance { kind, order, .. } = shown.instance;
            (start, shown.enqueued, kind != InstanceKind::Derived, order)
        });
        let mut rows = OperationRows::default();
        let context = rank_operations.first().map(|shown| shown.context);
        if let Some(context) = context {
            let mut location = builder.location(LocationKey::Communicator(context));
            location.reserve(rank_operations.len());
            for shown in &mut rank_operations {
                place_operation(model, &mut location, &mut rows, shown);
            }
        }
        add_messages(model, builder, &mut rank_operations);
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
    on_primary_location: bool,
}

impl ShownOperation {
    /// The index of its operation, or of its first member's.
    const fn index(&self) -> u32 {
        self.instance.order
    }

    fn is_collective(&self) -> bool {
        self.operation.is_some_and(OperationRow::is_collective)
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
            on_primary_location: false,
        })
    });
    shown.collect()
}

#[derive(Debug, Default)]
struct OperationRows {
    siblings: Siblings,
    /// The row of each derived collective, and the time from which the row is free inside it.
    derived: BTreeMap<u32, (usize, u64)>,
}

impl OperationRows {
    /// Takes a row for an operation or a derived collective; `derived` is the collective itself or the one around.
    fn take(&mut self, shown: &ShownOperation, derived: Option<u32>) -> usize {
        let Interval { start, end, .. } = shown.interval;
        if let (InstanceKind::Operation, Some(derived)) = (shown.instance.kind, derived)
            && let Some((row, free_from)) = self.derived.get_mut(&derived)
            && *free_from <= start
        {
            *free_from = end;
            return *row;
        }
        let row = self.siblings.take(start, end);
        if let (InstanceKind::Derived, Some(derived)) = (shown.instance.kind, derived) {
            self.derived.insert(derived, (row, start));
        }
        row
    }
}

fn place_operation(
    model: &Process<'_>,
    location: &mut LocationBuilder<'_>,
    rows: &mut OperationRows,
    shown: &mut ShownOperation,
) {
    let Interval { start, end, .. } = shown.interval;
    let instance = shown.instance;
    let moved = instance.kind == InstanceKind::Operation && shown.interval.moved_ns > 0;
    location.builder().counts.starts_moved += u64::from(moved);
    let derived = &model.links.derived;
    let sibling = rows.take(shown, derived.place_of_member(shown.index()));
    shown.on_primary_location = sibling == 0;
    location.add(sibling, TimedInstance { start, end, instance });
}

/// Adds records in the order of enqueueing, which is the same on all ranks: readers match by order. The order in which
/// a kernel's operations end differs from rank to rank.
fn add_messages(model: &Process<'_>, builder: &mut TimelineBuilder, rank_operations: &mut [ShownOperation]) {
    nccl_events::sort::sort_by_key(rank_operations, |shown| (shown.enqueued, shown.index()));
    // Readers match the records of ranks by order, so all must be there.
    let Some(context) = rank_operations.first().map(|shown| shown.context) else {
        return;
    };
    let is_whole = match model.tables.coverage(context) {
        Coverage::Whole => true,
        // Sends and receives are cut by call time, which differs between ranks.
        Coverage::StepRanges(_) if counts_alike(model, context, rank_operations) => false,
        // Other ranks may have had other collectives in their steps.
        Coverage::StepRanges(_) | Coverage::NamedSteps(_) | Coverage::Unknown => return,
    };
    let mut messages = Messages::for_operations(rank_operations.len());
    for shown in rank_operations.iter() {
        if !is_whole && !shown.is_collective() {
            continue;
        }
        if let Some(exchange) = exchange(model, builder, shown) {
            let span = (shown.interval.start, shown.interval.end);
            messages.add(shown.instance, exchange, span, shown.on_primary_location);
        }
    }
    builder.messages(LocationKey::Communicator(context), messages);
}

/// Whether all ranks count their collectives alike. Up to 2.27 they also count launches of CUDA graphs, which differ.
fn counts_alike(model: &Process<'_>, context: u32, rank_operations: &[ShownOperation]) -> bool {
    let table = model.tables.contexts.get(index(context)).and_then(|context| Table::from_number(context.comm.table));
    let has_api_events = table.is_some_and(|table| event::has(table, Kind::CollApi));
    let mut operations = rank_operations.iter().filter_map(|shown| model.links.operation(shown.index()));
    has_api_events || !operations.any(|linked| linked.shows_graphs(model.tables))
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
