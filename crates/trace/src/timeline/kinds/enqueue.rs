//! The enqueueing of operations, on the lane of the thread.
//!
//! NCCL reports the operations of a launch plan together: it starts all, enqueues all, then stops all in
//! the same order. So they overlap, and nothing is known of each alone:
//!
//! ```text
//!   NCCL:   start a   start b ────────────────── stop a   stop b
//!   drawn:  ├── a ───┤├───────── b ─────────────┤
//! ```

use crate::tables::near::visit;
use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::Item;

/// Thread, launch plan, start, place of the operation, stop.
type Enqueueing = (u32, u64, u64, u32, u64);

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut order: Vec<Enqueueing> = Vec::new();
    let activities = visit(&scene.correlation.activities, |activity| {
        scene.assembly.operation(activity.operation)
    });
    for activity in activities {
        let at = activity.operation;
        if let Some(operation) = scene.assembly.operation(at) {
            canvas.told(Figure::of(at, Shape::Enqueue), operation);
            order.push((
                operation.thread,
                activity.plan,
                operation.start,
                at,
                scene.end(operation),
            ));
        }
    }
    order.sort_unstable();
    for plan in order.chunk_by(|a, b| a.1 != 0 && (a.0, a.1) == (b.0, b.1)) {
        let first_stop = plan.iter().map(|&(.., stop)| stop).min();
        let starts = plan.iter().skip(1).map(|&(_, _, start, ..)| Some(start));
        for (&(thread, _, start, at, stop), next) in plan.iter().zip(starts.chain([None])) {
            let until = next.or(first_stop).filter(|&until| until >= start);
            let end = until.map_or(stop, |until| until.min(stop));
            canvas.counts.enqueued_together += u64::from(end < stop);
            canvas.drawn(at);
            let figure = Figure::of(at, Shape::Enqueue);
            canvas.on_thread(thread, Item { start, end, figure });
        }
    }
}
