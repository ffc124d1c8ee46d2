//! The communicators of all processes, merged.

use nccl_events::MOST_RANKS;

/// The communicator of folded series.
pub(crate) const OTHER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) communicator: u32,
    pub(crate) rank: u32,
}

/// Members are process numbers.
pub(crate) type Communicators = job::communicators::Communicators<usize>;
pub(crate) type Communicator = job::communicators::Communicator<usize>;

/// The plausible size: a damaged journal can claim any number.
pub(crate) fn ranks(communicator: &Communicator) -> u32 {
    let known = communicator.members.keys().next_back().map_or(0, |last| last + 1);
    let claimed = communicator.comm.ranks.max(communicator.comm.ranks_seen);
    [claimed, known].into_iter().filter(|ranks| *ranks <= MOST_RANKS).max().unwrap_or(0)
}
