//! What network interfaces moved, and which of them links use.

use std::collections::{BTreeMap, BTreeSet};

use analysis::report::{Link, Nic, Topology};
use analysis::tables::{NONE, Tables, Transfer};
use analysis::{Filter, Trace, length, median, size_class, union};
use nccl_events::collective::Function;
use nccl_events::index::{index, index_u32};

use crate::map::{End, Map};

/// This many interfaces must have sent a size before the usual time for it is known.
const LEAST_NICS: usize = 3;

/// The interfaces with their traffic. What NCCL's graphs do not place is counted in the topology.
pub(crate) fn traffic(trace: &Trace, tables: &Tables, filter: &Filter, map: &Map, topology: &mut Topology) -> Vec<Nic> {
    let mut nics = map.nics.clone();
    if !tables.steps.rows().any(|step| step.bytes > 0) {
        return nics;
    }
    let mut received = vec![0; nics.len()];
    let mut sent: Vec<Vec<u32>> = vec![Vec::new(); nics.len()];
    for row in 0..index_u32(tables.steps.len()) {
        let step = tables.steps.row(index(row));
        if step.transfer == NONE || step.bytes == 0 || !filter.wants_time(step.start_ns, step.stop_ns()) {
            continue;
        }
        let transfer = tables.transfers.row(index(step.transfer));
        if transfer.member == NONE || !filter.wants_communicator(&tables.members, transfer.member) {
            continue;
        }
        let Some(nic) = nic_of(trace, tables, map, &transfer) else {
            topology.bytes_elsewhere += if transfer.is_send { step.bytes } else { 0 };
            continue;
        };
        match transfer.is_send {
            true if step.third_ns > 0 => sent[index(nic)].push(row),
            true => topology.bytes_elsewhere += step.bytes,
            false => received[index(nic)] += step.bytes,
        }
    }
    let usual = usual_times(tables, &sent);
    for ((nic, rows), received) in nics.iter_mut().zip(sent).zip(received) {
        let steps = || rows.iter().map(|row| tables.steps.row(index(*row)));
        nic.steps = rows.len() as u64;
        let sent: u64 = steps().map(|step| step.bytes).sum();
        let busy_ns = length(&union(steps().map(|step| (step.sent_ns(), step.stop_ns())).collect()));
        (nic.sent_bytes, nic.received_bytes, nic.busy_ns) = (Some(sent), Some(received), Some(busy_ns));
        nic.rate = (busy_ns > 0).then(|| real(sent) / real(busy_ns) * 1e9);
        nic.share = nic.rate.zip(nic.speed).map(|(rate, speed)| rate / speed);
        let ratio = |bytes: u64, ns: u64| Some(real(ns) / usual.get(&size_class(bytes)).filter(|usual| **usual > 0.0)?);
        let mut ratios: Vec<f64> = steps().filter_map(|step| ratio(step.bytes, step.third_ns)).collect();
        nic.slowdown = (!ratios.is_empty()).then(|| median(&mut ratios));
    }
    nics
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
fn usual_times(tables: &Tables, sent: &[Vec<u32>]) -> BTreeMap<u32, f64> {
    let mut medians: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for rows in sent {
        let mut of_class: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for step in rows.iter().map(|row| tables.steps.row(index(*row))) {
            of_class.entry(size_class(step.bytes)).or_default().push(real(step.third_ns));
        }
        for (class, mut times) in of_class {
            medians.entry(class).or_default().push(median(&mut times));
        }
    }
    medians.retain(|_, times| times.len() >= LEAST_NICS);
    medians.into_iter().map(|(class, mut times)| (class, median(&mut times))).collect()
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
