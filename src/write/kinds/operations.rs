//! Collective and point-to-point operations as they ran, on the lane of the communicator's rank.

use crate::journal::record::Fields;
use crate::write::canvas::{Canvas, Scene};
use crate::write::collective;
use crate::write::figure::{Figure, Shape};
use crate::write::interval::Interval;
use crate::write::lanes::{Item, LaneKey, Siblings};
use crate::write::messages::{Exchange, Messages};
use crate::write::place::place;

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    // A rank that did nothing is still a member of its communicator.
    for context in 0..place(scene.assembly.contexts.len()) {
        canvas.lane(LaneKey::Communicator(context));
    }
    let mut order: Vec<(u32, Interval, u32)> = Vec::new();
    for (at, activity) in scene.correlation.activities.iter().enumerate() {
        let Some(operation) = scene.assembly.operation(activity.operation) else {
            continue;
        };
        let interval = scene.intervals.get(at).copied().flatten();
        match (scene.assembly.find_context(operation.context), interval) {
            (Some(context), Some(interval)) => order.push((context, interval, place(at))),
            // Its enqueueing is drawn; without a communicator it has no lane.
            _ => canvas.counts.foreign += 1,
        }
    }
    order.sort_by_key(|&(context, interval, at)| (context, interval.start, interval.end, at));
    let mut context_now = None;
    let mut siblings = Siblings::default();
    let mut messages = Messages::default();
    for (context, interval, at) in order {
        if context_now != Some(context) {
            if let Some(done) = context_now.replace(context) {
                canvas.messages(LaneKey::Communicator(done), std::mem::take(&mut messages));
            }
            siblings = Siblings::default();
        }
        canvas.counts.starts_moved += u64::from(interval.moved_ns > 0);
        let lane = siblings.take(interval.start, interval.end);
        let figure = Figure {
            operation: at,
            shape: Shape::Operation,
        };
        let item = Item {
            start: interval.start,
            end: interval.end,
            figure,
        };
        canvas.on_lane(LaneKey::Communicator(context), lane, item);
        if let Some(exchange) = exchange(scene, canvas, context, at) {
            messages.add(at, exchange, (interval.start, interval.end), lane == 0);
        }
    }
    if let Some(done) = context_now {
        canvas.messages(LaneKey::Communicator(done), messages);
    }
}

/// The communication records of an operation; none where a reader could not make sense of them.
fn exchange(scene: &Scene<'_>, canvas: &mut Canvas, context: u32, at: u32) -> Option<Exchange> {
    let activity = scene.activity(at)?;
    let operation = scene.assembly.operation(activity.operation)?;
    let member = scene.comms.member(context)?;
    let ranks = scene.comms.comm(member)?.ranks;
    match operation.fields {
        Fields::Coll { func, .. } => {
            if collective::shape(scene.symbols.text(func)).is_some() {
                return Some(Exchange::Collective);
            }
            canvas.counts.collectives_unknown += 1;
            None
        }
        Fields::P2p { func, peer, .. } => {
            let exchange = match scene.symbols.text(func) {
                "Send" => Some(Exchange::Send),
                "Recv" => Some(Exchange::Receive),
                _ => None,
            };
            let peer = u32::try_from(peer).ok();
            let known = peer.filter(|&peer| ranks == 0 || peer < ranks);
            if known.is_none() || exchange.is_none() {
                canvas.counts.messages_without_peer += 1;
                return None;
            }
            exchange
        }
        _ => None,
    }
}
