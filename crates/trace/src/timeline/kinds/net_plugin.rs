//! What a network plugin tells of its own work for a step, e.g. each queue pair's part of a message.
//!
//! Its events begin and end across what the step waits for, so they have a row of their own under that of
//! the step's slot; parts of one message overlap and go to its siblings.

use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::{Item, LaneKey, Siblings};
use nccl_events::Kind;

use super::steps;

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut order: Vec<(LaneKey, u64, u32)> = Vec::new();
    for (at, operation) in scene.assembly.of_kind(Kind::NetPlugin) {
        let step = operation.parent_at();
        let step = step.and_then(|at| scene.assembly.operation(at));
        let lane = step.and_then(|step| steps::lane(scene, canvas, step));
        if let Some(LaneKey::Step(owner, channel, send, peer, slot)) = lane {
            let key = LaneKey::Plugin(owner, channel, send, peer, slot);
            order.push((key, operation.start, at));
        }
    }
    order.sort_unstable();
    for of_lane in order.chunk_by(|a, b| a.0 == b.0) {
        let mut siblings = Siblings::default();
        for &(key, start, at) in of_lane {
            let Some(operation) = scene.assembly.operation(at) else {
                continue;
            };
            let shape = match key {
                LaneKey::Plugin(_, _, true, ..) => Shape::PluginSend,
                _ => Shape::PluginReceive,
            };
            let figure = Figure::of(at, shape);
            let end = scene.end(operation).max(start);
            let lane = siblings.take(start, end);
            canvas.drawn(at);
            canvas.on_lane(key, lane, Item { start, end, figure });
        }
    }
}
