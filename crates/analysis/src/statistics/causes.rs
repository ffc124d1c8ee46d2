//! The largest losses of time: late ranks, slow links and network interfaces, and rare but long interruptions. A cause
//! is reported only if chance does not explain it.

use std::collections::{BTreeMap, BTreeSet};

use crate::lateness::late::{LEAST_SHARE, LateRank};
use crate::results::{Anomaly, Cause, CauseKind, CausePhase, Link, LinkKey};
use crate::statistics::anomalies::Inputs;
use crate::statistics::network::{LinkChannel, RankPair, key};
use crate::statistics::numeric::center;
use crate::statistics::verdict::late_line;
use crate::units::{bandwidth, plural, real, time, whole};
use nccl_events::ids::index as large;
use nccl_events::sort::Gather;

pub(super) use crate::units::capital;

impl Inputs<'_> {
    /// Causes that affect many operations, sorted by lost time, followed by those that affect few.
    pub(super) fn causes(&self, anomalies: &[Anomaly]) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self.lateness.late.ranks.iter().filter_map(|late| self.late(late)).collect();
        causes.extend(self.slow_links());
        causes.extend(self.stalls(anomalies, &causes));
        // Late ranks are named together, for what they cost together.
        let counts = |cause: &Cause| cause.share.map_or(cause.lost_ns > 0, |share| share >= LEAST_SHARE);
        causes.retain(|cause| cause.is_late() || counts(cause));
        nccl_events::sort::sort_by_key(&mut causes, |cause| {
            (cause.is_stall, std::cmp::Reverse(cause.lost_ns), cause.kind)
        });
        causes
    }

    fn late(&self, late: &LateRank) -> Option<Cause> {
        let rank = self.ranks.get(large(late.rank))?;
        let share = self.share(whole(late.lost_ns));
        let span = late.span();
        let (instances, _) = late.usually_longer();
        let mut cause = Cause {
            kind: CauseKind::LateRank,
            rank: Some(late.rank),
            since_ns: span.map(|(from_ns, _)| from_ns),
            until_ns: span.map(|(_, to_ns)| to_ns),
            phase: self.phase(late.rank, late.times.clone()),
            lost_ns: whole(late.lost_ns),
            share,
            instances,
            ..Cause::default()
        };
        cause.sentence = late_line(std::slice::from_ref(rank), &[&cause]);
        Some(cause)
    }

    /// The range of the program that a rank was in at these times.
    fn phase(&self, rank: u32, times: Vec<(u64, u64)>) -> Option<CausePhase> {
        self.tables.during(self.trace, rank, times)
    }

    /// The lost share of all ranks' time in operations; `None` if no operation was measured.
    fn share(&self, lost_ns: u64) -> Option<f64> {
        let operations_ns = self.waiting.total.operations_ns;
        (operations_ns > 0).then(|| real(lost_ns) / real(operations_ns))
    }
}

/// For example ", 12.3 % of the time of all ranks in operations".
fn share_text(share: Option<f64>) -> String {
    share.map(|share| format!(", {:.1} % of the time of all ranks in operations", share * 100.0)).unwrap_or_default()
}

/// A slow link takes at least this many times as long as others, on all its channels or pairs.
const SLOW: f64 = 1.3;
/// A link with fewer steps is not judged.
const LEAST_STEPS: u64 = 20;
/// A link is judged only if its communicator has more links than this.
pub(crate) const LEAST_OTHERS: usize = 3;
/// Normal spread between the slowdowns of links.
const USUAL_DEVIATION: f64 = 0.05;

impl Inputs<'_> {
    pub(super) fn slow_links(&self) -> Vec<Cause> {
        let cells: Vec<&LinkChannel> = self.links.cells.iter().filter(|cell| cell.steps >= LEAST_STEPS).collect();
        let mut by_pair: BTreeMap<RankPair, Vec<&LinkChannel>> = BTreeMap::new();
        let mut by_channel: BTreeMap<(u32, u32), Vec<&LinkChannel>> = BTreeMap::new();
        for cell in cells {
            by_pair.entry(cell.pair).or_default().push(cell);
            by_channel.entry((cell.pair.0, cell.channel)).or_default().push(cell);
        }
        let slow_pairs = outstanding(&by_pair, |pair| pair.0, 1);
        let slow_channels = outstanding(&by_channel, |channel| channel.0, 2);
        let pairs: Vec<RankPair> = by_pair.keys().copied().collect();
        let (mut causes, pairs_of_nics) = self.slow_nics(&slow_pairs, &pairs);
        for pair in slow_pairs.iter().filter(|pair| !pairs_of_nics.contains(pair)) {
            causes.extend(self.pair(*pair).map(|link| self.slow_link(CauseKind::SlowPair, link)));
        }
        for (communicator, channel) in &slow_channels {
            let is_it = |link: &&Link| (link.key.communicator, link.key.channel) == (*communicator, Some(*channel));
            let link = self.links.channels.iter().find(is_it);
            causes.extend(link.map(|link| self.slow_link(CauseKind::SlowChannel, link)));
        }
        let rest = by_pair.iter().filter(|(pair, _)| !slow_pairs.contains(pair));
        let rest = rest.flat_map(|(_, cells)| cells.iter().copied());
        let rest: Vec<&LinkChannel> =
            rest.filter(|channel| !slow_channels.contains(&(channel.pair.0, channel.channel))).collect();
        let singles = rest.iter().map(|cell| ((cell.pair, cell.channel), vec![*cell])).gather();
        let mut slow: BTreeSet<(RankPair, u32)> = outstanding(&singles, |(pair, _)| pair.0, 1).into_iter().gather();
        // With few pairs none stands out as a pair: a pair is slow if all its channels are.
        for (pair, cells) in &by_pair {
            if cells.len() > 1 && cells.iter().all(|cell| slow.contains(&(*pair, cell.channel))) {
                causes.extend(self.pair(*pair).map(|link| self.slow_link(CauseKind::SlowPair, link)));
                slow.retain(|(of, _)| of != pair);
            }
        }
        for (pair, channel) in slow {
            if let Some([cell]) = singles.get(&(pair, channel)).map(Vec::as_slice) {
                let link = LinkKey { channel: Some(channel), ..key(self.tables, pair) };
                let link =
                    Link { key: link, excess_ns: cell.excess_ns, slowdown: Some(cell.slowdown), ..Link::default() };
                causes.push(self.slow_link(CauseKind::SlowConnection, &link));
            }
        }
        causes
    }

    pub(super) fn pair(&self, pair: RankPair) -> Option<&Link> {
        let wanted = key(self.tables, pair);
        self.links.pairs.iter().find(|link| link.key == wanted)
    }

    /// What all ranks of a communicator lose because a link takes longer; at most their transfer time.
    pub(super) fn lost_by(&self, communicator: u32, excess_ns: u64) -> u64 {
        let lost_ns = excess_ns.saturating_mul(self.size(communicator).into());
        let total = &self.waiting.total;
        let transfer_ns = total.operations_ns - total.waiting_ns;
        if transfer_ns > 0 { lost_ns.min(transfer_ns) } else { lost_ns }
    }

    fn slow_link(&self, kind: CauseKind, link: &Link) -> Cause {
        let lost_ns = self.lost_by(link.key.communicator, link.excess_ns);
        let share = self.share(lost_ns);
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
        let numbers = link.all.and_then(|fit| Some((fit.latency_ns?, fit.rate?)));
        let numbers = numbers
            .filter(|_| kind == CauseKind::SlowPair)
            .map(|(latency_ns, rate)| format!(" (latency {}, {})", time(whole(latency_ns)), bandwidth(rate)));
        let sentence = format!(
            "{} takes {slowdown:.1} times as long for a step as others of its size do{}: it costs at most {}{}.",
            capital(&what),
            numbers.unwrap_or_default(),
            time(lost_ns),
            share_text(share),
        );
        let since_ns = changed.map(|change| change.at_ns);
        Cause { kind, link: Some(link.key), since_ns, lost_ns, share, sentence, ..Cause::default() }
    }
}

/// Finds the pairs, or the channels, whose cells are all slower than cells normally differ. A slow pair is slow on all
/// its channels, and a slow channel on all its pairs, so the two are not confused.
fn outstanding<K: Ord + Copy>(
    cells: &BTreeMap<K, Vec<&LinkChannel>>,
    communicator: impl Fn(&K) -> u32,
    least_cells: usize,
) -> Vec<K> {
    let least = |cells: &[&LinkChannel]| cells.iter().map(|channel| channel.slowdown).fold(f64::INFINITY, f64::min);
    let mut by_communicator: BTreeMap<u32, Vec<(K, f64, usize)>> = BTreeMap::new();
    for (key, cells) in cells {
        by_communicator.entry(communicator(key)).or_default().push((*key, least(cells), cells.len()));
    }
    let mut found = Vec::new();
    for keys in by_communicator.into_values().filter(|keys| keys.len() > LEAST_OTHERS) {
        let (middle, deviation) = center(&keys.iter().map(|(_, slowdown, _)| *slowdown).collect::<Vec<f64>>());
        let limit = (middle + 5.0 * deviation.max(USUAL_DEVIATION)).max(SLOW);
        let slow = keys.into_iter().filter(|(_, slowdown, cells)| *slowdown > limit && *cells >= least_cells);
        found.extend(slow.map(|(key, ..)| key));
    }
    found
}

// If slow pairs share a rank or a host, its network interface is slow, not each pair.

/// What the pairs of a slow network interface share: a communicator, and a rank or a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PairEnd {
    Rank(u32, u32),
    Host(u32, String),
}

/// The pairs that send from a rank or host, and the pairs that send to it.
#[derive(Debug, Default)]
struct Pairs([Vec<RankPair>; 2]);

impl Inputs<'_> {
    /// Finds slow network interfaces, and the slow pairs that they explain.
    pub(super) fn slow_nics(&self, slow: &[RankPair], all: &[RankPair]) -> (Vec<Cause>, BTreeSet<RankPair>) {
        let ends = self.ends(all);
        let mut left: BTreeSet<RankPair> = slow.iter().copied().gather();
        let (mut causes, mut taken) = (Vec::new(), BTreeSet::new());
        loop {
            let explained = ends.iter().map(|(end, pairs)| (pairs.explained(&left), end));
            let mut explained: Vec<(Vec<RankPair>, &PairEnd)> =
                explained.filter(|(pairs, _)| is_several(pairs)).collect();
            nccl_events::sort::sort_by_key(&mut explained, |(pairs, _)| std::cmp::Reverse(pairs.len()));
            let Some((pairs, end)) = explained.first() else {
                return (causes, taken);
            };
            // If the slow pairs connect just two hosts, either interface may be at fault.
            let is_clear = explained.get(1).is_none_or(|(others, _)| others.len() < pairs.len());
            pairs.iter().for_each(|pair| {
                left.remove(pair);
            });
            if is_clear {
                taken.extend(pairs.iter().copied());
                causes.push(self.slow_nic(end, pairs));
            }
        }
    }

    /// The pairs of each rank, and the pairs between other hosts and each host with several ranks.
    fn ends(&self, all: &[RankPair]) -> BTreeMap<PairEnd, Pairs> {
        let mut ends: BTreeMap<PairEnd, Pairs> = BTreeMap::new();
        let mut on_host: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for pair in all {
            let link = key(self.tables, *pair);
            let (Some(from), Some(to)) = (link.from, link.to) else {
                continue;
            };
            let hosts = [from, to].map(|rank| self.ranks.get(large(rank)).map_or("", |rank| rank.host.as_str()));
            for (way, (rank, host)) in [from, to].into_iter().zip(hosts).enumerate() {
                ends.entry(PairEnd::Rank(pair.0, rank)).or_default().0[way].push(*pair);
                on_host.entry(host).or_default().insert(rank);
                if hosts[0] != hosts[1] {
                    ends.entry(PairEnd::Host(pair.0, host.to_owned())).or_default().0[way].push(*pair);
                }
            }
        }
        ends.retain(|end, _| match end {
            PairEnd::Rank(..) => true,
            PairEnd::Host(_, host) => on_host.get(host.as_str()).is_some_and(|ranks| ranks.len() > 1),
        });
        ends
    }

    fn slow_nic(&self, end: &PairEnd, pairs: &[RankPair]) -> Cause {
        let links = || pairs.iter().filter_map(|pair| self.pair(*pair));
        // The pairs send at the same time, so operations wait for the slowest.
        let excess_ns = links().map(|link| link.excess_ns).max().unwrap_or(0);
        let slowdown = links().filter_map(|link| link.slowdown).fold(f64::INFINITY, f64::min);
        let (PairEnd::Rank(communicator, _) | PairEnd::Host(communicator, _)) = end;
        let lost_ns = self.lost_by(*communicator, excess_ns);
        let share = self.share(lost_ns);
        let (rank, host) = match end {
            PairEnd::Rank(_, rank) => (Some(*rank), self.ranks.get(large(*rank)).map(|rank| rank.host.clone())),
            PairEnd::Host(_, host) => (None, Some(host.clone())),
        };
        let name = match rank.and_then(|rank| self.ranks.get(large(rank))) {
            Some(rank) => format!("{} ({})", rank.name, rank.host),
            None => format!("host {}", host.as_deref().unwrap_or_default()),
        };
        let sentence = format!(
            "{} is slow: {} of its pairs of ranks take at least {slowdown:.1} times as long for a step as others of its \
             size do. It costs at most {}{}.",
            capital(&format!("the network interface of {name}")),
            pairs.len(),
            time(lost_ns),
            share_text(share),
        );
        Cause { kind: CauseKind::SlowNic, rank, host, lost_ns, share, sentence, ..Cause::default() }
    }
}

impl Pairs {
    /// The pairs of the directions in which every pair is slow.
    fn explained(&self, slow: &BTreeSet<RankPair>) -> Vec<RankPair> {
        self.0.iter().filter(|way| way.iter().all(|pair| slow.contains(pair))).flatten().copied().collect()
    }
}

/// Whether the pairs involve more than two ranks.
fn is_several(pairs: &[RankPair]) -> bool {
    let ends: BTreeSet<u32> = pairs.iter().flat_map(|(_, from, to)| [*from, *to]).gather();
    pairs.len() > 1 && ends.len() > 2
}

impl Inputs<'_> {
    /// Causes that stopped operations rarely, but long enough to matter.
    pub(super) fn stalls(&self, anomalies: &[Anomaly], known: &[Cause]) -> Vec<Cause> {
        /// A stall takes this many times as long as usual.
        const STALL: f64 = 10.0;
        type CauseKey = (CauseKind, Option<u32>, Option<LinkKey>);
        let mut sums: BTreeMap<CauseKey, Vec<&Anomaly>> = BTreeMap::new();
        for anomaly in anomalies {
            // What ranks that come late cost is said of ranks, or of pauses.
            let is_known = anomaly.kind == CauseKind::LateRank || known.iter().any(|cause| explains(cause, anomaly));
            let is_stall = real(anomaly.end_ns.saturating_sub(anomaly.start_ns)) > STALL * anomaly.median_ns;
            if is_stall && !is_known && anomaly.lost_ns > 0 {
                sums.entry((anomaly.kind, anomaly.rank, anomaly.link)).or_default().push(anomaly);
            }
        }
        let causes = sums.into_iter().map(|((kind, rank, link), cause_anomalies)| {
            let lost_ns = cause_anomalies.iter().map(|anomaly| anomaly.lost_ns).sum();
            let instances = cause_anomalies.len() as u64;
            let first_ns = cause_anomalies.iter().map(|anomaly| anomaly.start_ns).min().unwrap_or(0);
            let share = self.share(lost_ns);
            let name = |rank: Option<u32>| {
                rank.and_then(|rank| self.ranks.get(large(rank))).map_or("a rank", |rank| rank.name.as_str())
            };
            let what = match (kind, link) {
                (CauseKind::SlowConnection, Some(link)) => {
                    let channel = link.channel.map(|channel| format!(" on channel {channel}")).unwrap_or_default();
                    format!("The network from {} to {}{channel} stalled in", name(link.from), name(link.to))
                }
                (CauseKind::WaitedForGpu, _) => "Proxies waited for GPUs in".to_owned(),
                (CauseKind::WaitedForPeer, _) => "Proxies waited for receivers in".to_owned(),
                _ => "For a reason that the recording does not show, time was lost in".to_owned(),
            };
            let sentence = format!(
                "{what} {} that took more than ten times as long as usual, first at {}: {} were lost{}.",
                plural(instances, "collective", "collectives"),
                time(first_ns),
                time(lost_ns),
                share_text(share),
            );
            Cause { kind, rank, link, lost_ns, share, instances, is_stall: true, sentence, ..Cause::default() }
        });
        causes.collect()
    }
}

/// Whether a cause that is already known explains an anomaly.
fn explains(cause: &Cause, anomaly: &Anomaly) -> bool {
    if cause.kind == CauseKind::SlowNic {
        return anomaly.link.is_some_and(|link| cause.rank.is_some() && [link.from, link.to].contains(&cause.rank));
    }
    let is_rank = cause.rank.is_some() && cause.rank == anomaly.rank;
    let is_link = cause.link.zip(anomaly.link).is_some_and(|(cause, anomaly)| {
        let is_pair = cause.peer.is_none() || (cause.from, cause.peer) == (anomaly.from, anomaly.peer);
        let is_channel = cause.channel.is_none() || cause.channel == anomaly.channel;
        cause.communicator == anomaly.communicator && is_pair && is_channel
    });
    is_rank || is_link
}
