//! Do all ranks of a communicator call the same collectives in the same order?
//!
//! ```text
//!  write   each rank's calls in order ─► parts/<p>/collectives (all of them)
//!                                     └► sidecar (their number and a hash)
//!  unify   hashes of the ranks of a communicator ─ equal ─► nothing to say
//!                                     └ not equal ─► the lists of a few ranks ─► the first difference
//! ```
//!
//! Where nothing is wrong unify reads nothing but sidecars; else one list for each group of ranks that did the same,
//! at most [`compare::MOST_GROUPS`] a communicator. A rank that was killed has called less than others: its hash is
//! compared with that of as many calls of theirs.
//!
//! What is compared is what decides whether ranks fit together: function, number of elements, datatype, root. NCCL
//! tells no reduction operator. Functions that only move bytes are compared by bytes, as NCCL itself treats them.

mod compare;
mod lists;
mod record;
mod report;
mod windows;

pub use lists::{CALLS, Call, CallLists, RankCalls};
pub use record::record;
pub use report::{Kind, Matching};
pub use windows::Windows;

use serde::{Deserialize, Serialize};

/// What the sidecar says about the collectives of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankDigest {
    /// A place in [`crate::part::sidecar::Sidecar::comms`].
    pub comm: u32,
    /// Its rank.
    pub rank: u32,
    /// Its calls of the interface; `None` where they were not recorded.
    pub called: Option<Digest>,
    /// What NCCL enqueued; `None` where that says nothing about the calls, because CUDA graphs were replayed.
    pub enqueued: Option<Digest>,
    /// Of which windows these are; `None` where they are all, or it is not known of what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
}

/// Number and hash of some calls in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// How many.
    pub count: u64,
    /// Of all of them.
    pub hash: u64,
}

impl Default for Digest {
    /// No calls.
    fn default() -> Self {
        Self {
            count: 0,
            hash: SEED,
        }
    }
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a: the same in every process, whatever the compiler's own hash does.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

impl Digest {
    /// With one more call.
    #[must_use]
    pub fn and(self, call: u64) -> Self {
        Self {
            count: self.count + 1,
            hash: hash(self.hash, &call.to_le_bytes()),
        }
    }
}
