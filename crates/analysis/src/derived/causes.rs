//! What lost most time. A cause is named only where chance does not explain it.

use std::collections::BTreeMap;

use super::anomalies::Given;
use super::links::{Cell, Pair, key};
use super::maths::sample::{center, real};
use crate::report::{Anomaly, Cause, CauseKind, Link, LinkKey, Rank};
use crate::tables::{large, small};
use crate::units::{bandwidth, count, time};

/// A late rank is named where the probability that it is the last that often by chance is below this.
const IMPROBABLE: f64 = 1e-6;
/// Less of the time of all ranks is no cause.
const LEAST_SHARE: f64 = 0.02;
/// How many times as long as others a slow link takes, on all its channels or pairs.
const SLOW: f64 = 1.3;
/// Steps that tell how fast a link is.
const LEAST_STEPS: u64 = 20;
/// Other links that tell what is usual.
const LEAST_OTHERS: usize = 3;
/// Links differ by that much without anything being wrong.
const USUAL_DEVIATION: f64 = 0.05;

impl Given<'_> {
    /// The causes, that which lost most first. `operations_ns` is the time of all ranks in operations.
    pub(super) fn causes(&self, anomalies: &[Anomaly], operations_ns: u64) -> Vec<Cause> {
        let mut causes = Vec::new();
        for (number, rank) in self.ranks.iter().enumerate() {
            causes.extend(self.late_rank(number, rank, operations_ns));
        }
        causes.extend(self.slow_links(operations_ns));
        causes.extend(stalls(self, anomalies, &causes, operations_ns));
        causes.retain(|cause| cause.share >= LEAST_SHARE);
        causes.sort_by_key(|cause| (std::cmp::Reverse(cause.lost_ns), cause.kind));
        causes
    }

    fn late_rank(&self, number: usize, rank: &Rank, operations_ns: u64) -> Option<Cause> {
        let is_improbable = rank.p_value < IMPROBABLE / real(self.ranks.len() as u64);
        // Behind the others for the most part, or since something changed.
        let changed = rank.change.filter(|change| change.after > change.before && change.after > rank.lateness_ns);
        if !is_improbable || rank.caused_ns == 0 {
            return None;
        }
        let since_ns = changed.map(|change| change.at_ns);
        let share = real(rank.caused_ns) / real(operations_ns.max(1));
        let since = since_ns.map(|at_ns| format!(" from {} on", time(at_ns))).unwrap_or_default();
        let sentence = format!(
            "{} comes late{since}: the others waited {} for it, {:.1} % of the time of all ranks in operations. It was \
             the last in {} of {} collectives; chance makes it {}.",
            capital(&rank.name),
            time(rank.caused_ns),
            share * 100.0,
            count(rank.last),
            count(rank.instances),
            count(super::maths::sample::whole(rank.last_expected)),
        );
        Some(Cause {
            kind: CauseKind::LateRank,
            rank: Some(small(number)),
            link: None,
            since_ns,
            lost_ns: rank.caused_ns,
            share,
            instances: rank.last,
            sentence,
        })
    }

    fn slow_links(&self, operations_ns: u64) -> Vec<Cause> {
        let cells: Vec<&Cell> = self.links.cells.iter().filter(|cell| cell.steps >= LEAST_STEPS).collect();
        let mut by_pair: BTreeMap<Pair, Vec<&Cell>> = BTreeMap::new();
        let mut by_channel: BTreeMap<(u32, u32), Vec<&Cell>> = BTreeMap::new();
        for cell in cells {
            by_pair.entry(cell.pair).or_default().push(cell);
            by_channel.entry((cell.pair.0, cell.channel)).or_default().push(cell);
        }
        let slow_pairs = outstanding(&by_pair, |pair| pair.0, 1);
        let slow_channels = outstanding(&by_channel, |channel| channel.0, 2);
        let mut causes = Vec::new();
        for pair in &slow_pairs {
            let wanted = key(self.tables, *pair);
            let link = self.links.pairs.iter().find(|link| link.key == wanted);
            causes.extend(link.map(|link| self.slow_link(CauseKind::SlowPair, link, operations_ns)));
        }
        for (communicator, channel) in &slow_channels {
            let is_it = |link: &&Link| (link.key.communicator, link.key.channel) == (*communicator, Some(*channel));
            let link = self.links.channels.iter().find(is_it);
            causes.extend(link.map(|link| self.slow_link(CauseKind::SlowChannel, link, operations_ns)));
        }
        let rest = by_pair.iter().filter(|(pair, _)| !slow_pairs.contains(pair));
        let rest = rest.flat_map(|(_, cells)| cells.iter().copied());
        let rest: Vec<&Cell> = rest.filter(|it| !slow_channels.contains(&(it.pair.0, it.channel))).collect();
        let singles = rest.iter().map(|cell| ((cell.pair, cell.channel), vec![*cell])).collect();
        for (pair, channel) in outstanding(&singles, |(pair, _)| pair.0, 1) {
            if let Some([cell]) = singles.get(&(pair, channel)).map(Vec::as_slice) {
                let link = LinkKey { channel: Some(channel), ..key(self.tables, pair) };
                let link =
                    Link { key: link, excess_ns: cell.excess_ns, slowdown: Some(cell.slowdown), ..Link::default() };
                causes.push(self.slow_link(CauseKind::SlowConnection, &link, operations_ns));
            }
        }
        causes
    }

    fn slow_link(&self, kind: CauseKind, link: &Link, operations_ns: u64) -> Cause {
        let ranks = self.size(link.key.communicator);
        let transfer_ns = self.waiting.total.transfer_ns + self.waiting.total.unclear_ns;
        let lost_ns = link.excess_ns.saturating_mul(ranks.into());
        let lost_ns = if transfer_ns > 0 { lost_ns.min(transfer_ns) } else { lost_ns };
        let share = real(lost_ns) / real(operations_ns.max(1));
        let changed = link.change.filter(|change| change.after > change.before * 1.25);
        let name = |rank: Option<u32>| match rank.and_then(|rank| self.ranks.get(large(rank))) {
            Some(rank) => rank.name.clone(),
            None => link.key.peer.map(|peer| format!("rank {peer}")).unwrap_or_default(),
        };
        let mut what = match (link.key.peer, link.key.channel) {
            (Some(_), None) => format!("the network from {} to {}", name(link.key.from), name(link.key.to)),
            (Some(_), Some(channel)) => {
                format!("the network from {} to {} on channel {channel}", name(link.key.from), name(link.key.to))
            }
            (None, channel) => format!("channel {}", channel.unwrap_or_default()),
        };
        if let Some(change) = changed {
            what = format!("from {} on, {what}", time(change.at_ns));
        }
        let slowdown = changed.map_or(link.slowdown.unwrap_or(1.0), |change| change.after);
        let numbers = link.all.and_then(|fit| Some((fit.latency_ns, fit.rate?)));
        let numbers = numbers.filter(|_| kind == CauseKind::SlowPair).map(|(latency_ns, rate)| {
            format!(" (latency {}, {})", time(super::maths::sample::whole(latency_ns)), bandwidth(rate))
        });
        let sentence = format!(
            "{} takes {slowdown:.1} times as long for a step as others of its size do{}: at most {} are lost by it, \
             {:.1} % of the time of all ranks in operations.",
            capital(&what),
            numbers.unwrap_or_default(),
            time(lost_ns),
            share * 100.0,
        );
        let since_ns = changed.map(|change| change.at_ns);
        Cause { kind, rank: None, link: Some(link.key), since_ns, lost_ns, share, instances: 0, sentence }
    }
}

/// Keys of which all cells are slow, and by more than what they differ by anyway. A slow pair is slow on all its
/// channels, and a slow channel between all pairs: so neither is taken for the other.
fn outstanding<K: Ord + Copy>(
    cells: &BTreeMap<K, Vec<&Cell>>,
    communicator: impl Fn(&K) -> u32,
    least_cells: usize,
) -> Vec<K> {
    let least = |cells: &[&Cell]| cells.iter().map(|it| it.slowdown).fold(f64::INFINITY, f64::min);
    let mut of_communicator: BTreeMap<u32, Vec<(K, f64, usize)>> = BTreeMap::new();
    for (key, cells) in cells {
        let of = of_communicator.entry(communicator(key)).or_default();
        of.push((*key, least(cells), cells.len()));
    }
    let mut found = Vec::new();
    for keys in of_communicator.into_values().filter(|keys| keys.len() > LEAST_OTHERS) {
        let (middle, deviation) = center(&keys.iter().map(|(_, slowdown, _)| *slowdown).collect::<Vec<f64>>());
        let limit = (middle + 5.0 * deviation.max(USUAL_DEVIATION)).max(SLOW);
        let slow = keys.into_iter().filter(|(_, slowdown, cells)| *slowdown > limit && *cells >= least_cells);
        found.extend(slow.map(|(key, ..)| key));
    }
    found
}

/// What stopped operations few times, but for so long that it matters.
fn stalls(given: &Given<'_>, anomalies: &[Anomaly], known: &[Cause], operations_ns: u64) -> Vec<Cause> {
    /// A stall takes this many times as long as usual.
    const STALL: f64 = 10.0;
    /// Lost time, instances, and when the first began.
    type Sum = (u64, u64, u64);
    let mut sums: BTreeMap<(CauseKind, Option<u32>, Option<LinkKey>), Sum> = BTreeMap::new();
    for anomaly in anomalies {
        let is_known = known.iter().any(|cause| explains(cause, anomaly));
        let is_stall = real(anomaly.end_ns.saturating_sub(anomaly.start_ns)) > STALL * anomaly.median_ns;
        if is_stall && !is_known {
            let sum = sums.entry((anomaly.kind, anomaly.rank, anomaly.link)).or_insert((0, 0, u64::MAX));
            *sum = (sum.0 + anomaly.lost_ns, sum.1 + 1, sum.2.min(anomaly.start_ns));
        }
    }
    let causes = sums.into_iter().map(|((kind, rank, link), (lost_ns, instances, first_ns))| {
        let share = real(lost_ns) / real(operations_ns.max(1));
        let name = |rank: Option<u32>| {
            rank.and_then(|rank| given.ranks.get(large(rank))).map_or("a rank", |rank| rank.name.as_str())
        };
        let what = match (kind, link) {
            (CauseKind::LateRank, _) => format!("{} came late to", capital(name(rank))),
            (CauseKind::SlowConnection, Some(link)) => {
                let channel = link.channel.map(|channel| format!(" on channel {channel}")).unwrap_or_default();
                format!("The network from {} to {}{channel} stalled in", name(link.from), name(link.to))
            }
            (CauseKind::WaitedForGpu, _) => "Proxies waited for GPUs in".to_owned(),
            (CauseKind::WaitedForPeer, _) => "Proxies waited for receivers in".to_owned(),
            _ => "For a reason that the recording does not show, time was lost in".to_owned(),
        };
        let sentence = format!(
            "{what} {} that took more than ten times as long as usual, first at {}: {} were lost, {:.1} % of the time of \
             all ranks in operations.",
            crate::units::plural(instances, "collective", "collectives"),
            time(first_ns),
            time(lost_ns),
            share * 100.0,
        );
        Cause { kind, rank, link, since_ns: None, lost_ns, share, instances, sentence }
    });
    causes.collect()
}

/// Whether an anomaly belongs to a cause that was found otherwise.
fn explains(cause: &Cause, anomaly: &Anomaly) -> bool {
    let is_rank = cause.rank.is_some() && cause.rank == anomaly.rank;
    let is_link = cause.link.zip(anomaly.link).is_some_and(|(cause, anomaly)| {
        let is_pair = cause.peer.is_none() || (cause.from, cause.peer) == (anomaly.from, anomaly.peer);
        let is_channel = cause.channel.is_none() || cause.channel == anomaly.channel;
        cause.communicator == anomaly.communicator && is_pair && is_channel
    });
    is_rank || is_link
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
