//! What threads did: calls, launches and plans, on the lane of the thread.

use crate::tables::place::place;
use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::Item;
use nccl_events::{Kind, state};

const DRAWN: [Kind; 5] = [
    Kind::GroupApi,
    Kind::CollApi,
    Kind::P2pApi,
    Kind::KernelLaunch,
    Kind::Group,
];

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    for (at, call) in scene.assembly.comm_calls.iter().enumerate() {
        let shape = if call.is_init {
            Shape::CommInit
        } else {
            Shape::CommFinalize
        };
        let figure = Figure::of(place(at), shape);
        let (start, end) = (call.start, call.end);
        canvas.on_thread(call.thread, Item { start, end, figure });
    }
    for call in &scene.correlation.composites.calls {
        let ends = call.calls.iter();
        let ends = ends.filter_map(|&at| Some(scene.end(scene.assembly.operation(at)?)));
        let (Some(&at), Some(end)) = (call.calls.first(), ends.max()) else {
            continue;
        };
        let Some(first) = scene.assembly.operation(at) else {
            continue;
        };
        let figure = Figure::of(at, Shape::ComposedCall);
        let start = first.start;
        canvas.on_thread(first.thread, Item { start, end, figure });
    }
    for (at, operation) in scene.assembly.of_kinds(DRAWN) {
        let start = operation.start;
        let end = scene.end(operation);
        let figure = |shape| Figure::of(at, shape);
        canvas.drawn(at);
        let whole = Item {
            start,
            end,
            figure: figure(Shape::Call),
        };
        canvas.told(whole.figure, operation);
        canvas.on_thread(operation.thread, whole);
        if operation.kind() != Kind::GroupApi {
            continue;
        }
        // State 23 ends ncclGroupStart, state 24 begins ncclGroupEnd.
        if let Some(until) = scene.assembly.state_time(at, state::GROUP_START_API_STOP) {
            let end = until.clamp(start, end);
            let figure = figure(Shape::GroupStart);
            canvas.on_thread(operation.thread, Item { start, end, figure });
        }
        if let Some(from) = scene.assembly.state_time(at, state::GROUP_END_API_START) {
            let start = from.clamp(start, end);
            let figure = figure(Shape::GroupEnd);
            canvas.on_thread(operation.thread, Item { start, end, figure });
        }
    }
}
