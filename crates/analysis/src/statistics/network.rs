//! Sums the waits of proxies, and the steps sent by each pair of ranks and each channel. While the steps are read, only
//! those that sent data are kept; links are derived from them afterwards.

use std::collections::BTreeMap;

use crate::read::archive::in_parallel;
use crate::read::{NONE, Network, ShortNumber, Step, Tables, Transfer};
use crate::results::{Link, LinkKey, Waits};
use crate::statistics::collectives::{Classes, Filter, Instances};
use crate::statistics::numeric::{Regression, change, median};
use crate::units::{real, whole};
use nccl_events::sort::Gather;
use rayon::prelude::*;

/// Communicator, sender and receiver.
pub(super) type RankPair = (u32, u32, u32);

/// A step that was sent: when it was handed to the network, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct SentStep {
    pub at_ns: u64,
    ns: ShortNumber,
    bytes: ShortNumber,
}

impl SentStep {
    pub fn from_step(step: &Step) -> Self {
        Self { at_ns: step.sent_ns(), ns: step.third_ns.into(), bytes: step.bytes.into() }
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
    pub(super) sent: BTreeMap<(RankPair, u32), Vec<SentStep>>,
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
    pub(super) sent: BTreeMap<(RankPair, u32), Vec<SentStep>>,
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
            self.sent.entry((pair, transfer.channel)).or_default().push(SentStep::from_step(step));
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
            instance_traffic.sent.entry((pair, transfer.channel)).or_default().push(SentStep::from_step(step));
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
fn extend(all: &mut BTreeMap<(RankPair, u32), Vec<SentStep>>, other: BTreeMap<(RankPair, u32), Vec<SentStep>>) {
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
/// This many links or interfaces must have sent a size before the usual time for it is known.
const LEAST_LINKS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct LinkChannel {
    pub(super) pair: RankPair,
    pub(super) channel: u32,
    pub(super) steps: u64,
    /// Median of the ratio of step time to that of the other links; measured after a change for the worse, if any.
    pub(super) slowdown: f64,
    /// Time that would be saved if the link were like the others.
    pub(super) excess_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) pairs: Vec<Link>,
    pub(super) channels: Vec<Link>,
    pub(super) cells: Vec<LinkChannel>,
    /// Whether any step of a transfer was seen.
    pub(super) has_steps: bool,
    expected: ExpectedStepTimes,
}

/// The expected time of a step by size on a communicator's links: the median of the links' medians.
#[derive(Debug, Default)]
struct ExpectedStepTimes(BTreeMap<(u32, u32), f64>);

/// Sizes that differ by less than an eighth share a class.
pub fn size_class(bytes: u64) -> u32 {
    let magnitude = u64::BITS - bytes.leading_zeros();
    let eighths = (bytes << bytes.leading_zeros().min(63)) >> 60 & 7;
    magnitude << 3 | u32::try_from(eighths).unwrap_or(0)
}

/// The usual time of a step by its sender and size class: the median of [`LEAST_LINKS`] or more senders' medians.
pub fn usual_times<K: Ord + Copy + Send + Sync>(sent: &[(K, &[SentStep])]) -> BTreeMap<(K, u32), f64> {
    let medians = in_parallel(sent, |(of, sent)| {
        let mut by_class: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for step in *sent {
            by_class.entry(size_class(step.bytes())).or_default().push(real(step.ns()));
        }
        by_class.into_iter().map(|(class, mut times)| ((*of, class), median(&mut times))).collect::<Vec<_>>()
    });
    let mut by_class: BTreeMap<(K, u32), Vec<f64>> = BTreeMap::new();
    for (key, time) in medians.into_iter().flatten() {
        by_class.entry(key).or_default().push(time);
    }
    by_class.retain(|_, times| times.len() >= LEAST_LINKS);
    by_class.into_iter().map(|(key, mut times)| (key, median(&mut times))).gather()
}

impl ExpectedStepTimes {
    fn new(sent: &BTreeMap<(RankPair, u32), Vec<SentStep>>) -> Self {
        let sent: Vec<(u32, &[SentStep])> = sent.iter().map(|((pair, _), sent)| (pair.0, sent.as_slice())).collect();
        Self(usual_times(&sent))
    }

    fn ns(&self, communicator: u32, bytes: u64) -> Option<f64> {
        self.0.get(&(communicator, size_class(bytes))).copied().filter(|ns| *ns > 0.0)
    }
}

impl Links {
    pub(super) fn new(tables: &Tables, traffic: &mut Traffic<'_>) -> Self {
        in_parallel(traffic.sent.values_mut(), |sent| sent.sort_by_key(|step| (step.at_ns, step.end_ns())));
        let Traffic { sent, waits, channel_waits, .. } = &*traffic;
        let expected = ExpectedStepTimes::new(sent);
        let mut by_pair: BTreeMap<RankPair, Vec<&[SentStep]>> = BTreeMap::new();
        let mut by_channel: BTreeMap<(u32, u32), Vec<&[SentStep]>> = BTreeMap::new();
        for ((pair, channel), steps) in sent {
            by_pair.entry(*pair).or_default().push(steps);
            by_channel.entry((pair.0, *channel)).or_default().push(steps);
        }
        let points = (ALL_POINTS / (by_pair.len() + by_channel.len()).max(1)).clamp(10, POINTS);
        let link = |key: LinkKey, cells: &[&[SentStep]], waits: Option<&Waits>| {
            let mut rows: Vec<&SentStep> = cells.iter().copied().flatten().collect();
            rows.par_sort_by_key(|step| (step.at_ns, step.end_ns()));
            Link { waits: waits.copied().unwrap_or_default(), ..link(&expected, key, &rows, points) }
        };
        let pairs = in_parallel(by_pair, |(pair, cells)| link(key(tables, pair), &cells, waits.get(&pair)));
        // Not in parallel, to limit memory: a channel may have all steps of its communicator.
        let channels = by_channel.into_iter().map(|(of, cells)| {
            let key = LinkKey { communicator: of.0, channel: Some(of.1), ..LinkKey::default() };
            link(key, &cells, channel_waits.get(&of))
        });
        let channels = channels.collect();
        let cells = in_parallel(sent, |((pair, channel), steps)| {
            let link = link(LinkKey { communicator: pair.0, ..LinkKey::default() }, &[steps], None);
            let slowdown = link.slowdown.unwrap_or(1.0).max(link.change.map(|change| change.after).unwrap_or(0.0));
            LinkChannel { pair: *pair, channel: *channel, steps: link.steps, slowdown, excess_ns: link.excess_ns }
        });
        Self { pairs, channels, cells, has_steps: traffic.steps > 0, expected }
    }

    /// How much longer a step took than on other links; `None` if the expected time is unknown.
    pub(super) fn excess_ns(&self, communicator: u32, step: &SentStep) -> Option<f64> {
        Some(real(step.ns()) - self.expected.ns(communicator, step.bytes())?)
    }
}

pub(super) fn key(tables: &Tables, (communicator, from, to): RankPair) -> LinkKey {
    let [from_rank, to_rank] = [from, to].map(|rank| tables.members.job_rank(communicator, rank));
    LinkKey { communicator, from: from_rank, to: to_rank, peer: Some(to), channel: None }
}

/// Sums the steps of a link, which are in time order.
fn link(expected: &ExpectedStepTimes, key: LinkKey, steps: &[&SentStep], most_points: usize) -> Link {
    let (mut all, mut least) = (Regression::default(), BTreeMap::<u64, u64>::new());
    let mut bytes = 0_u64;
    let (mut busy_ns, mut until_ns) = (0, 0);
    for step in steps {
        all.add(step.bytes(), step.ns());
        let shortest = least.entry(step.bytes()).or_insert(step.ns());
        *shortest = step.ns().min(*shortest);
        bytes = bytes.saturating_add(step.bytes());
        busy_ns += step.end_ns().saturating_sub(step.at_ns.max(until_ns));
        until_ns = step.end_ns().max(until_ns);
    }
    let mut least_fit = Regression::default();
    for (bytes, ns) in least {
        least_fit.add(bytes, ns);
    }
    let against = |step| expected.ns(key.communicator, SentStep::bytes(step)).map(|expected| (step, expected));
    let compared = || steps.iter().copied().filter_map(against);
    let sum_ns: f64 = compared().map(|(step, _)| real(step.ns())).sum();
    let excess_ns: f64 = compared().map(|(step, expected)| real(step.ns()) - expected).sum();
    let ratios: Vec<(u64, f64)> = compared().map(|(step, expected)| (step.at_ns, real(step.ns()) / expected)).collect();
    // Steps overlap: their sum exceeds the elapsed time.
    let in_turn = if sum_ns > 0.0 { (real(busy_ns) / sum_ns).min(1.0) } else { 0.0 };
    let points = steps.iter().step_by(steps.len().div_ceil(most_points).max(1));
    Link {
        key,
        steps: steps.len() as u64,
        bytes,
        busy_ns,
        rate: (busy_ns > 0).then(|| real(bytes) / real(busy_ns) * 1e9),
        all: all.fit(),
        least: least_fit.fit(),
        points: points.map(|step| [step.at_ns, step.bytes(), step.ns()]).collect(),
        slowdown: (!ratios.is_empty())
            .then(|| median(&mut ratios.iter().map(|(_, value)| *value).collect::<Vec<f64>>())),
        change: change(&ratios),
        waits: Waits::default(),
        from_nics: Vec::new(),
        to_nics: Vec::new(),
        nic_paths: Vec::new(),
        excess_ns: whole(excess_ns * in_turn),
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn near_sizes_are_one() {
        assert_eq!(size_class(1 << 20), size_class((1 << 20) + 100_000));
        assert_ne!(size_class(1 << 20), size_class((1 << 20) + 140_000));
        assert_ne!(size_class(1), size_class(2));
        assert!(size_class(u64::MAX) > size_class(1 << 63));
    }
}
