//! Proxy steps: chunks in transfer, each on the location of its slot of the connection.
//!
//! The states of a step tell what it waits for; the location shows them one after the other:
//!
//! ```text
//!   send:  start ─ SendGPUWait ─ 20 ─ SendPeerWait ─ 9 ─ SendWait ──────── stop
//!   recv:  start ─ RecvWait ──── 11 ─ RecvFlushWait ─ 12 ─ RecvGPUWait ─── stop
//! ```

use crate::timeline::builder::TimelineBuilder;
use crate::timeline::instance::{InstanceKind, Source};
use crate::timeline::location::{ByLocation, LocationKey, Owner, Siblings};
use crate::timeline::locations::parts::Parts;
use crate::timeline::model::ProcessModel;
use job::transfers::slot;
use nccl_events::{Kind, state};
use tables::{Event, EventRow, ProxyOp, ProxyStep, Row};

/// The phase that begins with a state.
const fn phase(number: u32) -> Option<InstanceKind> {
    match number {
        state::PROXY_STEP_SEND_GPU_WAIT => Some(InstanceKind::SendGpuWait),
        state::PROXY_STEP_SEND_PEER_WAIT => Some(InstanceKind::SendPeerWait),
        state::PROXY_STEP_SEND_WAIT => Some(InstanceKind::SendWait),
        state::PROXY_STEP_RECV_WAIT => Some(InstanceKind::RecvWait),
        state::PROXY_STEP_RECV_FLUSH_WAIT => Some(InstanceKind::RecvFlushWait),
        state::PROXY_STEP_RECV_GPU_WAIT => Some(InstanceKind::RecvGpuWait),
        _ => None,
    }
}

/// Most steps have at least this many phases.
const PHASES: usize = 2;

/// The phase of a step before the first reported state.
const fn first(seen: InstanceKind) -> InstanceKind {
    match seen {
        InstanceKind::SendPeerWait | InstanceKind::SendWait => InstanceKind::SendGpuWait,
        InstanceKind::RecvFlushWait | InstanceKind::RecvGpuWait => InstanceKind::RecvWait,
        seen => seen,
    }
}

/// The phases of a step with their beginnings, in order; one for the whole step if NCCL reported no state.
fn phases(step: &Event<ProxyStep>) -> Parts {
    let mut phases = Parts::new();
    for (number, time) in step.states() {
        let Some(kind) = phase(number) else {
            continue;
        };
        if phases.is_empty() {
            phases.add(first(kind), step.start);
        }
        phases.add(kind, time.max(step.start));
    }
    if phases.is_empty() {
        phases.add(InstanceKind::Step, step.start);
    }
    phases
}

/// Data of a step that the network puts into the memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// The part's number of the communicator and of its window.
    pub comm: u32,
    pub peer: u32,
    pub bytes: u64,
    /// Whether it is known when the data was all sent.
    pub completes: bool,
}

/// What a step puts, if it got as far as sending. `None` also for communicators of other processes, whose members are
/// unknown, and for peers outside the communicator.
pub fn put(model: &ProcessModel<'_>, row: Row<ProxyStep>) -> Option<Put> {
    let step = &model.tables[row];
    if !sends(step) {
        return None;
    }
    let op = model.tables.get::<ProxyOp>(step.parent)?;
    if !op.fields.is_send || model.tables.is_foreign(op) {
        return None;
    }
    let member = model.member_of(op)?;
    let peer = u32::try_from(op.fields.peer).ok();
    Some(Put {
        comm: member.comm,
        peer: peer.filter(|peer| *peer < member.ranks)?,
        bytes: step.state_value(),
        completes: model.step_end(row).is_some(),
    })
}

/// Whether the network was seen to send the step, with a size: early releases report none, which is not a put of 0 B.
fn sends(step: &Event<ProxyStep>) -> bool {
    step.state_value() > 0 && step.has_state(state::PROXY_STEP_SEND_WAIT)
}

/// The location of a step: its slot of its proxy operation's connection. `None` if the operation is not known.
pub(super) fn location(
    model: &ProcessModel<'_>,
    builder: &mut TimelineBuilder,
    step: &Event<ProxyStep>,
) -> Option<LocationKey> {
    let op = model.tables.get::<ProxyOp>(step.parent)?;
    let ProxyOp { channel, peer, is_send, .. } = op.fields;
    let owner = model.owner_of_transfer(op);
    if owner.is_foreign() {
        builder.count_without_communicator(model.tables.is_foreign(op));
    }
    Some(LocationKey::Step(owner, channel, is_send, peer, slot(step.fields.step)))
}

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut order = ByLocation::new();
    for (row, step) in model.tables.rows::<ProxyStep>() {
        if let Some(key) = location(model, builder, step) {
            let inferred = model.links.inferred_ends.steps.get(&row).copied();
            builder.counts.closed += u64::from(inferred.is_some());
            let end = inferred.unwrap_or_else(|| model.end(step));
            let is_own = matches!(key, LocationKey::Step(Owner::Context(_), ..));
            if is_own && sends(step) && put(model, row).is_none() {
                builder.counts.messages_without_peer += 1;
            }
            order.add(key, (step.start, row, end.max(step.start)));
        }
    }
    for (key, of_location) in order.in_order() {
        let mut siblings = Siblings::default();
        let mut location = builder.location(key);
        location.reserve(PHASES * of_location.len());
        for (start, row, end) in of_location {
            let step = &model.tables[row];
            let sibling = siblings.take(start, end);
            location.builder().shown(Kind::ProxyStep);
            let of = (Source::Event(EventRow::ProxyStep(row)), step.order);
            location.add_parts(sibling, of, phases(step).all(), end);
        }
    }
}
