//! Which ranks others waited for in messages, by more than chance and than the order of a program has it.

use std::collections::{BTreeMap, BTreeSet};

use super::blame::{Trial, blame};
use crate::derived::filter::Filter;
use crate::derived::maths::sample::{median, real, whole};
use crate::derived::maths::union::{length, union};
use crate::derived::messages::{Blame, Meeting};
use crate::tables::{Tables, large};

/// A rank is late if it spends at least this many of its mean pauses more outside of operations than others do.
const CUT: u64 = 4;
/// Shares of waiting below the longest divided by this are rounding of the division, not waiting.
const SMALL_PART: u64 = 64;

/// A rank that others waited for.
#[derive(Clone, Copy, Debug)]
pub(in crate::derived) struct Late {
    /// Of the job.
    pub(in crate::derived) rank: u32,
    /// Whether they waited for its sends more than for its receives.
    pub(in crate::derived) is_sender: bool,
    /// How long they waited because it came later than others do.
    pub(in crate::derived) lost_ns: u64,
    /// Operations that they waited for.
    pub(in crate::derived) times: u64,
    /// Ranks that waited.
    pub(in crate::derived) waited: u64,
    /// How probable it is that chance has it so.
    pub(in crate::derived) p_value: f64,
}

/// The ranks that others waited for. In a pipeline a rank waits until the data comes, and nobody is late: late is who
/// spends more time outside of operations than the others do.
pub(in crate::derived) fn late(tables: &Tables, filter: &Filter, messages: &Blame) -> Vec<Late> {
    let outside = outside_ns(tables, filter);
    let p_values = p_values(messages, tables.members.job_ranks.len());
    let mut found = Vec::new();
    let ranks: BTreeSet<u32> = messages.meetings.keys().map(|(rank, _)| *rank).collect();
    for rank in ranks {
        let own = || messages.meetings.range((rank, 0)..=(rank, u64::MAX)).map(|(_, meeting)| meeting);
        let waited = waited(own());
        let mut others: Vec<f64> = waited.iter().filter_map(|other| outside[large(*other)]).map(real).collect();
        let Some(own_ns) = outside[large(rank)].filter(|_| !others.is_empty()) else {
            continue;
        };
        let more_ns = whole((real(own_ns) - median(&mut others)).max(0.0));
        let times = own().count() as u64;
        // The beginning and end of a recording cut the time of one rank sooner than that of another.
        if more_ns < CUT.saturating_mul(own_ns / times.max(1)) {
            continue;
        }
        let for_sends: u64 = own().map(|meeting| meeting.for_send_ns).sum();
        let all: u64 = own().map(Meeting::lost_ns).sum();
        found.push(Late {
            rank,
            is_sender: for_sends >= all - for_sends,
            lost_ns: all.min(more_ns.saturating_mul(waited.len() as u64)),
            times,
            waited: waited.len() as u64,
            p_value: p_values[large(rank)],
        });
    }
    found
}

/// The ranks that waited, except those whose share is only rounding.
fn waited<'a>(meetings: impl Iterator<Item = &'a Meeting>) -> Vec<u32> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (rank, ns) in meetings.flat_map(|meeting| &meeting.waited) {
        *sums.entry(*rank).or_default() += ns;
    }
    let longest_ns = sums.values().copied().max().unwrap_or(0);
    sums.into_iter().filter(|(_, ns)| *ns > longest_ns / SMALL_PART).map(|(rank, _)| rank).collect()
}

/// For each rank an upper bound of the probability that chance alone makes others wait this long for any rank, where
/// each rank of a meeting is equally likely to come last.
fn p_values(messages: &Blame, ranks: usize) -> Vec<f64> {
    let mut trials = Vec::new();
    let mut of_rank: Vec<Vec<u32>> = vec![Vec::new(); ranks];
    for (number, ((last, time_ns), meeting)) in (0..).zip(&messages.meetings) {
        let ranks = u32::try_from(meeting.count() + 1).unwrap_or(u32::MAX);
        let waiting_ns = meeting.lost_ns();
        trials.push(Some(Trial { communicator: 0, time_ns: *time_ns, last: *last, ranks, waiting_ns }));
        meeting.waited.keys().chain([last]).for_each(|rank| of_rank[large(*rank)].push(number));
    }
    blame(&trials, &of_rank).into_iter().map(|it| it.p_value).collect()
}

/// For each rank the time between its first and last operation in which it was in none; none where that is not known.
fn outside_ns(tables: &Tables, filter: &Filter) -> Vec<Option<u64>> {
    let mut times: Vec<Vec<(u64, u64)>> = vec![Vec::new(); tables.members.job_ranks.len()];
    for it in tables.operations.rows() {
        if !it.is_unfinished && filter.wants_time(it.start_ns, it.stop_ns) {
            times[large(tables.members.row(it.member).job_rank)].push((it.start_ns, it.stop_ns.max(it.start_ns)));
        }
    }
    let outside = times.into_iter().map(|times| {
        let times = union(times);
        let (first, last) = (times.first()?, times.last()?);
        Some(last.1 - first.0 - length(&times))
    });
    outside.collect()
}
