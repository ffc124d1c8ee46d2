//! Communicators of the whole archive: those of the parts put together, every rank with its location.

use std::collections::BTreeMap;

use crate::archive::processes::Process;
use crate::part::manifest::{CommDefinition, LocationDefinition, LocationKind};
use nccl_events::MOST_RANKS;
use tables::communicators::CommIdentity;
use tables::index::{index, index_u32};

/// Ranks without a part that have locations, beside those that [`STUBS_FOR_EACH`] recorded one stands for: a damaged
/// journal can claim any number, and a location takes two files.
const LEAST_STUBS: u64 = 1 << 14;
/// So many ranks without a part are believed for each that was recorded.
const STUBS_FOR_EACH: u64 = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Communicator {
    pub(crate) name: String,
    /// Its locations in rank order, by id.
    pub(crate) locations: Vec<u64>,
    /// Ranks without a part, whose locations are stubs.
    pub(crate) missing: Vec<u32>,
    /// Ranks that are claimed and have no location: too many are missing for the number to be believed.
    pub(crate) unlocated: u64,
    /// Collectives that were not recorded on all ranks with a part.
    pub(crate) unmatched: u64,
}

/// A rank that no part has: a location without events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    pub(crate) location: u64,
    pub(crate) name: String,
}

#[derive(Debug, Default)]
pub(crate) struct Communicators {
    pub(crate) all: Vec<Communicator>,
    /// For each process: the archive's number of each of its communicators.
    pub(crate) maps: Vec<Vec<u32>>,
    /// Locations of ranks that were recorded; their ids are the numbers below this.
    pub(crate) recorded: u64,
    /// Ranks without a part; their ids follow.
    pub(crate) stubs: Vec<Stub>,
    /// Ranks that two parts have: the first has it, and the communicator of the other is one of its own.
    pub(crate) ranks_twice: u64,
}

type Key = (CommIdentity, u64, u32, u32, Option<u32>);

#[derive(Debug)]
struct Gathered {
    definition: CommDefinition,
    /// The part that mentions it first.
    part: String,
    names: Vec<String>,
    ranks: u32,
    /// By rank: the location, and its collectives.
    locations: BTreeMap<u32, (u64, u64)>,
}

impl Communicators {
    /// Puts the communicators of all processes together, in the order of first mention.
    pub(crate) fn of(processes: &[Process]) -> Self {
        let mut communicators = Self::default();
        let mut known: BTreeMap<Key, u32> = BTreeMap::new();
        let mut all: Vec<Gathered> = Vec::new();
        for process in processes {
            let own = locations_of_ranks(process);
            let mut map = Vec::with_capacity(own.len());
            for (definition, ranks) in process.manifest.comms.iter().zip(&own) {
                let mut definition = definition.clone();
                let there = known.get(&key(&definition, process)).and_then(|&at| all.get(index(at)));
                let twice = there.map_or(0, |there| {
                    ranks.iter().filter(|(rank, _)| there.locations.contains_key(rank)).count() as u64
                });
                if twice > 0 {
                    // They are not the same: a part that was copied, or (v1) an id that communicators share. Whose
                    // the records are is only true of each alone.
                    communicators.ranks_twice += twice;
                    definition.identity = CommIdentity::Part;
                }
                let number = *known.entry(key(&definition, process)).or_insert_with(|| index_u32(all.len()));
                if all.len() <= index(number) {
                    all.push(Gathered {
                        part: process.manifest.part.clone(),
                        names: Vec::new(),
                        ranks: 0,
                        locations: BTreeMap::new(),
                        definition: definition.clone(),
                    });
                }
                if let Some(gathered) = all.get_mut(index(number)) {
                    gathered.add(&definition);
                }
                map.push(number);
            }
            for (&number, ranks) in map.iter().zip(own) {
                if let Some(gathered) = all.get_mut(index(number)) {
                    gathered.locations.extend(ranks);
                }
            }
            communicators.maps.push(map);
        }
        let locations = processes.iter().flat_map(Process::locations);
        communicators.recorded = locations.filter(|(_, it)| rank_of(it).is_some()).count() as u64;
        for gathered in all {
            communicators.finish(gathered);
        }
        communicators
    }

    fn finish(&mut self, gathered: Gathered) {
        let name = gathered.name();
        let room = LEAST_STUBS.max(self.recorded * STUBS_FOR_EACH).saturating_sub(self.stubs.len() as u64);
        let mut ranks = 0;
        for (recorded, rank) in (0_u64..).zip(gathered.locations.keys().filter(|rank| **rank < MOST_RANKS)) {
            if u64::from(*rank) - recorded <= room {
                ranks = rank + 1;
            }
        }
        let recorded = gathered.locations.len() as u64;
        let claimed = u64::from(gathered.ranks);
        if gathered.ranks <= MOST_RANKS && claimed.saturating_sub(recorded) <= room {
            ranks = ranks.max(gathered.ranks);
        }
        let counts = || gathered.locations.values().map(|(_, collectives)| *collectives);
        let most = counts().max().unwrap_or(0);
        let mut comm = Communicator {
            unmatched: most - counts().min().unwrap_or(0),
            name,
            locations: Vec::with_capacity(index(ranks)),
            missing: Vec::new(),
            unlocated: claimed.saturating_sub(u64::from(ranks)),
        };
        for rank in 0..ranks {
            comm.locations.push(gathered.locations.get(&rank).map(|(id, _)| *id).unwrap_or_else(|| {
                comm.missing.push(rank);
                let location = self.recorded + self.stubs.len() as u64;
                let name = format!("NCCL {} rank {rank}/{ranks} (not recorded)", comm.name);
                self.stubs.push(Stub { location, name });
                location
            }));
        }
        self.all.push(comm);
    }
}

impl Gathered {
    fn add(&mut self, definition: &CommDefinition) {
        self.ranks = self.ranks.max(definition.ranks).max(definition.ranks_seen);
        self.names.push(definition.name.clone());
    }

    /// The user's name, else the id; a repetition is told apart.
    fn name(&self) -> String {
        let CommDefinition { identity, id, repetition, .. } = self.definition;
        identity.name(id, repetition, self.names.iter().map(String::as_str), &self.part)
    }
}

fn key(comm: &CommDefinition, process: &Process) -> Key {
    let own = (comm.identity == CommIdentity::Part).then_some(process.index);
    (comm.identity, comm.id, comm.ranks, comm.repetition, own)
}

/// The ranks that a process has in each of its communicators, with their locations and collectives.
fn locations_of_ranks(process: &Process) -> Vec<Vec<(u32, (u64, u64))>> {
    let mut ranks = vec![Vec::new(); process.manifest.comms.len()];
    for (id, location) in process.locations() {
        if let Some((comm, rank)) = rank_of(location)
            && let Some(ranks) = ranks.get_mut(index(comm))
        {
            ranks.push((rank, (id, location.collectives)));
        }
    }
    ranks
}

fn rank_of(location: &LocationDefinition) -> Option<(u32, u32)> {
    match location.kind {
        LocationKind::Communicator { comm, rank, .. } if location.sibling == 0 => Some((comm, rank)),
        _ => None,
    }
}
