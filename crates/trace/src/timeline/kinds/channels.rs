//! Kernel channels on the GPU's timer, on the lane of their channel.

use crate::clocks::gpu::GpuClock;
use crate::tables::assembly::Operation;
use crate::tables::place::index;
use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::kinds::by_lane::ByLane;
use crate::timeline::lanes::{Item, LaneKey, Siblings};
use nccl_events::Body;
use nccl_events::Kind;
use nccl_events::event;

use super::phases::{self, Around};

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut order = ByLane::new();
    for (at, operation) in scene.assembly.of_kind(Kind::KernelCh) {
        let Body::KernelCh(event::KernelCh { channel, .. }) = scene.assembly.fields_of(operation)
        else {
            continue;
        };
        let owner = scene.owner(operation);
        if owner.is_foreign() {
            scene.count_without_communicator(operation, canvas);
        }
        if let Some(why) = scene.correlation.stamps.distrust(at) {
            why.count(&mut canvas.counts);
        }
        let (start, end) = span(scene, at, operation);
        order.add(LaneKey::Channel(owner, channel), (start, end, at));
    }
    let phases = phases::by_channel(scene);
    for (key, of_lane) in order.in_order() {
        let mut siblings = Siblings::default();
        let mut row = canvas.row(key);
        for (start, end, at) in of_lane {
            row.canvas().drawn(at);
            let figure = Figure::of(at, Shape::Channel);
            let lane = siblings.take(start, end);
            row.draw(lane, Item { start, end, figure });
            let clock = scene
                .assembly
                .operation(at)
                .and_then(|operation| on_gpu(scene, at, operation));
            if let (Some(phases), Some((clock, _))) = (phases.get(&at), clock) {
                let span = (start, end);
                let around = Around { lane, span, clock };
                phases::draw(scene, &mut row, phases, around);
            }
        }
    }
}

fn span(scene: &Scene<'_>, at: u32, operation: &Operation) -> (u64, u64) {
    match on_gpu(scene, at, operation) {
        Some((clock, (start, stop))) => (clock.host_ns(start), clock.host_ns(stop)),
        None => (operation.start, scene.end(operation).max(operation.start)),
    }
}

/// The clock that a channel is shown by and its stamps; none where it is shown by host times.
fn on_gpu<'a>(
    scene: &Scene<'a>,
    at: u32,
    operation: &Operation,
) -> Option<(&'a GpuClock, (u64, u64))> {
    let stamps = scene
        .correlation
        .stamps
        .of_channel(scene.assembly, at, operation)?;
    let context = operation.context_at()?;
    let clock = scene.gpu_clocks.get(index(context))?;
    Some((clock, stamps))
}
