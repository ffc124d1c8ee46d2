//! Links that are slower than others.

use std::collections::{BTreeMap, BTreeSet};

use nccl_events::sort::Gather;

use super::{capital, of_all};
use crate::derived::anomalies::Inputs;
use crate::derived::links::{Cell, key};
use crate::derived::maths::sample::{center, whole};
use crate::derived::network::Pair;
use crate::report::{Cause, CauseKind, Link, LinkKey};
use crate::units::{bandwidth, time};
use nccl_events::ids::index as large;

/// A slow link takes at least this many times as long as others, on all its channels or pairs.
const SLOW: f64 = 1.3;
/// A link with fewer steps is not judged.
const LEAST_STEPS: u64 = 20;
/// A link is judged only if its communicator has more links than this.
pub(in crate::derived) const LEAST_OTHERS: usize = 3;
/// Normal spread between the slowdowns of links.
const USUAL_DEVIATION: f64 = 0.05;

impl Inputs<'_> {
    pub(super) fn slow_links(&self) -> Vec<Cause> {
        let cells: Vec<&Cell> = self.links.cells.iter().filter(|cell| cell.steps >= LEAST_STEPS).collect();
        let mut by_pair: BTreeMap<Pair, Vec<&Cell>> = BTreeMap::new();
        let mut by_channel: BTreeMap<(u32, u32), Vec<&Cell>> = BTreeMap::new();
        for cell in cells {
            by_pair.entry(cell.pair).or_default().push(cell);
            by_channel.entry((cell.pair.0, cell.channel)).or_default().push(cell);
        }
        let slow_pairs = outstanding(&by_pair, |pair| pair.0, 1);
        let slow_channels = outstanding(&by_channel, |channel| channel.0, 2);
        let pairs: Vec<Pair> = by_pair.keys().copied().collect();
        let (mut causes, of_nics) = self.slow_nics(&slow_pairs, &pairs);
        for pair in slow_pairs.iter().filter(|pair| !of_nics.contains(pair)) {
            causes.extend(self.pair(*pair).map(|link| self.slow_link(CauseKind::SlowPair, link)));
        }
        for (communicator, channel) in &slow_channels {
            let is_it = |link: &&Link| (link.key.communicator, link.key.channel) == (*communicator, Some(*channel));
            let link = self.links.channels.iter().find(is_it);
            causes.extend(link.map(|link| self.slow_link(CauseKind::SlowChannel, link)));
        }
        let rest = by_pair.iter().filter(|(pair, _)| !slow_pairs.contains(pair));
        let rest = rest.flat_map(|(_, cells)| cells.iter().copied());
        let rest: Vec<&Cell> = rest.filter(|it| !slow_channels.contains(&(it.pair.0, it.channel))).collect();
        let singles = rest.iter().map(|cell| ((cell.pair, cell.channel), vec![*cell])).gather();
        let mut slow: BTreeSet<(Pair, u32)> = outstanding(&singles, |(pair, _)| pair.0, 1).into_iter().gather();
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

    pub(super) fn pair(&self, pair: Pair) -> Option<&Link> {
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
            of_all(share),
        );
        let since_ns = changed.map(|change| change.at_ns);
        Cause { kind, link: Some(link.key), since_ns, lost_ns, share, sentence, ..Cause::default() }
    }
}

/// Keys whose cells are all slow, by more than cells normally differ. A slow pair is slow on all its channels and a
/// slow channel between all pairs, so the two are not confused.
fn outstanding<K: Ord + Copy>(
    cells: &BTreeMap<K, Vec<&Cell>>,
    communicator: impl Fn(&K) -> u32,
    least_cells: usize,
) -> Vec<K> {
    let least = |cells: &[&Cell]| cells.iter().map(|it| it.slowdown).fold(f64::INFINITY, f64::min);
    let mut of_communicator: BTreeMap<u32, Vec<(K, f64, usize)>> = BTreeMap::new();
    for (key, cells) in cells {
        of_communicator.entry(communicator(key)).or_default().push((*key, least(cells), cells.len()));
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
