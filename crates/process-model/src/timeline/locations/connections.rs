//! Proxy operations: network transfers, on the location of their connection.
//!
//! Since NCCL 2.27 a proxy operation starts when it is appended and may wait for earlier ones on the same connection.
//! The location shows one at a time: the wait begins when the previous one has ended, nested as `queued` until the
//! first progress (attribute `nccl.queued_ns` has the whole wait).

use crate::timeline::builder::{LocationBuilder, TimelineBuilder};
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, RegionKey, RegionNumber};
use crate::timeline::location::{ByLocation, LocationKey, Siblings};
use crate::timeline::model::ProcessModel;
use nccl_events::archive::RegionClass;
use nccl_events::{Kind, state};
use tables::{Event, EventRow, ProxyOp, Row};

/// A proxy operation on its way to its location, by start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Transfer {
    start: u64,
    row: Row<ProxyOp>,
    end: u64,
    /// When it first made progress; if unknown, its start, or its end if it is unfinished.
    waits_until: u64,
    is_reported: bool,
    order: u32,
}

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut order = ByLocation::new();
    for (row, op) in model.tables.rows::<ProxyOp>() {
        let owner = model.owner_of_transfer(op);
        if owner.is_foreign() {
            builder.count_without_communicator(model.tables.is_foreign(op));
        }
        let ProxyOp { channel, is_send, peer, .. } = op.fields;
        let start = op.start;
        let end = end(model, builder, row, op).max(start);
        let progress = op.state_time(state::PROXY_OP_IN_PROGRESS);
        let waits_until = match progress {
            Some(progress) => progress.clamp(start, end),
            None if model.is_unfinished(EventRow::ProxyOp(row)) => end,
            None => start,
        };
        let transfer = Transfer { start, row, end, waits_until, is_reported: progress.is_some(), order: op.order };
        order.add(LocationKey::Net(owner, channel, is_send, peer), transfer);
    }
    for (key, of_location) in order.in_order() {
        let name = match key {
            LocationKey::Net(_, _, false, _) => "netRecv",
            _ => "netSend",
        };
        let [queued, transfer] = ["queued", name].map(|name| RegionKey::fixed(RegionClass::Network, name));
        let regions = [queued, transfer.showing(Kind::ProxyOp)].map(|key| builder.region(key));
        let mut siblings = Siblings::default();
        let mut location = builder.location(key);
        location.reserve(of_location.len());
        for transfer in of_location {
            add_transfer(&mut location, &mut siblings, transfer, regions);
        }
    }
}

fn add_transfer(
    location: &mut LocationBuilder<'_>,
    siblings: &mut Siblings,
    transfer: Transfer,
    [queued, whole]: [RegionNumber; 2],
) {
    let Transfer { start, row, end, waits_until, is_reported, order } = transfer;
    let start = start.max(siblings.free_from().min(waits_until));
    let sibling = siblings.take(start, end);
    location.builder().shown(Kind::ProxyOp);
    let instance = RegionInstance::of(row, order, InstanceKind::Net, whole);
    location.add(sibling, TimedInstance { start, end, instance });
    if is_reported && waits_until > start {
        let (end, instance) = (waits_until, RegionInstance::of(row, order, InstanceKind::Queued, queued));
        location.add(sibling, TimedInstance { start, end, instance });
    }
}

/// When an operation ended. On a connection that NCCL never reports on, it ends with its collective.
fn end(model: &ProcessModel<'_>, builder: &mut TimelineBuilder, row: Row<ProxyOp>, op: &Event<ProxyOp>) -> u64 {
    if !model.links.transfers.is_silent(row) {
        return model.end(op);
    }
    builder.counts.closed += 1;
    let interval = model.links.activities.find(model.tables, op.parent).and_then(|at| model.interval(at));
    interval.map_or(op.start, |interval| interval.end)
}
