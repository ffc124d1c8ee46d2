//! Collective and point-to-point operations as they ran, on the lane of the communicator's rank. What NCCL makes of
//! sends and receives is drawn around them; those of them that overlap are beside it, on siblings.

use nccl_events::event;
use std::collections::BTreeMap;

use crate::links::interval::Interval;
use crate::tables::near::visit;
use crate::tables::place::{NOWHERE, index, place};
use crate::tables::room;
use crate::timeline::canvas::{Canvas, Row, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::{Item, LaneKey, Siblings};
use crate::timeline::measurement::Cut;
use crate::timeline::messages::{Exchange, Messages};
use journal::format::record::Symbol;
use journal::part::options::CollectiveRecords;
use nccl_events::Body;
use nccl_events::Kind;

/// The first version of the interface that tells of calls.
const TELLS_CALLS: u8 = 5;

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    // A rank that did nothing is still a member of its communicator.
    for context in 0..place(scene.assembly.contexts.len()) {
        canvas.lane(LaneKey::Communicator(context));
    }
    let mut order: Vec<Vec<Drawn>> = vec![Vec::new(); scene.assembly.contexts.len()];
    let activities = visit(&scene.correlation.activities, |activity| {
        scene.assembly.operation(activity.operation)
    });
    for (at, activity) in activities.enumerate() {
        let Some(operation) = scene.assembly.operation(activity.operation) else {
            continue;
        };
        if scene.correlation.replays.is_at_capture(activity.operation) {
            // It was put into a graph and did not run: only its enqueueing is drawn.
            continue;
        }
        let interval = scene.intervals.get(at).copied().flatten();
        match (operation.context_at(), interval) {
            (Some(context), Some(interval)) => {
                let figure = Figure::of(place(at), Shape::Operation);
                canvas.told(figure, operation);
                let drawn = Drawn {
                    context,
                    interval,
                    enqueued: operation.start,
                    figure,
                    kind: operation.kind(),
                    func: operation.func(),
                    at_home: false,
                };
                add(&mut order, drawn);
            }
            // Its enqueueing is drawn; without a communicator it has no lane.
            _ => scene.count_without_communicator(operation, canvas),
        }
    }
    let composites = composites(scene, order.iter().flatten());
    for composite in composites {
        add(&mut order, composite);
    }
    for mut of_rank in order {
        of_rank.sort_by_key(|drawn| {
            let Interval { start, .. } = drawn.interval;
            let Figure {
                shape, operation, ..
            } = drawn.figure;
            (start, drawn.enqueued, shape != Shape::Composite, operation)
        });
        let mut rows = Rows::default();
        let context = of_rank.first().map(|drawn| drawn.context);
        if let Some(context) = context {
            let mut row = canvas.row(LaneKey::Communicator(context));
            row.reserve(of_rank.len());
            for drawn in &mut of_rank {
                put(scene, &mut row, &mut rows, drawn);
            }
        }
        add_messages(scene, canvas, &mut of_rank);
    }
}

/// Puts an operation among those of its rank.
fn add(order: &mut [Vec<Drawn>], drawn: Drawn) {
    if let Some(of_rank) = order.get_mut(index(drawn.context)) {
        room::push(of_rank, drawn);
    }
}

/// An operation on its way to the lanes.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    context: u32,
    interval: Interval,
    enqueued: u64,
    figure: Figure,
    /// Of the operation: on the way it is far away.
    kind: Kind,
    func: Symbol,
    at_home: bool,
}

impl Drawn {
    /// Whether NCCL calls it a collective.
    const fn is_collective(&self) -> bool {
        let is_operation = matches!(self.figure.shape, Shape::Operation);
        is_operation && matches!(self.kind, Kind::Coll | Kind::CeColl)
    }
}

/// The collectives around operations: from the first of those to the last.
fn composites<'a>(scene: &Scene<'_>, operations: impl Iterator<Item = &'a Drawn>) -> Vec<Drawn> {
    let mut enqueued: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for drawn in operations {
        let composites = &scene.correlation.composites;
        if let Some(at) = composites.place_of_member(drawn.figure.operation) {
            let first = enqueued
                .entry(at)
                .or_insert((drawn.enqueued, drawn.context));
            *first = (first.0.min(drawn.enqueued), first.1);
        }
    }
    let all = &scene.correlation.composites.all;
    let drawn = enqueued
        .into_iter()
        .filter_map(|(at, (enqueued, context))| {
            let composite = all.get(index(at))?;
            Some(Drawn {
                context,
                interval: composite.interval(scene.intervals)?,
                enqueued,
                figure: Figure::of(composite.leader()?, Shape::Composite),
                kind: Kind::P2p,
                func: Symbol::NONE,
                at_home: false,
            })
        });
    drawn.collect()
}

/// The rows of a rank.
#[derive(Debug, Default)]
struct Rows {
    siblings: Siblings,
    /// The row that a composite is on, and until when there is something in it.
    composites: BTreeMap<u32, (usize, u64)>,
}

impl Rows {
    /// Takes a row for an operation or a composite, which is inside `composite` or is that.
    fn take(&mut self, drawn: &Drawn, composite: Option<u32>) -> usize {
        let Interval { start, end, .. } = drawn.interval;
        if let (Shape::Operation, Some(composite)) = (drawn.figure.shape, composite)
            && let Some((row, free_from)) = self.composites.get_mut(&composite)
            && *free_from <= start
        {
            *free_from = end;
            return *row;
        }
        let row = self.siblings.take(start, end);
        if let (Shape::Composite, Some(composite)) = (drawn.figure.shape, composite) {
            self.composites.insert(composite, (row, start));
        }
        row
    }
}

fn put(scene: &Scene<'_>, row: &mut Row<'_>, rows: &mut Rows, drawn: &mut Drawn) {
    let Interval { start, end, .. } = drawn.interval;
    let figure = drawn.figure;
    let moved = figure.shape == Shape::Operation && drawn.interval.moved_ns > 0;
    row.canvas().counts.starts_moved += u64::from(moved);
    let composites = &scene.correlation.composites;
    let lane = rows.take(drawn, composites.place_of_member(figure.operation));
    drawn.at_home = lane == 0;
    row.draw(lane, Item { start, end, figure });
}

/// Records come in the order of enqueueing: it is the same on all ranks, and readers match by order.
/// Which operation of a kernel ends first differs from rank to rank.
fn add_messages(scene: &Scene<'_>, canvas: &mut Canvas, of_rank: &mut [Drawn]) {
    of_rank.sort_by_key(|drawn| (drawn.enqueued, drawn.figure.operation));
    // Readers match the records of ranks by their order: where some are not there it says nothing.
    let context = of_rank.first().map_or(NOWHERE, |drawn| drawn.context);
    let is_whole = match scene.assembly.cut(context) {
        Cut::Whole => true,
        // Sends and receives are cut by when they were called, which is not the same on all ranks.
        Cut::Windows(_) if counts_alike(scene, context, of_rank) => false,
        _ => return,
    };
    let mut messages = Messages::for_operations(of_rank.len());
    for drawn in of_rank.iter() {
        if !is_whole && !drawn.is_collective() {
            continue;
        }
        if let Some(exchange) = exchange(scene, canvas, drawn) {
            let exchange = match (exchange, scene.options.collectives) {
                (Exchange::Collective, CollectiveRecords::Nonblocking) => Exchange::Requested {
                    at: drawn.enqueued.min(drawn.interval.end),
                },
                (Exchange::Collective, CollectiveRecords::None) => continue,
                (exchange, _) => exchange,
            };
            let span = (drawn.interval.start, drawn.interval.end);
            messages.add(drawn.figure, exchange, span, drawn.at_home);
        }
    }
    if let Some(drawn) = of_rank.first() {
        canvas.messages(LaneKey::Communicator(drawn.context), messages);
    }
}

/// Whether all ranks count their collectives alike: up to 2.27 launches of CUDA graphs count as well, and are not reported
/// alike on all ranks.
fn counts_alike(scene: &Scene<'_>, context: u32, of_rank: &[Drawn]) -> bool {
    let context = scene.assembly.contexts.get(index(context));
    let tells_calls = context.is_some_and(|context| context.comm.table >= TELLS_CALLS);
    let mut operations = of_rank.iter().filter_map(|drawn| {
        let activity = scene.activity(drawn.figure.operation)?;
        Some(activity.operation)
    });
    let replays = &scene.correlation.replays;
    tells_calls || !operations.any(|at| replays.is_told(scene.assembly, at))
}

/// The communication records of an operation; none where a reader could not make sense of them.
fn exchange(scene: &Scene<'_>, canvas: &mut Canvas, drawn: &Drawn) -> Option<Exchange> {
    let figure = drawn.figure;
    let composite = scene.correlation.composites.of_member(figure.operation);
    let told_once = composite.is_some_and(|(_, call)| call.pattern.is_collective_record());
    if figure.shape == Shape::Composite {
        return told_once.then_some(Exchange::Collective);
    }
    if told_once {
        return None;
    }
    let member = scene.comms.member(drawn.context)?;
    let ranks = scene.comms.comm(member)?.ranks;
    if drawn.is_collective() {
        if scene.words.shape(drawn.func).is_some() {
            canvas.counts.sizes_unknown += u64::from(ranks == 0);
            return Some(Exchange::Collective);
        }
        canvas.counts.collectives_unknown += 1;
        return None;
    }
    let activity = scene.activity(figure.operation)?;
    let operation = scene.assembly.operation(activity.operation)?;
    let Body::P2p(event::P2p { func, peer, .. }) = scene.assembly.fields_of(operation) else {
        return None;
    };
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
