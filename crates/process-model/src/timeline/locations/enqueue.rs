//! The enqueueing of operations, on the location of the thread.
//!
//! NCCL reports the operations of a launch plan together: it starts all, enqueues all, then stops all in the same
//! order. So they overlap, and the times of a single one are unknown:
//!
//! ```text
//!   NCCL:   start a   start b ────────────────── stop a   stop b
//!   shown:  ├── a ───┤├───────── b ─────────────┤
//! ```

use crate::timeline::builder::TimelineBuilder;
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, RegionKey, RegionNumber, Source};
use crate::timeline::model::ProcessModel;
use nccl_events::Kind;
use nccl_events::archive::RegionClass;
use nccl_events::ids::index_u32;
use tables::OperationRow;

/// The enqueueing of an operation, by thread, launch plan and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Enqueueing {
    thread: u32,
    plan: u64,
    start: u64,
    order: u32,
    stop: u64,
    activity: u32,
    region: RegionNumber,
    kind: Kind,
}

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut order: Vec<Enqueueing> = Vec::with_capacity(model.links.activities.all.len());
    for (at, activity) in model.links.activities.all.iter().enumerate() {
        let operation = model.tables.operation(activity.operation);
        let (suffix, kind) = match activity.operation {
            OperationRow::CeColl(_) => (" (CE) enqueue", Kind::CeColl),
            OperationRow::Coll(_) => (" enqueue", Kind::Coll),
            OperationRow::P2p(_) => (" enqueue", Kind::P2p),
        };
        order.push(Enqueueing {
            thread: operation.thread,
            plan: operation.plan,
            start: operation.start,
            order: operation.order,
            stop: model.end(&operation),
            activity: index_u32(at),
            region: builder.region(RegionKey::func(RegionClass::Enqueue, operation.func, suffix).showing(kind)),
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
            let source = Source::Activity(one.activity);
            let instance = RegionInstance::new(source, one.order, InstanceKind::Enqueue, one.region);
            let start = one.start;
            builder.on_thread(one.thread, TimedInstance { start, end, instance });
        }
    }
}
