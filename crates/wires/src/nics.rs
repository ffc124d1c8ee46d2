//! What network interfaces moved, and which of them links use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use analysis::report::{Link, Nic, Topology};
use analysis::tables::{NONE, Network, Step, Tables, Transfer};
use analysis::{Filter, Sent, Trace, length, median, size_class, union};
use nccl_events::collective::Function;
use nccl_events::index::index;
use small_sort::Gather;

use crate::map::{End, Map};

/// This many interfaces must have sent a size before the usual time for it is known.
const LEAST_NICS: usize = 3;

/// What the interfaces moved.
pub(crate) struct Traffic<'a> {
    trace: &'a Trace,
    filter: &'a Filter,
    map: Arc<Map>,
    has_sizes: bool,
    received: Vec<u64>,
    sent: Vec<Vec<Sent>>,
    /// Bytes that NCCL's graphs do not place.
    elsewhere: u64,
}

impl<'a> Traffic<'a> {
    pub(crate) fn of(trace: &'a Trace, filter: &'a Filter, map: Arc<Map>) -> Self {
        let count = map.nics.len();
        Self {
            trace,
            filter,
            map,
            has_sizes: false,
            received: vec![0; count],
            sent: vec![Vec::new(); count],
            elsewhere: 0,
        }
    }

    pub(crate) const fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// The interfaces with their traffic. What NCCL's graphs do not place is counted in the topology.
    pub(crate) fn nics(self, topology: &mut Topology) -> Vec<Nic> {
        let mut nics = self.map.nics.clone();
        if !self.has_sizes {
            return nics;
        }
        topology.bytes_elsewhere += self.elsewhere;
        let usual = usual_times(&self.sent);
        for ((nic, steps), received) in nics.iter_mut().zip(self.sent).zip(self.received) {
            nic.steps = steps.len() as u64;
            let sent: u64 = steps.iter().map(Sent::bytes).sum();
            let busy_ns = length(&union(steps.iter().map(|step| (step.at_ns, step.end_ns())).collect()));
            (nic.sent_bytes, nic.received_bytes, nic.busy_ns) = (Some(sent), Some(received), Some(busy_ns));
            nic.rate = (busy_ns > 0).then(|| real(sent) / real(busy_ns) * 1e9);
            nic.share = nic.rate.zip(nic.speed).map(|(rate, speed)| rate / speed);
            let ratio = |step: &Sent| {
                Some(real(step.ns()) / usual.get(&size_class(step.bytes())).filter(|usual| **usual > 0.0)?)
            };
            let mut ratios: Vec<f64> = steps.iter().filter_map(ratio).collect();
            nic.slowdown = (!ratios.is_empty()).then(|| median(&mut ratios));
        }
        nics
    }
}

impl Network for Traffic<'_> {
    fn step(&mut self, tables: &Tables, transfer: Option<&Transfer>, step: &Step) {
        self.has_sizes |= step.bytes > 0;
        let Some(transfer) = transfer.filter(|it| it.member != NONE && step.bytes > 0) else {
            return;
        };
        if !self.filter.wants_time(step.start_ns, step.stop_ns())
            || !self.filter.wants_communicator(&tables.members, transfer.member)
        {
            return;
        }
        match (nic_of(self.trace, tables, &self.map, transfer), transfer.is_send) {
            (Some(nic), true) if step.third_ns > 0 => self.sent[index(nic)].push(Sent::of(step)),
            (_, true) => self.elsewhere += step.bytes,
            (Some(nic), false) => self.received[index(nic)] += step.bytes,
            (None, false) => {}
        }
    }

    fn append(&mut self, other: Self) {
        self.has_sizes |= other.has_sizes;
        self.elsewhere += other.elsewhere;
        self.received.iter_mut().zip(other.received).for_each(|(own, other)| *own += other);
        self.sent.iter_mut().zip(other.sent).for_each(|(own, other)| own.extend(other));
    }
}

/// Sends and receives of the program may use another interface than the channel's collectives, unless there is one.
fn nic_of(trace: &Trace, tables: &Tables, map: &Map, transfer: &Transfer) -> Option<u32> {
    let end: End = (transfer.member, transfer.peer, transfer.channel, transfer.is_send);
    let nic = map.wires.get(&end)?.nic;
    let host = map.nics.get(index(nic))?.host;
    if map.nics.iter().filter(|nic| nic.host == host).count() == 1 {
        return Some(nic);
    }
    let operation = (transfer.operation != NONE).then(|| tables.operations.row(index(transfer.operation)))?;
    trace.function(operation.function).and_then(Function::collective).map(|_| nic)
}

/// The usual time of a step by its size: the median of the interfaces' medians.
fn usual_times(sent: &[Vec<Sent>]) -> BTreeMap<u32, f64> {
    let mut medians: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for steps in sent {
        let mut of_class: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for step in steps {
            of_class.entry(size_class(step.bytes())).or_default().push(real(step.ns()));
        }
        for (class, mut times) in of_class {
            medians.entry(class).or_default().push(median(&mut times));
        }
    }
    medians.retain(|_, times| times.len() >= LEAST_NICS);
    medians.into_iter().map(|(class, mut times)| (class, median(&mut times))).gather()
}

/// Names the interfaces of links, and the ways from their senders' GPUs.
pub(crate) fn name(links: &mut [Link], tables: &Tables, map: &Map) {
    type Ends = BTreeMap<(u32, Option<u32>, u32), [BTreeSet<u32>; 2]>;
    let (mut pairs, mut channels) = (Ends::new(), Ends::new());
    let mut paths: BTreeMap<(u32, Option<u32>, u32), BTreeSet<&str>> = BTreeMap::new();
    for ((member, peer, channel, is_send), wire) in &map.wires {
        let member = tables.members.row(*member);
        let communicator = member.communicator;
        let (from, to) = match is_send {
            true => (Some(member.job_rank), *peer),
            false => (tables.members.job_rank(communicator, *peer), member.rank),
        };
        let side = usize::from(!is_send);
        let (pair, of_channel) = ((communicator, from, to), (communicator, None, *channel));
        pairs.entry(pair).or_default()[side].insert(wire.nic);
        channels.entry(of_channel).or_default()[side].insert(wire.nic);
        if *is_send && !wire.path.is_empty() {
            paths.entry(pair).or_default().insert(&wire.path);
            // A channel is a key without a sender, which no pair is.
            paths.entry(of_channel).or_default().insert(&wire.path);
        }
    }
    for link in links {
        let (all, key) = match (link.key.peer, link.key.channel) {
            (Some(peer), _) => (&pairs, (link.key.communicator, link.key.from, peer)),
            (None, Some(channel)) => (&channels, (link.key.communicator, None, channel)),
            (None, None) => continue,
        };
        if let Some([from, to]) = all.get(&key) {
            (link.from_nics, link.to_nics) = (from.iter().copied().collect(), to.iter().copied().collect());
        }
        link.nic_paths = paths.get(&key).into_iter().flatten().map(|path| (*path).to_owned()).collect();
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate does not need 64 bits of its bytes")]
fn real(number: u64) -> f64 {
    number as f64
}
