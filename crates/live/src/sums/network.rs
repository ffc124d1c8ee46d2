//! Network sums: by sender and receiver, by connection, and the waits of proxies.

use analysis::{Regression, length, union};
use rustc_hash::FxHashMap;

use super::communicators::{Member, OTHER};
use super::series::{Budget, Series};
use crate::snapshot::{Channel, Fit, Histogram, Proxy, real, seconds};

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
    /// Send: waiting for room at the receiver. Receive: flushing.
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
pub(crate) struct Places {
    is_send: bool,
    pair: Option<usize>,
    connection: usize,
    proxy: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) pairs: Series<(Member, u32), PairSum>,
    pub(crate) connections: Series<Connection, Channel>,
    pub(crate) proxies: Series<Member, Proxy>,
}

impl Network {
    pub(crate) fn places(&mut self, key: Connection, bounds: &'static [f64], budget: &mut Budget) -> Places {
        let Connection { member, peer, is_send, .. } = key;
        let other = Member { communicator: OTHER, rank: 0 };
        let new = || Channel { duration: Histogram::new(bounds), ..Channel::default() };
        let fold = Connection { member: other, channel: 0, peer: 0, is_send };
        // Pairs are counted at the sender.
        let pair = is_send.then(|| self.pairs.place((member, peer), (other, 0), budget, PairSum::default));
        Places {
            is_send,
            pair,
            connection: self.connections.place(key, fold, budget, new),
            proxy: self.proxies.place(member, other, budget, Proxy::default),
        }
    }

    pub(crate) fn add(&mut self, places: Places, step: &EndedStep) {
        if let Some(proxy) = self.proxies.at(places.proxy) {
            let EndedStep { first_ns, second_ns, third_ns, .. } = *step;
            let (gpu_ns, peer_ns, network_ns) = match places.is_send {
                true => (first_ns, second_ns, third_ns),
                false => (third_ns, 0, first_ns + second_ns),
            };
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
        let mut of_least = Regression::default();
        for (bytes, ns) in least {
            of_least.add(bytes, ns);
        }
        let busy_s = seconds(busy_ns + length(&union(intervals)));
        (all.fit().map(Fit::from), of_least.fit().map(Fit::from), (busy_s > 0.0).then(|| real(bytes) / busy_s))
    }
}
