//! What several processes of a job know together. Processes that agree on identity, id, number of ranks and repetition
//! have the same communicator; without an identity it belongs to one process. A rank belongs to one process:
//! [`DuplicateClaim`] tells what a second claim means. [`RecordingState`] is whether a recorded process is running.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use crate::communicators::{Comm, CommIdentity, Comms, Member, given_name};
use journal::host;
use journal::part::{DONE, JOURNAL, PROCESS};
use journal::reader::{Journal, Outcome, Symbols};
use nccl_events::ids::index;
use serde::{Deserialize, Serialize};

/// The meaning of a part's claim to a rank that another part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateClaim {
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
    pub fn new(comm: &Comm, symbols: &Symbols) -> Self {
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
            claims.map(|comm| Self { comm: CommDefinition::new(comm, symbols), members: Vec::new() }).collect();
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
    pub fn given_name(&self) -> Option<&str> {
        given_name(self.names.iter().map(String::as_str))
    }

    /// NCCL's id or the hash; `None` if the communicator belongs to one process.
    pub fn id(&self) -> Option<u64> {
        Some(self.comm.id).filter(|_| self.comm.identity != CommIdentity::Part)
    }

    /// The user's name, else the id; a repetition is `world #2`. Unlike the name in an archive, it does not depend on
    /// other communicators, which a running job may not have yet.
    pub fn name(&self) -> String {
        let CommDefinition { identity, id, repetition, .. } = self.comm;
        identity.name(id, repetition, self.names.iter().map(String::as_str), &self.part)
    }
}

/// A communicator that is to be named.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unnamed<'a> {
    /// The user's name.
    pub given: Option<&'a str>,
    /// The name of one that belongs to one process.
    pub own: Option<&'a str>,
    pub is_world: bool,
    /// The number of the communicator that it was split from or grown of.
    pub parent: Option<u32>,
    /// Number of ranks; 0 if unknown.
    pub ranks: usize,
}

/// The names of a job's communicators for people, with their sizes, in the order of their numbers: the user's name,
/// `world (8)` for that of all ranks, `world split 1 (4)` for what was split from it, `comm 3 (4)`.
pub fn comm_names<'a>(comms: impl IntoIterator<Item = Unnamed<'a>>) -> Vec<String> {
    let mut bases: Vec<String> = Vec::new();
    let mut splits: BTreeMap<u32, u32> = BTreeMap::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut all = Vec::new();
    for (at, comm) in (1_u32..).zip(comms) {
        let base = match comm {
            Unnamed { given: Some(given), .. } => given.to_owned(),
            Unnamed { is_world: true, .. } => "world".to_owned(),
            Unnamed { parent: Some(parent), .. } => {
                let split = splits.entry(parent).and_modify(|split| *split += 1).or_insert(1);
                format!("{} split {split}", bases.get(index(parent)).map_or("comm", String::as_str))
            }
            Unnamed { own: Some(own), .. } => own.to_owned(),
            _ => format!("comm {at}"),
        };
        let size = match comm.ranks {
            0 => String::new(),
            ranks => format!(" ({ranks})"),
        };
        let mut name = format!("{base}{size}");
        for same in 2.. {
            if names.insert(name.clone()) {
                break;
            }
            name = format!("{base} #{same}{size}");
        }
        all.push(name);
        bases.push(base);
    }
    all
}

#[derive(Debug)]
pub struct Communicators<M> {
    twice: DuplicateClaim,
    numbers: BTreeMap<Key, usize>,
    pub all: Vec<Communicator<M>>,
    pub claimed_twice: u64,
}

impl<M> Communicators<M> {
    pub const fn new(twice: DuplicateClaim) -> Self {
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
        if twice > 0 && self.twice == DuplicateClaim::OwnIdentity {
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

/// The plugin reads the clocks once a second, so a running process has a more recent record than this.
const FRESH_NS: u64 = 5_000_000_000;

/// Whether a recorded process is running: on its host by the process table, elsewhere by the age of its last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordingState {
    Running,
    /// On this host, stopped by a signal or a debugger.
    Stopped,
    /// The process was on this host and is gone without having ended its recording.
    Gone,
    /// The process finalized its communicators, or its part is written and its journal removed.
    Ended,
    /// On another host, without a recent record.
    Silent,
    /// The record of how the process ended is damaged, or was not kept.
    #[default]
    Unknown,
}

impl RecordingState {
    pub const ALL: [Self; 6] = [Self::Running, Self::Stopped, Self::Gone, Self::Ended, Self::Silent, Self::Unknown];

    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Stopped)
    }

    /// Whether the recording is over. For a silent process that is unknown.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Gone | Self::Ended | Self::Unknown)
    }
}

/// Whether a part shows that its process recorded nothing: it was killed before, or is about to begin.
pub fn is_blank(part: &Path) -> bool {
    // Where the system does not say, the part may have recorded something.
    let has = |name: &str| {
        let found = part.join(name).symlink_metadata();
        !found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let is_empty = || match Journal::open(&part.join(JOURNAL)) {
        // Damage may have been an event.
        Ok(journal) => {
            matches!(journal.read(&mut |_| {}), Ok(Outcome { started: 0, problems, .. }) if problems.is_empty())
        }
        Err(_) => !has(JOURNAL),
    };
    !has(PROCESS) && !has(DONE) && is_empty()
}

#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    pub host: host::ProcessStatus,
    pub now_ns: u64,
    pub last_record_ns: u64,
    /// Whether the description and the clock readings of the process could be read.
    pub is_described: bool,
    pub is_finalized: bool,
    /// Whether a finalize would be among the readable records.
    pub shows_end: bool,
}

impl Evidence {
    pub const fn life(self) -> RecordingState {
        match self.host {
            host::ProcessStatus::Running => RecordingState::Running,
            host::ProcessStatus::Stopped => RecordingState::Stopped,
            host::ProcessStatus::Gone if self.is_finalized => RecordingState::Ended,
            host::ProcessStatus::Gone if self.shows_end => RecordingState::Gone,
            host::ProcessStatus::Gone => RecordingState::Unknown,
            host::ProcessStatus::Unknown if !self.is_described && self.is_finalized => RecordingState::Ended,
            host::ProcessStatus::Unknown if !self.is_described => RecordingState::Unknown,
            // The other host's clock is trusted: hosts of a cluster differ by far less than seconds.
            host::ProcessStatus::Unknown if self.last_record_ns.saturating_add(FRESH_NS) >= self.now_ns => {
                RecordingState::Running
            }
            host::ProcessStatus::Unknown if self.is_finalized => RecordingState::Ended,
            host::ProcessStatus::Unknown => RecordingState::Silent,
        }
    }
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
        assert_eq!(put_together(DuplicateClaim::Newer), (1, vec![(name(), vec!["a", "b", "b"])]));
        assert_eq!(
            put_together(DuplicateClaim::OwnIdentity),
            (1, vec![(name(), vec!["a", "a"]), (name(), vec!["b", "b"])])
        );
    }
}
