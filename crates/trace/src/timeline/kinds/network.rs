//! Proxy operations: network transfers, on the lane of their connection.
//!
//! Since NCCL 2.27 a proxy operation starts when it is appended and may wait for those before it on the
//! same connection. The lane shows one at a time: the wait begins on it when the one before has ended
//! (attribute `nccl.queued_ns` has all of it), nested `queued` until the first progress.

use crate::tables::assembly::Operation;
use crate::tables::place::index;
use crate::timeline::canvas::{Canvas, Row, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::kinds::by_lane::ByLane;
use crate::timeline::lanes::{Item, LaneKey, Siblings};
use nccl_events::Body;
use nccl_events::event;
use nccl_events::{Kind, state};

/// A proxy operation on its way to its lane, by start. On the lane the operation itself is far away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Transfer {
    start: u64,
    at: u32,
    end: u64,
    /// When it made progress; where that is not known its end, if it has none, or its start.
    waits_until: u64,
    /// Whether NCCL told of its progress.
    is_told: bool,
}

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut order = ByLane::new();
    for (at, operation) in scene.assembly.of_kind(Kind::ProxyOp) {
        if let Body::ProxyOp(event::ProxyOp {
            channel,
            peer,
            is_send,
            ..
        }) = scene.assembly.fields_of(operation)
        {
            let owner = scene.owner(operation);
            if owner.is_foreign() {
                scene.count_without_communicator(operation, canvas);
            }
            let key = LaneKey::Net(owner, channel, is_send, peer);
            let start = operation.start;
            let end = end(scene, canvas, at, operation).max(start);
            let progress = scene.assembly.state_time(at, state::PROXY_OP_IN_PROGRESS);
            let waits_until = match progress {
                Some(progress) => progress.clamp(start, end),
                None if scene.is_unfinished(at) => end,
                None => start,
            };
            let transfer = Transfer {
                start,
                at,
                end,
                waits_until,
                is_told: progress.is_some(),
            };
            order.add(key, transfer);
        }
    }
    for (key, of_lane) in order.in_order() {
        let mut siblings = Siblings::default();
        let mut row = canvas.row(key);
        row.reserve(of_lane.len());
        // A row is of one direction, which tells the region.
        let first = of_lane.first().map(|transfer| transfer.at);
        if let Some((at, operation)) =
            first.and_then(|at| Some((at, scene.assembly.operation(at)?)))
        {
            row.told(Figure::of(at, Shape::Net), operation);
        }
        for transfer in of_lane {
            draw_transfer(&mut row, &mut siblings, transfer);
        }
    }
}

fn draw_transfer(row: &mut Row<'_>, siblings: &mut Siblings, transfer: Transfer) {
    let Transfer {
        start,
        at,
        end,
        waits_until,
        is_told,
    } = transfer;
    let start = start.max(siblings.free_from().min(waits_until));
    let lane = siblings.take(start, end);
    let figure = |shape| Figure::of(at, shape);
    row.canvas().drawn(at);
    let whole = Item {
        start,
        end,
        figure: figure(Shape::Net),
    };
    row.draw(lane, whole);
    if is_told && waits_until > start {
        let queued = Item {
            start,
            end: waits_until,
            figure: figure(Shape::Queued),
        };
        row.draw(lane, queued);
    }
}

/// When it ended. One on a connection that NCCL never reports on ends with its collective.
fn end(scene: &Scene<'_>, canvas: &mut Canvas, at: u32, operation: &Operation) -> u64 {
    if !scene.correlation.is_silent(at) {
        return scene.end(operation);
    }
    canvas.counts.closed += 1;
    let parent = operation.parent_at();
    let interval = scene
        .correlation
        .place_of(parent)
        .and_then(|activity| scene.intervals.get(index(activity)).copied().flatten());
    interval.map_or(operation.start, |interval| interval.end)
}
