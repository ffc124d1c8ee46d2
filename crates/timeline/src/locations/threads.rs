//! Threads, ranges and CUDA streams: the contents of their locations, and the regions of these. [`build_locations`]
//! builds all locations of a process.

use std::collections::BTreeMap;

use crate::builder::{LocationKey, TimelineBuilder};
use crate::instance::{InstanceKind, RegionInstance, RegionKey, RegionName, RegionNumber, Source};
use crate::locations::{communicators, network};
use crate::messages::TimedInstance;
use journal::format::Symbol;
use model::links::gpu_work::{GpuRecordKind, GpuStream};
use model::process::Process;
use model::program_ranges::{RangeEnd, RangeRole};
use model::tables::ranges::{RangeAt, RangeKind};
use model::tables::{CollApi, Event, EventRow, Head, InTable, OperationRow, P2pApi, Row, Tables};
use nccl_events::archive;
use nccl_events::archive::RegionClass;
use nccl_events::event::{CeBatch, CeSync, Group, GroupApi, KernelLaunch};
use nccl_events::ids::index_u32;
use nccl_events::{Kind, state};

pub(crate) fn build_locations(model: &Process<'_>, builder: &mut TimelineBuilder) {
    build_threads(model, builder);
    build_ranges(model, builder);
    communicators::build_communicators(model, builder);
    network::build_network(model, builder);
    network::build_channels(model, builder);
    build_streams(model, builder);
}

// For copy-engine collectives, NCCL reports when the host enqueued synchronisations and batches of copies, so they are
// nested in the enqueueing of their collective. The collective itself is on the location of its communicator.

/// Shows the calls, launches and enqueueing of threads.
pub(super) fn build_threads(model: &Process<'_>, builder: &mut TimelineBuilder) {
    comm_calls(model, builder);
    let groups = CallsOfGroups::new(model);
    derived_calls(model, builder);
    build_groups(model, builder, &groups);
    calls::<CollApi>(model, builder, &groups, |call| call.fields.func);
    calls::<P2pApi>(model, builder, &groups, |call| call.fields.func);
    events::<KernelLaunch>(model, builder, |_| RegionKey::fixed(RegionClass::Launch, archive::region::LAUNCH));
    events::<Group>(model, builder, |_| RegionKey::fixed(RegionClass::Enqueue, archive::region::LAUNCH_PLAN));
    build_enqueue(model, builder);
    events::<CeSync>(model, builder, |_| RegionKey::fixed(RegionClass::Enqueue, archive::region::CE_SYNC));
    events::<CeBatch>(model, builder, |_| RegionKey::fixed(RegionClass::Enqueue, archive::region::CE_BATCH));
}

/// Shows the events of a kind, each on the location of its thread.
fn events<F: InTable>(model: &Process<'_>, builder: &mut TimelineBuilder, region: impl Fn(&Event<F>) -> RegionKey) {
    for (row, event) in model.tables.rows::<F>() {
        builder.shown(F::KIND);
        let region = builder.region(region(event));
        let instance = RegionInstance::for_event(row, event.order, InstanceKind::Call, region);
        let (start, end) = (event.start, model.end(event));
        builder.on_thread(event.thread, TimedInstance { start, end, instance });
    }
}

fn comm_calls(model: &Process<'_>, builder: &mut TimelineBuilder) {
    for (at, call) in (0..).zip(&model.tables.comm_calls) {
        if model.links.ranges.shows_comm_call(at) {
            continue;
        }
        let (kind, name) = if call.is_init {
            (InstanceKind::CommInit, "ncclCommInitRank")
        } else {
            (InstanceKind::CommFinalize, "ncclCommDestroy")
        };
        let region = builder.region(RegionKey::fixed(RegionClass::Api, name));
        let instance = RegionInstance::new(Source::CommCall(at), at, kind, region);
        let (start, end) = (call.start, call.end);
        builder.on_thread(call.thread, TimedInstance { start, end, instance });
    }
}

// NCCL makes a group of depth 1 around each call outside of the program's groups, launches the kernel at its end, and
// reports the call itself only for as long as its arguments are collected. Such a call is shown for as long as its
// group lasts.

/// The calls in groups of depth 1, by row of the group.
struct CallsOfGroups(Vec<CallsOfGroup>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallsOfGroup {
    None,
    One(EventRow),
    /// A call that NCCL turns into sends and receives.
    Derived,
    Several,
}

impl CallsOfGroups {
    fn new(model: &Process<'_>) -> Self {
        let mut groups = Self(vec![CallsOfGroup::None; model.tables.events.group_apis.len()]);
        groups.add::<CollApi>(model.tables);
        groups.add::<P2pApi>(model.tables);
        for first in model.links.derived.calls.iter().filter_map(|call| call.calls.first()) {
            let group = model.tables.find_as::<GroupApi>(model.tables[*first].parent);
            if let Some(calls) = group.and_then(|group| groups.0.get_mut(group.index())) {
                *calls = CallsOfGroup::Derived;
            }
        }
        groups
    }

    fn add<F: InTable>(&mut self, tables: &Tables) {
        for (row, call) in tables.rows::<F>() {
            let group = tables.find_as::<GroupApi>(call.parent);
            let group = group.filter(|group| tables[*group].fields.depth == 1 && tables[*group].thread == call.thread);
            if let Some(calls) = group.and_then(|group| self.0.get_mut(group.index())) {
                let is_first = *calls == CallsOfGroup::None;
                *calls = if is_first { CallsOfGroup::One(F::any(row)) } else { CallsOfGroup::Several };
            }
        }
    }

    fn calls(&self, group: Row<GroupApi>) -> CallsOfGroup {
        self.0.get(group.index()).copied().unwrap_or(CallsOfGroup::None)
    }

    /// The group that NCCL made around a call.
    fn around<'a>(&self, tables: &'a Tables, call: EventRow) -> Option<&'a Event<GroupApi>> {
        let group = tables.find_as::<GroupApi>(tables.head(call)?.parent)?;
        (self.calls(group) == CallsOfGroup::One(call)).then(|| &tables[group])
    }
}

/// From the begin to the end of a call: of NCCL's range around it, if there is one, else of its group.
fn whole_call(model: &Process<'_>, call: EventRow, group: &Event<GroupApi>, end: u64) -> (u64, u64) {
    let (start, end) = (group.start, end.max(model.end(group)));
    let range = model.links.ranges.around_call(model.tables, call);
    range.map_or((start, end), |range| (range.start.min(start), range.stop.unwrap_or(end).max(end)))
}

fn build_groups(model: &Process<'_>, builder: &mut TimelineBuilder, groups: &CallsOfGroups) {
    let region = builder.region(RegionKey::fixed(RegionClass::Api, archive::region::GROUP));
    for (row, group) in model.tables.rows::<GroupApi>() {
        builder.shown(Kind::GroupApi);
        if matches!(groups.calls(row), CallsOfGroup::None | CallsOfGroup::Several) {
            let instance = RegionInstance::for_event(row, group.order, InstanceKind::Call, region);
            let (start, end) = (group.start, model.end(group));
            builder.on_thread(group.thread, TimedInstance { start, end, instance });
            parts_of_group(model, builder, row);
        }
    }
}

fn calls<F: InTable>(
    model: &Process<'_>,
    builder: &mut TimelineBuilder,
    groups: &CallsOfGroups,
    func: impl Fn(&Event<F>) -> Symbol,
) {
    for (row, call) in model.tables.rows::<F>() {
        builder.shown(F::KIND);
        let region = builder.region(RegionKey::func(RegionClass::Api, func(call), ""));
        let end = model.end(call);
        let (start, end, order, kind) = match groups.around(model.tables, F::any(row)) {
            Some(group) => {
                let (start, end) = whole_call(model, F::any(row), group, end);
                (start, end, group.order, InstanceKind::LoneCall)
            }
            None => (call.start, end, call.order, InstanceKind::Call),
        };
        let instance = RegionInstance::for_event(row, order, kind, region);
        builder.on_thread(call.thread, TimedInstance { start, end, instance });
    }
}

/// Shows calls that NCCL turns into sends and receives around these.
fn derived_calls(model: &Process<'_>, builder: &mut TimelineBuilder) {
    for (at, call) in model.links.derived.calls.iter().enumerate() {
        let ends = call.calls.iter().map(|&row| model.end(&model.tables[row]));
        let (Some(&row), Some(end)) = (call.calls.first(), ends.max()) else {
            continue;
        };
        let first: &Head = &model.tables[row];
        let Some(group) = model.tables.get::<GroupApi>(first.parent) else {
            continue;
        };
        let name = RegionName::Derived(call.pattern);
        let key = RegionKey::new(RegionClass::Api, name);
        let region = builder.region(key);
        let source = Source::DerivedCall(index_u32(at));
        let instance = RegionInstance::new(source, group.order, InstanceKind::DerivedCall, region);
        let (start, end) = whole_call(model, EventRow::P2pApi(row), group, end);
        builder.on_thread(first.thread, TimedInstance { start, end, instance });
    }
}

/// `ncclGroupStart` and `ncclGroupEnd` inside a group: state 23 ends the first, state 24 begins the second.
fn parts_of_group(model: &Process<'_>, builder: &mut TimelineBuilder, row: Row<GroupApi>) {
    let group = &model.tables[row];
    let (start, end) = (group.start, model.end(group));
    if let Some(until) = group.state_time(state::GROUP_START_API_STOP) {
        let region = builder.region(RegionKey::fixed(RegionClass::Api, "ncclGroupStart"));
        let instance = RegionInstance::for_event(row, group.order, InstanceKind::GroupStart, region);
        builder.on_thread(group.thread, TimedInstance { start, end: until.clamp(start, end), instance });
    }
    if let Some(from) = group.state_time(state::GROUP_END_API_START) {
        let region = builder.region(RegionKey::fixed(RegionClass::Api, "ncclGroupEnd"));
        let instance = RegionInstance::for_event(row, group.order, InstanceKind::GroupEnd, region);
        builder.on_thread(group.thread, TimedInstance { start: from.clamp(start, end), end, instance });
    }
}

// Pushed ranges and marks are on their thread, where they nest with the calls. Ranges that any thread ends do not nest:
// they are on a location of their domain.

/// Shows ranges and marks of the program, and calls that only an NVTX range of NCCL shows.
pub(super) fn build_ranges(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let ranges = &model.tables.ranges;
    builder.counts.take_range_counts(ranges.counts);
    let links = &model.links.ranges;
    let mut started: Vec<(u32, TimedInstance)> = Vec::new();
    for (at, (range, role)) in (0..).zip(ranges.all.iter().zip(&links.roles)) {
        let Some((class, name)) = region(range, *role, builder) else {
            continue;
        };
        let mut end = range.end(model.tables.span.1);
        match links.end(at, range) {
            RangeEnd::Known => {}
            RangeEnd::Bounded => builder.counts.ranges_closed += 1,
            RangeEnd::Open => {
                builder.counts.ranges_unfinished += 1;
                // Ends after the last record, which may be the beginning of an inner range: that one then nests.
                end += 1;
            }
        }
        let region = builder.region(RegionKey::new(class, name));
        let instance = RegionInstance::new(Source::Range(at), range.order, InstanceKind::Range, region);
        let shown = TimedInstance { start: range.start, end, instance };
        match range.kind {
            RangeKind::Started { .. } => {
                let domain = links.domains.iter().position(|domain| *domain == range.range.domain);
                started.push((index_u32(domain.unwrap_or(0)), shown));
            }
            RangeKind::Pushed { .. } | RangeKind::Mark => builder.on_thread(range.thread, shown),
        }
    }
    nccl_events::sort::sort_by_key(&mut started, |(domain, shown)| (*domain, shown.key()));
    for of_domain in started.chunk_by(|a, b| a.0 == b.0) {
        let Some((domain, _)) = of_domain.first() else {
            continue;
        };
        let mut shown: Vec<TimedInstance> = of_domain.iter().map(|(_, shown)| *shown).collect();
        builder.on_shared_location(LocationKey::Ranges(*domain), &mut shown);
    }
}

/// Class and name of the region of a range, which is counted; `None` if the range is not shown.
fn region(range: &RangeAt, role: RangeRole, builder: &mut TimelineBuilder) -> Option<(RegionClass, RegionName)> {
    let counts = &mut builder.counts;
    let (counter, shown) = match (role, range.kind) {
        (RangeRole::Reported, _) => (&mut counts.ranges_reported, None),
        (RangeRole::Call, _) => (&mut counts.ranges_nccl, Some((RegionClass::Api, RegionName::Call(range.range.name)))),
        (RangeRole::User, kind) => {
            let name = RegionName::Range(range.range.domain, range.range.name);
            match kind {
                RangeKind::Mark => (&mut counts.ranges_marks, Some((RegionClass::Mark, name))),
                RangeKind::Pushed { .. } | RangeKind::Started { .. } => {
                    (&mut counts.ranges_user, Some((RegionClass::User, name)))
                }
            }
        }
    };
    *counter += 1;
    shown
}

// NCCL reports the operations of a launch plan together: it starts all, enqueues all, then stops all in the same order.
// So their enqueueing overlaps, and the times of a single one are unknown:
//
//   NCCL:   start a   start b ────────────────── stop a   stop b
//   shown:  ├── a ───┤├───────── b ─────────────┤

/// The enqueueing of an operation, by thread, launch plan and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Enqueueing {
    thread: u32,
    plan: u64,
    start: u64,
    order: u32,
    stop: u64,
    operation: u32,
    region: RegionNumber,
    kind: Kind,
}

/// Shows the enqueueing of operations, on the location of the thread.
pub(super) fn build_enqueue(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let mut order: Vec<Enqueueing> = Vec::with_capacity(model.links.operations.all.len());
    for (at, linked) in model.links.operations.all.iter().enumerate() {
        let operation = model.tables.operation(linked.operation);
        let (suffix, kind) = match linked.operation {
            OperationRow::CeColl(_) => (archive::region::CE_ENQUEUE, Kind::CeColl),
            OperationRow::Coll(_) => (archive::region::ENQUEUE, Kind::Coll),
            OperationRow::P2p(_) => (archive::region::ENQUEUE, Kind::P2p),
        };
        order.push(Enqueueing {
            thread: operation.thread,
            plan: operation.plan,
            start: operation.start,
            order: operation.order,
            stop: model.end(&operation),
            operation: index_u32(at),
            region: builder.region(RegionKey::func(RegionClass::Enqueue, operation.func, suffix)),
            kind,
        });
    }
    nccl_events::sort::sort(&mut order);
    for plan in order.chunk_by(|a, b| a.plan != 0 && (a.thread, a.plan) == (b.thread, b.plan)) {
        let first_stop = plan.iter().map(|one| one.stop).min();
        for (one, next) in plan.iter().zip(plan.iter().skip(1).map(|one| Some(one.start)).chain([None])) {
            let until = next.or(first_stop).filter(|&until| until >= one.start);
            let end = until.map_or(one.stop, |until| until.min(one.stop));
            builder.counts.enqueued_together += u64::from(end < one.stop);
            builder.shown(one.kind);
            let source = Source::Operation(one.operation);
            let instance = RegionInstance::new(source, one.order, InstanceKind::Enqueue, one.region);
            let start = one.start;
            builder.on_thread(one.thread, TimedInstance { start, end, instance });
        }
    }
}

/// Shows kernels and copies, on the locations of their CUDA streams.
pub(super) fn build_streams(model: &Process<'_>, builder: &mut TimelineBuilder) {
    let mut streams: BTreeMap<GpuStream, Vec<TimedInstance>> = BTreeMap::new();
    for (at, work) in model.links.gpu.all.iter().enumerate() {
        let (class, name) = match work.kind {
            GpuRecordKind::Copy(copy) => (RegionClass::Copy, RegionName::Copy(copy.kind)),
            GpuRecordKind::Kernel(kernel) => (RegionClass::Kernel, RegionName::Mangled(kernel.name)),
        };
        let region = builder.region(RegionKey::new(class, name));
        let at = index_u32(at);
        let instance = RegionInstance::new(Source::Work(at), at, InstanceKind::Work, region);
        streams.entry(work.stream).or_default().push(TimedInstance { start: work.start, end: work.end, instance });
    }
    // The work is sorted by start.
    for (stream, mut shown) in streams {
        builder.on_shared_location(LocationKey::Stream(stream), &mut shown);
    }
}
