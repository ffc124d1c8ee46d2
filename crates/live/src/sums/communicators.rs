//! The communicators of all processes, as they are known together.

use std::collections::{BTreeMap, BTreeSet};

use journal::reader::Symbols;
use nccl_events::MOST_RANKS;
use nccl_events::index::{index, index_u32};
use tables::communicators::{Comm, CommIdentity};

/// The communicator of series that were folded.
pub(crate) const OTHER: u32 = u32::MAX;

/// A rank of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) communicator: u32,
    pub(crate) rank: u32,
}

/// What identifies a communicator; the last is the process that it belongs to, if it is in one only.
type Key = (CommIdentity, u64, u32, u32, Option<usize>);

#[derive(Debug)]
pub(crate) struct Communicator {
    comm: Comm,
    part: String,
    names: BTreeSet<String>,
    ranks: u32,
    pub(crate) nodes: u32,
    pub(crate) members: BTreeMap<u32, usize>,
}

impl Communicator {
    pub(crate) fn name(&self) -> String {
        let given = self.names.iter().map(String::as_str);
        self.comm.identity.name(self.comm.comm_id, self.comm.repetition, given, &self.part)
    }

    /// Its size, as far as it is known: a damaged journal can claim any number.
    pub(crate) fn ranks(&self) -> u32 {
        let known = self.members.keys().next_back().map_or(0, |last| last + 1);
        [self.ranks, known].into_iter().filter(|ranks| *ranks <= MOST_RANKS).max().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Communicators {
    numbers: BTreeMap<Key, u32>,
    pub(crate) all: Vec<Communicator>,
}

impl Communicators {
    /// Replaces what a process claims: its ranks of communicators. Returns a member for each claim.
    pub(crate) fn claim(
        &mut self,
        claims: &[(&Comm, u32)],
        symbols: &Symbols,
        (process, part): (usize, &str),
    ) -> Vec<Member> {
        for known in &mut self.all {
            known.members.retain(|_, claimant| *claimant != process);
        }
        let key =
            |comm: &Comm, own: bool| (comm.identity, comm.comm_id, comm.ranks, comm.repetition, own.then_some(process));
        // A rank that another process has: the communicators are not the same, but share an id (v1), or a part is a
        // copy. Then all ranks of this process are in a communicator of its own.
        let taken = claims.iter().filter_map(|(comm, rank)| {
            let key = key(comm, false);
            let known = self.get(*self.numbers.get(&key)?)?;
            known.members.contains_key(rank).then_some(key)
        });
        let taken: BTreeSet<Key> = taken.collect();
        let mut members = Vec::with_capacity(claims.len());
        for &(comm, rank) in claims {
            let is_twice = taken.contains(&key(comm, false));
            let next = index_u32(self.all.len());
            let key = key(comm, comm.identity == CommIdentity::Part || is_twice);
            let communicator = *self.numbers.entry(key).or_insert(next);
            if communicator == next {
                let identity = if is_twice { CommIdentity::Part } else { comm.identity };
                self.all.push(Communicator {
                    comm: Comm { identity, ..comm.clone() },
                    part: part.to_owned(),
                    names: BTreeSet::new(),
                    ranks: 0,
                    nodes: 0,
                    members: BTreeMap::new(),
                });
            }
            if let Some(known) = self.all.get_mut(index(communicator)) {
                known.ranks = known.ranks.max(comm.ranks).max(comm.ranks_seen);
                known.nodes = known.nodes.max(comm.nodes);
                known.names.extend(Some(symbols.text(comm.name)).filter(|name| !name.is_empty()).map(str::to_owned));
                known.members.insert(rank, process);
            }
            members.push(Member { communicator, rank });
        }
        members
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Communicator> {
        self.all.get(index(number))
    }
}
