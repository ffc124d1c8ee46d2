//! Finds the communicators of a process and its ranks in them.

use std::collections::BTreeMap;

use super::comm::{Comm, CommIdentity, Member};
use super::devices::Devices;
use super::gpus::{Gpu, place_members};
use crate::{Context, Head, Tables};
use journal::format::Symbol;
use nccl_events::ids::{index, index_u32};
use nccl_events::{CommInit, MOST_RANKS, Table};

#[derive(Debug, Default)]
pub struct Comms {
    /// In order of first creation.
    pub comms: Vec<Comm>,
    /// By index of the context.
    pub members: Vec<Member>,
    pub gpus: Vec<Gpu>,
}

/// What the operations of one context show about its communicator.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    hash: u64,
    rank: Option<u32>,
    /// Order of the operation that reported the rank: the last one counts.
    order: u32,
    highest: u32,
}

impl Evidence {
    fn take_operation(&mut self, event: &Head, rank: i32, hash: u64) {
        if self.hash == 0 {
            self.hash = hash;
        }
        let rank = possible_rank(rank);
        if self.rank.is_none() || event.order > self.order {
            self.rank = rank.or(self.rank);
            self.order = event.order;
        }
        self.see(rank);
    }

    fn see(&mut self, rank: Option<u32>) {
        self.highest = self.highest.max(rank.unwrap_or(0));
    }
}

/// A rank that an operation names; `None` if no communicator has it.
fn possible_rank(rank: i32) -> Option<u32> {
    u32::try_from(rank).ok().filter(|rank| *rank < MOST_RANKS)
}

/// Id, number of ranks and rank, if `init` reported them.
fn stated(context: &Context) -> Option<(u64, u32, u32)> {
    let comm = &context.comm;
    let (rank, ranks) = CommInit::possible(comm.rank, comm.ranks)?;
    (comm.comm_id != 0).then_some((comm.comm_id, ranks, rank))
}

/// Whether `init` reported a rank, or a number of ranks, that no communicator can have.
fn is_impossible(context: &Context) -> bool {
    let comm = &context.comm;
    let is_described = Table::of_number(comm.table).is_some_and(|table| table.facts().describes_communicators);
    is_described && CommInit::possible(comm.rank, comm.ranks).is_none()
}

/// Rank and number of ranks of each communicator for which `init` reported impossible ones.
pub fn impossible_ranks(tables: &Tables) -> impl Iterator<Item = (i32, i32)> {
    let impossible = tables.contexts.iter().filter(|context| is_impossible(context));
    impossible.map(|context| (context.comm.rank, context.comm.ranks))
}

fn evidence(tables: &Tables) -> Vec<Evidence> {
    let mut evidence = vec![Evidence::default(); tables.contexts.len()];
    if tables.contexts.iter().all(|context| stated(context).is_some()) {
        return evidence;
    }
    for coll in &tables.events.colls {
        if let Some(it) = coll.context_at().and_then(|at| evidence.get_mut(index(at))) {
            it.take_operation(coll, coll.rank, coll.fields.comm_hash);
        }
    }
    for p2p in &tables.events.p2ps {
        if let Some(it) = p2p.context_at().and_then(|at| evidence.get_mut(index(at))) {
            it.take_operation(p2p, p2p.rank, p2p.fields.comm_hash);
            it.see(possible_rank(p2p.fields.peer));
        }
    }
    for op in &tables.events.proxy_ops {
        if let Some(it) = op.context_at().filter(|_| !tables.is_foreign(op)).and_then(|at| evidence.get_mut(index(at)))
        {
            let rank = possible_rank(op.rank);
            // A proxy operation's rank is wrong in some releases, a collective's never.
            it.rank = it.rank.or(rank);
            it.see(rank);
            it.see(possible_rank(op.fields.peer));
        }
    }
    evidence
}

impl Comms {
    pub fn of(tables: &Tables, devices: &Devices) -> Self {
        let mut comms = Self::default();
        let mut known: BTreeMap<(CommIdentity, u64, u32, u32), u32> = BTreeMap::new();
        let mut repetitions: BTreeMap<(CommIdentity, u64, u32, u32), u32> = BTreeMap::new();
        let evidence = evidence(tables);
        for (context, it) in tables.contexts.iter().zip(&evidence) {
            let info = &context.comm;
            let (identity, comm_id, ranks, rank) = match (stated(context), it.rank) {
                (Some((comm_id, ranks, rank)), _) => (CommIdentity::Id, comm_id, ranks, rank),
                // Nobody knows what else of such a communicator is true: it belongs to this rank alone.
                _ if is_impossible(context) => (CommIdentity::Part, context.id, 0, 0),
                (_, Some(rank)) if it.hash != 0 => (CommIdentity::Hash, it.hash, 0, rank),
                (_, rank) => (CommIdentity::Part, context.id, 0, rank.unwrap_or(0)),
            };
            let repetition =
                repetitions.entry((identity, comm_id, ranks, rank)).and_modify(|next| *next += 1).or_insert(0);
            let key = (identity, comm_id, ranks, *repetition);
            let comm = *known.entry(key).or_insert_with(|| {
                comms.comms.push(Comm {
                    identity,
                    comm_id,
                    ranks,
                    repetition: *repetition,
                    ranks_seen: 0,
                    name: info.name,
                    nodes: u32::try_from(info.nodes).unwrap_or(0),
                });
                index_u32(comms.comms.len().saturating_sub(1))
            });
            if let Some(entry) = comms.comms.get_mut(index(comm)).filter(|_| !is_impossible(context)) {
                let highest = rank.max(if ranks == 0 { it.highest } else { 0 });
                entry.ranks_seen = entry.ranks_seen.max(highest.saturating_add(1));
                if entry.name == Symbol::NONE {
                    entry.name = info.name;
                }
            }
            comms.members.push(Member { comm, rank, gpu: 0 });
        }
        comms.gpus = place_members(tables, &comms.comms, &mut comms.members, devices);
        comms
    }

    pub fn member(&self, context: u32) -> Option<&Member> {
        self.members.get(index(context))
    }

    /// The index in [`Self::gpus`] of the GPU with this ordinal.
    pub fn gpu(&self, ordinal: u32) -> Option<u32> {
        self.gpus.iter().position(|gpu| gpu.ordinal == Some(ordinal)).map(index_u32)
    }

    pub fn comm(&self, member: &Member) -> Option<&Comm> {
        self.comms.get(index(member.comm))
    }
}
