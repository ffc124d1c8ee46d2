//! The communicators of all processes, as they are known together.

use std::collections::{BTreeMap, BTreeSet};

use journal::reader::Symbols;
use tables::communicators::{Comm, CommIdentity};

/// The communicator of series that were folded.
pub(crate) const OTHER: u32 = u32::MAX;

/// A rank of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) communicator: u32,
    pub(crate) rank: u32,
}

/// How a communicator is known to be the same one; the last is the process where it is that process's own.
type Key = (CommIdentity, u64, u32, u32, Option<usize>);

#[derive(Debug)]
pub(crate) struct Communicator {
    comm: Comm,
    /// The part that mentions it first.
    part: String,
    names: BTreeSet<String>,
    ranks: u32,
    pub(crate) nodes: u32,
    pub(crate) members: BTreeMap<u32, usize>,
}

impl Communicator {
    /// As `stats` calls it.
    pub(crate) fn name(&self) -> String {
        let given = self.names.iter().map(String::as_str);
        self.comm.identity.name(self.comm.comm_id, self.comm.repetition, given, &self.part)
    }

    /// Its size, as far as it is known.
    pub(crate) fn ranks(&self) -> u32 {
        let known = self.members.keys().next_back().map_or(0, |last| last + 1);
        self.ranks.max(known)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Communicators {
    numbers: BTreeMap<Key, u32>,
    pub(crate) all: Vec<Communicator>,
}

impl Communicators {
    /// The rank that a process has in a communicator.
    pub(crate) fn member(
        &mut self,
        comm: &Comm,
        rank: u32,
        symbols: &Symbols,
        (process, part): (usize, &str),
    ) -> Member {
        let is_own = comm.identity == CommIdentity::Part;
        let key = |own: bool| (comm.identity, comm.comm_id, comm.ranks, comm.repetition, own.then_some(process));
        let shared = self.numbers.get(&key(is_own)).and_then(|&number| self.get(number));
        // What another process is already is not the same: an id that communicators share (v1).
        let is_twice = shared.is_some_and(|known| known.members.get(&rank).is_some_and(|other| *other != process));
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(key(is_own || is_twice)).or_insert(next);
        if number == next {
            let identity = if is_twice { CommIdentity::Part } else { comm.identity };
            let comm = Comm { identity, ..comm.clone() };
            self.all.push(Communicator {
                comm,
                part: part.to_owned(),
                names: BTreeSet::new(),
                ranks: 0,
                nodes: 0,
                members: BTreeMap::new(),
            });
        }
        if let Some(known) = usize::try_from(number).ok().and_then(|at| self.all.get_mut(at)) {
            known.ranks = known.ranks.max(comm.ranks).max(comm.ranks_seen);
            known.nodes = known.nodes.max(comm.nodes);
            let name = symbols.text(comm.name);
            if !name.is_empty() {
                known.names.insert(name.to_owned());
            }
            known.members.insert(rank, process);
        }
        Member { communicator: number, rank }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Communicator> {
        self.all.get(usize::try_from(number).ok()?)
    }
}
