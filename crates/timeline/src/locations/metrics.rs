//! The metrics of locations (`docs/MAPPING.md` §6 defines what each measures), and where recording was switched during
//! the job: MeasurementOnOff on the rows of threads and communicators.

use std::collections::{BTreeMap, BTreeSet};

use crate::builder::{LocationKey, TimelineBuilder};
use crate::messages::{EventBody, Load, TimelineEvent, rate};
use journal::part::environment::Metric;
use model::process::ProcessModel;
use model::tables::{Event, Operation, OperationRow, Row, Tables};
use nccl_events::event::{ProxyOp, ProxyStep};
use nccl_events::state;

/// The switches that a location shows, in order.
pub fn of_location(key: LocationKey, sibling: u32, tables: &Tables) -> Vec<TimelineEvent> {
    let shows = sibling == 0 && matches!(key, LocationKey::Thread(_) | LocationKey::Communicator(_));
    if !shows || tables.switches.is_empty() {
        return Vec::new();
    }
    let changes = changes(key, tables).into_iter();
    changes.map(|(time, is_on)| TimelineEvent { time, body: EventBody::Measurement(is_on) }).collect()
}

fn changes(key: LocationKey, tables: &Tables) -> Vec<(u64, bool)> {
    let ranks = ranks_of(key, tables);
    let mut is_on = true;
    let mut wanted = true;
    let mut open: BTreeMap<u64, bool> = BTreeMap::new();
    let mut changes = Vec::new();
    for at in &tables.switches {
        match at.step_switch() {
            None => wanted = at.switch.after.is_on,
            Some(step_switch) if at.context == 0 => {
                if step_switch.range.is_none() {
                    open.clear();
                }
            }
            Some(_) => {
                if ranks.is_empty() || ranks.contains(&at.context) {
                    open.insert(at.context, at.switch.after.is_on);
                }
            }
        }
        let now = wanted && (open.is_empty() || open.values().any(|&is_open| is_open));
        if now != is_on {
            is_on = now;
            changes.push((at.time, now));
        }
    }
    changes
}

/// The contexts whose step ranges apply to a location: a communicator's own; for a thread, those that its calls
/// switched. If the list is empty, all contexts apply.
fn ranks_of(key: LocationKey, tables: &Tables) -> Vec<u64> {
    let counted = tables.switches.iter().filter(|at| at.context != 0).filter(|at| match key {
        LocationKey::Communicator(context) => tables.find_context(at.context) == Some(context),
        // The thread that created a communicator need not be the one that calls.
        LocationKey::Thread(thread) => {
            let is_call = at.step_switch().is_some_and(|it| it.started > 0);
            is_call && at.thread.map(|at| tables.first_index_of_thread(at)) == Some(thread)
        }
        _ => false,
    });
    counted.map(|at| at.context).collect()
}

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let metrics = model.options.metrics;
    if metrics.has(Metric::BytesInFlight) || metrics.has(Metric::Bandwidth) {
        communicators(model, builder);
    }
    if metrics.has(Metric::NetworkBandwidth) {
        network(model, builder);
    }
}

fn communicators(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut loads: BTreeMap<(LocationKey, Metric), Load> = BTreeMap::new();
    for (activity, interval) in model.links.activities.all.iter().zip(&model.intervals) {
        let operation = model.tables.operation(activity.operation);
        let (Some(context), Some(interval)) = (operation.context_at(), interval) else {
            continue;
        };
        let bytes = model.meanings.bytes(operation.count, operation.datatype);
        let key = LocationKey::Communicator(context);
        let span = (interval.start, interval.end);
        if model.options.metrics.has(Metric::BytesInFlight) {
            loads.entry((key, Metric::BytesInFlight)).or_default().add(span, bytes);
        }
        let measured = interval.timing.is_measured();
        if !model.options.metrics.has(Metric::Bandwidth) || !measured || interval.unfinished {
            continue;
        }
        if let Some(rate) = moved(model, activity.operation, &operation, bytes).and_then(|moved| rate(moved, span)) {
            loads.entry((key, Metric::Bandwidth)).or_default().add(span, rate);
        }
    }
    put(builder, &loads);
}

/// The bytes that an operation's bandwidth is computed from, as in attribute `nccl.algbw`.
fn moved(model: &ProcessModel<'_>, row: OperationRow, operation: &Operation<'_>, bytes: u64) -> Option<u64> {
    match row {
        OperationRow::Coll(_) => {
            // Without the number of ranks, a bandwidth would be invented.
            let member = model.member_of(operation).filter(|member| member.knows_ranks)?;
            Some(model.meanings.collective(operation.func)?.buffer_bytes(bytes, member.ranks.into()))
        }
        OperationRow::P2p(_) => Some(bytes),
        OperationRow::CeColl(_) => None,
    }
}

/// Counts steps while the network moves them; whole transfers if NCCL reports no sizes of steps.
fn network(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut loads: BTreeMap<(LocationKey, Metric), Load> = BTreeMap::new();
    let mut has_steps: BTreeSet<Row<ProxyOp>> = BTreeSet::new();
    for (row, step) in model.tables.rows::<ProxyStep>() {
        let Some(parent) = model.tables.find_as::<ProxyOp>(step.parent) else {
            continue;
        };
        let op = &model.tables[parent];
        let span = if op.fields.is_send {
            step.state_time(state::PROXY_STEP_SEND_WAIT).zip(model.step_end(row))
        } else {
            step.state_time(state::PROXY_STEP_RECV_FLUSH_WAIT).map(|delivered| (step.start, delivered))
        };
        if let Some((span, rate)) = span.and_then(|span| Some((span, rate(step.state_value(), span)?))) {
            has_steps.insert(parent);
            let key = (location(model, op), Metric::NetworkBandwidth);
            loads.entry(key).or_default().add(span, rate);
        }
    }
    for (row, op) in model.tables.rows::<ProxyOp>() {
        if has_steps.contains(&row) {
            continue;
        }
        let begin = op.state_time(state::PROXY_OP_IN_PROGRESS).unwrap_or(op.start).max(op.start);
        let bytes = model.links.transfers.bytes(row, op);
        let span = op.stop().map(|end| (begin, end));
        if let Some((span, rate)) = span.and_then(|span| Some((span, rate(bytes, span)?))) {
            let key = (location(model, op), Metric::NetworkBandwidth);
            loads.entry(key).or_default().add(span, rate);
        }
    }
    put(builder, &loads);
}

fn location(model: &ProcessModel<'_>, op: &Event<ProxyOp>) -> LocationKey {
    let ProxyOp { channel, is_send, peer, .. } = op.fields;
    LocationKey::Net(model.owner_of_transfer(op), channel, is_send, peer)
}

fn put(builder: &mut TimelineBuilder, loads: &BTreeMap<(LocationKey, Metric), Load>) {
    for (&(key, metric), load) in loads {
        builder.samples(key, load.samples(metric));
    }
}
