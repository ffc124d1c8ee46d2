//! The collectives of a rank in the order of its communicator, of which the last are kept.

use super::job::{Comm, Rank};
use super::operation::Call;

/// How many collectives of a rank are kept: ranks are further apart only where something is wrong anyway.
pub(crate) const KEPT: usize = 1024;

/// How the positions of a rank's operations in the order of the communicator are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Positions {
    /// They were counted from the first.
    #[default]
    Counted,
    /// The beginning is not kept; NCCL's numbers show which operations are the same as those of other ranks.
    Aligned,
    /// No kept operation is the same as one of others; NCCL's numbers show which come first, not how many lie between.
    Ordered,
    /// The beginning is not kept, and nothing gives the positions.
    Unknown,
}

/// The last operations of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// How many came before those in the list.
    pub(crate) before: u64,
    pub(crate) list: Vec<Call>,
    pub(crate) positions: Positions,
}

impl Tail {
    /// The last of these calls, which are counted from the first.
    pub(crate) fn of(mut calls: Vec<Call>) -> Self {
        let before = calls.len().saturating_sub(KEPT);
        Self { before: before as u64, list: calls.split_off(before), positions: Positions::Counted }
    }

    /// How many in all, from where positions begin.
    pub(crate) fn count(&self) -> u64 {
        self.before + self.list.len() as u64
    }

    pub(crate) fn has_positions(&self) -> bool {
        self.positions != Positions::Unknown
    }

    /// The operation at a position, from 0; `None` if it is not there, not kept, or its position is unknown.
    pub(crate) fn at(&self, position: u64) -> Option<&Call> {
        let index = usize::try_from(position.checked_sub(self.before)?).ok()?;
        self.list.get(index).filter(|_| self.has_positions())
    }

    /// The first operation that is known not to have ended.
    pub(crate) fn first_open(&self) -> Option<&Call> {
        self.list.iter().find(|call| call.progress.stage.is_open())
    }
}

/// One of the two sequences of collectives that a communicator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// The collectives that the program called.
    Calls,
    /// The collectives of CUDA graphs that it launched.
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

    /// The sequences that a communicator has: launches of graphs only where a rank reports them.
    pub(crate) fn in_comm(comm: &Comm) -> impl Iterator<Item = Self> {
        let has = |sequence: Self| comm.ranks.values().any(|rank| sequence.of(rank).count() > 0);
        Self::ALL.into_iter().filter(move |sequence| *sequence == Self::Calls || has(*sequence))
    }

    /// The ranks that take part in it: only ranks with network transfers report the launches of graphs.
    pub(crate) fn ranks(self, comm: &Comm) -> impl Iterator<Item = (u32, &Rank)> {
        let takes_part = move |rank: &Rank| self == Self::Calls || self.of(rank).count() > 0;
        comm.ranks.iter().map(|(number, rank)| (*number, rank)).filter(move |(_, rank)| takes_part(rank))
    }

    /// Whether positions count from the first collective of the communicator, not from the first that is kept.
    pub(crate) fn is_from_beginning(self, comm: &Comm) -> bool {
        let tails = || comm.ranks.values().map(|rank| self.of(rank));
        let is_counted = |tail: &Tail| tail.positions == Positions::Counted;
        tails().all(is_counted) || tails().any(|tail| is_counted(tail) && !tail.list.is_empty())
    }
}
