//! What a process can say about the clocks of others, gathered when its part is written.
//!
//! ```text
//!  rank 0  enters ●━━━━━━━━━━━━● leaves        nobody leaves before everybody has entered
//!  rank 1        enters ●━━━━━━● leaves
//!
//!  send step   ● not before        ─ data ─►        ● not after   receive step
//! ```
//!
//! A sample of bounded size, because unifying must not cost more for longer runs. Both ends of a message must choose
//! the same without talking: so the choice depends on what both know, order, size and number. All times are chosen
//! such that they err on the safe side, see `docs/CLOCKS.md`; CLOCK_MONOTONIC ns.

use nccl_events::event;
use std::collections::BTreeMap;

use super::rows::{End, Key, Passage, Traffic};
use crate::clocks::gpu_clock::GpuCalibration;
use crate::links::collective::{Flow, shape};
use crate::links::comm::Identity;
use crate::links::correlate::Activity;
use crate::tables::assembly::{Assembly, Operation};
use crate::tables::place::{index, place};
use crate::timeline::canvas::Scene;
use crate::timeline::measurement::Cut;
use nccl_events::Body;
use nccl_events::{Kind, state};

/// Collectives of a communicator's rank that are looked at: one of each so many.
const BUCKETS: usize = 64;
/// The same for messages from one rank to another.
const MESSAGE_BUCKETS: usize = 8;
/// Steps of a transfer that are looked at.
const STEPS: [i32; 4] = [0, 2, 8, 32];
/// Most of each list of a process.
const MOST_ROWS: usize = 512;

/// What messages are called in [`Traffic::functions`].
const MESSAGE: &str = "message";

/// A context with its collectives, or its messages to (`true`) or from another rank.
type Line = (u32, Option<(u32, bool)>);

/// An operation that is looked at.
struct Chosen<'a> {
    key: Key,
    rank: u32,
    /// The other rank of a message.
    peer: Option<u32>,
    is_send: bool,
    activity: &'a Activity,
    operation: &'a Operation,
    /// The first launch of its group on its communicator.
    launched: Option<u64>,
    /// Proxy operations that sent or received and ended.
    sends: u32,
    receives: u32,
}

impl Traffic {
    /// Gathers what a process saw of communicators that are on several hosts.
    #[must_use]
    pub fn of(scene: &Scene<'_>) -> Self {
        let mut traffic = Self::default();
        let mut chosen = traffic.choose(scene);
        if chosen.is_empty() {
            return Self::default();
        }
        find_launches(scene.assembly, &mut chosen);
        let steps = transfers(scene, &mut chosen);
        for one in &chosen {
            traffic.add(scene, one);
        }
        for (chosen_at, transfer, step) in steps {
            let Some(one) = chosen.get(chosen_at) else {
                continue;
            };
            traffic.add_step(scene.assembly, one, transfer, step);
        }
        thin(&mut traffic.passages, |passage| passage.key.sequence);
        thin(&mut traffic.ends, |end| end.key.sequence);
        traffic
    }

    fn function(&mut self, name: &str) -> u32 {
        let known = self.functions.iter().position(|known| known == name);
        place(known.unwrap_or_else(|| {
            self.functions.push(name.to_owned());
            self.functions.len() - 1
        }))
    }

    /// A sample of the operations of each rank, the same on all.
    fn choose<'a>(&mut self, scene: &'a Scene<'a>) -> Vec<Chosen<'a>> {
        let mut lists: BTreeMap<Line, Vec<Chosen<'a>>> = BTreeMap::new();
        let mut order: Vec<(u64, &Activity, &Operation)> = Vec::new();
        for activity in &scene.correlation.activities {
            let Some(operation) = scene.assembly.operation(activity.operation) else {
                continue;
            };
            let ran = !scene.correlation.replays.is_at_capture(activity.operation);
            if ran && is_of_interest(scene, operation) {
                order.push((operation.start, activity, operation));
            }
        }
        order.sort_by_key(|&(start, activity, _)| (start, activity.operation));
        let mut repetitions: BTreeMap<(u32, u32, u64), u64> = BTreeMap::new();
        // Numbers of messages and replays count only where all are there.
        let assembly = scene.assembly;
        let has_lost = |kind| assembly.counts.kinds.get(kind).lost > 0;
        let was_switched = !assembly.switches.is_empty();
        let counts_messages =
            !was_switched && !has_lost(Kind::P2p) && assembly.not_kept.segments == 0;
        let contexts = 0..place(assembly.contexts.len());
        let counts_replays: Vec<bool> = contexts
            .map(|at| {
                let is_known = !was_switched || matches!(assembly.cut(at), Cut::Windows(_));
                is_known && !has_lost(Kind::Coll)
            })
            .collect();
        for (_, activity, operation) in order {
            let Some(at) = operation.context_at() else {
                continue;
            };
            let Some(member) = scene.comms.member(at) else {
                continue;
            };
            let (mut peer, mut is_send) = (None, false);
            let (function, sequence, repetition) = match scene.assembly.fields_of(operation) {
                Body::Coll(event::Coll { func, sequence, .. })
                    if counts_replays.get(index(at)).copied().unwrap_or(false) =>
                {
                    let function = self.function(scene.symbols.text(func));
                    let next = repetitions.entry((at, function, sequence)).or_insert(0);
                    *next += 1;
                    (function, sequence, *next - 1)
                }
                Body::P2p(event::P2p {
                    func,
                    peer: other,
                    count,
                    ..
                }) if counts_messages => {
                    peer = u32::try_from(other)
                        .ok()
                        .filter(|&peer| peer != member.rank);
                    is_send = scene.symbols.text(func) == "Send";
                    if peer.is_none() {
                        continue;
                    }
                    (self.function(MESSAGE), 0, count)
                }
                _ => continue,
            };
            let list = lists
                .entry((at, peer.map(|peer| (peer, is_send))))
                .or_default();
            list.push(Chosen {
                key: Key {
                    comm: member.comm,
                    function,
                    sequence: if peer.is_some() {
                        list.len() as u64
                    } else {
                        sequence
                    },
                    repetition,
                },
                rank: member.rank,
                peer,
                is_send,
                activity,
                operation,
                launched: None,
                sends: 0,
                receives: 0,
            });
        }
        let mut chosen = Vec::new();
        for ((_, peer), list) in lists {
            sample(
                scene,
                list,
                if peer.is_some() {
                    MESSAGE_BUCKETS
                } else {
                    BUCKETS
                },
                &mut chosen,
            );
        }
        chosen
    }

    fn add(&mut self, scene: &Scene<'_>, one: &Chosen<'_>) {
        let entered = entered(one);
        let left = left(scene, one);
        if let Some(peer) = one.peer {
            let (from, to) = if one.is_send {
                (one.rank, peer)
            } else {
                (peer, one.rank)
            };
            let ns = if one.is_send { entered } else { left };
            self.ends.extend(ns.map(|ns| End {
                key: one.key,
                from,
                to,
                part: (-1, -1),
                is_send: one.is_send,
                ns,
            }));
            return;
        }
        let Body::Coll(event::Coll { func, root, .. }) = scene.assembly.fields_of(one.operation)
        else {
            return;
        };
        let is_root = u32::try_from(root) == Ok(one.rank);
        let Some(shape) = shape(scene.symbols.text(func)) else {
            return;
        };
        // Who is waited for, and who waits.
        let (enters, leaves) = match shape.flow {
            Flow::AllToAll => (true, true),
            Flow::FromRoot { .. } => (is_root, !is_root),
            Flow::ToRoot => (!is_root, is_root),
        };
        let passage = Passage {
            key: one.key,
            entered_ns: entered.filter(|_| enters).unwrap_or(0),
            left_ns: left.filter(|_| leaves).unwrap_or(0),
        };
        if passage.entered_ns > 0 || passage.left_ns > 0 {
            self.passages.push(passage);
        }
    }

    fn add_step(
        &mut self,
        assembly: &Assembly,
        one: &Chosen<'_>,
        (channel, peer, is_send): (u8, u32, bool),
        (at, number): (u32, i32),
    ) {
        let Some(step) = assembly.operation(at) else {
            return;
        };
        // That it was sent is told after the fact; what it waited for before that, before.
        let ns = if is_send {
            let waits = assembly.state_time(at, state::PROXY_STEP_SEND_PEER_WAIT);
            waits.or(Some(step.start))
        } else {
            let received = assembly.state_time(at, state::PROXY_STEP_RECV_FLUSH_WAIT);
            received.or_else(|| step.end())
        };
        let (from, to) = if is_send {
            (one.rank, peer)
        } else {
            (peer, one.rank)
        };
        self.ends.extend(ns.map(|ns| End {
            key: one.key,
            from,
            to,
            part: (i32::from(channel), number),
            is_send,
            ns,
        }));
    }
}

/// Whether an operation is of a communicator that others can know, on several hosts.
fn is_of_interest(scene: &Scene<'_>, operation: &Operation) -> bool {
    let context = operation.context_at();
    let member = context.and_then(|at| scene.comms.member(at));
    let comm = member.and_then(|member| scene.comms.comm(member));
    comm.is_some_and(|comm| {
        comm.identity != Identity::Context && comm.ranks != 1 && comm.nodes != 1
    })
}

/// Of each so many the smallest, of those the first: the shortest tell most.
fn sample<'a>(
    scene: &Scene<'_>,
    list: Vec<Chosen<'a>>,
    buckets: usize,
    chosen: &mut Vec<Chosen<'a>>,
) {
    let stride = list.len().div_ceil(buckets).next_power_of_two();
    let mut best: Option<(u64, Chosen<'a>)> = None;
    for (at, one) in list.into_iter().enumerate() {
        if at % stride == 0 {
            chosen.extend(best.take().map(|(_, one)| one));
        }
        let bytes = match scene.assembly.fields_of(one.operation) {
            Body::Coll(event::Coll {
                count, datatype, ..
            })
            | Body::P2p(event::P2p {
                count, datatype, ..
            }) => count.saturating_mul(scene.words.element_bytes(datatype)),
            _ => 0,
        };
        if best.as_ref().is_none_or(|best| bytes < best.0) {
            best = Some((bytes, one));
        }
    }
    chosen.extend(best.map(|(_, one)| one));
}

/// Channel, other rank, and whether it sends.
type Transfer = (u8, u32, bool);

/// Counts the transfers of the chosen operations; gives their steps: which is chosen, the transfer, the step's place
/// and number.
fn transfers(scene: &Scene<'_>, chosen: &mut [Chosen<'_>]) -> Vec<(usize, Transfer, (u32, i32))> {
    let assembly = scene.assembly;
    let by_operation: BTreeMap<u32, usize> = chosen
        .iter()
        .map(|one| one.activity.operation)
        .zip(0..)
        .collect();
    let mut proxies: BTreeMap<u32, (usize, Transfer)> = BTreeMap::new();
    for (at, operation) in assembly.of_kind(Kind::ProxyOp) {
        let Body::ProxyOp(event::ProxyOp {
            channel,
            peer,
            is_send,
            ..
        }) = scene.assembly.fields_of(operation)
        else {
            continue;
        };
        let parent = operation.parent_at();
        let Some(&which) = parent.and_then(|parent| by_operation.get(&parent)) else {
            continue;
        };
        let (Some(one), Ok(peer)) = (chosen.get_mut(which), u32::try_from(peer)) else {
            continue;
        };
        if operation.end().is_some() {
            one.sends += u32::from(is_send);
            one.receives += u32::from(!is_send);
        }
        proxies.insert(at, (which, (channel, peer, is_send)));
    }
    let mut steps = Vec::new();
    for (at, operation) in assembly.of_kind(Kind::ProxyStep) {
        let Body::ProxyStep(event::ProxyStep { step }) = scene.assembly.fields_of(operation) else {
            continue;
        };
        if !STEPS.contains(&step) {
            continue;
        }
        let parent = operation.parent_at();
        if let Some(&(which, transfer)) = parent.and_then(|parent| proxies.get(&parent)) {
            steps.push((which, transfer, (at, step)));
        }
    }
    steps
}

/// A group may have several launches, and which of them is an operation's is not always certain: the first is not
/// too late.
fn find_launches(assembly: &Assembly, chosen: &mut [Chosen<'_>]) {
    let group = |operation: &Operation| (operation.parent, assembly.context_of(operation));
    let own = |one: &Chosen<'_>| {
        let launch = assembly.operation(one.activity.launch);
        launch.filter(|_| one.activity.launch_is_own).map(group)
    };
    let mut first: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for of in chosen.iter().filter_map(own) {
        first.insert(of, u64::MAX);
    }
    for (_, operation) in assembly.of_kind(Kind::KernelLaunch) {
        if let Some(first) = first.get_mut(&group(operation)) {
            *first = (*first).min(operation.start);
        }
    }
    for one in chosen {
        one.launched = own(one).and_then(|of| first.get(&of).copied());
    }
}

/// A time before which the rank had given nothing to others: its kernel had not been launched; where no launch is
/// known, its data had not been handed to the network.
fn entered(one: &Chosen<'_>) -> Option<u64> {
    let handed = (one.sends > 0).then_some(one.operation.start);
    one.launched.or(handed)
}

/// A time when the rank had got everything from others, measured: its kernel had ended, or its last receive.
fn left(scene: &Scene<'_>, one: &Chosen<'_>) -> Option<u64> {
    let activity = one.activity;
    if activity.unfinished {
        return None;
    }
    let kernel = activity.kernel_host.map(|(_, end)| end);
    let received = activity.proxy_last.filter(|_| one.receives > 0);
    let context = one.operation.context_at();
    let clock = context.and_then(|at| scene.gpu_clocks.get(index(at)));
    let on_gpu = match (activity.gpu, clock) {
        (Some((_, end)), Some(clock)) if clock.calibration == GpuCalibration::Bounded => {
            Some(clock.host_ns(end).saturating_add(clock.residual_ns))
        }
        _ => None,
    };
    [kernel, received, on_gpu].into_iter().flatten().min()
}

/// Keeps every second, fourth, eighth … number, until there are few enough: others keep the same, or more.
fn thin<T: Ord>(rows: &mut Vec<T>, sequence: impl Fn(&T) -> u64) {
    rows.sort_unstable();
    let mut every = 1;
    while rows.len() > MOST_ROWS && every < 1 << 40 {
        every *= 2;
        rows.retain(|row| sequence(row).is_multiple_of(every));
    }
    rows.truncate(MOST_ROWS);
}
