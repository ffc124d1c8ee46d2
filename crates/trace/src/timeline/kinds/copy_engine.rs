//! The parts of a copy-engine collective: synchronisations and batches of copies.
//!
//! NCCL tells when the host enqueued them, so they are nested in the enqueueing of their
//! collective, on the lane of the thread. The collective itself is drawn with the other operations.

use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::Item;
use nccl_events::Kind;

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    for (at, operation) in scene.assembly.of_kinds([Kind::CeSync, Kind::CeBatch]) {
        let figure = Figure::of(at, Shape::Call);
        let (start, end) = (operation.start, scene.end(operation));
        canvas.drawn(at);
        canvas.told(figure, operation);
        canvas.on_thread(operation.thread, Item { start, end, figure });
    }
}
