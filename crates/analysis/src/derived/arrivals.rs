//! The arrival order of the ranks in a collective, as far as the clocks allow.

use nccl_events::collective::Flow;

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub start_ns: u64,
    pub stop_ns: u64,
    pub is_root: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Incomparable {
    /// A rank of the communicator has no operation here, or the root is unknown.
    RankMissing,
    Unfinished,
    /// For some rank only the enqueueing is known, or its time belongs to several operations in one kernel.
    NotMeasured,
    ClockUnknown,
    /// A rank ended before a rank it waits for arrived: wrong times, or operations of different collectives.
    Contradiction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    pub first_ns: u64,
    pub median_ns: u64,
    /// Second-latest arrival among the ranks that others wait for.
    pub second_ns: u64,
    /// Latest arrival among the ranks that others wait for.
    pub last_ns: u64,
    pub end_ns: u64,
    /// Error of arrivals relative to the last one, or why arrivals cannot be compared.
    pub error_ns: Result<u64, Incomparable>,
}

/// The rank that others wait for at the end, by its index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// If it was last by more than the clocks' error.
    pub certain: Option<usize>,
    /// Even if the clocks cannot prove it was last.
    pub likely: Option<usize>,
}

/// What a rank did until the last one arrived; afterwards it transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Waited until this time, by more than the clocks' error.
    Waits(u64),
    /// Unknown until this time.
    Unclear(u64),
}

/// Whether others wait for a rank: for a root that sends the data, or for every rank but a root that collects it.
pub(super) const fn is_awaited(flow: Flow, is_root: bool) -> bool {
    match flow {
        Flow::AllToAll => true,
        Flow::FromRoot => is_root,
        Flow::ToRoot => !is_root,
    }
}

/// Whether a rank cannot end before the last arrival: if data flows to the root, only the root waits.
fn waits(flow: Flow, is_root: bool) -> bool {
    flow != Flow::ToRoot || is_root
}

impl Arrivals {
    /// Finds the arrival order. `error_ns` gives the error between the times of two ranks, by index; `None` if unknown.
    pub fn of(flow: Flow, ranks: &[Arrival], error_ns: impl Fn(usize, usize) -> Option<u64>) -> (Self, Last) {
        let mut starts: Vec<u64> = ranks.iter().map(|rank| rank.start_ns).collect();
        starts.sort_unstable();
        let mut found = Self {
            first_ns: starts.first().copied().unwrap_or(0),
            median_ns: starts.get((starts.len().max(1) - 1) / 2).copied().unwrap_or(0),
            second_ns: 0,
            last_ns: 0,
            end_ns: ranks.iter().map(|rank| rank.stop_ns).max().unwrap_or(0),
            error_ns: Err(Incomparable::RankMissing),
        };
        let awaited = ranks.iter().enumerate().filter(|(_, rank)| is_awaited(flow, rank.is_root));
        let Some((last, at_last)) = awaited.max_by_key(|(_, rank)| rank.start_ns) else {
            return (found, Last::default());
        };
        found.last_ns = at_last.start_ns;
        let others = || ranks.iter().enumerate().filter(|(at, _)| *at != last);
        let other_starts = others().map(|(_, rank)| rank.start_ns);
        found.second_ns = match flow {
            Flow::AllToAll | Flow::ToRoot => other_starts.max(),
            Flow::FromRoot => other_starts.min(),
        }
        .map_or(found.last_ns, |second_ns| second_ns.min(found.last_ns));
        found.error_ns = found.most_error_ns(flow, ranks, |at| error_ns(last, at));
        let is_later = |(at, rank): (usize, &Arrival)| {
            error_ns(last, at).is_some_and(|ns| rank.start_ns.saturating_add(ns) < found.last_ns)
        };
        let is_last = match flow {
            Flow::AllToAll | Flow::ToRoot => others().all(is_later),
            Flow::FromRoot => others().any(is_later),
        };
        let likely = Some(last).filter(|_| found.error_ns.is_ok());
        let certain = likely.filter(|_| is_last);
        (found, Last { certain, likely })
    }

    pub fn split(&self, flow: Flow, rank: &Arrival) -> Split {
        let wait_ns = self.last_ns.saturating_sub(rank.start_ns);
        match self.error_ns {
            Err(_) => Split::Unclear(u64::MAX),
            Ok(_) if !waits(flow, rank.is_root) || wait_ns == 0 => Split::Waits(rank.start_ns),
            Ok(error_ns) if wait_ns > error_ns => Split::Waits(self.last_ns),
            Ok(_) => Split::Unclear(self.last_ns),
        }
    }

    /// The largest error of an arrival relative to the last one.
    fn most_error_ns(
        &self,
        flow: Flow,
        ranks: &[Arrival],
        error_ns: impl Fn(usize) -> Option<u64>,
    ) -> Result<u64, Incomparable> {
        let mut most_ns = 0;
        for (at, rank) in ranks.iter().enumerate() {
            let error_ns = error_ns(at).ok_or(Incomparable::ClockUnknown)?;
            if waits(flow, rank.is_root) && rank.stop_ns.saturating_add(error_ns) < self.last_ns {
                return Err(Incomparable::Contradiction);
            }
            most_ns = error_ns.max(most_ns);
        }
        Ok(most_ns)
    }
}
