//! Slow network interfaces, channels, pairs of ranks and connections, from the connections that are slower than others
//! of their class beyond chance.

use std::collections::{BTreeMap, BTreeSet};

use crate::lateness::chance::IMPROBABLE;
use crate::links::connections::{ConnectionTimes, Occasion};
use crate::read::Tables;
use crate::results::{Link, LinkKey, Rank};
use crate::statistics::collectives::Instances;
use crate::statistics::network::{ConnectionKey, RankPair, key};
use crate::units::real;
use nccl_events::ids::index as large;

/// A slow connection takes at least this many times as long as the reference.
const SLOW: f64 = 1.25;
/// It is beyond what the better connections differ by, times this.
const SPREADS: f64 = 5.0;
/// The least spread of connections that are alike.
const LEAST_SPREAD: f64 = 0.03;
/// Slow nearly always: its typical step takes this many times as long. A slow link below this is unsteady.
pub(crate) const STEADY: f64 = 1.2;
/// Slow at times: at least this many operations have slow steps, and the link takes this many times as long.
const LEAST_OPERATIONS: u64 = 5;
const UNSTEADY_RATIO: f64 = 1.1;
/// Links between groups of hosts that all take up to this many times as long are of another kind, not at fault.
const MOST_OF_KIND: f64 = 2.0;
/// Links of one kind differ by at most this factor.
const SAME_KIND: f64 = 1.15;

/// What slow connections have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// The network interface of a rank.
    Rank(u32),
    /// The network interfaces of a host.
    Host(String),
    Channel(u32, u32),
    Pair(RankPair),
    /// All pairs of ranks from one host to another.
    Hosts(String, String),
    Connection(ConnectionKey),
    /// All connections between groups of hosts: another kind of link, not a cause.
    Kind,
}

#[derive(Clone, Debug)]
pub(crate) struct SlowLink {
    pub(crate) shared: Shared,
    pub(crate) steps: u64,
    pub(crate) slow_steps: u64,
    /// Time of the steps ÷ that of the reference.
    pub(crate) ratio: f64,
    /// The same of the typical step.
    pub(crate) typical: f64,
    pub(crate) chance: f64,
    /// What all ranks of its operations lose together, in ns.
    pub(crate) lost_ns: f64,
    /// Number of pairs of ranks.
    pub(crate) pairs: u64,
}

/// Where connections begin and end.
pub(crate) struct Places<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) instances: &'a Instances,
    pub(crate) ranks: &'a [Rank],
    /// Ranks that are late. A link to one of these is not judged if the clocks cannot tell that from a slow link.
    pub(crate) late: BTreeSet<u32>,
}

/// How much longer than the reference's median the longest of some connections takes in each operation.
type Longest = BTreeMap<Occasion, f64>;

fn longest<'a>(connections: impl Iterator<Item = &'a ConnectionTimes>) -> Longest {
    let mut found = Longest::new();
    for (occasion, ns) in connections.flat_map(|connection| &connection.excess) {
        let known = found.entry(*occasion).or_insert(*ns);
        *known = ns.max(*known);
    }
    found
}

/// The longest of the connections that are not slow.
pub(crate) fn usual(all: &[ConnectionTimes]) -> Longest {
    longest(all.iter().filter(|connection| !is_slow(connection)))
}

fn is_slow(connection: &ConnectionTimes) -> bool {
    let (ratio, spread) = (connection.ratio(), connection.spread.max(LEAST_SPREAD));
    let is_steady = connection.typical >= STEADY && ratio >= SLOW;
    let is_unsteady = connection.slow_operations >= LEAST_OPERATIONS && ratio >= UNSTEADY_RATIO;
    connection.chance < IMPROBABLE && ratio - 1.0 > SPREADS * spread && (is_steady || is_unsteady)
}

impl Places<'_> {
    pub(crate) fn host(&self, rank: Option<u32>) -> Option<&str> {
        Some(self.ranks.get(large(rank?))?.host.as_str())
    }

    fn ends(&self, pair: RankPair) -> LinkKey {
        key(self.tables, pair)
    }

    /// What all ranks lose. The connections of an operation send at the same time, so it waits for the slowest of these;
    /// without them it would wait for the slowest of the others.
    fn lost_ns(&self, connections: &[&ConnectionTimes], usual: &Longest) -> f64 {
        let ranks = |occasion: Occasion| match occasion {
            Occasion::Instance(number) => self.instances.operations(&self.instances.all[large(number)]).len() as u64,
            Occasion::Message(_) => 2,
        };
        let lost = longest(connections.iter().copied()).into_iter().map(|(occasion, ns)| {
            let others_ns = usual.get(&occasion).copied().unwrap_or(0.0).max(0.0);
            real(ranks(occasion)) * (ns - others_ns).max(0.0)
        });
        lost.sum()
    }

    fn slow_link(&self, shared: Shared, connections: &[&ConnectionTimes], usual: &Longest) -> SlowLink {
        let sum = |of: fn(&ConnectionTimes) -> f64| connections.iter().map(|connection| of(connection)).sum::<f64>();
        let steps: u64 = connections.iter().map(|connection| connection.steps).sum();
        let pairs: BTreeSet<RankPair> = connections.iter().map(|connection| connection.key.0).collect();
        SlowLink {
            shared,
            steps,
            slow_steps: connections.iter().map(|connection| connection.slow_steps).sum(),
            ratio: sum(|one| one.ns) / sum(|one| one.usual_ns).max(1.0),
            typical: sum(|one| one.typical * real(one.steps)) / real(steps.max(1)),
            chance: connections.iter().map(|connection| connection.chance).fold(1.0, f64::min),
            lost_ns: self.lost_ns(connections, usual),
            pairs: pairs.len() as u64,
        }
    }

    /// The slow links, each slow connection in one of them. Says of each what most of the slow connections share.
    pub(crate) fn slow_links(&self, all: &[ConnectionTimes], usual: &Longest) -> Vec<SlowLink> {
        let is_late = |connection: &ConnectionTimes| {
            self.ends(connection.key.0).to.is_some_and(|rank| self.late.contains(&rank)) && !connection.is_clear
        };
        let mut found = Vec::new();
        let relations: BTreeSet<Option<bool>> = all.iter().map(|connection| connection.is_on_host).collect();
        for relation in relations {
            let all: Vec<&ConnectionTimes> =
                all.iter().filter(|connection| connection.is_on_host == relation && !is_late(connection)).collect();
            let left: BTreeSet<ConnectionKey> =
                all.iter().filter(|connection| is_slow(connection)).map(|connection| connection.key).collect();
            let mut grouping = Grouping { places: self, all, usual, left, found: Vec::new() };
            if !grouping.left.is_empty() {
                grouping.channels();
                grouping.interfaces();
                grouping.kinds();
                grouping.hosts();
                grouping.pairs();
            }
            found.extend(grouping.found);
        }
        found
    }

    /// Whether pairs join more than two hosts, or on one host more than two ranks: then what they share is at fault.
    fn is_several(&self, pairs: &BTreeSet<RankPair>) -> bool {
        let ends = || {
            pairs.iter().flat_map(|pair| {
                let of_pair = self.ends(*pair);
                [of_pair.from, of_pair.to]
            })
        };
        let hosts: BTreeSet<&str> = ends().filter_map(|rank| self.host(rank)).collect();
        let ranks: BTreeSet<u32> = ends().flatten().collect();
        pairs.len() > 1 && ranks.len() > 2 && (hosts.len() != 2)
    }

    /// Sets how slow links are, from their connections.
    pub(crate) fn rate(&self, link: &mut Link, connections: &[&ConnectionTimes], usual: &Longest) {
        if connections.is_empty() {
            return;
        }
        let all = self.slow_link(Shared::Kind, connections, usual);
        (link.slowdown, link.typical_slowdown) = (Some(all.ratio), Some(all.typical));
        (link.slow_steps, link.chance) = (Some(all.slow_steps), Some(all.chance));
        let slow: Vec<&ConnectionTimes> =
            connections.iter().copied().filter(|connection| is_slow(connection)).collect();
        link.lost_ns = (!slow.is_empty()).then(|| crate::units::whole(self.lost_ns(&slow, usual)));
    }
}

/// The search for what slow connections share.
struct Grouping<'a> {
    places: &'a Places<'a>,
    /// The connections of one relation: within hosts, or between them.
    all: Vec<&'a ConnectionTimes>,
    usual: &'a Longest,
    /// The slow ones that are in no link yet.
    left: BTreeSet<ConnectionKey>,
    found: Vec<SlowLink>,
}

impl<'a> Grouping<'a> {
    fn is_left(&self, connections: &[&ConnectionTimes]) -> bool {
        connections.iter().all(|connection| self.left.contains(&connection.key))
    }

    fn take(&mut self, shared: Shared, connections: &[&ConnectionTimes]) {
        self.found.push(self.places.slow_link(shared, connections, self.usual));
        for connection in connections {
            self.left.remove(&connection.key);
        }
    }

    fn pair_connections(&self) -> BTreeMap<RankPair, Vec<&'a ConnectionTimes>> {
        let mut found: BTreeMap<RankPair, Vec<&ConnectionTimes>> = BTreeMap::new();
        self.all.iter().for_each(|connection| found.entry(connection.key.0).or_default().push(connection));
        found
    }

    fn hosts_of(&self, pair: RankPair) -> Option<(&'a str, &'a str)> {
        let ends = self.places.ends(pair);
        self.places.host(ends.from).zip(self.places.host(ends.to))
    }

    /// Channels that are slow on all pairs.
    fn channels(&mut self) {
        let mut by_channel: BTreeMap<(u32, u32), Vec<&ConnectionTimes>> = BTreeMap::new();
        for connection in &self.all {
            let ((communicator, ..), channel) = connection.key;
            by_channel.entry((communicator, channel)).or_default().push(connection);
        }
        let several: BTreeSet<u32> = by_channel.keys().map(|(_, channel)| *channel).collect();
        let is_all = self.is_left(&self.all);
        for ((communicator, channel), connections) in by_channel {
            if several.len() > 1 && connections.len() > 1 && self.is_left(&connections) && !is_all {
                self.take(Shared::Channel(communicator, channel), &connections);
            }
        }
    }

    /// Ranks and hosts of which all pairs of a direction are slow: the interface, not each pair.
    fn interfaces(&mut self) {
        let pairs = self.pair_connections();
        let mut ends: Vec<(Shared, [Vec<RankPair>; 2])> = Vec::new();
        for pair in pairs.keys() {
            let of_pair = self.places.ends(*pair);
            for (way, rank) in [of_pair.from, of_pair.to].into_iter().enumerate() {
                let places = [rank.map(Shared::Rank), self.places.host(rank).map(|host| Shared::Host(host.to_owned()))];
                for shared in places.into_iter().flatten() {
                    let at = ends.iter().position(|(known, _)| *known == shared).unwrap_or(ends.len());
                    if at == ends.len() {
                        ends.push((shared, Default::default()));
                    }
                    ends[at].1[way].push(*pair);
                }
            }
        }
        loop {
            let is_slow = |pair: &RankPair| self.is_left(&pairs[pair]);
            let explained = ends.iter().map(|(shared, ways)| {
                let slow_ways = ways.iter().filter(|way| way.iter().all(is_slow));
                (shared, slow_ways.flatten().copied().collect::<BTreeSet<RankPair>>())
            });
            let mut explained: Vec<(&Shared, BTreeSet<RankPair>)> =
                explained.filter(|(_, pairs)| self.places.is_several(pairs)).collect();
            // Of a host with one rank, either says the same.
            let mut known: BTreeSet<BTreeSet<RankPair>> = BTreeSet::new();
            explained.retain(|(_, pairs)| known.insert(pairs.clone()));
            nccl_events::sort::sort_by_key(&mut explained, |(_, pairs)| std::cmp::Reverse(pairs.len()));
            let Some((shared, slow)) = explained.first() else { return };
            // Slow pairs between two hosts only: either interface may be at fault.
            let is_clear =
                explained[1..].iter().all(|(_, others)| others.len() < slow.len() || others.is_disjoint(slow));
            if !is_clear {
                return;
            }
            let connections: Vec<&ConnectionTimes> = slow.iter().flat_map(|pair| pairs[pair].iter().copied()).collect();
            self.take((*shared).clone(), &connections);
        }
    }

    /// Slow pairs that are exactly those between groups of hosts, all by one factor: another kind of link.
    fn kinds(&mut self) {
        let pairs = self.pair_connections();
        let slow: BTreeSet<RankPair> =
            pairs.iter().filter(|(_, connections)| self.is_left(connections)).map(|(pair, _)| *pair).collect();
        if slow.len() < 2 {
            return;
        }
        let connections: Vec<&ConnectionTimes> = slow.iter().flat_map(|pair| pairs[pair].iter().copied()).collect();
        let ratios = slow.iter().map(|pair| self.places.slow_link(Shared::Kind, &pairs[pair], self.usual).ratio);
        let (low, high) = ratios.fold((f64::INFINITY, 0.0_f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
        let is_one_kind = high < MOST_OF_KIND
            && high / low < SAME_KIND
            && connections.iter().all(|connection| connection.typical > STEADY);
        if !is_one_kind {
            return;
        }
        // Hosts that usual pairs join, by the first host of their group.
        let mut hosts: BTreeMap<&str, &str> = BTreeMap::new();
        let hosts_of = |pair: &RankPair| self.hosts_of(*pair);
        for (from, to) in pairs.keys().filter_map(hosts_of) {
            hosts.entry(from).or_insert(from);
            hosts.entry(to).or_insert(to);
        }
        for (from, to) in pairs.keys().filter(|pair| !slow.contains(pair)).filter_map(hosts_of) {
            let (one, other) = (hosts[from], hosts[to]);
            hosts.values_mut().filter(|group| **group == other).for_each(|group| *group = one);
        }
        let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
        hosts.values().for_each(|group| *groups.entry(group).or_default() += 1);
        let is_between = slow.iter().filter_map(hosts_of).all(|(from, to)| hosts[from] != hosts[to]);
        if groups.len() > 1 && groups.values().all(|hosts| *hosts > 1) && is_between {
            self.take(Shared::Kind, &connections);
        }
    }

    /// All pairs from one host to another: the interface of either, or what is between, may be at fault.
    fn hosts(&mut self) {
        let mut by_hosts: BTreeMap<(&str, &str), Vec<&ConnectionTimes>> = BTreeMap::new();
        for connection in &self.all {
            if let Some((from, to)) = self.hosts_of(connection.key.0).filter(|(from, to)| from != to) {
                by_hosts.entry((from, to)).or_default().push(connection);
            }
        }
        for ((from, to), connections) in by_hosts {
            let pairs: BTreeSet<RankPair> = connections.iter().map(|connection| connection.key.0).collect();
            if pairs.len() > 1 && self.is_left(&connections) {
                self.take(Shared::Hosts(from.to_owned(), to.to_owned()), &connections);
            }
        }
    }

    /// Pairs that are slow on all channels, and what is left.
    fn pairs(&mut self) {
        for (pair, connections) in self.pair_connections() {
            if self.is_left(&connections) {
                self.take(Shared::Pair(pair), &connections);
            } else {
                let slow: Vec<&ConnectionTimes> =
                    connections.into_iter().filter(|connection| self.left.contains(&connection.key)).collect();
                slow.into_iter().for_each(|connection| self.take(Shared::Connection(connection.key), &[connection]));
            }
        }
    }
}
