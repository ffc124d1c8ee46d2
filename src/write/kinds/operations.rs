//! Collective and point-to-point operations as they ran, on the lane of the communicator's rank.

use crate::journal::record::Fields;
use crate::write::canvas::{Canvas, Scene};
use crate::write::collective;
use crate::write::figure::{Figure, Shape};
use crate::write::interval::Interval;
use crate::write::lanes::{Item, LaneKey, Siblings};
use crate::write::messages::{Exchange, Messages};
use crate::write::options::CollectiveRecords;
use crate::write::place::place;

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    // A rank that did nothing is still a member of its communicator.
    for context in 0..place(scene.assembly.contexts.len()) {
        canvas.lane(LaneKey::Communicator(context));
    }
    let mut order: Vec<Drawn> = Vec::new();
    for (at, activity) in scene.correlation.activities.iter().enumerate() {
        let Some(operation) = scene.assembly.operation(activity.operation) else {
            continue;
        };
        if scene.correlation.replays.is_at_capture(activity.operation) {
            // It was put into a graph and did not run: only its enqueueing is drawn.
            continue;
        }
        let interval = scene.intervals.get(at).copied().flatten();
        match (scene.assembly.find_context(operation.context), interval) {
            (Some(context), Some(interval)) => order.push(Drawn {
                context,
                interval,
                enqueued: operation.start,
                activity: place(at),
                at_home: false,
            }),
            // Its enqueueing is drawn; without a communicator it has no lane.
            _ => canvas.counts.foreign += 1,
        }
    }
    order.sort_by_key(|drawn| {
        let Interval { start, .. } = drawn.interval;
        (drawn.context, start, drawn.enqueued, drawn.activity)
    });
    for of_rank in order.chunk_by_mut(|a, b| a.context == b.context) {
        let mut siblings = Siblings::default();
        for drawn in of_rank.iter_mut() {
            put(canvas, &mut siblings, drawn);
        }
        add_messages(scene, canvas, of_rank);
    }
}

/// An operation on its way to the lanes.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    context: u32,
    interval: Interval,
    enqueued: u64,
    activity: u32,
    at_home: bool,
}

fn put(canvas: &mut Canvas, siblings: &mut Siblings, drawn: &mut Drawn) {
    let Interval { start, end, .. } = drawn.interval;
    canvas.counts.starts_moved += u64::from(drawn.interval.moved_ns > 0);
    let lane = siblings.take(start, end);
    drawn.at_home = lane == 0;
    let figure = Figure {
        operation: drawn.activity,
        shape: Shape::Operation,
    };
    let key = LaneKey::Communicator(drawn.context);
    canvas.on_lane(key, lane, Item { start, end, figure });
}

/// Records come in the order of enqueueing: it is the same on all ranks, and readers match by order.
/// Which operation of a kernel ends first differs from rank to rank.
fn add_messages(scene: &Scene<'_>, canvas: &mut Canvas, of_rank: &mut [Drawn]) {
    of_rank.sort_by_key(|drawn| (drawn.enqueued, drawn.activity));
    let mut messages = Messages::default();
    for drawn in of_rank.iter() {
        if let Some(exchange) = exchange(scene, canvas, drawn.context, drawn.activity) {
            let exchange = match (exchange, scene.options.collectives) {
                (Exchange::Collective, CollectiveRecords::Nonblocking) => Exchange::Requested {
                    at: drawn.enqueued.min(drawn.interval.end),
                },
                (Exchange::Collective, CollectiveRecords::None) => continue,
                (exchange, _) => exchange,
            };
            let span = (drawn.interval.start, drawn.interval.end);
            messages.add(drawn.activity, exchange, span, drawn.at_home);
        }
    }
    if let Some(drawn) = of_rank.first() {
        canvas.messages(LaneKey::Communicator(drawn.context), messages);
    }
}

/// The communication records of an operation; none where a reader could not make sense of them.
fn exchange(scene: &Scene<'_>, canvas: &mut Canvas, context: u32, at: u32) -> Option<Exchange> {
    let activity = scene.activity(at)?;
    let operation = scene.assembly.operation(activity.operation)?;
    let member = scene.comms.member(context)?;
    let ranks = scene.comms.comm(member)?.ranks;
    match operation.fields {
        Fields::Coll { func, .. } | Fields::CeColl { func, .. } => {
            if collective::shape(scene.symbols.text(func)).is_some() {
                canvas.counts.sizes_guessed += u64::from(ranks == 0);
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
