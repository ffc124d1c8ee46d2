//! Collectives of communicators of which all ranks are here: who came when.

use std::collections::VecDeque;

use analysis::{Arrival, Arrivals};
use nccl_events::collective::Flow;
use rustc_hash::FxHashMap;

use super::communicators::{Communicator, Member};
use super::operations::EndedOperation;
use super::series::{Budget, Series};
use crate::snapshot::Histogram;

/// Collectives that wait for operations of other ranks: of ranks that are on other nodes, too, as what is read first
/// of a journal does not tell who else is here.
const MOST_WAITING: usize = 1 << 12;

/// Which collective: communicator, function, NCCL's number and replay.
type Which = (u32, u32, u64, u64);

/// The operation of one rank.
#[derive(Clone, Copy, Debug)]
struct Came {
    rank: u32,
    arrival: Arrival,
    error_ns: Option<u64>,
    is_measured: bool,
}

/// What a rank was the last of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    pub(crate) last: u64,
    pub(crate) caused_waiting_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Skews {
    waiting: FxHashMap<Which, Vec<Came>>,
    order: VecDeque<Which>,
    pub(crate) all: Series<u32, Histogram>,
    pub(crate) late: FxHashMap<Member, Lateness>,
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
        let ranks = communicator.ranks();
        if ranks < 2 {
            return;
        }
        let which = (ended.member.communicator, ended.function.0, sequence, replay);
        let came = Came {
            rank: ended.member.rank,
            arrival: Arrival {
                start_ns: ended.interval.start,
                stop_ns: ended.interval.end,
                is_root: u32::try_from(ended.root) == Ok(ended.member.rank),
            },
            error_ns: ended.error_ns,
            is_measured: ended.interval.timing.is_measured() && !ended.interval.unfinished,
        };
        let of_one = self.waiting.entry(which).or_insert_with(|| {
            self.order.push_back(which);
            Vec::new()
        });
        of_one.push(came);
        if u32::try_from(of_one.len()) == Ok(ranks)
            && let Some(came) = self.waiting.remove(&which)
        {
            // The first collective of a function, in which NCCL connects ranks: `stats` blames nobody for it either.
            let is_warm_up = (sequence, replay) == (0, 0);
            self.compare(ended.member.communicator, (collective.flow(), is_warm_up), came, bounds, budget);
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
        mut came: Vec<Came>,
        bounds: &'static [f64],
        budget: &mut Budget,
    ) {
        came.sort_by_key(|came| came.rank);
        let is_once = came.windows(2).all(|pair| matches!(pair, [a, b] if a.rank != b.rank));
        if !is_once || !came.iter().all(|came| came.is_measured) {
            return;
        }
        let ranks: Vec<Arrival> = came.iter().map(|came| came.arrival).collect();
        let own = |at: usize| came.get(at)?.error_ns;
        let arrivals = Arrivals::of(flow, &ranks, |a, b| Some(own(a)? + own(b)?));
        if arrivals.error_ns.is_err() {
            return;
        }
        let place = self.all.place(communicator, super::communicators::OTHER, budget, || Histogram::new(bounds));
        if let Some(skew) = self.all.at(place) {
            skew.add(arrivals.last_ns.saturating_sub(arrivals.first_ns));
        }
        if let Some(last) = arrivals.last.filter(|_| !is_warm_up).and_then(|last| came.get(last)) {
            let waited = ranks.iter().map(|rank| arrivals.last_ns.min(rank.stop_ns).saturating_sub(rank.start_ns));
            let late = self.late.entry(Member { communicator, rank: last.rank }).or_default();
            // A root that others wait for came last only where nobody came after it.
            let is_from_root = matches!(flow, Flow::FromRoot);
            late.last += u64::from(!is_from_root || ranks.iter().all(|rank| rank.start_ns <= arrivals.last_ns));
            late.caused_waiting_ns += waited.sum::<u64>();
        }
    }
}
