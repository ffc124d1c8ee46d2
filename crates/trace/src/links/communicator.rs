//! What a communicator is as a process knows it, and a rank in one.

use journal::format::record::Symbol;

/// How sure the identity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// `init` gave it.
    Given,
    /// From the hash in its operations.
    Hash,
    /// Nothing identifies it: the communicator of this context alone.
    Context,
}

/// A communicator as this process knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    /// How sure the identity is.
    pub identity: Identity,
    /// NCCL's id, the hash, or the context.
    pub comm_id: u64,
    /// Number of ranks; 0 where this process does not know.
    pub ranks: u32,
    /// Zero-based index among those with this id and size.
    pub repetition: u32,
    /// One more than the highest rank seen in it.
    pub ranks_seen: u32,
    /// The user's name.
    pub name: Symbol,
    /// Number of hosts; 0 where not given.
    pub nodes: u32,
}

/// One rank of a communicator: what a context stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// A place in [`crate::links::comm::Comms::comms`].
    pub comm: u32,
    /// Its rank there.
    pub rank: u32,
    /// Which of this process's GPUs: a place in [`crate::links::comm::Comms::gpus`].
    pub gpu: u32,
}

/// A rank in its communicator, as communication records need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommunicatorMember {
    /// The part's number of the communicator.
    pub comm: u32,
    /// The rank.
    pub rank: u32,
    /// Number of ranks, as far as this process knows.
    pub ranks: u32,
    /// Whether that is all of them.
    pub knows_ranks: bool,
}

impl CommunicatorMember {
    /// How many ranks the bytes of a collective record are for. Those of one where the size is not known: another
    /// process may have seen other ranks, and what the members of a collective say must fit together.
    #[must_use]
    pub fn ranks_in_bytes(&self) -> u64 {
        if self.knows_ranks { self.ranks.into() } else { 1 }
    }
}
