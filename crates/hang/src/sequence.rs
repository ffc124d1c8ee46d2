//! The two sequences of collectives in a communicator.

use super::job::{Comm, Rank};
use super::operation::{Positions, Tail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    Calls,
    /// The collectives of launched CUDA graphs.
    Replays,
}

impl Sequence {
    pub(crate) const ALL: [Self; 2] = [Self::Calls, Self::Replays];

    pub(crate) const fn of(self, rank: &Rank) -> &Tail {
        match self {
            Self::Calls => &rank.calls,
            Self::Replays => &rank.replays,
        }
    }

    pub(crate) const fn of_mut(self, rank: &mut Rank) -> &mut Tail {
        match self {
            Self::Calls => &mut rank.calls,
            Self::Replays => &mut rank.replays,
        }
    }

    /// The sequences of a communicator: launches of graphs only if a rank reports them.
    pub(crate) fn in_comm(comm: &Comm) -> impl Iterator<Item = Self> {
        let has = |sequence: Self| comm.ranks.values().any(|rank| sequence.of(rank).count() > 0);
        Self::ALL.into_iter().filter(move |sequence| *sequence == Self::Calls || has(*sequence))
    }

    /// The ranks that take part in the sequence: only ranks with network transfers report launches of graphs.
    pub(crate) fn ranks(self, comm: &Comm) -> impl Iterator<Item = (u32, &Rank)> {
        let takes_part = move |rank: &Rank| self == Self::Calls || self.of(rank).count() > 0;
        comm.ranks.iter().map(|(number, rank)| (*number, rank)).filter(move |(_, rank)| takes_part(rank))
    }

    /// Whether positions count from the communicator's first collective, not from the first kept one.
    pub(crate) fn is_from_beginning(self, comm: &Comm) -> bool {
        let tails = || comm.ranks.values().map(|rank| self.of(rank));
        let is_counted = |tail: &Tail| tail.positions == Positions::Counted;
        tails().all(is_counted) || tails().any(|tail| is_counted(tail) && !tail.list.is_empty())
    }
}
