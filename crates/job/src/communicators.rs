//! Communicators across processes: merges what several processes know about the same communicator.
//!
//! Processes that agree on identity, id, number of ranks and repetition have the same communicator; without an identity
//! it belongs to one process. A rank belongs to one process: [`Twice`] tells what a second claim means.

use std::collections::{BTreeMap, BTreeSet};

use journal::reader::Symbols;
use nccl_events::ids::index;
use serde::{Deserialize, Serialize};
use tables::communicators::{Comm, CommIdentity, Comms, Member};

/// The meaning of a part's claim to a rank that another part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twice {
    /// The communicators differ: the part was copied, or (v1) communicators share an id. The whole communicator of the
    /// later part becomes that part's own.
    OwnIdentity,
    /// A later job recorded into the same directory: its rank replaces the earlier one.
    Newer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommDefinition {
    pub identity: CommIdentity,
    /// NCCL's id, the hash, or the context.
    pub id: u64,
    /// Number of ranks; 0 if unknown.
    pub ranks: u32,
    /// Zero-based index among the communicators with this id and size.
    pub repetition: u32,
    /// The highest rank seen, plus one.
    pub ranks_seen: u32,
    /// The user's name; empty if there is none.
    pub name: String,
    /// Number of hosts; 0 if unknown.
    pub nodes: u32,
}

impl CommDefinition {
    pub fn of(comm: &Comm, symbols: &Symbols) -> Self {
        let Comm { identity, comm_id: id, ranks, repetition, ranks_seen, name, nodes } = *comm;
        Self { identity, id, ranks, repetition, ranks_seen, name: symbols.text(name).to_owned(), nodes }
    }
}

/// A communicator of a process, with the process's ranks in it.
#[derive(Clone, Debug)]
pub struct Claim<M> {
    pub comm: CommDefinition,
    pub members: Vec<(u32, M)>,
}

impl<M> Claim<M> {
    /// The claims of a process; `of` makes the value to keep for a rank, from the index of its context.
    pub fn all(comms: &Comms, symbols: &Symbols, mut of: impl FnMut(usize, &Member) -> M) -> Vec<Self> {
        let claims = comms.comms.iter();
        let mut claims: Vec<Self> =
            claims.map(|comm| Self { comm: CommDefinition::of(comm, symbols), members: Vec::new() }).collect();
        for (context, member) in comms.members.iter().enumerate() {
            if let Some(claim) = claims.get_mut(index(member.comm)) {
                claim.members.push((member.rank, of(context, member)));
            }
        }
        claims
    }
}

/// The last field is the number of the part if the communicator belongs to the part alone.
type Key = (CommIdentity, u64, u32, u32, Option<usize>);

#[derive(Clone, Debug)]
pub struct Communicator<M> {
    /// The merged knowledge of the parts: the highest of each number, and the name from the first part.
    pub comm: CommDefinition,
    pub members: BTreeMap<u32, M>,
    /// The first part that mentions the communicator.
    part: String,
    names: BTreeSet<String>,
}

impl<M> Communicator<M> {
    /// The least of the users' names, else the id; a repetition is `world #2`.
    pub fn name(&self) -> String {
        let CommDefinition { identity, id, repetition, .. } = self.comm;
        identity.name(id, repetition, self.names.iter().map(String::as_str), &self.part)
    }
}

#[derive(Debug)]
pub struct Communicators<M> {
    twice: Twice,
    numbers: BTreeMap<Key, usize>,
    pub all: Vec<Communicator<M>>,
    pub claimed_twice: u64,
}

impl<M> Communicators<M> {
    pub const fn new(twice: Twice) -> Self {
        Self { twice, numbers: BTreeMap::new(), all: Vec::new(), claimed_twice: 0 }
    }

    /// Adds a part's claims; returns the index in `all` of each. Parts may share a name, but not a number.
    pub fn add(&mut self, part: (usize, &str), claims: Vec<Claim<M>>) -> Vec<usize> {
        let numbers: Vec<usize> = claims.iter().map(|claim| self.number(part, claim)).collect();
        for (Claim { comm, members }, number) in claims.into_iter().zip(&numbers) {
            if let Some(known) = self.all.get_mut(*number) {
                known.comm.ranks = known.comm.ranks.max(comm.ranks);
                known.comm.ranks_seen = known.comm.ranks_seen.max(comm.ranks_seen);
                known.comm.nodes = known.comm.nodes.max(comm.nodes);
                known.names.insert(comm.name);
                known.members.extend(members);
            }
        }
        numbers
    }

    fn number(&mut self, (number, part): (usize, &str), Claim { comm, members }: &Claim<M>) -> usize {
        let mut identity = comm.identity;
        let key = |identity: CommIdentity| {
            (identity, comm.id, comm.ranks, comm.repetition, (identity == CommIdentity::Part).then_some(number))
        };
        let known = self.numbers.get(&key(identity)).and_then(|&at| self.all.get(at));
        let twice =
            known.map_or(0, |known| members.iter().filter(|(rank, _)| known.members.contains_key(rank)).count());
        self.claimed_twice += twice as u64;
        if twice > 0 && self.twice == Twice::OwnIdentity {
            identity = CommIdentity::Part;
        }
        *self.numbers.entry(key(identity)).or_insert_with(|| {
            let comm = CommDefinition { identity, ..comm.clone() };
            let (members, names) = (BTreeMap::new(), BTreeSet::new());
            self.all.push(Communicator { comm, members, part: part.to_owned(), names });
            self.all.len() - 1
        })
    }

    /// The communicators by key, independent of the order of parts.
    pub fn into_key_order(self) -> impl Iterator<Item = Communicator<M>> {
        let mut all: Vec<Option<Communicator<M>>> = self.all.into_iter().map(Some).collect();
        self.numbers.into_values().filter_map(move |at| all.get_mut(at)?.take())
    }
}

/// Formats ranks in ascending order: `0-6, 8`.
pub fn rank_list<'a>(ranks: impl IntoIterator<Item = &'a u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in BTreeSet::from_iter(ranks) {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => ranges.push((*rank, *rank)),
        }
    }
    let text = |(first, last): &(u32, u32)| match last == first {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_claimed_twice_is_of_another_communicator_or_replaced() {
        let put_together = |twice| {
            let mut all = Communicators::new(twice);
            for (number, (part, ranks)) in [("a", [0, 1]), ("b", [1, 2])].into_iter().enumerate() {
                let members = ranks.map(|rank| (rank, part)).into();
                let (identity, name) = (CommIdentity::Id, "world".to_owned());
                let comm = CommDefinition { identity, id: 7, ranks: 3, repetition: 1, ranks_seen: 0, name, nodes: 1 };
                all.add((number, part), vec![Claim { comm, members }]);
            }
            let claimed_twice = all.claimed_twice;
            let comms = all.into_key_order().map(|comm| (comm.name(), comm.members.into_values().collect::<Vec<_>>()));
            (claimed_twice, comms.collect::<Vec<_>>())
        };
        let name = || "world #2".to_owned();
        assert_eq!(put_together(Twice::Newer), (1, vec![(name(), vec!["a", "b", "b"])]));
        assert_eq!(put_together(Twice::OwnIdentity), (1, vec![(name(), vec!["a", "a"]), (name(), vec!["b", "b"])]));
    }
}
