//! Metrics of what is drawn: `docs/MAPPING.md` §6 says what each measures.

use nccl_events::event;
use std::collections::BTreeMap;

use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::lanes::LaneKey;
use crate::timeline::metrics::{Load, rate};
use journal::format::record::Symbol;
use journal::part::metrics::Metric;
use nccl_events::Body;
use nccl_events::{Kind, state};

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let metrics = scene.options.metrics;
    if metrics.has(Metric::BytesInFlight) || metrics.has(Metric::Bandwidth) {
        communicators(scene, canvas);
    }
    if metrics.has(Metric::NetworkBandwidth) {
        network(scene, canvas);
    }
}

/// Operations, as long as they are shown.
fn communicators(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut loads: BTreeMap<(LaneKey, Metric), Load> = BTreeMap::new();
    for (at, (activity, interval)) in (0..).zip(
        scene
            .correlation
            .activities
            .iter()
            .zip(scene.intervals.iter()),
    ) {
        let operation = scene.assembly.operation(activity.operation);
        let (Some(operation), Some(interval)) = (operation, interval) else {
            continue;
        };
        let Some(context) = operation.context_at() else {
            continue;
        };
        let (count, datatype) = match scene.assembly.fields_of(operation) {
            Body::Coll(event::Coll {
                count, datatype, ..
            })
            | Body::CeColl(event::CeColl {
                count, datatype, ..
            })
            | Body::P2p(event::P2p {
                count, datatype, ..
            }) => (count, datatype),
            _ => continue,
        };
        let bytes = count.saturating_mul(scene.words.element_bytes(datatype));
        let key = LaneKey::Communicator(context);
        let span = (interval.start, interval.end);
        if scene.options.metrics.has(Metric::BytesInFlight) {
            let load = loads.entry((key, Metric::BytesInFlight)).or_default();
            load.add(span, bytes);
        }
        let measured = interval.timing.is_measured();
        if !scene.options.metrics.has(Metric::Bandwidth) || !measured || interval.unfinished {
            continue;
        }
        let moved = moved(scene, at, &scene.assembly.fields_of(operation), bytes);
        if let Some(rate) = moved.and_then(|moved| rate(moved, span)) {
            let load = loads.entry((key, Metric::Bandwidth)).or_default();
            load.add(span, rate);
        }
    }
    put(canvas, &loads);
}

/// What the bandwidth of an operation is computed from, as attribute `nccl.algbw` is.
fn moved(scene: &Scene<'_>, activity: u32, fields: &Body<Symbol>, bytes: u64) -> Option<u64> {
    match *fields {
        Body::Coll(event::Coll { func, .. }) => {
            // Without the number of ranks a bandwidth would be made up.
            let party = scene.party(activity).filter(|party| party.knows_ranks)?;
            let shape = scene.words.shape(func)?;
            Some(shape.buffer_bytes(bytes, party.ranks.into()))
        }
        Body::P2p(event::P2p { .. }) => Some(bytes),
        _ => None,
    }
}

/// Steps while the network moves them; the whole transfer where NCCL tells no sizes of steps.
fn network(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut loads: BTreeMap<(LaneKey, Metric), Load> = BTreeMap::new();
    let mut has_steps: BTreeMap<u32, ()> = BTreeMap::new();
    for (at, step) in scene.assembly.of_kind(Kind::ProxyStep) {
        let Some(parent) = step.parent_at() else {
            continue;
        };
        let Some((key, sends)) = lane(scene, parent) else {
            continue;
        };
        let end = scene.correlation.closed_at(at).or(step.end());
        let told = |number| scene.assembly.state_time(at, number);
        let span = if sends {
            told(state::PROXY_STEP_SEND_WAIT).zip(end)
        } else {
            told(state::PROXY_STEP_RECV_FLUSH_WAIT).map(|delivered| (step.start, delivered))
        };
        if let Some((span, rate)) =
            span.and_then(|span| Some((span, rate(step.step_bytes(), span)?)))
        {
            has_steps.insert(parent, ());
            let load = loads.entry((key, Metric::NetworkBandwidth)).or_default();
            load.add(span, rate);
        }
    }
    for (at, operation) in scene.assembly.of_kind(Kind::ProxyOp) {
        let Some((key, _)) = lane(scene, at).filter(|_| !has_steps.contains_key(&at)) else {
            continue;
        };
        let begin = scene.assembly.state_time(at, state::PROXY_OP_IN_PROGRESS);
        let begin = begin.unwrap_or(operation.start).max(operation.start);
        let bytes = scene.correlation.proxy_bytes(scene.assembly, at);
        if let Some((span, rate)) = operation
            .end()
            .and_then(|end| Some(((begin, end), rate(bytes, (begin, end))?)))
        {
            let load = loads.entry((key, Metric::NetworkBandwidth)).or_default();
            load.add(span, rate);
        }
    }
    put(canvas, &loads);
}

/// The net lane of a proxy operation, and whether it sends.
fn lane(scene: &Scene<'_>, at: u32) -> Option<(LaneKey, bool)> {
    let operation = scene.assembly.operation(at)?;
    let Body::ProxyOp(event::ProxyOp {
        channel,
        peer,
        is_send,
        ..
    }) = scene.assembly.fields_of(operation)
    else {
        return None;
    };
    let owner = scene.owner(operation);
    Some((LaneKey::Net(owner, channel, is_send, peer), is_send))
}

fn put(canvas: &mut Canvas, loads: &BTreeMap<(LaneKey, Metric), Load>) {
    for (&(key, metric), load) in loads {
        canvas.samples(key, load.samples(metric));
    }
}
