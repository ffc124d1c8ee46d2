//! Communicators of the whole archive: those of the parts merged, with a location for every rank.

use crate::archive::processes::Process;
use job::communicators::{self, Twice};
use nccl_events::MOST_RANKS;
use nccl_events::ids::{index, index_u32};

/// Number of ranks without a part that get locations in any case, beside those that [`STUBS_FOR_EACH`] allows: a
/// damaged journal can claim any number of ranks, and a location takes two files.
const LEAST_STUBS: u64 = 1 << 14;
/// Number of ranks without a part that get locations for each recorded rank.
const STUBS_FOR_EACH: u64 = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Communicator {
    pub(crate) name: String,
    /// Location ids in rank order.
    pub(crate) locations: Vec<u64>,
    /// Ranks without a part, whose locations are stubs.
    pub(crate) missing: Vec<u32>,
    /// Claimed ranks without a location: too many ranks are missing for the claimed size to be plausible.
    pub(crate) unlocated: u64,
    /// Collectives that were not recorded on all ranks with a part.
    pub(crate) unmatched: u64,
    /// The communicator that this one was split from or grown of; always an earlier one.
    pub(crate) parent: Option<u32>,
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
    /// Number of locations of recorded ranks, whose ids are `0..recorded`.
    pub(crate) recorded: u64,
    /// Ranks without a part; their ids follow those of recorded ranks.
    pub(crate) stubs: Vec<Stub>,
    /// Ranks that two parts claim ([`Twice::OwnIdentity`]).
    pub(crate) ranks_twice: u64,
}

/// A rank's location, and the number of its collectives.
type Located = (u64, u64);

impl Communicators {
    /// Merges the communicators of all processes, in the order of first mention.
    pub(crate) fn of(processes: &[Process]) -> Self {
        let mut known = communicators::Communicators::new(Twice::OwnIdentity);
        let maps = processes.iter().map(|process| {
            let id = |at| process.ids.get(at).copied().unwrap_or(0);
            let claims = process.manifest.claims(|at, _, location| (id(at), location.collectives));
            let part = (index(process.index), process.manifest.part.as_str());
            known.add(part, claims).into_iter().map(index_u32).collect()
        });
        let mut communicators = Self { maps: maps.collect(), ..Self::default() };
        communicators.ranks_twice = known.claimed_twice;
        let locations = processes.iter().flat_map(Process::locations);
        communicators.recorded = locations.filter(|(_, it)| it.is_rank()).count() as u64;
        known.all.iter().for_each(|known| communicators.finish(known));
        communicators.add_parents(processes);
        communicators
    }

    /// Readers rely on parents to be defined first, as they are where processes saw them in the order of creation.
    fn add_parents(&mut self, processes: &[Process]) {
        for (process, map) in processes.iter().zip(&self.maps) {
            let number = |comm: u32| map.get(index(comm)).copied();
            for &(comm, parent) in &process.manifest.parents {
                if let (Some(comm), Some(parent)) = (number(comm), number(parent))
                    && parent < comm
                    && let Some(comm) = self.all.get_mut(index(comm))
                {
                    comm.parent.get_or_insert(parent);
                }
            }
        }
    }

    fn finish(&mut self, known: &communicators::Communicator<Located>) {
        let room = LEAST_STUBS.max(self.recorded * STUBS_FOR_EACH).saturating_sub(self.stubs.len() as u64);
        let mut ranks = 0;
        for (recorded, rank) in (0_u64..).zip(known.members.keys().filter(|rank| **rank < MOST_RANKS)) {
            if u64::from(*rank) - recorded <= room {
                ranks = rank + 1;
            }
        }
        let claimed = known.comm.ranks.max(known.comm.ranks_seen);
        if claimed <= MOST_RANKS && u64::from(claimed).saturating_sub(known.members.len() as u64) <= room {
            ranks = ranks.max(claimed);
        }
        // Recorded, and yet without a place in the communicator, because too many ranks before them were not.
        let behind = known.members.range(ranks..).count();
        let counts = || known.members.values().map(|(_, collectives)| *collectives);
        let mut comm = Communicator {
            unmatched: counts().max().unwrap_or(0) - counts().min().unwrap_or(0),
            name: known.name(),
            locations: Vec::with_capacity(index(ranks)),
            missing: Vec::new(),
            unlocated: u64::from(claimed.saturating_sub(ranks)).saturating_sub(behind as u64),
            parent: None,
        };
        for rank in 0..ranks {
            comm.locations.push(known.members.get(&rank).map(|(id, _)| *id).unwrap_or_else(|| {
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
