//! Ranks as NCCL states them, and the numbers by which users know the ranks of a job.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{CommInit, MOST_RANKS};

impl CommInit<'_> {
    /// Rank and number of ranks as `init` stated them; `None` if no communicator has these.
    pub fn possible(rank: i32, ranks: i32) -> Option<(u32, u32)> {
        let ranks = u32::try_from(ranks).ok().filter(|ranks| *ranks <= MOST_RANKS)?;
        Some((u32::try_from(rank).ok().filter(|rank| *rank < ranks)?, ranks))
    }
}

/// What numbers a rank of the job.
#[derive(Clone, Debug, Default)]
pub struct RankIdentity {
    /// The rank's process.
    pub process: usize,
    /// The rank that the launcher gave to the process.
    pub launcher_rank: Option<u32>,
    /// The rank's number in each of its communicators.
    pub members: BTreeMap<u32, u32>,
}

/// The communicator that contains all ranks of the job, if there is one, and each rank's number: its rank in that
/// communicator, otherwise the launcher's rank if the process has no other rank.
pub fn number(ranks: &[RankIdentity]) -> (Option<u32>, Vec<Option<u32>>) {
    let mut of_process: BTreeMap<usize, usize> = BTreeMap::new();
    for rank in ranks {
        *of_process.entry(rank.process).or_default() += 1;
    }
    let launcher_rank = |rank: &RankIdentity| rank.launcher_rank.filter(|_| of_process.get(&rank.process) == Some(&1));
    let first = ranks.first().map(|rank| &rank.members);
    let has_all = |comm: &u32| ranks.iter().all(|rank| rank.members.contains_key(comm));
    let all = first.into_iter().flat_map(BTreeMap::keys).copied().filter(has_all);
    // A split may contain all ranks in another order than the launcher's.
    let alike = |comm: &u32| {
        let known = ranks.iter().filter(|rank| launcher_rank(rank).is_some());
        known.filter(|rank| rank.members.get(comm).copied() == rank.launcher_rank).count()
    };
    let world = all.max_by_key(|comm| (alike(comm), Reverse(*comm)));
    let number = |rank: &RankIdentity| match world {
        Some(world) => rank.members.get(&world).copied(),
        None => launcher_rank(rank),
    };
    (world, ranks.iter().map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::{CommInit, MOST_RANKS};

    #[test]
    fn a_rank_is_below_a_size_that_a_machine_can_have() {
        assert_eq!([(0, 1), (1, 2)].map(|(rank, ranks)| CommInit::possible(rank, ranks)), [Some((0, 1)), Some((1, 2))]);
        let most = MOST_RANKS.cast_signed();
        assert_eq!(CommInit::possible(most - 1, most), Some((MOST_RANKS - 1, MOST_RANKS)));
        for (rank, ranks) in
            [(0, 0), (-1, 2), (-1, -1), (2, 2), (0, most + 1), (i32::MAX, i32::MAX), (i32::MIN, i32::MIN)]
        {
            assert_eq!(CommInit::possible(rank, ranks), None, "{rank} of {ranks}");
        }
    }
}
