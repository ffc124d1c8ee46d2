//! Threads: their calls, launches and enqueueing.
//!
//! For copy-engine collectives, NCCL reports when the host enqueued synchronisations and batches of copies, so they are
//! nested in the enqueueing of their collective. The collective itself is on the location of its communicator.

use super::enqueue;
use crate::timeline::builder::TimelineBuilder;
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, RegionKey, RegionName, Source};
use crate::timeline::model::ProcessModel;
use nccl_events::archive::RegionClass;
use nccl_events::ids::index_u32;
use nccl_events::{Kind, state};
use tables::{CeBatch, CeSync, CollApi, Event, Group, GroupApi, Head, InTable, KernelLaunch, P2pApi};

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    comm_calls(model, builder);
    derived_calls(model, builder);
    events::<GroupApi>(model, builder, |_| RegionKey::fixed(RegionClass::Api, "ncclGroup"));
    parts_of_groups(model, builder);
    events::<CollApi>(model, builder, |call| RegionKey::func(RegionClass::Api, call.fields.func, ""));
    events::<P2pApi>(model, builder, |call| RegionKey::func(RegionClass::Api, call.fields.func, ""));
    events::<KernelLaunch>(model, builder, |_| RegionKey::fixed(RegionClass::Launch, "ncclKernelLaunch"));
    events::<Group>(model, builder, |_| RegionKey::fixed(RegionClass::Enqueue, "ncclLaunchPlan"));
    enqueue::build(model, builder);
    events::<CeSync>(model, builder, |_| RegionKey::fixed(RegionClass::Enqueue, "CeSync"));
    events::<CeBatch>(model, builder, |_| RegionKey::fixed(RegionClass::Enqueue, "CeBatch"));
}

/// Shows the events of a kind, each on the location of its thread.
fn events<F: InTable>(
    model: &ProcessModel<'_>,
    builder: &mut TimelineBuilder,
    region: impl Fn(&Event<F>) -> RegionKey,
) {
    for (row, event) in model.tables.rows::<F>() {
        builder.shown(F::KIND);
        let region = builder.region(region(event).showing(F::KIND));
        let instance = RegionInstance::of(row, event.order, InstanceKind::Call, region);
        let (start, end) = (event.start, model.end(event));
        builder.on_thread(event.thread, TimedInstance { start, end, instance });
    }
}

fn comm_calls(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
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

/// Shows calls that NCCL turns into sends and receives around these.
fn derived_calls(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    for (at, call) in model.links.derived.calls.iter().enumerate() {
        let ends = call.calls.iter().map(|&row| model.end(&model.tables[row]));
        let (Some(&first), Some(end)) = (call.calls.first(), ends.max()) else {
            continue;
        };
        let first: &Head = &model.tables[first];
        let name = RegionName::Derived(call.pattern);
        let key = RegionKey::new(RegionClass::Api, name).showing(Kind::CollApi);
        let region = builder.region(key);
        let source = Source::DerivedCall(index_u32(at));
        let instance = RegionInstance::new(source, first.order, InstanceKind::DerivedCall, region);
        let start = first.start;
        builder.on_thread(first.thread, TimedInstance { start, end, instance });
    }
}

/// `ncclGroupStart` and `ncclGroupEnd` inside a group: state 23 ends the first, state 24 begins the second.
fn parts_of_groups(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let start_region = builder.region(RegionKey::fixed(RegionClass::Api, "ncclGroupStart"));
    let end_region = builder.region(RegionKey::fixed(RegionClass::Api, "ncclGroupEnd"));
    for (row, group) in model.tables.rows::<GroupApi>() {
        let (start, end) = (group.start, model.end(group));
        if let Some(until) = group.state_time(state::GROUP_START_API_STOP) {
            let end = until.clamp(start, end);
            let instance = RegionInstance::of(row, group.order, InstanceKind::GroupStart, start_region);
            builder.on_thread(group.thread, TimedInstance { start, end, instance });
        }
        if let Some(from) = group.state_time(state::GROUP_END_API_START) {
            let start = from.clamp(start, end);
            let instance = RegionInstance::of(row, group.order, InstanceKind::GroupEnd, end_region);
            builder.on_thread(group.thread, TimedInstance { start, end, instance });
        }
    }
}
