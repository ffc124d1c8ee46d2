//! Calls of collectives, sends and receives that only NCCL's NVTX ranges show: all of the releases before 2.28, and
//! those with which NCCL has nothing to do.

use std::collections::BTreeMap;

use model::process::Process;
use model::program_ranges::RangeRole;
use model::tables::ranges::{RangeAt, RangeKind};
use model::tables::{EventRow, Head, OperationRow};
use nccl_events::collective::{Collective, Function};
use nccl_events::range::RangeField;

/// A call as NCCL's range shows it.
#[derive(Clone, Copy)]
pub(super) struct RangeCall<'a> {
    pub(super) range: &'a RangeAt,
    pub(super) function: Function,
    /// When the outermost group around it began.
    pub(super) group: Option<u64>,
    /// Whether the program has yet to call the group's end.
    pub(super) is_group_open: bool,
    /// Whether the call, and the end of its group, returned.
    pub(super) has_returned: bool,
}

pub(super) struct RangeCalls<'a> {
    /// By the operation below the API.
    by_operation: BTreeMap<EventRow, RangeCall<'a>>,
    /// The others, each with the index of its context.
    others: Vec<(u32, RangeCall<'a>)>,
}

/// The function that a range of NCCL's is a call of. What NCCL turns into sends and receives is known by these.
fn function(name: &str) -> Option<Function> {
    let name = name.strip_prefix("nccl")?;
    let function = Function::named(if name == "Bcast" { "Broadcast" } else { name })?;
    let is_derived = matches!(
        function,
        Function::Collective(Collective::AlltoAll | Collective::Gather | Collective::Scatter) | Function::SendRecv
    );
    (!is_derived).then_some(function)
}

/// The outermost group that a thread is in.
#[derive(Clone, Copy, Default)]
struct Group {
    depth: u32,
    began: u64,
    /// Indices of the calls in it.
    first: usize,
}

impl<'a> RangeCalls<'a> {
    pub(super) fn new(process: &'a Process<'a>) -> Self {
        let mut found = Self { by_operation: BTreeMap::new(), others: Vec::new() };
        let calls = calls(process);
        // Without the beginning, the k-th operation is not that of the k-th call.
        let mut places = BTreeMap::new();
        if process.tables.removed.segments == 0 {
            places = operations(process);
        }
        let mut counts: BTreeMap<Place<'_>, usize> = BTreeMap::new();
        for (context, call) in calls {
            let peer = call.range.range.fields.get(RangeField::Peer).and_then(|peer| i32::try_from(peer).ok());
            let place = (context, call.function.name(), peer.filter(|_| call.function.is_send().is_some()));
            let has_none = call.range.range.fields.get(RangeField::Bytes) == Some(0);
            let operations = places.get(&place).filter(|_| !has_none);
            let count = counts.entry(place).or_default();
            match operations.and_then(|operations| operations.get(*count)) {
                Some(operation) => _ = found.by_operation.insert(*operation, call),
                None => found.others.push((context, call)),
            }
            *count += usize::from(!has_none);
        }
        found
    }

    pub(super) fn of_operation(&self, operation: EventRow) -> Option<RangeCall<'a>> {
        self.by_operation.get(&operation).copied()
    }

    /// The calls without an operation, each with the index of its context.
    pub(super) fn without_operation(&self) -> impl Iterator<Item = (u32, RangeCall<'a>)> {
        self.others.iter().copied()
    }
}

/// The calls whose communicator is known, by thread and time.
fn calls<'a>(process: &'a Process<'a>) -> Vec<(u32, RangeCall<'a>)> {
    let Process { tables, symbols, links, .. } = process;
    let mut contexts: BTreeMap<u64, Option<u32>> = BTreeMap::new();
    for (at, context) in (0..).zip(&tables.contexts) {
        // Of two ranks of one communicator, the range does not say which called.
        contexts.entry(context.comm.comm_id).and_modify(|known| *known = None).or_insert(Some(at));
    }
    let mut ranges: Vec<(u32, &RangeAt, RangeRole)> = tables
        .ranges
        .all
        .iter()
        .zip(&links.ranges.roles)
        .filter(|(range, role)| **role != RangeRole::User && matches!(range.kind, RangeKind::Pushed { .. }))
        .map(|(range, role)| (tables.first_index_of_thread(range.thread), range, *role))
        .collect();
    ranges.sort_by_key(|(thread, range, _)| (*thread, range.start, range.order));
    let mut found: Vec<(u32, RangeCall<'a>)> = Vec::new();
    let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
    for (thread, range, role) in ranges {
        let group = groups.entry(thread).or_default();
        let has_ended = range.stop.or(range.cut).is_some();
        match symbols.text(range.range.name) {
            "ncclGroupStart" => {
                if group.depth == 0 {
                    (group.began, group.first) = (range.start, found.len());
                }
                group.depth += 1;
            }
            "ncclGroupEnd" => {
                group.depth = group.depth.saturating_sub(1);
                if group.depth == 0 {
                    for (_, call) in found.iter_mut().skip(group.first) {
                        (call.is_group_open, call.has_returned) = (false, has_ended);
                    }
                }
            }
            name => {
                let id = range.range.fields.get(RangeField::CommId).unwrap_or(0);
                let context = contexts.get(&id).copied().flatten().filter(|_| role == RangeRole::Call);
                if let (Some(context), Some(function)) = (context, function(name)) {
                    let is_in_group = group.depth > 0;
                    let call = RangeCall {
                        range,
                        function,
                        group: is_in_group.then_some(group.began),
                        is_group_open: is_in_group,
                        has_returned: has_ended && !is_in_group,
                    };
                    found.push((context, call));
                }
            }
        }
    }
    found
}

/// Context, function and, of a message, peer: NCCL orders the messages of a group anew.
type Place<'a> = (u32, &'a str, Option<i32>);

/// The operations that have no call of the interface, in order.
fn operations<'a>(process: &'a Process<'a>) -> BTreeMap<Place<'a>, Vec<EventRow>> {
    let Process { tables, symbols, links, .. } = process;
    let is_called = |head: &Head| matches!(tables.find(head.parent), Some(EventRow::CollApi(_) | EventRow::P2pApi(_)));
    let mut all: Vec<(u64, u32, OperationRow)> = links
        .operations
        .all
        .iter()
        .map(|linked| (linked.operation, tables.operation(linked.operation)))
        .filter(|(_, operation)| !is_called(operation))
        .filter_map(|(row, operation)| Some((operation.start, operation.context_at()?, row)))
        .collect();
    all.sort_unstable();
    let mut found: BTreeMap<Place<'_>, Vec<EventRow>> = BTreeMap::new();
    for (_, context, row) in all {
        let peer = if let OperationRow::P2p(row) = row { Some(tables[row].fields.peer) } else { None };
        let name = symbols.text(tables.operation(row).func);
        found.entry((context, name, peer)).or_default().push(row.event());
    }
    found
}
