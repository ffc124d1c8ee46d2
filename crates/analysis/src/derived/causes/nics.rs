//! Slow pairs that share a rank or a host: its network interface is slow, not each pair.

use std::collections::{BTreeMap, BTreeSet};

use nccl_events::sort::Gather;

use super::{capital, of_all};
use crate::derived::anomalies::Inputs;
use crate::derived::links::key;
use crate::derived::network::Pair;
use crate::report::{Cause, CauseKind};
use crate::units::time;
use nccl_events::ids::index as large;

/// What several pairs share: a communicator, and a rank or all ranks of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Rank(u32, u32),
    Host(u32, String),
}

/// The pairs that start at an end, and the pairs that end there.
#[derive(Debug, Default)]
struct Pairs([Vec<Pair>; 2]);

impl Inputs<'_> {
    /// Slow network interfaces, and the slow pairs they explain.
    pub(super) fn slow_nics(&self, slow: &[Pair], all: &[Pair]) -> (Vec<Cause>, BTreeSet<Pair>) {
        let ends = self.ends(all);
        let mut left: BTreeSet<Pair> = slow.iter().copied().gather();
        let (mut causes, mut taken) = (Vec::new(), BTreeSet::new());
        loop {
            let explained = ends.iter().map(|(end, pairs)| (pairs.explained(&left), end));
            let mut explained: Vec<(Vec<Pair>, &End)> = explained.filter(|(pairs, _)| is_several(pairs)).collect();
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

    /// The pairs of each rank, and the pairs that leave or enter each host with several ranks.
    fn ends(&self, all: &[Pair]) -> BTreeMap<End, Pairs> {
        let mut ends: BTreeMap<End, Pairs> = BTreeMap::new();
        let mut on_host: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for pair in all {
            let link = key(self.tables, *pair);
            let (Some(from), Some(to)) = (link.from, link.to) else {
                continue;
            };
            let hosts = [from, to].map(|rank| self.ranks.get(large(rank)).map_or("", |rank| rank.host.as_str()));
            for (way, (rank, host)) in [from, to].into_iter().zip(hosts).enumerate() {
                ends.entry(End::Rank(pair.0, rank)).or_default().0[way].push(*pair);
                on_host.entry(host).or_default().insert(rank);
                if hosts[0] != hosts[1] {
                    ends.entry(End::Host(pair.0, host.to_owned())).or_default().0[way].push(*pair);
                }
            }
        }
        ends.retain(|end, _| match end {
            End::Rank(..) => true,
            End::Host(_, host) => on_host.get(host.as_str()).is_some_and(|ranks| ranks.len() > 1),
        });
        ends
    }

    fn slow_nic(&self, end: &End, pairs: &[Pair]) -> Cause {
        let links = || pairs.iter().filter_map(|pair| self.pair(*pair));
        // The pairs send at the same time, so operations wait for the slowest.
        let excess_ns = links().map(|link| link.excess_ns).max().unwrap_or(0);
        let slowdown = links().filter_map(|link| link.slowdown).fold(f64::INFINITY, f64::min);
        let (End::Rank(communicator, _) | End::Host(communicator, _)) = end;
        let lost_ns = self.lost_by(*communicator, excess_ns);
        let share = self.share(lost_ns);
        let (rank, host) = match end {
            End::Rank(_, rank) => (Some(*rank), self.ranks.get(large(*rank)).map(|rank| rank.host.clone())),
            End::Host(_, host) => (None, Some(host.clone())),
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
            of_all(share),
        );
        Cause { kind: CauseKind::SlowNic, rank, host, lost_ns, share, sentence, ..Cause::default() }
    }
}

impl Pairs {
    /// The slow pairs, counting only directions in which every pair is slow.
    fn explained(&self, slow: &BTreeSet<Pair>) -> Vec<Pair> {
        self.0.iter().filter(|way| way.iter().all(|pair| slow.contains(pair))).flatten().copied().collect()
    }
}

/// Whether the pairs involve more than two ranks.
fn is_several(pairs: &[Pair]) -> bool {
    let ends: BTreeSet<u32> = pairs.iter().flat_map(|(_, from, to)| [*from, *to]).gather();
    pairs.len() > 1 && ends.len() > 2
}
