//! What moved over each network interface, and what the graphs that NCCL chose allow.
//!
//! ```text
//!  archive's definitions   ─► StatedTopology      hosts, GPUs, interfaces, graphs; the interface of each connection
//!  StatedTopology, network ─► Traffic             traffic, rate and slowdown of interfaces
//!  StatedTopology          ─► expected_bandwidth  the bus bandwidth that NCCL's model allows a class of collectives
//! ```
//!
//! The report of an archive without NCCL's topology dumps contains none of this.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::links::connections::ConnectionTimes;
use crate::links::expected_bandwidth;
use crate::links::expected_bandwidth::StatedTopology;
use crate::read::{NONE, Network, Step, Tables, Transfer};
use crate::results::{Cause, CauseKind, Link, Nic, Rank, Topology, Verdict};
use crate::units::real;
use crate::{Analysis, Filter, SentStep, Trace, analyse_and, length, union};
use nccl_events::Progress;
use nccl_events::collective::Function;
use nccl_events::ids::index;
use nccl_events::visible;

/// Analyses an archive. If the archive states a topology, adds interfaces and expected bandwidths to the report.
/// Fails if the archive's events cannot be read.
pub fn analyse(trace: &Trace, filter: &Filter, progress: &dyn Progress) -> otf2::Result<Analysis> {
    let (mut analysis, traffic) = analyse_and(trace, filter, progress, |tables| {
        let map = StatedTopology::from_trace(trace, tables).map(Arc::new);
        move || map.clone().map(|map| Traffic::new(trace, filter, map))
    })?;
    let Some(traffic) = traffic else {
        return Ok(analysis);
    };
    let map = Arc::clone(&traffic.map);
    let ends = traffic.ends.clone();
    let Analysis { tables, report, connections, .. } = &mut analysis;
    let mut topology = map.described(&report.communicators);
    report.nics = traffic.nics(tables, connections, &mut topology);
    name_interfaces(&mut report.pairs, tables, &map, &ends);
    name_interfaces(&mut report.channels, tables, &map, &ends);
    name_causes(&mut report.causes, &mut report.verdict, &report.pairs, &report.nics, &report.ranks);
    expected_bandwidth::add(trace, tables, filter, &map, &mut report.operations);
    report.topology = Some(topology);
    Ok(analysis)
}

/// The ends of connections with steps: the rank's row in `Members`, the peer's rank, the channel, and whether the rank
/// sends.
type Ends = BTreeSet<(u32, u32, u32, bool)>;

/// A larger share means that the stated speed is wrong: NCCL assumes 10 Gbit/s for a socket of unknown speed.
const MOST_SHARE: f64 = 1.25;

/// Collects the traffic of each interface while the network's steps are read.
pub(crate) struct Traffic<'a> {
    trace: &'a Trace,
    filter: &'a Filter,
    map: Arc<StatedTopology>,
    has_sizes: bool,
    ends: Ends,
    received: Vec<u64>,
    sent: Vec<Vec<SentStep>>,
    /// Bytes sent over interfaces that NCCL's graphs do not identify.
    elsewhere: u64,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(trace: &'a Trace, filter: &'a Filter, map: Arc<StatedTopology>) -> Self {
        let count = map.nics.len();
        Self {
            trace,
            filter,
            map,
            has_sizes: false,
            ends: Ends::new(),
            received: vec![0; count],
            sent: vec![Vec::new(); count],
            elsewhere: 0,
        }
    }

    /// Returns the interfaces with their traffic. Adds the bytes sent over unknown interfaces to `topology`.
    pub(crate) fn nics(self, tables: &Tables, connections: &[ConnectionTimes], topology: &mut Topology) -> Vec<Nic> {
        let mut nics = self.map.nics.clone();
        if !self.has_sizes {
            return nics;
        }
        topology.bytes_elsewhere += self.elsewhere;
        let mut times = vec![(0.0, 0.0); nics.len()];
        for connection in connections {
            if let Some(nic) = self.map.interface(tables, connection.key) {
                let (ns, usual_ns) = &mut times[index(nic)];
                (*ns, *usual_ns) = (*ns + connection.ns, *usual_ns + connection.usual_ns);
            }
        }
        for (nic, (ns, usual_ns)) in nics.iter_mut().zip(times) {
            nic.slowdown = (usual_ns > 0.0).then(|| ns / usual_ns);
        }
        for ((nic, steps), received) in nics.iter_mut().zip(self.sent).zip(self.received) {
            nic.steps = steps.len() as u64;
            let sent: u64 = steps.iter().map(SentStep::bytes).sum();
            let busy_ns = length(&union(steps.iter().map(|step| (step.at_ns, step.end_ns())).collect()));
            (nic.sent_bytes, nic.received_bytes, nic.busy_ns) = (Some(sent), Some(received), Some(busy_ns));
            nic.rate = (busy_ns > 0).then(|| real(sent) / real(busy_ns) * 1e9);
            nic.share = nic.rate.zip(nic.speed).map(|(rate, speed)| rate / speed).filter(|share| *share <= MOST_SHARE);
        }
        nics
    }
}

impl Network for Traffic<'_> {
    fn step(&mut self, tables: &Tables, transfer: Option<&Transfer>, step: &Step) {
        self.has_sizes |= step.bytes > 0;
        if let Some(transfer) = transfer.filter(|transfer| transfer.member != NONE && transfer.peer != NONE) {
            self.ends.insert((transfer.member, transfer.peer, transfer.channel, transfer.is_send));
        }
        let Some(transfer) = transfer.filter(|transfer| transfer.member != NONE && step.bytes > 0) else {
            return;
        };
        if !self.filter.wants_time(step.start_ns, step.stop_ns())
            || !self.filter.wants_communicator(&tables.members, transfer.member)
        {
            return;
        }
        match (nic_of(self.trace, tables, &self.map, transfer), transfer.is_send) {
            (Some(nic), true) if step.third_ns > 0 => self.sent[index(nic)].push(SentStep::new(step, transfer)),
            (_, true) => self.elsewhere += step.bytes,
            (Some(nic), false) => self.received[index(nic)] += step.bytes,
            (None, false) => {}
        }
    }

    fn append(&mut self, other: Self) {
        self.has_sizes |= other.has_sizes;
        self.ends.extend(other.ends);
        self.elsewhere += other.elsewhere;
        self.received.iter_mut().zip(other.received).for_each(|(own, other)| *own += other);
        self.sent.iter_mut().zip(other.sent).for_each(|(own, other)| own.extend(other));
    }
}

/// The interface of a transfer. `None` for sends and receives of a host with several interfaces: they may use another
/// interface than the channel's collectives.
fn nic_of(trace: &Trace, tables: &Tables, map: &StatedTopology, transfer: &Transfer) -> Option<u32> {
    let nic = map.channels.get(&(transfer.member, transfer.channel, transfer.is_send))?.nic;
    let host = map.nics.get(index(nic))?.host;
    if map.nics.iter().filter(|nic| nic.host == host).count() == 1 {
        return Some(nic);
    }
    let operation = (transfer.operation != NONE).then(|| tables.operations.row(index(transfer.operation)))?;
    trace.function(operation.function).and_then(Function::collective).map(|_| nic)
}

/// Sets the interfaces of each link, and the kinds of path between its senders' GPUs and their interfaces.
fn name_interfaces(links: &mut [Link], tables: &Tables, map: &StatedTopology, ends: &Ends) {
    type Nics = BTreeMap<(u32, Option<u32>, u32), [BTreeSet<u32>; 2]>;
    let (mut pairs, mut channels) = (Nics::new(), Nics::new());
    let mut paths: BTreeMap<(u32, Option<u32>, u32), BTreeSet<&str>> = BTreeMap::new();
    for (member, peer, channel, is_send) in ends {
        let Some(wire) = map.channels.get(&(*member, *channel, *is_send)) else {
            continue;
        };
        let member = tables.members.row(*member);
        let communicator = member.communicator;
        let (from, to) = match is_send {
            true => (Some(member.job_rank), *peer),
            false => (tables.members.job_rank(communicator, *peer), member.rank),
        };
        let side = usize::from(!is_send);
        let (pair, channel_key) = ((communicator, from, to), (communicator, None, *channel));
        pairs.entry(pair).or_default()[side].insert(wire.nic);
        channels.entry(channel_key).or_default()[side].insert(wire.nic);
        if *is_send && !wire.path.is_empty() {
            paths.entry(pair).or_default().insert(&wire.path);
            // The key of a channel has no sender, so it never equals the key of a pair.
            paths.entry(channel_key).or_default().insert(&wire.path);
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

/// A sentence names at most this many interfaces.
const MOST_NAMES: usize = 4;

/// Adds the interfaces to causes that name a slow rank or host, because the analysis only knows their pairs.
pub(crate) fn name_causes(causes: &mut [Cause], verdict: &mut Verdict, pairs: &[Link], nics: &[Nic], ranks: &[Rank]) {
    let slow: Vec<&Link> = pairs.iter().filter(|pair| pair.lost_ns.is_some()).collect();
    for cause in causes.iter_mut().filter(|cause| cause.kind == CauseKind::SlowNic) {
        let is_it = |rank: Option<u32>| match (cause.rank, rank.and_then(|rank| ranks.get(index(rank)))) {
            (Some(_), _) => rank == cause.rank,
            (None, known) => known.is_some_and(|known| Some(&known.host) == cause.host.as_ref()),
        };
        let mut found: BTreeSet<u32> = BTreeSet::new();
        for pair in &slow {
            match [pair.key.from, pair.key.to].map(is_it) {
                // A pair with both ends, or neither, at the slow rank or host does not identify an interface.
                [true, true] | [false, false] => {}
                [true, false] => found.extend(&pair.from_nics),
                [false, true] => found.extend(&pair.to_nics),
            }
        }
        let names: BTreeSet<&str> =
            found.iter().filter_map(|nic| nics.get(index(*nic))).map(|nic| nic.name.as_str()).collect();
        if (1..=MOST_NAMES).contains(&names.len()) {
            let names = names.into_iter().map(visible).collect::<Vec<_>>().join(", ");
            let line = format!("Its slow pairs use {names}.");
            if let Some(evidence) = &mut cause.evidence {
                let named = format!("{evidence} {line}");
                verdict.basis.iter_mut().filter(|line| *line == evidence).for_each(|line| line.clone_from(&named));
                *evidence = named;
            }
        }
        cause.nics = found.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use crate::results::LinkKey;

    use super::*;

    #[test]
    fn a_slow_interface_has_the_name_of_that_of_its_slow_pairs() {
        let nics = ["mlx5_0", "mlx5_1", "mlx5_2"].map(|name| Nic { name: name.to_owned(), ..Nic::default() });
        let pair = |from, to, nics: [u32; 2], lost_ns| Link {
            key: LinkKey { from: Some(from), to: Some(to), ..LinkKey::default() },
            from_nics: vec![nics[0]],
            to_nics: vec![nics[1]],
            lost_ns,
            ..Link::default()
        };
        let pairs = [
            pair(0, 1, [0, 1], None),
            pair(1, 2, [1, 2], Some(5)),
            pair(2, 0, [2, 0], None),
            pair(1, 0, [1, 0], Some(5)),
        ];
        let evidence = "The network interface of rank 1 (node): 80 steps.".to_owned();
        let mut verdict = Verdict { basis: vec!["First.".to_owned(), evidence.clone()], ..Verdict::default() };
        let mut causes =
            [Cause { kind: CauseKind::SlowNic, rank: Some(1), evidence: Some(evidence), ..Cause::default() }];
        let ranks = vec![Rank::default(); 3];
        name_causes(&mut causes, &mut verdict, &pairs, &nics, &ranks);
        assert_eq!(causes[0].nics, [1]);
        let wanted = "The network interface of rank 1 (node): 80 steps. Its slow pairs use mlx5_1.";
        assert_eq!((causes[0].evidence.as_deref(), verdict.basis[1].as_str()), (Some(wanted), wanted));
    }
}
