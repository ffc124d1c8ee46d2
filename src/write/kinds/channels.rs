//! Kernel channels on the GPU's timer, on the lane of their channel.

use crate::journal::record::Fields;
use crate::write::assembly::Operation;
use crate::write::canvas::{Canvas, Scene};
use crate::write::figure::{Figure, Shape};
use crate::write::gpu_clock::{GpuClock, stamps};
use crate::write::lanes::{Item, LaneKey, Siblings};
use crate::write::place::{index, place};

use super::phases::{self, Around};

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
    let phases = phases::by_channel(scene);
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
        let clock = scene
            .assembly
            .operation(at)
            .and_then(|it| gpu_clock(scene, it));
        if let (Some(phases), Some(clock)) = (phases.get(&at), clock) {
            let span = (start, end);
            let around = Around {
                key,
                lane,
                span,
                clock,
            };
            phases::draw(scene, canvas, phases, around);
        }
    }
}

fn span(scene: &Scene<'_>, operation: &Operation) -> (u64, u64) {
    let host = (operation.start, scene.end(operation).max(operation.start));
    let Fields::KernelCh { gpu_ns, .. } = operation.fields else {
        return host;
    };
    match (stamps(gpu_ns, operation.value), gpu_clock(scene, operation)) {
        (Some((start, stop)), Some(clock)) => (clock.host_ns(start), clock.host_ns(stop)),
        _ => host,
    }
}

/// The clock that a channel is shown by; none where it is shown by host times.
fn gpu_clock(scene: &Scene<'_>, operation: &Operation) -> Option<GpuClock> {
    let Fields::KernelCh { gpu_ns, .. } = operation.fields else {
        return None;
    };
    let _sensible = stamps(gpu_ns, operation.value)?;
    let context = scene.assembly.find_context(operation.context)?;
    scene.gpu_clocks.get(index(context)).copied()
}
