//! The rank that comes last in most collectives.

use super::rows::Straggler;
use crate::hang::job::{Comm, Job, Rank};
use crate::hang::tail::Tail;

/// How many of the last collectives are looked at, and how many are enough.
const MOST_COLLECTIVES: u64 = 16;
const FEWEST_COLLECTIVES: u64 = 4;

/// Of two ranks one is always the last: a rank that is behind by less than this is not named.
const FELT_NS: u64 = 10_000_000;

/// The rank that came last in most of the last collectives. Differences between the clocks of hosts count, too.
pub(crate) fn straggler(job: &Job, comm: &Comm) -> Option<Straggler> {
    let has_clock = |rank: &Rank| job.process_of(rank).is_some_and(|process| process.has_clock);
    let tails = comm.ranks.values().filter(|rank| has_clock(rank)).map(|rank| &rank.calls);
    let tails = tails.filter(|tail| tail.has_positions());
    if tails.clone().count() < 2 {
        return None;
    }
    let common = tails.clone().map(Tail::count).min()?;
    let first = tails.map(|tail| tail.before).max()?;
    let mut last_of: Vec<(u32, u64)> = Vec::new();
    for position in first.max(common.saturating_sub(MOST_COLLECTIVES))..common {
        let ranks = comm.ranks.iter().filter(|(_, rank)| has_clock(rank));
        let mut entered: Vec<(u64, u32)> =
            ranks.filter_map(|(number, rank)| Some((rank.calls.at(position)?.entered_ns, *number))).collect();
        entered.sort_unstable();
        if let [.., (before, _), (last, number)] = entered.as_slice() {
            last_of.push((*number, last - before));
        }
    }
    let behind = |rank: u32| {
        let of_rank = last_of.iter().filter(move |(one, _)| *one == rank);
        of_rank.map(|(_, behind_ns)| *behind_ns)
    };
    let ranks = comm.ranks.keys().copied();
    let rank = ranks.max_by_key(|rank| behind(*rank).count())?;
    let mut behind: Vec<u64> = behind(rank).collect();
    behind.sort_unstable();
    let behind_ns = behind.get(behind.len() / 2).copied()?;
    let (times, of) = (behind.len() as u64, last_of.len() as u64);
    let is_clear = of >= FEWEST_COLLECTIVES && times * 4 >= of * 3 && behind_ns >= FELT_NS;
    is_clear.then_some(Straggler { rank, job_rank: comm.job_rank(rank), times, of, behind_ns })
}
