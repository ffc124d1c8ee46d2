//! What a proxy thread does between transfers: it idles, sleeps, wakes up and takes operations. On a row
//! of its own, because what a thread calls nests and this does not belong to a call.
//!
//! ```text
//!   sleep:   start ─ ProxySleep ── 16 ─ ProxyWakeup ─ stop
//!   append:  start ─ ProxyAppend ─ 18 ─────────────── stop
//! ```
//!
//! Up to NCCL 2.26 every turn of the loop starts and stops one without a state: those say
//! nothing, are not drawn, and are counted.

use crate::tables::assembly::{Assembly, Operation};
use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::figure::Shape;
use crate::timeline::kinds::parts::Parts;
use crate::timeline::lanes::{LaneKey, Siblings};
use nccl_events::{Kind, state};

const fn phase(number: u32) -> Option<Shape> {
    match number {
        state::PROXY_CTRL_IDLE => Some(Shape::ProxyIdle),
        state::PROXY_CTRL_ACTIVE => Some(Shape::ProxyActive),
        state::PROXY_CTRL_SLEEP => Some(Shape::ProxySleep),
        state::PROXY_CTRL_WAKEUP => Some(Shape::ProxyWakeup),
        state::PROXY_CTRL_APPEND | state::PROXY_CTRL_APPEND_END => Some(Shape::ProxyAppend),
        _ => None,
    }
}

/// What the thread did, with the beginnings, in order; nothing where NCCL told no state.
fn phases(assembly: &Assembly, at: u32, control: &Operation) -> Parts {
    let mut phases = Parts::new();
    for change in assembly.states_of(at) {
        let Some(shape) = phase(change.state) else {
            continue;
        };
        // Nothing else is known of the time before the first state.
        let begin = if phases.is_empty() {
            control.start
        } else {
            change.time.max(control.start)
        };
        phases.add(shape, begin);
    }
    phases
}

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut order: Vec<(LaneKey, u64, u32)> = Vec::new();
    for (at, operation) in scene.assembly.of_kind(Kind::ProxyCtrl) {
        let thread = scene.assembly.first_place_of_thread(operation.thread);
        order.push((LaneKey::Proxy(thread), operation.start, at));
    }
    order.sort_unstable();
    for of_thread in order.chunk_by(|a, b| a.0 == b.0) {
        let mut siblings = Siblings::default();
        for &(key, start, at) in of_thread {
            let Some(control) = scene.assembly.operation(at) else {
                continue;
            };
            let phases = phases(scene.assembly, at, control);
            if phases.is_empty() {
                continue;
            }
            let closed = scene.correlation.closed_at(at);
            canvas.counts.closed += u64::from(closed.is_some());
            let end = closed.unwrap_or_else(|| scene.end(control)).max(start);
            let lane = siblings.take(start, end);
            canvas.drawn(at);
            canvas.row(key).chain(lane, at, phases.all(), end);
        }
    }
}
