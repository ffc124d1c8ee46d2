//! Sums the waits of proxies, and the steps sent by each pair of ranks and each channel. While the steps are read, only
//! those that sent data are kept; links are derived from them afterwards.

use std::collections::BTreeMap;

use crate::links::connections::{ConnectionTimes, References, Steps};
use crate::links::expected_bandwidth::StatedTopology;
use crate::links::slow::{self, Places, SlowLink};
use crate::read::archive::{Trace, in_parallel};
use crate::read::{NONE, Network, ShortNumber, Step, Tables, Transfer};
use crate::results::{Link, LinkKey, Waits};
use crate::statistics::collectives::{Classes, Filter, Instances};
use crate::statistics::messages::Pairing;
use crate::statistics::numeric::{Regression, change};
use crate::units::real;
use rayon::prelude::*;

/// Communicator, sender and receiver.
pub(crate) type RankPair = (u32, u32, u32);
/// A pair of ranks on a channel.
pub(crate) type ConnectionKey = (RankPair, u32);

/// A step that was sent: when it was handed to the network, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct SentStep {
    pub at_ns: u64,
    ns: ShortNumber,
    bytes: ShortNumber,
    /// Row of its operation; [`NONE`] if unknown.
    pub(crate) operation: u32,
}

impl SentStep {
    pub fn new(step: &Step, transfer: &Transfer) -> Self {
        let (ns, bytes) = (step.third_ns.into(), step.bytes.into());
        Self { at_ns: step.sent_ns(), ns, bytes, operation: transfer.operation }
    }

    pub fn ns(&self) -> u64 {
        self.ns.into()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.into()
    }

    pub fn end_ns(&self) -> u64 {
        self.at_ns + self.ns()
    }
}

fn pair_of(tables: &Tables, transfer: &Transfer) -> Option<RankPair> {
    if transfer.member == NONE || transfer.peer == NONE {
        return None;
    }
    let member = tables.members.row(transfer.member);
    Some(if transfer.is_send {
        (member.communicator, member.rank, transfer.peer)
    } else {
        (member.communicator, transfer.peer, member.rank)
    })
}

/// Adds the waits of a step.
fn add_step(waits: &mut Waits, is_send: bool, step: &Step) {
    let sums = if is_send {
        [&mut waits.send_gpu_ns, &mut waits.send_peer_ns, &mut waits.send_ns]
    } else {
        [&mut waits.recv_ns, &mut waits.recv_flush_ns, &mut waits.recv_gpu_ns]
    };
    for (sum, ns) in sums.into_iter().zip([step.first_ns, step.second_ns, step.third_ns]) {
        *sum = sum.saturating_add(ns);
    }
}

/// The network's part in an instance.
#[derive(Debug, Default)]
pub(super) struct InstanceTraffic {
    pub(super) waits: Waits,
    /// Steps that sent bytes, by connection.
    pub(super) sent: BTreeMap<ConnectionKey, Vec<SentStep>>,
}

/// Maps transfers to instances and classes, and selects the steps to keep.
#[derive(Clone, Copy)]
pub(super) struct KnownTraffic<'a> {
    pub(super) filter: &'a Filter,
    pub(super) instances: &'a Instances,
    pub(super) classes: &'a Classes,
    /// Instances whose steps are kept, ascending.
    pub(super) outliers: &'a [u32],
}

pub(super) struct Traffic<'a> {
    known: KnownTraffic<'a>,
    pub(super) transfers: usize,
    pub(super) steps: usize,
    pub(super) sent: BTreeMap<ConnectionKey, Vec<SentStep>>,
    pub(super) waits: BTreeMap<RankPair, Waits>,
    pub(super) channel_waits: BTreeMap<(u32, u32), Waits>,
    /// The waits in all steps of matched operations, keyed by class.
    pub(super) classes: BTreeMap<u32, Waits>,
    pub(super) instances: BTreeMap<u32, InstanceTraffic>,
}

impl<'a> Traffic<'a> {
    pub(super) const fn new(known: KnownTraffic<'a>) -> Self {
        Self {
            known,
            transfers: 0,
            steps: 0,
            sent: BTreeMap::new(),
            waits: BTreeMap::new(),
            channel_waits: BTreeMap::new(),
            classes: BTreeMap::new(),
            instances: BTreeMap::new(),
        }
    }

    fn add_to_links(&mut self, tables: &Tables, transfer: &Transfer, step: &Step) {
        let KnownTraffic { filter, .. } = self.known;
        let is_wanted = filter.wants_time(step.start_ns, step.stop_ns());
        let Some(pair) = pair_of(tables, transfer).filter(|_| is_wanted) else {
            return;
        };
        if !filter.wants_communicator(&tables.members, transfer.member) {
            return;
        }
        add_step(self.waits.entry(pair).or_default(), transfer.is_send, step);
        add_step(self.channel_waits.entry((pair.0, transfer.channel)).or_default(), transfer.is_send, step);
        if transfer.is_send && step.bytes > 0 && step.third_ns > 0 {
            self.sent.entry((pair, transfer.channel)).or_default().push(SentStep::new(step, transfer));
        }
    }

    fn add_to_instances(&mut self, tables: &Tables, transfer: &Transfer, step: &Step) {
        let KnownTraffic { instances, classes, outliers, .. } = self.known;
        let Some(instance) = instances.instance_of_operation(transfer.operation) else {
            return;
        };
        if let Some(class) = classes.number(tables, transfer.operation) {
            add_step(self.classes.entry(class).or_default(), transfer.is_send, step);
        }
        if outliers.binary_search(&instance).is_err() {
            return;
        }
        let instance_traffic = self.instances.entry(instance).or_default();
        add_step(&mut instance_traffic.waits, transfer.is_send, step);
        if let Some(pair) = pair_of(tables, transfer).filter(|_| transfer.is_send && step.bytes > 0) {
            instance_traffic.sent.entry((pair, transfer.channel)).or_default().push(SentStep::new(step, transfer));
        }
    }
}

impl Network for Traffic<'_> {
    fn transfers(&mut self, number: usize) {
        self.transfers += number;
    }

    fn step(&mut self, tables: &Tables, transfer: Option<&Transfer>, step: &Step) {
        self.steps += 1;
        if let Some(transfer) = transfer {
            self.add_to_links(tables, transfer, step);
            // Only the causes of outliers need traffic by instance and class.
            if !self.known.outliers.is_empty() {
                self.add_to_instances(tables, transfer, step);
            }
        }
    }

    fn append(&mut self, other: Self) {
        self.transfers += other.transfers;
        self.steps += other.steps;
        extend(&mut self.sent, other.sent);
        other.waits.into_iter().for_each(|(pair, waits)| *self.waits.entry(pair).or_default() += waits);
        other.channel_waits.into_iter().for_each(|(of, waits)| *self.channel_waits.entry(of).or_default() += waits);
        other.classes.into_iter().for_each(|(class, waits)| *self.classes.entry(class).or_default() += waits);
        for (instance, other) in other.instances {
            let own = self.instances.entry(instance).or_default();
            own.waits += other.waits;
            extend(&mut own.sent, other.sent);
        }
    }
}

/// Merges the steps of processes. Moves most lists, because most connections send from a single process.
fn extend(all: &mut BTreeMap<ConnectionKey, Vec<SentStep>>, other: BTreeMap<ConnectionKey, Vec<SentStep>>) {
    for (connection, mut sent) in other {
        let known = all.entry(connection).or_default();
        if known.is_empty() {
            sent.shrink_to_fit();
            *known = sent;
        } else {
            known.extend(sent);
        }
    }
}

/// Maximum points per scatter plot and in total: jobs with many ranks have many pairs.
const POINTS: usize = 500;
const ALL_POINTS: usize = 200_000;

#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) pairs: Vec<Link>,
    pub(super) channels: Vec<Link>,
    /// The connections that were compared with others.
    pub(super) connections: Vec<ConnectionTimes>,
    pub(super) slow: Vec<SlowLink>,
    /// Whether any transfer over the network was seen, and any step of one.
    pub(super) has_transfers: bool,
    pub(super) has_steps: bool,
    references: References,
}

/// A step and its connection.
type StepOfConnection<'a> = (ConnectionKey, &'a SentStep);

impl Links {
    pub(super) fn new(trace: &Trace, pairing: &Pairing, places: &Places<'_>, traffic: &mut Traffic<'_>) -> Self {
        let Places { tables, .. } = *places;
        in_parallel(traffic.sent.values_mut(), |sent| sent.sort_by_key(|step| (step.at_ns, step.end_ns())));
        let Traffic { sent, waits, channel_waits, .. } = &*traffic;
        let topology = StatedTopology::from_trace(trace, tables);
        let speed = |connection| topology.as_ref()?.speed(tables, connection);
        let (references, connections) = References::new(&Steps { places, pairing, sent, speed: &speed });
        let usual = slow::usual(&connections);
        let mut of_pair: BTreeMap<RankPair, Vec<_>> = BTreeMap::new();
        let mut of_channel: BTreeMap<(u32, u32), Vec<_>> = BTreeMap::new();
        for connection in &connections {
            let (pair, channel) = connection.key;
            of_pair.entry(pair).or_default().push(connection);
            of_channel.entry((pair.0, channel)).or_default().push(connection);
        }
        let mut by_pair: BTreeMap<RankPair, Vec<StepOfConnection<'_>>> = BTreeMap::new();
        let mut by_channel: BTreeMap<(u32, u32), Vec<ConnectionKey>> = BTreeMap::new();
        for ((pair, channel), steps) in sent {
            let of_connection = steps.iter().map(|step| ((*pair, *channel), step));
            by_pair.entry(*pair).or_default().extend(of_connection);
            by_channel.entry((pair.0, *channel)).or_default().push((*pair, *channel));
        }
        let points = (ALL_POINTS / (by_pair.len() + by_channel.len()).max(1)).clamp(10, POINTS);
        let link = |key: LinkKey,
                    mut steps: Vec<StepOfConnection<'_>>,
                    waits: Option<&Waits>,
                    rated: Option<&Vec<_>>| {
            steps.par_sort_by_key(|(_, step)| (step.at_ns, step.end_ns()));
            let mut link =
                Link { waits: waits.copied().unwrap_or_default(), ..link(tables, &references, key, &steps, points) };
            places.rate(&mut link, rated.map_or(&[], Vec::as_slice), &usual);
            link
        };
        let pairs =
            in_parallel(by_pair, |(pair, steps)| link(key(tables, pair), steps, waits.get(&pair), of_pair.get(&pair)));
        // Not in parallel, to limit memory: a channel may have all steps of its communicator.
        let channels = by_channel.into_iter().map(|(channel, connections)| {
            let key = LinkKey { communicator: channel.0, channel: Some(channel.1), ..LinkKey::default() };
            let steps =
                connections.iter().flat_map(|connection| sent[connection].iter().map(|step| (*connection, step)));
            link(key, steps.collect(), channel_waits.get(&channel), of_channel.get(&channel))
        });
        let channels = channels.collect();
        let slow = places.slow_links(&connections, &usual);
        Self {
            pairs,
            channels,
            connections,
            slow,
            has_transfers: traffic.transfers > 0,
            has_steps: traffic.steps > 0,
            references,
        }
    }

    /// How much longer a step took than is usual on the links that it is compared with; `None` if there are none.
    pub(super) fn excess_ns(&self, tables: &Tables, connection: ConnectionKey, step: &SentStep) -> Option<f64> {
        Some(real(step.ns()) - self.references.usual_ns(tables, connection, step)?)
    }
}

pub(crate) fn key(tables: &Tables, (communicator, from, to): RankPair) -> LinkKey {
    let [from_rank, to_rank] = [from, to].map(|rank| tables.members.job_rank(communicator, rank));
    LinkKey { communicator, from: from_rank, to: to_rank, peer: Some(to), channel: None }
}

/// For how long at least one of these steps was in flight. They are in time order.
pub(crate) fn busy_ns<'a>(steps: impl IntoIterator<Item = &'a SentStep>) -> u64 {
    let (mut busy_ns, mut until_ns) = (0, 0);
    for step in steps {
        busy_ns += step.end_ns().saturating_sub(step.at_ns.max(until_ns));
        until_ns = step.end_ns().max(until_ns);
    }
    busy_ns
}

/// Sums the steps of a link, which are in time order.
fn link(
    tables: &Tables,
    references: &References,
    key: LinkKey,
    steps: &[StepOfConnection<'_>],
    most_points: usize,
) -> Link {
    let (mut all, mut least) = (Regression::default(), BTreeMap::<u64, u64>::new());
    let mut bytes = 0_u64;
    let busy_ns = busy_ns(steps.iter().map(|(_, step)| *step));
    for (_, step) in steps {
        all.add(step.bytes(), step.ns());
        let shortest = least.entry(step.bytes()).or_insert(step.ns());
        *shortest = step.ns().min(*shortest);
        bytes = bytes.saturating_add(step.bytes());
    }
    let mut least_fit = Regression::default();
    for (bytes, ns) in least {
        least_fit.add(bytes, ns);
    }
    let ratio = |(connection, step): &StepOfConnection<'_>| {
        Some((step.at_ns, real(step.ns()) / references.usual_ns(tables, *connection, step)?))
    };
    let ratios: Vec<(u64, f64)> = steps.iter().filter_map(ratio).collect();
    let points = steps.iter().step_by(steps.len().div_ceil(most_points).max(1));
    Link {
        key,
        steps: steps.len() as u64,
        bytes,
        busy_ns,
        rate: (busy_ns > 0).then(|| real(bytes) / real(busy_ns) * 1e9),
        all: all.fit(),
        least: least_fit.fit(),
        points: points.map(|(_, step)| [step.at_ns, step.bytes(), step.ns()]).collect(),
        change: change(&ratios),
        ..Link::default()
    }
}
