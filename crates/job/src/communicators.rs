//! Communicators across processes: what the processes know of the same one, put together.
//!
//! Processes that agree on identity, id, number of ranks and repetition have the same communicator; one without an
//! identity is its process's own. A rank belongs to one process: [`Twice`] says what a second claim means.

use std::collections::{BTreeMap, BTreeSet};

use tables::communicators::CommIdentity;

/// What it means that a part claims a rank which another part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twice {
    /// The communicators differ: the part was copied, or (v1) communicators share an id. The whole communicator of the
    /// later part becomes that part's own.
    OwnIdentity,
    /// A later job recorded into the same directory: its rank replaces the earlier one.
    Newer,
}

/// A communicator as one process knows it, with the process's ranks in it.
#[derive(Clone, Debug)]
pub struct Claim<M> {
    pub identity: CommIdentity,
    /// NCCL's id, the hash, or the context.
    pub id: u64,
    /// Number of ranks; 0 where the process does not know it.
    pub ranks: u32,
    /// Zero-based index among those with this id and size.
    pub repetition: u32,
    /// One more than the highest rank that the process saw.
    pub ranks_seen: u32,
    /// The user's name; empty for none.
    pub name: String,
    pub members: Vec<(u32, M)>,
}

/// The last is the part where the communicator is the part's own.
type Key = (CommIdentity, u64, u32, u32, Option<String>);

#[derive(Clone, Debug)]
pub struct Communicator<M> {
    pub identity: CommIdentity,
    pub id: u64,
    pub repetition: u32,
    /// The highest number of ranks that a process states; 0 where none does.
    pub ranks: u32,
    /// One more than the highest rank that a process saw.
    pub ranks_seen: u32,
    pub members: BTreeMap<u32, M>,
    /// The part that mentions it first.
    part: String,
    names: BTreeSet<String>,
}

impl<M> Communicator<M> {
    /// The least of the users' names, else the id; a repetition is `world #2`.
    pub fn name(&self) -> String {
        self.identity.name(self.id, self.repetition, self.names.iter().map(String::as_str), &self.part)
    }
}

#[derive(Debug)]
pub struct Communicators<M> {
    twice: Twice,
    numbers: BTreeMap<Key, usize>,
    /// In the order of first mention.
    pub all: Vec<Communicator<M>>,
    /// How many ranks two parts claimed.
    pub claimed_twice: u64,
}

impl<M> Communicators<M> {
    pub const fn new(twice: Twice) -> Self {
        Self { twice, numbers: BTreeMap::new(), all: Vec::new(), claimed_twice: 0 }
    }

    /// Adds what a part knows, and gives the index in `all` for each claim.
    pub fn add(&mut self, part: &str, claims: Vec<Claim<M>>) -> Vec<usize> {
        let numbers: Vec<usize> = claims.iter().map(|claim| self.number(part, claim)).collect();
        for (claim, number) in claims.into_iter().zip(&numbers) {
            if let Some(known) = self.all.get_mut(*number) {
                known.ranks = known.ranks.max(claim.ranks);
                known.ranks_seen = known.ranks_seen.max(claim.ranks_seen);
                known.names.insert(claim.name);
                known.members.extend(claim.members);
            }
        }
        numbers
    }

    fn number(&mut self, part: &str, claim: &Claim<M>) -> usize {
        let mut identity = claim.identity;
        let key = |identity: CommIdentity| {
            let own = (identity == CommIdentity::Part).then(|| part.to_owned());
            (identity, claim.id, claim.ranks, claim.repetition, own)
        };
        let known = self.numbers.get(&key(identity)).and_then(|&at| self.all.get(at));
        let twice =
            known.map_or(0, |known| claim.members.iter().filter(|(rank, _)| known.members.contains_key(rank)).count());
        self.claimed_twice += twice as u64;
        if twice > 0 && self.twice == Twice::OwnIdentity {
            identity = CommIdentity::Part;
        }
        let next = self.all.len();
        let number = *self.numbers.entry(key(identity)).or_insert(next);
        if number == next {
            self.all.push(Communicator {
                identity,
                id: claim.id,
                repetition: claim.repetition,
                ranks: 0,
                ranks_seen: 0,
                members: BTreeMap::new(),
                part: part.to_owned(),
                names: BTreeSet::new(),
            });
        }
        number
    }

    /// In the order of their keys, which no order of parts changes.
    pub fn into_key_order(self) -> impl Iterator<Item = Communicator<M>> {
        let mut all: Vec<Option<Communicator<M>>> = self.all.into_iter().map(Some).collect();
        self.numbers.into_values().filter_map(move |at| all.get_mut(at)?.take())
    }
}

/// Ranks in ascending order, as people write them: `0-6, 8`.
pub fn rank_list(ranks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in BTreeSet::from_iter(ranks) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
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
            for (part, ranks) in [("a", vec![0, 1]), ("b", vec![1, 2])] {
                let members = ranks.into_iter().map(|rank| (rank, part)).collect();
                let (identity, name) = (CommIdentity::Id, "world".to_owned());
                all.add(part, vec![Claim { identity, id: 7, ranks: 3, repetition: 1, ranks_seen: 0, name, members }]);
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
