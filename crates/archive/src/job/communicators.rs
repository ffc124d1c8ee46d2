//! Communicators of the whole archive: those of the parts merged, with a location for every rank. Also resolves
//! contexts of other processes (PXN), once all parts are read: the ranks that transfers were done for.

use std::collections::BTreeMap;

use crate::job::processes::Process;
use crate::part::manifest::{LocationKind, launched};
use model::job;
use model::job::DuplicateClaim;
use model::links::transfers::{context_of_placeholder, placeholder};
use nccl_events::MOST_RANKS;
use nccl_events::archive::{RankIdentity, number};
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::{Lines, Statements, Sum};

/// Number of ranks without a part that an archive's communicators list: a damaged journal can claim any number.
const MOST_MISSING: u64 = 1 << 24;
/// A communicator with so few of them is listed in any case.
const FEW_MISSING: u64 = 1 << 14;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Communicator {
    /// For people, with the size: `world (8)`.
    pub(crate) name: String,
    /// NCCL's id or the hash; `None` if the communicator belongs to one process.
    pub(crate) id: Option<u64>,
    /// Location ids in rank order.
    pub(crate) locations: Vec<u64>,
    /// Ranks without a part, whose location is the communicator's stub.
    pub(crate) missing: u64,
    /// Claimed ranks without a location: too many ranks are missing for the claimed size to be plausible.
    pub(crate) unlocated: u64,
    /// Collectives that were not recorded on all ranks with a part.
    pub(crate) unmatched: u64,
    /// The communicator that this one was split from or grown of; always an earlier one.
    pub(crate) parent: Option<u32>,
}

/// The ranks of a communicator that no part has: one location without events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    pub(crate) location: u64,
    /// An index in [`Communicators::all`].
    pub(crate) comm: u32,
    pub(crate) name: String,
}

#[derive(Debug, Default)]
pub(crate) struct Communicators {
    pub(crate) all: Vec<Communicator>,
    /// For each process: the archive's number of each of its communicators.
    pub(crate) maps: Vec<Vec<u32>>,
    /// Number of locations of recorded ranks, whose ids are `0..recorded`.
    pub(crate) recorded: u64,
    /// The ids of stubs follow those of recorded ranks.
    pub(crate) stubs: Vec<Stub>,
    /// Ranks that two parts claim ([`DuplicateClaim::OwnIdentity`]).
    pub(crate) ranks_twice: u64,
}

/// A rank's location, and the number of its collectives.
type RankLocation = (u64, u64);

impl Communicators {
    /// Merges the communicators of all processes, in the order of first mention.
    pub(crate) fn merge(processes: &[Process]) -> Self {
        let mut known = job::Communicators::new(DuplicateClaim::OwnIdentity);
        let maps = processes.iter().map(|process| {
            let id = |at| process.ids.get(at).copied().unwrap_or(0);
            let claims = process.manifest.claims(|at, _, location| (id(at), location.collectives));
            let part = (index(process.index), process.manifest.part.as_str());
            known.add(part, claims).into_iter().map(index_u32).collect()
        });
        let mut communicators = Self { maps: maps.collect(), ..Self::default() };
        communicators.ranks_twice = known.claimed_twice;
        let locations = processes.iter().flat_map(Process::locations);
        communicators.recorded = locations.filter(|(_, location)| location.is_rank()).count() as u64;
        known.all.iter().for_each(|known| communicators.finish(known));
        communicators.add_parents(processes);
        communicators.add_names(&known.all, processes);
        communicators
    }

    /// Names communicators for people, which takes the whole job: the user's name, `world` for that of all ranks, and
    /// `world split 1` for what was split from it.
    fn add_names(&mut self, known: &[job::Communicator<RankLocation>], processes: &[Process]) {
        let (world, _) = number(&self.identities(processes));
        // Of a job of which few processes were recorded, a smaller communicator may have all of these.
        let launched = launched(processes.iter().map(|process| &process.manifest));
        let largest = self.all.iter().map(|comm| comm.locations.len()).max();
        let world = world.filter(|world| {
            let has_all = |comm: &Communicator| {
                let processes = processes.len() as u64 + comm.missing;
                processes >= launched.unwrap_or(0).into() && Some(comm.locations.len()) == largest
            };
            self.all.get(index(*world)).is_some_and(has_all)
        });
        let own: Vec<String> = known.iter().map(job::Communicator::name).collect();
        let unnamed = (0..).zip(&self.all).zip(known.iter().zip(&own)).map(|((at, comm), (known, own))| job::Unnamed {
            given: known.given_name(),
            own: known.id().is_none().then_some(own),
            is_world: world == Some(at),
            parent: comm.parent,
            ranks: comm.locations.len(),
        });
        let names = job::comm_names(unnamed);
        for (comm, name) in self.all.iter_mut().zip(names) {
            comm.name = name;
        }
        for stub in &mut self.stubs {
            let name = self.all.get(index(stub.comm)).map_or("?", |comm| comm.name.as_str());
            stub.name = format!("NCCL {name} {}", stub.name);
        }
    }

    /// What the ranks of the job are known by: each a GPU of a process.
    fn identities(&self, processes: &[Process]) -> Vec<RankIdentity> {
        let mut identities: BTreeMap<(usize, u32), RankIdentity> = BTreeMap::new();
        for ((at, process), map) in (0..).zip(processes).zip(&self.maps) {
            for location in &process.manifest.locations {
                if let LocationKind::Communicator { comm, rank, gpu } = location.kind
                    && let Some(&comm) = map.get(index(comm))
                {
                    let identity = identities.entry((at, gpu)).or_default();
                    identity.process = at;
                    identity.launcher_rank = process.manifest.process.environment.rank;
                    identity.members.insert(comm, rank);
                }
            }
        }
        identities.into_values().collect()
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

    fn finish(&mut self, known: &job::Communicator<RankLocation>) {
        let recorded = || known.members.keys().copied().take_while(|rank| *rank < MOST_RANKS);
        let claimed = known.comm.ranks.max(known.comm.ranks_seen);
        let plausible = Some(claimed).filter(|claimed| *claimed <= MOST_RANKS);
        let size = recorded().last().map_or(0, |last| last + 1).max(plausible.unwrap_or(0));
        let missing = u64::from(size) - recorded().count() as u64;
        let listed: u64 = self.all.iter().map(|comm| comm.missing).sum();
        let fits = missing <= FEW_MISSING || listed + missing <= MOST_MISSING;
        let ranks =
            if fits { size } else { index_u32((0..).zip(recorded()).take_while(|(at, rank)| at == rank).count()) };
        // Recorded, and yet without a place in the communicator, because the ranks before them have none.
        let behind = known.members.range(ranks..).count();
        let counts = || known.members.values().map(|(_, collectives)| *collectives);
        let stub = self.recorded + self.stubs.len() as u64;
        let missing = if fits { missing } else { 0 };
        if missing > 0 {
            let one = (0..ranks).find(|rank| !known.members.contains_key(rank)).filter(|_| missing == 1);
            let ranks_text = one.map_or_else(|| format!("{missing} ranks"), |one| format!("rank {one}"));
            let (comm, name) = (index_u32(self.all.len()), format!("{ranks_text} (not recorded)"));
            self.stubs.push(Stub { location: stub, comm, name });
        }
        let location = |rank| known.members.get(&rank).map_or(stub, |(id, _)| *id);
        self.all.push(Communicator {
            unmatched: counts().max().unwrap_or(0) - counts().min().unwrap_or(0),
            name: String::new(),
            id: known.id(),
            locations: (0..ranks).map(location).collect(),
            missing,
            unlocated: u64::from(claimed.saturating_sub(ranks)).saturating_sub(behind as u64),
            parent: None,
        });
    }
}

/// A rank for which another process worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// An index into the archive's processes.
    pub(crate) process: usize,
    /// The archive's number of the communicator.
    pub(crate) comm: u32,
    pub(crate) rank: u32,
}

/// The ranks of all processes by context. Only 16 bits of a context identify its process, so two processes of a host
/// can hand out the same context by chance; the origin is then unknown.
#[derive(Debug)]
pub(crate) struct Origins<'a> {
    by_context: BTreeMap<(&'a str, &'a str, u64), Option<Origin>>,
    comms: Vec<&'a str>,
    processes: &'a [Process],
}

impl<'a> Origins<'a> {
    pub(crate) fn new(processes: &'a [Process], communicators: &'a Communicators) -> Self {
        let mut by_context = BTreeMap::new();
        for (at, (process, map)) in processes.iter().zip(&communicators.maps).enumerate() {
            let (host, boot) = process.host();
            for exported in &process.manifest.exported_ranks {
                let origin =
                    map.get(index(exported.comm)).map(|&comm| Origin { process: at, comm, rank: exported.rank });
                by_context.entry((host, boot, exported.context)).and_modify(|twice| *twice = None).or_insert(origin);
            }
        }
        Self { by_context, comms: communicators.all.iter().map(|comm| comm.name.as_str()).collect(), processes }
    }

    /// The rank behind a context that a process got from a neighbour.
    pub(crate) fn find(&self, worker: &'a Process, context: u64) -> Option<Origin> {
        let (host, boot) = worker.host();
        let origin = self.by_context.get(&(host, boot, context)).copied()??;
        // NCCL 2.23 passes a context of the worker itself, which does not identify the rank.
        let part = &self.processes.get(origin.process)?.manifest.part;
        (*part != worker.manifest.part).then_some(origin)
    }

    fn comm(&self, origin: Origin) -> &str {
        self.comms.get(index(origin.comm)).copied().unwrap_or("?")
    }

    fn text(&self, origin: Origin) -> String {
        let place = self.processes.get(origin.process).map_or_else(|| "?".to_owned(), Process::place);
        format!("rank {} of {} [{place}]", origin.rank, self.comm(origin))
    }

    /// The rank that a placeholder text stands for; `None` for other texts.
    pub(crate) fn resolve(&self, worker: &'a Process, text: &str) -> Option<String> {
        Some(self.text(self.find(worker, context_of_placeholder(text)?)?))
    }

    /// Adds the properties `NCCL::PXN::…`.
    pub(crate) fn add_to_statements(&self, statements: &mut Statements) {
        let (mut lines, mut operations, mut unresolved) = (Vec::new(), 0, 0);
        for worker in self.processes {
            for work in &worker.manifest.remote_work {
                operations += work.operations;
                let whose = match self.find(worker, work.context) {
                    Some(origin) => self.text(origin),
                    None => {
                        unresolved += work.operations;
                        placeholder(work.context)
                    }
                };
                lines.push(format!(
                    "{whose} by {}: {} transfers, {} bytes sent, {} bytes received, {} ns",
                    worker.place(),
                    work.operations,
                    work.bytes_sent,
                    work.bytes_received,
                    work.busy_ns
                ));
            }
        }
        statements.pxn_transfers = Sum::some(operations);
        statements.pxn_unresolved = Sum::some(unresolved);
        statements.pxn_counted =
            Sum::some(self.processes.iter().map(|process| process.manifest.remote_operations).sum());
        statements.pxn_list = Lines::from_entries(lines);
    }
}
