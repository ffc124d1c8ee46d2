//! The communicators of this process: their contexts, and the identity that all ranks agree on.
//!
//! NCCL gives every communicator a hash (`commId`) that is equal on all its ranks, but repeats if an application uses
//! an id twice. The identity is (commId, number of ranks, repetition), where the repetition counts earlier `init` calls
//! of the same rank with the same pair in this process. All ranks create their communicators in the same order, so all
//! compute the same value without communication. Counting per rank keeps this true when ranks share a process.

use std::collections::BTreeMap;

use nccl_events::CommInit;
use nccl_events::ids::{ContextId, ProcessTag};

#[derive(Debug, Default)]
pub(crate) struct Communicators {
    next: u64,
    live: BTreeMap<u64, ()>,
    seen: BTreeMap<(u64, i32, i32), u32>,
}

impl Communicators {
    pub(crate) fn add(&mut self, tag: ProcessTag, comm: &CommInit<'_>) -> (ContextId, u32) {
        self.next += 1;
        let context = ContextId::new(tag, self.next);
        self.live.insert(context.get(), ());
        if comm.comm_id == 0 {
            return (context, 0); // v1–v3: NCCL passes no identity, so nothing can repeat
        }
        let count = self.seen.entry((comm.comm_id, comm.ranks, comm.rank)).or_insert(0);
        let repetition = *count;
        *count += 1;
        (context, repetition)
    }

    /// How many were added.
    pub(crate) fn made(&self) -> u32 {
        u32::try_from(self.next).unwrap_or(u32::MAX)
    }

    /// Forgets a context. False if the context is unknown or was finalized before.
    pub(crate) fn remove(&mut self, context: u64) -> bool {
        self.live.remove(&context).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_events::{Name, Table};

    fn comm(comm_id: u64, rank: i32) -> CommInit<'static> {
        CommInit { table: Table::V7, comm_id, name: Name::NONE, nodes: 1, ranks: 2, rank, nccl_version: 0 }
    }

    #[test]
    fn ranks_of_one_process_agree_on_the_repetition() {
        let tag = ProcessTag::new(1);
        let mut all = Communicators::default();
        let first: Vec<u32> = [0, 1].iter().map(|rank| all.add(tag, &comm(9, *rank)).1).collect();
        let again: Vec<u32> = [1, 0].iter().map(|rank| all.add(tag, &comm(9, *rank)).1).collect();
        assert_eq!((first, again), (vec![0, 0], vec![1, 1]));
    }
}
