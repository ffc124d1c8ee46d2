//! What a communicator is as a process knows it, and a rank in one.

use serde::{Deserialize, Serialize};

use journal::format::record::Symbol;

/// How a communicator is identified across processes, the surest way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommIdentity {
    /// By NCCL's id and the number of ranks.
    Id,
    /// By the hash its operations carry (v1–v3).
    Hash,
    /// Not at all: it is the process's own.
    Part,
}

/// A communicator as this process knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    /// How sure the identity is.
    pub identity: CommIdentity,
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

impl CommIdentity {
    /// What a communicator is called: the user's name, else its id; a repetition is told apart.
    #[must_use]
    pub fn name(self, comm_id: u64, repetition: u32, given: Option<&str>, part: &str) -> String {
        let base = match (given, self) {
            (Some(name), _) => name.to_owned(),
            (None, Self::Part) => format!("{part} {comm_id:#x}"),
            (None, _) => format!("{comm_id:#018x}"),
        };
        match repetition {
            0 => base,
            repetition => format!("{base} #{}", repetition + 1),
        }
    }
}

/// One rank of a communicator: what a context stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// An index in [`super::Comms::comms`].
    pub comm: u32,
    /// Its rank there.
    pub rank: u32,
    /// Which of this process's GPUs: an index in [`super::Comms::gpus`].
    pub gpu: u32,
}
