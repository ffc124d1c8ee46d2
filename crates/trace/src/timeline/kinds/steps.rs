//! Proxy steps: chunks on their way, each on the lane of its slot of the connection.
//!
//! NCCL says what a step waits for by its states; the lane shows them one after the other:
//!
//! ```text
//!   send:  start ─ SendGPUWait ─ 20 ─ SendPeerWait ─ 9 ─ SendWait ──────── stop
//!   recv:  start ─ RecvWait ──── 11 ─ RecvFlushWait ─ 12 ─ RecvGPUWait ─── stop
//! ```

use crate::links::closing::slot;
use crate::tables::assembly::{Assembly, Operation};
use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::figure::Shape;
use crate::timeline::kinds::by_lane::ByLane;
use crate::timeline::kinds::parts::Parts;
use crate::timeline::lanes::{LaneKey, Owner, Siblings};
use nccl_events::Body;
use nccl_events::event;
use nccl_events::{Kind, state};

/// What a step waits for in a state.
const fn phase(number: u32) -> Option<Shape> {
    match number {
        state::PROXY_STEP_SEND_GPU_WAIT => Some(Shape::SendGpuWait),
        state::PROXY_STEP_SEND_PEER_WAIT => Some(Shape::SendPeerWait),
        state::PROXY_STEP_SEND_WAIT => Some(Shape::SendWait),
        state::PROXY_STEP_RECV_WAIT => Some(Shape::RecvWait),
        state::PROXY_STEP_RECV_FLUSH_WAIT => Some(Shape::RecvFlushWait),
        state::PROXY_STEP_RECV_GPU_WAIT => Some(Shape::RecvGpuWait),
        _ => None,
    }
}

/// As many as most steps have at least.
const PHASES: usize = 2;

/// What a step does before the state that it was first seen in.
const fn first(seen: Shape) -> Shape {
    match seen {
        Shape::SendPeerWait | Shape::SendWait => Shape::SendGpuWait,
        Shape::RecvFlushWait | Shape::RecvGpuWait => Shape::RecvWait,
        seen => seen,
    }
}

/// The phases of a step with their beginnings, in order; one for the whole step if NCCL told no state.
fn phases(assembly: &Assembly, at: u32, start: u64) -> Parts {
    let mut phases = Parts::new();
    for change in assembly.states_of(at) {
        let Some(shape) = phase(change.state) else {
            continue;
        };
        if phases.is_empty() {
            phases.add(first(shape), start);
        }
        phases.add(shape, change.time.max(start));
    }
    if phases.is_empty() {
        phases.add(Shape::Step, start);
    }
    phases
}

/// Data of a step that the network puts into the memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    /// The part's number of the communicator, and of its window.
    pub(crate) comm: u32,
    /// The rank that gets it.
    pub(crate) peer: u32,
    /// How much.
    pub(crate) bytes: u64,
    /// Whether it is known when all was sent.
    pub(crate) completes: bool,
}

/// What a step puts, if it got as far as sending. `None` also for communicators of other processes (nothing is known of
/// their members), and peers that the communicator does not have.
#[must_use]
pub(crate) fn put(scene: &Scene<'_>, at: u32) -> Option<Put> {
    let step = scene.assembly.operation(at)?;
    if !sends(step) {
        return None;
    }
    let parent = scene.assembly.operation(step.parent_at()?)?;
    let Body::ProxyOp(event::ProxyOp {
        peer,
        is_send: true,
        ..
    }) = scene.assembly.fields_of(parent)
    else {
        return None;
    };
    let own = !scene.assembly.is_foreign(parent);
    let party = own.then(|| scene.party_of(parent))??;
    Some(Put {
        comm: party.comm,
        peer: u32::try_from(peer)
            .ok()
            .filter(|peer| *peer < party.ranks)?,
        bytes: step.step_bytes(),
        completes: !scene.is_unfinished(at),
    })
}

/// Whether the network was seen to send the step, and how much: early releases do not tell, and a put of 0 bytes would
/// be made up.
const fn sends(step: &Operation) -> bool {
    step.step_bytes() > 0 && step.saw(state::PROXY_STEP_SEND_WAIT)
}

/// The lane of a step: its slot of the connection of its proxy operation. `None` where NCCL or the journal does not
/// tell the operation.
#[must_use]
pub(super) fn lane(scene: &Scene<'_>, canvas: &mut Canvas, step: &Operation) -> Option<LaneKey> {
    let Body::ProxyStep(event::ProxyStep { step: number }) = scene.assembly.fields_of(step) else {
        return None;
    };
    let parent = step.parent_at()?;
    let parent = scene.assembly.operation(parent)?;
    let Body::ProxyOp(event::ProxyOp {
        channel,
        peer,
        is_send,
        ..
    }) = scene.assembly.fields_of(parent)
    else {
        return None;
    };
    let owner = scene.owner(parent);
    if owner.is_foreign() {
        scene.count_without_communicator(parent, canvas);
    }
    Some(LaneKey::Step(owner, channel, is_send, peer, slot(number)))
}

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut order = ByLane::new();
    for (at, operation) in scene.assembly.of_kind(Kind::ProxyStep) {
        if let Some(key) = lane(scene, canvas, operation) {
            let closed = scene.correlation.closed_at(at);
            canvas.counts.closed += u64::from(closed.is_some());
            let end = closed.unwrap_or_else(|| scene.end(operation));
            let is_own = matches!(key, LaneKey::Step(Owner::Context(_), ..));
            if is_own && sends(operation) && put(scene, at).is_none() {
                canvas.counts.messages_without_peer += 1;
            }
            order.add(key, (operation.start, at, end.max(operation.start)));
        }
    }
    for (key, of_lane) in order.in_order() {
        let mut siblings = Siblings::default();
        let mut row = canvas.row(key);
        row.reserve(PHASES * of_lane.len());
        for (start, at, end) in of_lane {
            let lane = siblings.take(start, end);
            row.canvas().drawn(at);
            let phases = phases(scene.assembly, at, start);
            row.chain(lane, at, phases.all(), end);
        }
    }
}
