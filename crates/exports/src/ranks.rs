//! The ranks of a job as numbers, for formats that have a file for each rank.

use std::collections::BTreeSet;

use analysis::read::Members;
use nccl_events::ids::index;
use nccl_events::sort::Gather;

/// The numbers of the job's ranks: counted from 0 if a number is unknown or not unique.
pub fn numbers(members: &Members) -> Vec<u32> {
    let ranks = &members.job_ranks;
    let known: Option<Vec<u32>> = ranks.iter().map(|rank| rank.number).collect();
    let is_distinct = |known: &Vec<u32>| known.iter().gather::<BTreeSet<&u32>>().len() == known.len();
    known.filter(is_distinct).unwrap_or_else(|| (0..).take(ranks.len()).collect())
}

/// The number of ranks of the job, including ranks that were not recorded.
pub fn world_size(members: &Members, numbers: &[u32]) -> usize {
    let sizes = (0..).zip(&members.communicators).map(|(number, _)| members.size(number));
    sizes.chain(numbers.iter().map(|rank| index(*rank) + 1)).max().unwrap_or(0)
}

/// The numbers of a communicator's ranks; `None` if one of them was not recorded.
pub fn of_communicator(members: &Members, numbers: &[u32], communicator: u32) -> Option<Vec<u32>> {
    let size = u32::try_from(members.size(communicator)).ok()?;
    (0..size).map(|rank| Some(numbers[index(members.job_rank(communicator, rank)?)])).collect()
}
