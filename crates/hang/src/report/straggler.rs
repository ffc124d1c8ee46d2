//! The rank that is last in most collectives.

use super::rows::Straggler;
use crate::job::{Comm, Job, Rank};

/// How many of the last collectives are compared at most, and how many are needed.
const MOST_COLLECTIVES: u64 = 16;
const FEWEST_COLLECTIVES: u64 = 4;

/// One of two ranks is always last: a rank that is behind by less than this is not named.
const LEAST_BEHIND_NS: u64 = 10_000_000;

/// The rank that was last in most of the last collectives. Clock differences between hosts are not subtracted.
pub(crate) fn straggler(job: &Job, comm: &Comm) -> Option<Straggler> {
    let has_clock = |rank: &Rank| job.process_of(rank).is_some_and(|process| process.has_clock);
    let ranks: Vec<(u32, &Rank)> =
        comm.ranks.iter().filter(|(_, rank)| has_clock(rank)).map(|(number, rank)| (*number, rank)).collect();
    let tails = ranks.iter().map(|(_, rank)| &rank.calls).filter(|tail| tail.has_positions());
    if tails.clone().count() < 2 {
        return None;
    }
    let common = tails.clone().map(|tail| tail.count()).min()?;
    let first = tails.map(|tail| tail.before).max()?;
    let mut behind_of: Vec<(u32, Vec<u64>)> = ranks.iter().map(|(number, _)| (*number, Vec::new())).collect();
    let mut of = 0;
    for position in first.max(common.saturating_sub(MOST_COLLECTIVES))..common {
        let entered = |(at, (_, rank)): (usize, &(u32, &Rank))| Some((rank.calls.at(position)?.entered_ns, at));
        let mut entered: Vec<(u64, usize)> = ranks.iter().enumerate().filter_map(entered).collect();
        nccl_events::sort::sort(&mut entered);
        if let [.., (before, _), (last, at)] = entered.as_slice()
            && let Some((_, behind)) = behind_of.get_mut(*at)
        {
            behind.push(last - before);
            of += 1;
        }
    }
    let (rank, mut behind) = behind_of.into_iter().max_by_key(|(_, behind)| behind.len())?;
    nccl_events::sort::sort(&mut behind);
    let behind_ns = behind.get(behind.len() / 2).copied()?;
    let times = behind.len() as u64;
    let is_clear = of >= FEWEST_COLLECTIVES && times * 4 >= of * 3 && behind_ns >= LEAST_BEHIND_NS;
    is_clear.then_some(Straggler { rank, job_rank: comm.job_rank(rank), times, of, behind_ns })
}
