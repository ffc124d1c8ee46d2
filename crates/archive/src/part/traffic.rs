//! What a process's traffic shows about the clocks of other hosts, gathered when its part is written and stored in its
//! manifest. Unifying turns it into constraints (`job::clocks`).
//!
//! ```text
//!  rank 0  enters ●━━━━━━━━━━━━● leaves        nobody leaves before everybody has entered
//!  rank 1        enters ●━━━━━━● leaves
//!
//!  send step   ● not before        ─ data ─►        ● not after   receive step
//! ```
//!
//! The sample has a bounded size, because the cost of unifying must not grow with the length of a run. Both ends of a
//! message must choose the same operations without communicating, so the choice depends on what both know: order, size
//! and number. All times are CLOCK_MONOTONIC ns. They err on the safe side: a wrong constraint would distort a correct
//! clock. `docs/CLOCKS.md` says which traffic bounds what.

use std::collections::BTreeMap;

use model::communicators::CommIdentity;
use model::links::operations::LinkedOperation;
use model::process::Process;
use model::tables::ranges::Coverage;
use model::tables::{ContextName, Event, Operation, OperationRow, Row, Tables};
use nccl_events::collective::{Flow, Function};
use nccl_events::event::{KernelLaunch, ProxyOp, ProxyStep};
use nccl_events::ids::{index, index_u32};
use nccl_events::sort::Gather;
use nccl_events::{Kind, state};
use serde::{Deserialize, Serialize};

/// How many collectives are sampled for each rank of a communicator.
const BUCKETS: usize = 64;
/// How many messages are sampled from one rank to another.
const MESSAGE_BUCKETS: usize = 8;
/// The sampled steps of a transfer.
const STEPS: [i32; 4] = [0, 2, 8, 32];
/// Limit on the rows of each list of a process.
const MOST_ROWS: usize = 512;

const MESSAGE: &str = "message";

/// A context with its collectives (`None`), or its messages to (`true`) or from another rank.
type TrafficLine = (u32, Option<(u32, bool)>);

#[derive(Clone, Copy)]
struct SampledOperation<'a> {
    key: Key,
    rank: u32,
    /// The other rank of a message, and whether the message goes there.
    peer: Option<(u32, bool)>,
    linked: &'a LinkedOperation,
    operation: Operation<'a>,
    /// Start of the first launch of the operation's group on its communicator.
    launched: Option<u64>,
    /// Number of finished proxy operations that sent or received.
    sends: u32,
    receives: u32,
}

impl SampledOperation<'_> {
    /// This rank's end of a message to (`true`) or from another rank.
    const fn end(&self, (peer, is_send): (u32, bool), part: (i32, i32), ns: u64) -> End {
        let (from, to) = if is_send { (self.rank, peer) } else { (peer, self.rank) };
        End { key: self.key, from, to, part, is_send, ns }
    }
}

/// What has numbers that agree between processes: messages and replays only if all were recorded.
struct AgreedNumbers {
    messages: bool,
    replays: Vec<bool>,
}

impl AgreedNumbers {
    fn new(tables: &Tables) -> Self {
        let has_lost = |kind| tables.counts.kinds.get(kind).lost > 0;
        let was_switched = !tables.switches.is_empty();
        let replays = |at| {
            let is_known = !was_switched || matches!(tables.coverage(at), Coverage::StepRanges(_));
            is_known && !has_lost(Kind::Coll)
        };
        Self {
            messages: !was_switched && !has_lost(Kind::P2p) && tables.removed.segments == 0,
            replays: (0..index_u32(tables.contexts.len())).map(replays).collect(),
        }
    }

    fn replays(&self, context: u32) -> bool {
        self.replays.get(index(context)).copied().unwrap_or(false)
    }
}

impl Traffic {
    /// Gathers a process's traffic on communicators that span several hosts.
    pub(crate) fn from_process(model: &Process<'_>) -> Self {
        let mut traffic = Self::default();
        let mut chosen = traffic.choose(model);
        if chosen.is_empty() {
            return Self::default();
        }
        find_launches(model.tables, &mut chosen);
        let steps = transfers(model, &mut chosen);
        for one in &chosen {
            traffic.add(model, one);
        }
        for (chosen_at, transfer, step) in steps {
            let Some(one) = chosen.get(chosen_at) else {
                continue;
            };
            traffic.add_step(one, transfer, &model.tables[step]);
        }
        thin(&mut traffic.passages, |passage| passage.key.sequence);
        thin(&mut traffic.ends, |end| end.key.sequence);
        traffic
    }

    fn function(&mut self, name: &str) -> u32 {
        index_u32(self.functions.iter().position(|known| known == name).unwrap_or_else(|| {
            self.functions.push(name.to_owned());
            self.functions.len() - 1
        }))
    }

    /// A sample of the operations of each rank, the same on all ranks.
    fn choose<'a>(&mut self, model: &'a Process<'_>) -> Vec<SampledOperation<'a>> {
        let numbered = AgreedNumbers::new(model.tables);
        let mut lists: BTreeMap<TrafficLine, Vec<SampledOperation<'a>>> = BTreeMap::new();
        let mut repetitions: BTreeMap<(u32, u32, u64), u64> = BTreeMap::new();
        for (linked, operation) in compared(model) {
            let member = operation.context_at().and_then(|at| Some((at, model.comms.member(at)?)));
            let Some((at, member)) = member else { continue };
            let list = |peer| (at, peer);
            let func = model.symbols.text(operation.func);
            let (line, function, sequence, repetition) = match linked.operation {
                OperationRow::Coll(row) if numbered.replays(at) => {
                    let sequence = model.tables[row].fields.sequence;
                    let function = self.function(func);
                    let next = repetitions.entry((at, function, sequence)).or_insert(0);
                    *next += 1;
                    (list(None), function, Some(sequence), *next - 1)
                }
                OperationRow::P2p(row) if numbered.messages => {
                    let is_send = model.meanings.function(operation.func).and_then(Function::is_send);
                    let peer = u32::try_from(model.tables[row].fields.peer).ok();
                    match peer.zip(is_send) {
                        Some((peer, is_send)) if peer != member.rank => {
                            (list(Some((peer, is_send))), self.function(MESSAGE), None, operation.count)
                        }
                        _ => continue,
                    }
                }
                _ => continue,
            };
            let list = lists.entry(line).or_default();
            list.push(SampledOperation {
                key: Key { comm: member.comm, function, sequence: sequence.unwrap_or(list.len() as u64), repetition },
                rank: member.rank,
                peer: line.1,
                linked,
                operation,
                launched: None,
                sends: 0,
                receives: 0,
            });
        }
        let mut chosen = Vec::new();
        for ((_, peer), list) in lists {
            let buckets = peer.map_or(BUCKETS, |_| MESSAGE_BUCKETS);
            chosen.extend(sample(model, &list, buckets));
        }
        chosen
    }

    fn add(&mut self, model: &Process<'_>, one: &SampledOperation<'_>) {
        let entered = entered_ns(one);
        let left = left_ns(model, one);
        if let Some(peer) = one.peer {
            let ns = if peer.1 { entered } else { left };
            self.ends.extend(ns.map(|ns| one.end(peer, (-1, -1), ns)));
            return;
        }
        let OperationRow::Coll(row) = one.linked.operation else {
            return;
        };
        let is_root = u32::try_from(model.tables[row].fields.root) == Ok(one.rank);
        let Some(collective) = model.meanings.collective(one.operation.func) else {
            return;
        };
        // Who is waited for, and who waits.
        let (enters, leaves) = match collective.flow() {
            Flow::AllToAll => (true, true),
            Flow::FromRoot => (is_root, !is_root),
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
        one: &SampledOperation<'_>,
        (channel, peer, is_send): (u8, u32, bool),
        step: &Event<ProxyStep>,
    ) {
        // NCCL reports `SendWait` after the data has gone, so the sender's previous state gives the time.
        let ns = if is_send {
            step.state_time(state::PROXY_STEP_SEND_PEER_WAIT).or(Some(step.start))
        } else {
            step.state_time(state::PROXY_STEP_RECV_FLUSH_WAIT).or_else(|| step.stop())
        };
        let part = (i32::from(channel), step.fields.step);
        self.ends.extend(ns.map(|ns| one.end((peer, is_send), part, ns)));
    }
}

/// The operations that ran on communicators that other parts can identify and that may span several hosts, by start.
fn compared<'a>(model: &'a Process<'_>) -> Vec<(&'a LinkedOperation, Operation<'a>)> {
    let is_compared = |operation: &Operation<'_>| {
        let member = operation.context_at().and_then(|at| model.comms.member(at));
        let comm = member.and_then(|member| model.comms.comm(member));
        comm.is_some_and(|comm| comm.identity != CommIdentity::Part && comm.ranks != 1 && comm.nodes != 1)
    };
    let ran = model.links.operations.all.iter().filter(|linked| !linked.is_at_capture);
    let ran = ran.map(|linked| (linked, model.tables.operation(linked.operation)));
    let mut ran: Vec<_> = ran.filter(|(_, operation)| is_compared(operation)).collect();
    nccl_events::sort::sort_by_key(&mut ran, |(_, operation)| (operation.start, operation.order));
    ran
}

/// The smallest (if equal, first) operation of each of at most `buckets` equal runs: short ones bound tightest.
fn sample<'a>(
    model: &Process<'_>,
    list: &[SampledOperation<'a>],
    buckets: usize,
) -> impl Iterator<Item = SampledOperation<'a>> {
    let bytes = |one: &&SampledOperation<'_>| model.meanings.bytes(one.operation.count, one.operation.datatype);
    let stride = list.len().div_ceil(buckets).next_power_of_two();
    list.chunks(stride).filter_map(move |run| run.iter().min_by_key(bytes).copied())
}

/// Channel, other rank, and whether it sends.
type Transfer = (u8, u32, bool);

/// Counts the transfers of the chosen operations; returns their steps: index of the chosen, transfer, step.
fn transfers(model: &Process<'_>, chosen: &mut [SampledOperation<'_>]) -> Vec<(usize, Transfer, Row<ProxyStep>)> {
    let tables = model.tables;
    let by_operation: BTreeMap<u64, usize> = chosen.iter().map(|one| one.operation.id).zip(0..).gather();
    let mut proxies: BTreeMap<Row<ProxyOp>, (usize, Transfer)> = BTreeMap::new();
    for (row, op) in tables.rows::<ProxyOp>() {
        let ProxyOp { channel, peer, is_send, .. } = op.fields;
        let Some(&which) = by_operation.get(&op.parent) else {
            continue;
        };
        let (Some(one), Ok(peer)) = (chosen.get_mut(which), u32::try_from(peer)) else {
            continue;
        };
        if op.stop().is_some() {
            one.sends += u32::from(is_send);
            one.receives += u32::from(!is_send);
        }
        proxies.insert(row, (which, (channel, peer, is_send)));
    }
    let mut steps = Vec::new();
    for (row, step) in tables.rows::<ProxyStep>() {
        if !STEPS.contains(&step.fields.step) {
            continue;
        }
        if let Some(&(which, transfer)) = tables.find_as::<ProxyOp>(step.parent).and_then(|op| proxies.get(&op)) {
            steps.push((which, transfer, row));
        }
    }
    steps
}

/// Finds the first launch of each operation's group. A group can have several launches, and the operation's own is not
/// always certain: the first is never too late.
fn find_launches(tables: &Tables, chosen: &mut [SampledOperation<'_>]) {
    let group = |launch: &Event<KernelLaunch>| (launch.parent, launch.context);
    let own = |one: &SampledOperation<'_>| one.linked.own_launch().map(|launch| group(&tables[launch]));
    let mut first: BTreeMap<(u64, ContextName), u64> = BTreeMap::new();
    for of in chosen.iter().filter_map(own) {
        first.insert(of, u64::MAX);
    }
    for launch in &tables.events.kernel_launches {
        if let Some(first) = first.get_mut(&group(launch)) {
            *first = (*first).min(launch.start);
        }
    }
    for one in chosen {
        one.launched = own(one).and_then(|of| first.get(&of).copied());
    }
}

/// A time before which the rank had given nothing to others: its kernel had not been launched; without a known launch,
/// its data had not been handed to the network.
fn entered_ns(one: &SampledOperation<'_>) -> Option<u64> {
    one.launched.or((one.sends > 0).then_some(one.operation.start))
}

/// A measured time when the rank had received everything from others: the end of its kernel or of its last receive.
fn left_ns(model: &Process<'_>, one: &SampledOperation<'_>) -> Option<u64> {
    let linked = one.linked;
    if linked.unfinished {
        return None;
    }
    let kernel = linked.kernel_host.map(|(_, end)| end);
    let clock = one.operation.context_at().and_then(|at| model.gpu_clocks.get(index(at)));
    let on_gpu = match (linked.gpu, clock) {
        (Some((_, end)), Some(clock)) => clock.latest_ns(end),
        _ => None,
    };
    [kernel, linked.proxy_last.filter(|_| one.receives > 0), on_gpu].into_iter().flatten().min()
}

/// Keeps every second, fourth, eighth … number until few enough are left: others keep the same numbers, or more.
fn thin<T: Ord>(rows: &mut Vec<T>, sequence: impl Fn(&T) -> u64) {
    nccl_events::sort::sort(rows);
    let mut every = 1;
    while rows.len() > MOST_ROWS && every < 1 << 40 {
        every *= 2;
        rows.retain(|row| sequence(row).is_multiple_of(every));
    }
    rows.truncate(MOST_ROWS);
}

// The manifest has traffic as rows of numbers, because thousands of parts can have hundreds of rows each.

/// A collective on one rank. Stored as an array of its fields, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "PassageRow", into = "PassageRow")]
pub struct Passage {
    pub key: Key,
    /// The rank had not entered before this time; 0 if nobody waits for the rank, or if unknown.
    pub entered_ns: u64,
    /// The rank had left by this time; 0 if it waits for nobody, or if unknown.
    pub left_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Index in the part's communicators.
    pub comm: u32,
    /// Index in [`Traffic::functions`].
    pub function: u32,
    /// NCCL's number of a collective, or the index of a message from one rank to another.
    pub sequence: u64,
    /// For a collective, its index among those with the same number: replays of a graph have the number of the captured
    /// one. For a message, its number of elements, so that only matching ends are compared.
    pub repetition: u64,
}

type PassageRow = (u32, u32, u64, u64, u64, u64);

impl From<PassageRow> for Passage {
    fn from((comm, function, sequence, repetition, entered_ns, left_ns): PassageRow) -> Self {
        Self { key: Key { comm, function, sequence, repetition }, entered_ns, left_ns }
    }
}

impl From<Passage> for PassageRow {
    fn from(passage: Passage) -> Self {
        let key = passage.key;
        (key.comm, key.function, key.sequence, key.repetition, passage.entered_ns, passage.left_ns)
    }
}

/// One end of a data transfer. Stored as an array of its fields, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "EndRow", into = "EndRow")]
pub struct End {
    pub key: Key,
    pub from: u32,
    pub to: u32,
    /// Channel and step of the transfer; both −1 for the operation as a whole.
    pub part: (i32, i32),
    /// The sender's end (not sent before `ns`) if true, else the receiver's (received by `ns`).
    pub is_send: bool,
    pub ns: u64,
}

type EndRow = (u32, u32, u64, u64, u32, u32, i32, i32, u8, u64);

impl From<EndRow> for End {
    fn from(row: EndRow) -> Self {
        Self {
            key: Key { comm: row.0, function: row.1, sequence: row.2, repetition: row.3 },
            from: row.4,
            to: row.5,
            part: (row.6, row.7),
            is_send: row.8 != 0,
            ns: row.9,
        }
    }
}

impl From<End> for EndRow {
    fn from(end: End) -> Self {
        let key = end.key;
        let (channel, step) = end.part;
        (
            key.comm,
            key.function,
            key.sequence,
            key.repetition,
            end.from,
            end.to,
            channel,
            step,
            u8::from(end.is_send),
            end.ns,
        )
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Traffic {
    pub functions: Vec<String>,
    pub passages: Vec<Passage>,
    pub ends: Vec<End>,
}
