//! Sums over all processes, since each of them began: of ended operations by class, of the network, and of arrival
//! times, for a limited number of keys. [`Sums::report`] copies them into a snapshot.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

use crate::snapshot::{
    Channel, CollectiveSkew, Communicator, Fit, Histogram, Operation, Options, Pair, Proxy, Snapshot, Window, seconds,
};
use analysis::units::real;
use analysis::{Arrival, Arrivals, Regression, Split, length, median, union};
use journal::format::Symbol;
use journal::reader::Symbols;
use model::job::DuplicateClaim;
use model::links::intervals::Interval;
use nccl_events::MOST_RANKS;
use nccl_events::archive::Timing;
use nccl_events::collective::{Collective, Flow};
use nccl_events::ids::{index, index_u32};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) communicators: Communicators,
    names: Symbols,
    other: Symbol,
    operations: Operations,
    network: Network,
    skews: Skews,
    budget: Budget,
    bounds: &'static [f64],
}

impl Sums {
    pub(crate) fn new(options: &Options) -> Self {
        let mut names = Symbols::default();
        let other = names.intern("other");
        Self {
            communicators: Communicators::new(DuplicateClaim::OwnIdentity),
            names,
            other,
            operations: Operations::default(),
            network: Network::default(),
            skews: Skews::default(),
            budget: Budget::new(options.max_series),
            bounds: options.duration_bounds,
        }
    }

    pub(crate) fn name(&mut self, text: &str) -> Symbol {
        self.names.intern(text)
    }

    pub(crate) fn operation(&mut self, ended: &EndedOperation) {
        let Some(communicator) = self.communicators.all.get(index(ended.member.communicator)) else {
            return;
        };
        self.operations.add(ended, ranks(communicator), (self.bounds, &mut self.budget, self.other));
        self.skews.add(ended, communicator, (self.bounds, &mut self.budget));
    }

    pub(crate) fn places(&mut self, connection: Connection) -> StepSums {
        self.network.places(connection, self.bounds, &mut self.budget)
    }

    pub(crate) fn step(&mut self, places: StepSums, step: &EndedStep) {
        self.network.add(places, step);
    }
}

/// Limit on the time intervals kept before they are merged.
const MOST_INTERVALS: usize = 8192;
/// Limit on the sizes whose least duration is kept.
const MOST_SIZES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    pub(crate) member: Member,
    pub(crate) channel: u32,
    pub(crate) peer: u32,
    pub(crate) is_send: bool,
}

/// A step that ended; its phases follow each other from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedStep {
    pub(crate) start_ns: u64,
    /// Send: waiting for the GPU's data. Receive: waiting for data from the network.
    pub(crate) first_ns: u64,
    /// Send: waiting for buffer space at the receiver. Receive: flushing.
    pub(crate) second_ns: u64,
    /// Send: on the network. Receive: waiting for the GPU to take the data.
    pub(crate) third_ns: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct PairSum {
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
    window: PairWindow,
}

#[derive(Debug, Default)]
struct PairWindow {
    all: Regression,
    least: FxHashMap<u64, u64>,
    bytes: u64,
    /// Times of steps in progress that are not merged yet. `busy_ns` is the length of dropped ones.
    intervals: Vec<(u64, u64)>,
    busy_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StepSums {
    is_send: bool,
    pair: Option<usize>,
    connection: usize,
    proxy: usize,
}

/// Network sums: by sender and receiver, by connection, and the waits of proxies.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) pairs: Series<(Member, u32), PairSum>,
    pub(crate) connections: Series<Connection, Channel>,
    pub(crate) proxies: Series<Member, Proxy>,
}

impl Network {
    pub(crate) fn places(&mut self, key: Connection, bounds: &'static [f64], budget: &mut Budget) -> StepSums {
        let Connection { member, peer, is_send, .. } = key;
        let other = Member { communicator: OTHER, rank: 0 };
        let new = || Channel { duration: Histogram::new(bounds), ..Channel::default() };
        let fold = Connection { member: other, channel: 0, peer: 0, is_send };
        // Pairs are counted at the sender.
        let pair = is_send.then(|| self.pairs.place((member, peer), (other, 0), budget, PairSum::default));
        StepSums {
            is_send,
            pair,
            connection: self.connections.place(key, fold, budget, new),
            proxy: self.proxies.place(member, other, budget, Proxy::default),
        }
    }

    pub(crate) fn add(&mut self, places: StepSums, step: &EndedStep) {
        if let Some(proxy) = self.proxies.at(places.proxy) {
            let EndedStep { first_ns, second_ns, third_ns, .. } = *step;
            let (gpu_ns, peer_ns, network_ns) =
                if places.is_send { (first_ns, second_ns, third_ns) } else { (third_ns, 0, first_ns + second_ns) };
            proxy.gpu_wait_ns += gpu_ns;
            proxy.peer_wait_ns += peer_ns;
            proxy.network_ns += network_ns;
        }
        let on_network_ns = if places.is_send { step.third_ns } else { step.first_ns };
        // Early releases do not report the size.
        if step.bytes == 0 || on_network_ns == 0 {
            return;
        }
        if let Some(connection) = self.connections.at(places.connection) {
            connection.steps += 1;
            connection.bytes += step.bytes;
            connection.duration.add(on_network_ns);
        }
        if let Some(pair) = places.pair.and_then(|at| self.pairs.at(at)) {
            pair.steps += 1;
            pair.bytes += step.bytes;
            pair.window.add(step);
        }
    }
}

impl PairWindow {
    fn add(&mut self, step: &EndedStep) {
        self.all.add(step.bytes, step.third_ns);
        self.bytes += step.bytes;
        if let Some(least) = self.least.get_mut(&step.bytes) {
            *least = step.third_ns.min(*least);
        } else if self.least.len() < MOST_SIZES {
            self.least.insert(step.bytes, step.third_ns);
        }
        let sent_ns = step.start_ns + step.first_ns + step.second_ns;
        self.intervals.push((sent_ns, sent_ns + step.third_ns));
        if self.intervals.len() >= MOST_INTERVALS {
            self.unite();
        }
    }

    /// Merges overlapping intervals. Of many, keeps only the length of the oldest: later steps rarely overlap them.
    fn unite(&mut self) {
        self.intervals = union(std::mem::take(&mut self.intervals));
        if self.intervals.len() > MOST_INTERVALS / 2 {
            let older: Vec<(u64, u64)> = self.intervals.drain(..MOST_INTERVALS / 4).collect();
            self.busy_ns += length(&older);
        }
    }
}

impl PairSum {
    /// Regressions over all steps and over the least duration of each size, and the rate. Begins the next interval.
    pub(crate) fn end_window(&mut self) -> (Option<Fit>, Option<Fit>, Option<f64>) {
        let PairWindow { all, least, bytes, intervals, busy_ns } = std::mem::take(&mut self.window);
        let mut least: Vec<(u64, u64)> = least.into_iter().collect();
        least.sort_unstable();
        let mut least_fit = Regression::default();
        for (bytes, ns) in least {
            least_fit.add(bytes, ns);
        }
        let busy_s = seconds(busy_ns + length(&union(intervals)));
        (all.fit().map(Fit::from), least_fit.fit().map(Fit::from), (busy_s > 0.0).then(|| real(bytes) / busy_s))
    }
}

/// Limit on collectives whose other ranks have not been read yet. Ranks on other nodes never are.
const MOST_WAITING: usize = 1 << 12;

/// The number of a graph's first replay. Operations outside of graphs have 0.
const FIRST_REPLAY: u64 = 1;

/// Identifies a collective whose other ranks have not been read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CollectiveKey {
    communicator: u32,
    function: u32,
    sequence: u64,
    replay: u64,
}

#[derive(Clone, Copy, Debug)]
struct RankArrival {
    rank: u32,
    arrival: Arrival,
    error_ns: Option<u64>,
    is_measured: bool,
}

/// How often a rank was last, and how long others waited for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    pub(crate) last: u64,
    pub(crate) caused_waiting_ns: u64,
}

/// Arrival times of collectives whose ranks are all on this node.
#[derive(Debug, Default)]
pub(crate) struct Skews {
    waiting: FxHashMap<CollectiveKey, Vec<RankArrival>>,
    order: VecDeque<CollectiveKey>,
    pub(crate) all: Series<u32, Histogram>,
    pub(crate) late: FxHashMap<Member, Lateness>,
    /// The latest end of each rank's collectives. The waiting of collectives that share a kernel counts once.
    covered_ns: FxHashMap<Member, u64>,
}

impl Skews {
    pub(crate) fn add(
        &mut self,
        ended: &EndedOperation,
        communicator: &MergedCommunicator,
        (bounds, budget): (&'static [f64], &mut Budget),
    ) {
        let (Some((sequence, replay)), Some(collective)) = (ended.sequence, ended.collective) else {
            return;
        };
        let ranks = ranks(communicator);
        if ranks < 2 {
            return;
        }
        let communicator = ended.member.communicator;
        let key = CollectiveKey { communicator, function: ended.function.0, sequence, replay };
        let rank = RankArrival {
            rank: ended.member.rank,
            arrival: Arrival {
                start_ns: ended.interval.start,
                stop_ns: ended.interval.end,
                is_root: u32::try_from(ended.root) == Ok(ended.member.rank),
            },
            error_ns: ended.error_ns,
            is_measured: ended.interval.timing.is_measured() && !ended.interval.unfinished,
        };
        let arrived = self.waiting.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            Vec::new()
        });
        arrived.push(rank);
        if u32::try_from(arrived.len()) == Ok(ranks)
            && let Some(arrived) = self.waiting.remove(&key)
        {
            // NCCL connects ranks in the first collective of a function: `stats` does not count that one either.
            let is_warm_up = sequence == 0 && replay <= FIRST_REPLAY;
            self.compare(communicator, (collective.flow(), is_warm_up), arrived, bounds, budget);
        }
        while self.order.len() > MOST_WAITING {
            if let Some(oldest) = self.order.pop_front() {
                self.waiting.remove(&oldest);
            }
        }
    }

    fn compare(
        &mut self,
        communicator: u32,
        (flow, is_warm_up): (Flow, bool),
        mut arrived: Vec<RankArrival>,
        bounds: &'static [f64],
        budget: &mut Budget,
    ) {
        arrived.sort_by_key(|rank| rank.rank);
        let mut left = |rank: &RankArrival| {
            let covered_ns = self.covered_ns.entry(Member { communicator, rank: rank.rank }).or_default();
            let start_ns = rank.arrival.start_ns.max(*covered_ns);
            *covered_ns = rank.arrival.stop_ns.max(*covered_ns);
            (start_ns, start_ns.max(rank.arrival.stop_ns))
        };
        let left: Vec<(u64, u64)> = arrived.iter().map(&mut left).collect();
        let is_once = arrived.windows(2).all(|pair| matches!(pair, [a, b] if a.rank != b.rank));
        if !is_once || !arrived.iter().all(|rank| rank.is_measured) {
            return;
        }
        let ranks: Vec<Arrival> = arrived.iter().map(|rank| rank.arrival).collect();
        let own = |at: usize| arrived.get(at)?.error_ns;
        let (arrivals, last) = Arrivals::from_ranks(flow, &ranks, |a, b| Some(own(a)? + own(b)?));
        if arrivals.error_ns.is_err() {
            return;
        }
        let place = self.all.place(communicator, OTHER, budget, || Histogram::new(bounds));
        if let Some(skew) = self.all.at(place) {
            skew.add(arrivals.last_ns.saturating_sub(arrivals.first_ns));
        }
        if let Some(last) = last.certain.filter(|_| !is_warm_up).and_then(|last| arrived.get(last)) {
            let waited = ranks.iter().zip(left).map(|(rank, (from_ns, to_ns))| match arrivals.split(flow, rank) {
                Split::Waits(until_ns) => until_ns.clamp(from_ns, to_ns) - from_ns,
                Split::Unclear(_) => 0,
            });
            let late = self.late.entry(Member { communicator, rank: last.rank }).or_default();
            // If others wait for the root, the root was last only if no rank arrived after it.
            let is_from_root = matches!(flow, Flow::FromRoot);
            late.last += u64::from(!is_from_root || ranks.iter().all(|rank| rank.start_ns <= arrivals.last_ns));
            late.caused_waiting_ns += waited.sum::<u64>();
        }
    }
}

/// Limit on the bandwidths of a series kept for the median of an interval.
const MOST_BANDWIDTHS: usize = 1024;

/// An operation that ended. Symbols are from [`Sums::name`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedOperation {
    pub(crate) member: Member,
    pub(crate) function: Symbol,
    pub(crate) algorithm: Symbol,
    pub(crate) is_point_to_point: bool,
    pub(crate) peer: Option<i32>,
    pub(crate) bytes: u64,
    pub(crate) collective: Option<Collective>,
    /// Whether the amount of data is known: requires the number of ranks and all parts of the operation.
    pub(crate) has_bandwidth: bool,
    pub(crate) root: i32,
    /// NCCL's sequence number and the replay; `None` for sends and receives.
    pub(crate) sequence: Option<(u64, u64)>,
    pub(crate) interval: Interval,
    /// Error of the times; `None` if unknown.
    pub(crate) error_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) member: Member,
    pub(crate) function: Symbol,
    pub(crate) algorithm: Symbol,
    pub(crate) is_point_to_point: bool,
    pub(crate) peer: Option<i32>,
    pub(crate) size_class: u64,
    pub(crate) timing: &'static str,
}

impl Key {
    fn from_ended(ended: &EndedOperation) -> Self {
        Self {
            member: ended.member,
            function: ended.function,
            algorithm: ended.algorithm,
            is_point_to_point: ended.is_point_to_point,
            peer: ended.peer,
            size_class: ended.bytes.checked_ilog2().map_or(0, |log| 1 << log),
            timing: ended.interval.timing.name(),
        }
    }

    const fn other(self, other: Symbol) -> Self {
        let member = Member { communicator: OTHER, rank: 0 };
        let timing = Timing::Enqueue.name();
        Self { member, function: other, algorithm: other, is_point_to_point: false, peer: None, size_class: 0, timing }
    }
}

#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) duration: Histogram,
    window: Window,
    /// Algorithm bandwidths of the interval. The bus bandwidth is each of these times `bus_factor`.
    bandwidths: Vec<f64>,
    bus_factor: f64,
}

/// Ended operations, by class.
#[derive(Debug, Default)]
pub(crate) struct Operations(pub(crate) Series<Key, Sum>);

impl Operations {
    pub(crate) fn add(
        &mut self,
        ended: &EndedOperation,
        ranks: u32,
        (bounds, budget, other): (&'static [f64], &mut Budget, Symbol),
    ) {
        let key = Key::from_ended(ended);
        let new = || Sum {
            count: 0,
            bytes: 0,
            duration: Histogram::new(bounds),
            window: Window::default(),
            bandwidths: Vec::new(),
            bus_factor: 0.0,
        };
        let place = self.0.place(key, key.other(other), budget, new);
        let Some(sum) = self.0.at(place) else {
            return;
        };
        let Interval { start, end, timing, is_shared, .. } = ended.interval;
        let duration_ns = end.saturating_sub(start);
        sum.count += 1;
        sum.bytes += ended.bytes;
        sum.duration.add(duration_ns);
        sum.window.count += 1;
        sum.window.bytes += ended.bytes;
        sum.window.duration_ns += duration_ns;
        if let Some(collective) = ended.collective
            && ended.has_bandwidth
            && timing.is_measured()
            && !is_shared
            && duration_ns > 0
            && sum.bandwidths.len() < MOST_BANDWIDTHS
        {
            sum.bandwidths.push(collective.bandwidths(ended.bytes, ranks, seconds(duration_ns)).0);
            sum.bus_factor = collective.bus_factor(ranks);
        }
    }
}

impl Sum {
    pub(crate) fn end_window(&mut self) -> Window {
        let algbw = (!self.bandwidths.is_empty()).then(|| median(&mut self.bandwidths));
        self.bandwidths.clear();
        Window { algbw, busbw: algbw.map(|algbw| algbw * self.bus_factor), ..std::mem::take(&mut self.window) }
    }
}

fn place_of_other(snapshot: &mut Snapshot) -> usize {
    let place = snapshot.communicators.len();
    snapshot.communicators.push(Communicator { name: "other".to_owned(), ..Communicator::default() });
    place
}

impl Sums {
    /// Copies the sums into a snapshot and begins the next interval.
    pub(crate) fn report(&mut self, snapshot: &mut Snapshot) {
        let communicators = self.communicators.all.iter().map(|communicator| Communicator {
            name: communicator.name(),
            ranks: ranks(communicator),
            here: index_u32(communicator.members.len()),
            nodes: Some(communicator.comm.nodes).filter(|nodes| *nodes > 0),
        });
        snapshot.communicators = communicators.collect();
        snapshot.folded = self.budget.folded();
        let other = if snapshot.folded > 0 { place_of_other(snapshot) } else { 0 };
        let place = |communicator: u32| if communicator == OTHER { other } else { index(communicator) };
        let names = &self.names;
        let operations = self.operations.0.all.iter_mut().map(|(key, sum)| Operation {
            communicator: place(key.member.communicator),
            rank: key.member.rank,
            function: names.text(key.function).to_owned(),
            is_point_to_point: key.is_point_to_point,
            peer: key.peer,
            size_class: key.size_class,
            timing: key.timing,
            algorithm: names.text(key.algorithm).to_owned(),
            count: sum.count,
            bytes: sum.bytes,
            duration: sum.duration.clone(),
            window: sum.end_window(),
        });
        snapshot.operations = operations.collect();
        // NCCL before 2.27 reports no sizes: steps are not known then.
        let pairs = self.network.pairs.all.iter_mut().filter(|(_, sum)| sum.steps > 0).map(|((from, to), sum)| {
            let (all, least, rate) = sum.end_window();
            let communicator = place(from.communicator);
            Pair { communicator, from: from.rank, to: *to, steps: sum.steps, bytes: sum.bytes, all, least, rate }
        });
        snapshot.pairs = pairs.collect();
        let channels = self.network.connections.all.iter().filter(|(_, sum)| sum.steps > 0).map(|(key, sum)| Channel {
            communicator: place(key.member.communicator),
            rank: key.member.rank,
            channel: key.channel,
            peer: key.peer,
            is_send: key.is_send,
            ..sum.clone()
        });
        snapshot.channels = channels.collect();
        let proxies = self.network.proxies.all.iter().map(|(member, sum)| Proxy {
            communicator: place(member.communicator),
            rank: member.rank,
            ..sum.clone()
        });
        snapshot.proxies = proxies.collect();
        let skews = self.skews.all.all.iter().map(|(communicator, skew)| CollectiveSkew {
            communicator: place(*communicator),
            count: skew.count(),
            skew: skew.clone(),
        });
        snapshot.skews = skews.collect();
        for rank in &mut snapshot.ranks {
            let late = self.skews.late.get(&Member { communicator: index_u32(rank.communicator), rank: rank.rank });
            rank.last = late.map_or(0, |late| late.last);
            rank.caused_waiting_ns = late.map_or(0, |late| late.caused_waiting_ns);
        }
    }
}

/// Limit on the folded series that are counted individually.
const MOST_FOLDED: usize = 1 << 16;

/// Limit on the number of series in all tables together.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
    folded: FxHashSet<u64>,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self { left: most, folded: FxHashSet::default() }
    }

    pub(crate) fn folded(&self) -> u64 {
        self.folded.len() as u64
    }
}

/// Sums by key, in the order in which the keys were first seen.
#[derive(Debug)]
pub(crate) struct Series<K, V> {
    places: FxHashMap<K, usize>,
    pub(crate) all: Vec<(K, V)>,
}

impl<K, V> Default for Series<K, V> {
    fn default() -> Self {
        Self { places: FxHashMap::default(), all: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash, V> Series<K, V> {
    /// The index of a key's sum, or of the sum that the key is folded into.
    pub(crate) fn place(&mut self, key: K, other: K, budget: &mut Budget, new: impl FnOnce() -> V) -> usize {
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let mut kept = key;
        if budget.left == 0 {
            if budget.folded.len() < MOST_FOLDED {
                budget.folded.insert(FxBuildHasher.hash_one(key));
            }
            kept = other;
            if let Some(&place) = self.places.get(&other) {
                return place;
            }
        }
        budget.left = budget.left.saturating_sub(1);
        let place = self.all.len();
        self.places.insert(kept, place);
        self.all.push((kept, new()));
        place
    }

    pub(crate) fn at(&mut self, place: usize) -> Option<&mut V> {
        self.all.get_mut(place).map(|(_, sum)| sum)
    }
}

/// The communicator of folded series.
pub(crate) const OTHER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) communicator: u32,
    pub(crate) rank: u32,
}

/// The communicators of all processes, merged. Members are process numbers.
pub(crate) type Communicators = model::job::Communicators<usize>;
pub(crate) type MergedCommunicator = model::job::Communicator<usize>;

/// The number of ranks as far as it is plausible, because a damaged journal can claim any number.
pub(crate) fn ranks(communicator: &MergedCommunicator) -> u32 {
    let known = communicator.members.keys().next_back().map_or(0, |last| last + 1);
    let claimed = communicator.comm.ranks.max(communicator.comm.ranks_seen);
    [claimed, known].into_iter().filter(|ranks| *ranks <= MOST_RANKS).max().unwrap_or(0)
}
