//! Proxy steps: chunks on their way, each on the lane of its slot of the connection.
//!
//! NCCL says what a step waits for by its states; the lane shows them one after the other:
//!
//! ```text
//!   send:  start ─ SendGPUWait ─ 20 ─ SendPeerWait ─ 9 ─ SendWait ──────── stop
//!   recv:  start ─ RecvWait ──── 11 ─ RecvFlushWait ─ 12 ─ RecvGPUWait ─── stop
//! ```

use crate::event::state;
use crate::journal::record::Fields;
use crate::write::assembly::{Assembly, Operation};
use crate::write::canvas::{Canvas, Scene};
use crate::write::closing::slot;
use crate::write::figure::{Figure, Shape};
use crate::write::lanes::{LaneKey, Siblings};
use crate::write::place::place;

/// What a step waits for in a state.
const fn phase(number: u32) -> Option<Shape> {
    match number {
        state::PROXY_STEP_SEND_GPU_WAIT => Some(Shape::SendGpuWait),
        state::PROXY_STEP_SEND_PEER_WAIT => Some(Shape::SendPeerWait),
        state::PROXY_STEP_SEND_WAIT => Some(Shape::SendWait),
        state::PROXY_STEP_RECV_WAIT => Some(Shape::RecvWait),
        state::PROXY_STEP_RECV_FLUSH_WAIT => Some(Shape::RecvFlushWait),
        state::PROXY_STEP_RECV_GPU_WAIT => Some(Shape::RecvGpuWait),
        _ => None,
    }
}

/// What a step does before the state that it was first seen in.
const fn first(seen: Shape) -> Shape {
    match seen {
        Shape::SendPeerWait | Shape::SendWait => Shape::SendGpuWait,
        Shape::RecvFlushWait | Shape::RecvGpuWait => Shape::RecvWait,
        seen => seen,
    }
}

/// The phases of a step with their beginnings, in order; one for the whole step if NCCL told no state.
fn phases(assembly: &Assembly, at: u32, step: &Operation) -> Vec<(Shape, u64)> {
    let mut phases: Vec<(Shape, u64)> = Vec::with_capacity(3);
    for change in assembly.states_of(at) {
        let Some(shape) = phase(change.state) else {
            continue;
        };
        let begin = change.time.max(step.start);
        match phases.last() {
            None => {
                phases.push((first(shape), step.start));
                if first(shape) != shape {
                    phases.push((shape, begin));
                }
            }
            // A state that comes late says nothing new about a phase that is there already.
            Some(_) if phases.iter().any(|&(before, _)| before == shape) => {}
            Some(_) => phases.push((shape, begin)),
        }
    }
    if phases.is_empty() {
        phases.push((Shape::Step, step.start));
    }
    phases
}

/// Whether a figure is the last phase of its step: what is known when the step ends goes there.
#[must_use]
pub(in crate::write) fn is_last(scene: &Scene<'_>, figure: Figure) -> bool {
    let step = scene.assembly.operation(figure.operation);
    let phases = step.map(|step| phases(scene.assembly, figure.operation, step));
    let last = phases.and_then(|phases| phases.last().map(|&(shape, _)| shape));
    last == Some(figure.shape)
}

/// The lane of a step: its slot of the connection of its proxy operation. `None` where NCCL or the journal does not
/// tell the operation.
#[must_use]
pub(super) fn lane(scene: &Scene<'_>, canvas: &mut Canvas, step: &Operation) -> Option<LaneKey> {
    let Fields::ProxyStep { step: number } = step.fields else {
        return None;
    };
    let parent = scene.assembly.find(step.parent)?;
    let parent = scene.assembly.operation(parent)?;
    let Fields::ProxyOp {
        channel,
        peer,
        is_send,
        ..
    } = parent.fields
    else {
        return None;
    };
    let owner = scene.owner(parent.context, canvas);
    Some(LaneKey::Step(owner, channel, is_send, peer, slot(number)))
}

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut order: Vec<(LaneKey, u64, u32)> = Vec::new();
    for (at, operation) in scene.assembly.operations.iter().enumerate() {
        if let Some(key) = lane(scene, canvas, operation) {
            order.push((key, operation.start, place(at)));
        }
    }
    order.sort_unstable();
    for of_lane in order.chunk_by(|a, b| a.0 == b.0) {
        let mut siblings = Siblings::default();
        for &(key, start, at) in of_lane {
            draw_step(scene, canvas, &mut siblings, (key, start, at));
        }
    }
}

fn draw_step(
    scene: &Scene<'_>,
    canvas: &mut Canvas,
    siblings: &mut Siblings,
    (key, start, at): (LaneKey, u64, u32),
) {
    let Some(step) = scene.assembly.operation(at) else {
        return;
    };
    let closed = scene.correlation.closed_at(at);
    canvas.counts.closed += u64::from(closed.is_some());
    let end = closed.unwrap_or_else(|| scene.end(step)).max(start);
    let lane = siblings.take(start, end);
    canvas.drawn(at);
    let phases = phases(scene.assembly, at, step);
    canvas.chain(key, lane, at, &phases, end);
}
