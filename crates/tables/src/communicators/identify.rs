//! Finds the communicators of a process and its ranks in them.

use std::collections::BTreeMap;

use super::comm::{Comm, CommIdentity, Member};
use super::devices::Devices;
use super::gpus::{Gpu, place_members};
use crate::index::{index, index_u32};
use crate::{Context, Head, Tables};
use journal::format::record::Symbol;

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
        let rank = u32::try_from(rank).ok();
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

/// Id, number of ranks and rank, if `init` reported them.
fn stated(context: &Context) -> Option<(u64, u32, u32)> {
    let comm = &context.comm;
    let ranks = u32::try_from(comm.ranks).ok()?;
    let rank = u32::try_from(comm.rank).ok().filter(|&rank| rank < ranks)?;
    (comm.comm_id != 0).then_some((comm.comm_id, ranks, rank))
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
            it.see(u32::try_from(p2p.fields.peer).ok());
        }
    }
    for op in &tables.events.proxy_ops {
        if let Some(it) = op.context_at().filter(|_| !tables.is_foreign(op)).and_then(|at| evidence.get_mut(index(at)))
        {
            let rank = u32::try_from(op.rank).ok();
            // A proxy operation's rank is wrong in some releases, a collective's never.
            it.rank = it.rank.or(rank);
            it.see(rank);
            it.see(u32::try_from(op.fields.peer).ok());
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
            if let Some(entry) = comms.comms.get_mut(index(comm)) {
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
