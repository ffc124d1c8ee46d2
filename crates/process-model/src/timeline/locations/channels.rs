//! Kernel channels with GPU times, on the location of their channel.

mod phases;

use self::phases::Around;
use crate::links::stamps::count;
use crate::timeline::builder::TimelineBuilder;
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, RegionKey};
use crate::timeline::location::{ByLocation, LocationKey, Siblings};
use crate::timeline::model::ProcessModel;
use clocks::gpu::GpuClock;
use nccl_events::Kind;
use nccl_events::archive::RegionClass;
use nccl_events::ids::index;
use tables::{Event, KernelCh, Row};

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut order = ByLocation::new();
    for (row, event) in model.tables.rows::<KernelCh>() {
        let owner = model.owner(event);
        if owner.is_foreign() {
            builder.count_without_communicator(model.tables.is_of_foreign_context(event));
        }
        if let Some(why) = model.links.stamps.distrust(row) {
            count(why, &mut builder.counts);
        }
        let (start, end) = span(model, row, event);
        order.add(LocationKey::Channel(owner, event.fields.channel), (start, end, row));
    }
    let phases = phases::by_channel(model);
    for (key, of_location) in order.in_order() {
        let mut siblings = Siblings::default();
        let shown = RegionKey::fixed(RegionClass::Channel, "ncclKernelChannel");
        let region = builder.region(shown.showing(Kind::KernelCh));
        let mut location = builder.location(key);
        for (start, end, row) in of_location {
            location.builder().shown(Kind::KernelCh);
            let event = &model.tables[row];
            let instance = RegionInstance::of(row, event.order, InstanceKind::Channel, region);
            let sibling = siblings.take(start, end);
            location.add(sibling, TimedInstance { start, end, instance });
            let clock = on_gpu(model, row, event);
            if let (Some(phases), Some((clock, _))) = (phases.get(&row), clock) {
                let span = (start, end);
                let around = Around { sibling, span, clock };
                phases::build(model, &mut location, phases, around);
            }
        }
    }
}

fn span(model: &ProcessModel<'_>, row: Row<KernelCh>, event: &Event<KernelCh>) -> (u64, u64) {
    match on_gpu(model, row, event) {
        Some((clock, (start, stop))) => (clock.host_ns(start), clock.host_ns(stop)),
        None => (event.start, model.end(event).max(event.start)),
    }
}

/// The clock and stamps that a channel is shown with; `None` if it is shown by host times.
fn on_gpu<'a>(
    model: &'a ProcessModel<'_>,
    row: Row<KernelCh>,
    event: &Event<KernelCh>,
) -> Option<(&'a GpuClock, (u64, u64))> {
    let stamps = model.links.stamps.of_channel(row, event)?;
    let clock = model.gpu_clocks.get(index(event.context_at()?))?;
    Some((clock, stamps))
}
