//! Kernel channels on the GPU's timer, on the lane of their channel.

use crate::journal::record::Fields;
use crate::write::assembly::Operation;
use crate::write::canvas::{Canvas, Scene};
use crate::write::figure::{Figure, Shape};
use crate::write::gpu_clock::stamps;
use crate::write::lanes::{Item, LaneKey, Siblings};
use crate::write::place::{index, place};

/// Whether the GPU's times are there but make no sense (NCCL's ring of stamps was overrun).
#[must_use]
pub(in crate::write) fn is_suspicious(operation: &Operation) -> bool {
    let Fields::KernelCh { gpu_ns, .. } = operation.fields else {
        return false;
    };
    let told = gpu_ns != 0 || operation.value != 0;
    let ended = operation.end().is_some() || operation.value != 0;
    told && ended && stamps(gpu_ns, operation.value).is_none()
}

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut order: Vec<(LaneKey, u64, u64, u32)> = Vec::new();
    for (at, operation) in scene.assembly.operations.iter().enumerate() {
        let Fields::KernelCh { channel, .. } = operation.fields else {
            continue;
        };
        let owner = scene.owner(operation.context, canvas);
        if is_suspicious(operation) {
            canvas.counts.gpu_times_suspicious += 1;
        }
        let (start, end) = span(scene, operation);
        order.push((LaneKey::Channel(owner, channel), start, end, place(at)));
    }
    order.sort_unstable();
    let mut key_now = None;
    let mut siblings = Siblings::default();
    for (key, start, end, at) in order {
        if key_now != Some(key) {
            key_now = Some(key);
            siblings = Siblings::default();
        }
        canvas.drawn(at);
        let figure = Figure {
            operation: at,
            shape: Shape::Channel,
        };
        let lane = siblings.take(start, end);
        canvas.on_lane(key, lane, Item { start, end, figure });
    }
}

fn span(scene: &Scene<'_>, operation: &Operation) -> (u64, u64) {
    let host = (operation.start, scene.end(operation).max(operation.start));
    let Fields::KernelCh { gpu_ns, .. } = operation.fields else {
        return host;
    };
    let context = scene.assembly.find_context(operation.context);
    let clock = context.and_then(|at| scene.gpu_clocks.get(index(at)));
    match (stamps(gpu_ns, operation.value), clock) {
        (Some((start, stop)), Some(clock)) => (clock.host_ns(start), clock.host_ns(stop)),
        _ => host,
    }
}
