//! Communicators of the whole archive: those of the parts put together, every rank with its lane.

use std::collections::BTreeMap;

use crate::archive::job::Process;
use crate::links::pxn::placeholder;
use crate::part::sidecar::{CommDefinition, CommIdentity, LaneDefinition, LaneKind};
use crate::tables::place::{index, place};

/// More ranks than any machine has: a communicator that claims more is read as damaged.
const MOST_RANKS: u32 = 1 << 22;

/// A communicator of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveComm {
    /// Its name.
    pub name: String,
    /// Its lanes in rank order: location ids.
    pub lanes: Vec<u64>,
    /// Ranks without a part, whose lanes are stubs.
    pub missing: Vec<u32>,
    /// Collectives that were not recorded on all ranks with a part.
    pub unmatched: u64,
}

/// A rank that no part has: a location without events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Its location id.
    pub location: u64,
    /// What it is called.
    pub name: String,
}

/// All communicators of an archive.
#[derive(Debug, Default)]
pub struct Members {
    /// The communicators.
    pub comms: Vec<ArchiveComm>,
    /// For each process: the archive's number of each of its communicators.
    pub maps: Vec<Vec<u32>>,
    /// Lanes of ranks that were recorded; their ids are the numbers below this.
    pub recorded: u64,
    /// Ranks without a part; their ids follow.
    pub stubs: Vec<Stub>,
    /// Ranks that two parts claim: the first has it, and the communicator of the other is one of its own.
    pub claimed_twice: u64,
}

type Key = (CommIdentity, u64, u32, u32, Option<u32>);

#[derive(Debug, Default)]
struct Gathered {
    names: Vec<String>,
    ranks: u32,
    /// By rank: the lane, and its collectives on all lanes of that rank.
    lanes: BTreeMap<u32, (u64, u64)>,
}

impl Members {
    /// Puts the communicators of all processes together, in the order of first mention.
    #[must_use]
    pub fn of(processes: &[Process]) -> Self {
        let mut members = Self::default();
        let mut known: BTreeMap<Key, u32> = BTreeMap::new();
        let mut all: Vec<(CommDefinition, String, Gathered)> = Vec::new();
        for process in processes {
            let mut map = Vec::with_capacity(process.sidecar.comms.len());
            let ranks = ranks(process);
            for (comm, ranks) in process.sidecar.comms.iter().zip(&ranks) {
                let key = |comm: &CommDefinition| {
                    let own = (comm.identity == CommIdentity::Part).then_some(process.index);
                    (comm.identity, comm.id, comm.ranks, comm.repetition, own)
                };
                let mut comm = comm.clone();
                let there = known.get(&key(&comm)).and_then(|&at| all.get(index(at)));
                let taken = there.map_or(0, |(_, _, there)| {
                    ranks
                        .iter()
                        .filter(|rank| there.lanes.contains_key(rank))
                        .count() as u64
                });
                if taken > 0 {
                    // They are not the same: a part that was copied, or (v1) an id that communicators share. Whose
                    // the records are is only true of each alone.
                    members.claimed_twice += taken;
                    comm.identity = CommIdentity::Part;
                }
                let number = *known.entry(key(&comm)).or_insert_with(|| {
                    let part = process.sidecar.part.clone();
                    all.push((comm.clone(), part, Gathered::default()));
                    place(all.len().saturating_sub(1))
                });
                if let Some((_, _, gathered)) = all.get_mut(index(number)) {
                    gathered.ranks = gathered.ranks.max(comm.ranks).max(comm.ranks_seen);
                    if !comm.name.is_empty() {
                        gathered.names.push(comm.name.clone());
                    }
                }
                map.push(number);
            }
            Self::add_lanes(process, &map, &mut all);
            members.maps.push(map);
        }
        let lanes = processes.iter().flat_map(Process::lanes);
        members.recorded = lanes.filter(|(_, lane)| stands_for_rank(lane)).count() as u64;
        for (definition, part, gathered) in all {
            members.finish(&definition, &part, gathered);
        }
        members
    }

    fn add_lanes(process: &Process, map: &[u32], all: &mut [(CommDefinition, String, Gathered)]) {
        for (id, lane) in process.lanes() {
            let LaneKind::Communicator { comm, rank, .. } = lane.kind else {
                continue;
            };
            let gathered = map
                .get(index(comm))
                .and_then(|&number| all.get_mut(index(number)));
            let Some((_, _, gathered)) = gathered else {
                continue;
            };
            if lane.sibling > 0 {
                continue;
            }
            gathered.lanes.insert(rank, (id, lane.collectives));
        }
    }

    fn finish(&mut self, definition: &CommDefinition, part: &str, gathered: Gathered) {
        let name = comm_name(definition, gathered.names.into_iter().min(), part);
        let known = gathered.lanes.keys().next_back().map_or(0, |last| last + 1);
        let ranks = if gathered.ranks <= MOST_RANKS {
            gathered.ranks.max(known)
        } else {
            known
        };
        let counts = || gathered.lanes.values().map(|(_, collectives)| *collectives);
        let most = counts().max().unwrap_or(0);
        let mut comm = ArchiveComm {
            unmatched: most - counts().min().unwrap_or(0),
            name,
            lanes: Vec::with_capacity(index(ranks)),
            missing: Vec::new(),
        };
        for rank in 0..ranks {
            let lane = gathered.lanes.get(&rank).map(|(id, _)| *id);
            comm.lanes.push(lane.unwrap_or_else(|| {
                comm.missing.push(rank);
                let location = self.recorded + self.stubs.len() as u64;
                let name = format!("NCCL {} rank {rank}/{ranks} (not recorded)", comm.name);
                self.stubs.push(Stub { location, name });
                location
            }));
        }
        self.comms.push(comm);
    }
}

/// The ranks that a process has in each of its communicators.
fn ranks(process: &Process) -> Vec<Vec<u32>> {
    let mut ranks = vec![Vec::new(); process.sidecar.comms.len()];
    for (_, lane) in process.lanes() {
        if let LaneKind::Communicator { comm, rank, .. } = lane.kind
            && stands_for_rank(lane)
            && let Some(ranks) = ranks.get_mut(index(comm))
        {
            ranks.push(rank);
        }
    }
    ranks
}

/// Whether a lane is the one that stands for its rank in the communicator.
fn stands_for_rank(lane: &LaneDefinition) -> bool {
    lane.sibling == 0 && matches!(lane.kind, LaneKind::Communicator { .. })
}

/// The user's name, else the id; a repetition is told apart.
fn comm_name(definition: &CommDefinition, name: Option<String>, part: &str) -> String {
    let base = match (name, definition.identity) {
        (Some(name), _) => name,
        (None, CommIdentity::Part) => format!("{part} {:#x}", definition.id),
        (None, _) => format!("{:#018x}", definition.id),
    };
    match definition.repetition {
        0 => base,
        repetition => format!("{base} #{}", repetition + 1),
    }
}

/// The name of a lane. `comms` maps the part's communicators to the archive's; `origin` says for which rank of another
/// process the work was done, where that is known.
#[must_use]
pub fn lane_name(
    kind: &LaneKind,
    sibling: u32,
    comms: &[&ArchiveComm],
    origin: Option<&str>,
) -> String {
    use crate::part::sidecar::LaneOwner;
    let comm = |number: u32| comms.get(index(number)).copied();
    let short = |owner: &LaneOwner| match *owner {
        LaneOwner::Rank {
            comm: number, rank, ..
        } => {
            let name = comm(number).map_or("?", |comm| comm.name.as_str());
            format!("{name} r{rank}")
        }
        LaneOwner::Foreign {
            context,
            own: false,
        } => origin.map_or_else(|| placeholder(context), str::to_owned),
        LaneOwner::Foreign { context, own: true } => format!("<lost init {context:#x}>"),
    };
    let name = match kind {
        LaneKind::Thread {
            thread_id,
            is_callback,
            ..
        } => {
            let what = if *is_callback {
                "CUDA callback thread"
            } else {
                "API thread"
            };
            match thread_id {
                0 => what.to_owned(),
                thread_id => format!("{what} {thread_id}"),
            }
        }
        LaneKind::Proxy { thread_id: 0 } => "proxy thread".to_owned(),
        LaneKind::Proxy { thread_id } => format!("proxy thread {thread_id}"),
        LaneKind::Communicator {
            comm: number, rank, ..
        } => {
            let comm = comm(*number);
            let name = comm.map_or("?", |comm| comm.name.as_str());
            let ranks = comm.map_or(0, |comm| comm.lanes.len());
            format!("NCCL {name} rank {rank}/{ranks}")
        }
        LaneKind::Stream {
            context,
            stream,
            is_ambiguous,
            ..
        } => match is_ambiguous {
            false => format!("CUDA stream {stream}"),
            true => format!("CUDA stream {stream} of context {context}"),
        },
        LaneKind::Channel { owner, channel } => format!("NCCL {} ch{channel:02}", short(owner)),
        LaneKind::Net {
            owner,
            channel,
            send,
            peer,
        } => connection(&short(owner), *channel, *send, *peer),
        LaneKind::Step {
            owner,
            channel,
            send,
            peer,
            slot,
        } => {
            let connection = connection(&short(owner), *channel, *send, *peer);
            format!("{connection} s{slot}")
        }
        LaneKind::Plugin {
            owner,
            channel,
            send,
            peer,
            slot,
        } => {
            let connection = connection(&short(owner), *channel, *send, *peer);
            format!("{connection} s{slot} plugin")
        }
    };
    match sibling {
        0 => name,
        sibling => format!("{name} #{}", sibling + 1),
    }
}

fn connection(owner: &str, channel: u8, send: bool, peer: i32) -> String {
    let direction = if send { "send→" } else { "recv←" };
    format!("net {owner} ch{channel:02} {direction}{peer}")
}
