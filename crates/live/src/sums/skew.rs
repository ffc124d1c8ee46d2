//! Arrival times of collectives whose ranks are all on this node.

use std::collections::VecDeque;

use analysis::{Arrival, Arrivals, Split};
use nccl_events::collective::Flow;
use rustc_hash::FxHashMap;

use super::communicators::{Communicator, Member, ranks};
use super::operations::EndedOperation;
use super::series::{Budget, Series};
use crate::snapshot::Histogram;

/// Limit on collectives that wait for other ranks, some of which may be on other nodes.
const MOST_WAITING: usize = 1 << 12;

/// Operations of graphs have their replay; others have 0.
const FIRST_REPLAY: u64 = 1;

type Which = (u32, u32, u64, u64);

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

#[derive(Debug, Default)]
pub(crate) struct Skews {
    waiting: FxHashMap<Which, Vec<RankArrival>>,
    order: VecDeque<Which>,
    pub(crate) all: Series<u32, Histogram>,
    pub(crate) late: FxHashMap<Member, Lateness>,
    /// The end of a rank's collectives so far: those that share a kernel wait once.
    covered_ns: FxHashMap<Member, u64>,
}

impl Skews {
    pub(crate) fn add(
        &mut self,
        ended: &EndedOperation,
        communicator: &Communicator,
        (bounds, budget): (&'static [f64], &mut Budget),
    ) {
        let (Some((sequence, replay)), Some(collective)) = (ended.sequence, ended.collective) else {
            return;
        };
        let ranks = ranks(communicator);
        if ranks < 2 {
            return;
        }
        let which = (ended.member.communicator, ended.function.0, sequence, replay);
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
        let arrived = self.waiting.entry(which).or_insert_with(|| {
            self.order.push_back(which);
            Vec::new()
        });
        arrived.push(rank);
        if u32::try_from(arrived.len()) == Ok(ranks)
            && let Some(arrived) = self.waiting.remove(&which)
        {
            // NCCL connects ranks in the first collective of a function: `stats` does not count that one either.
            let is_warm_up = sequence == 0 && replay <= FIRST_REPLAY;
            self.compare(ended.member.communicator, (collective.flow(), is_warm_up), arrived, bounds, budget);
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
        let (arrivals, last) = Arrivals::of(flow, &ranks, |a, b| Some(own(a)? + own(b)?));
        if arrivals.error_ns.is_err() {
            return;
        }
        let place = self.all.place(communicator, super::communicators::OTHER, budget, || Histogram::new(bounds));
        if let Some(skew) = self.all.at(place) {
            skew.add(arrivals.last_ns.saturating_sub(arrivals.first_ns));
        }
        if let Some(last) = last.certain.filter(|_| !is_warm_up).and_then(|last| arrived.get(last)) {
            let waited = ranks.iter().zip(left).map(|(rank, (from_ns, to_ns))| match arrivals.split(flow, rank) {
                Split::Waits(until_ns) => until_ns.clamp(from_ns, to_ns) - from_ns,
                Split::Unclear(_) => 0,
            });
            let late = self.late.entry(Member { communicator, rank: last.rank }).or_default();
            // If others wait for the root, the root was last only if nobody came after it.
            let is_from_root = matches!(flow, Flow::FromRoot);
            late.last += u64::from(!is_from_root || ranks.iter().all(|rank| rank.start_ns <= arrivals.last_ns));
            late.caused_waiting_ns += waited.sum::<u64>();
        }
    }
}
