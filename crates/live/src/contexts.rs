//! The communicator ranks of a process, and which communicator of the job each belongs to.

use crate::sums::{Communicators, Member};
use journal::format::{Record, RecordBody, Records as _, Symbol};
use journal::reader::{Losses, Removed, Symbols};
use model::communicators::{Comms, Devices};
use model::job::Claim;
use model::tables::builder::TableBuilder;
use nccl_events::ids::{ContextId, index, index_u32};
use nccl_events::{Body, CommInit, Start};
use rustc_hash::FxHashMap;

#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) id: u64,
    is_known: bool,
    /// Whether `init` reported id, size and rank (v4 and later).
    has_identity: bool,
    pub(crate) is_finalized: bool,
    /// Whether an operation reported the hash. `highest` is the highest rank seen.
    has_hash: bool,
    highest: i32,
    pub(crate) member: Option<Member>,
    /// When its last event began, in ticks, and the last end that entered the sums, in ns; 0 before the first.
    pub(crate) last_start: u64,
    pub(crate) last_end_ns: u64,
}

/// The contexts of a process.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    tag: u16,
    pid: u32,
    places: FxHashMap<u64, u32>,
    pub(crate) all: Vec<Context>,
    /// What shows the identities.
    records: Vec<Record>,
    is_changed: bool,
}

impl Contexts {
    pub(crate) fn new(tag: u16, pid: u32) -> Self {
        Self { tag, pid, ..Self::default() }
    }

    /// A context of this process; `None` if it belongs to another.
    #[inline]
    fn place(&mut self, id: u64) -> Option<&mut Context> {
        let place = match self.places.get(&id) {
            Some(&place) => place,
            None => {
                let context = ContextId::from_raw(id);
                if !context.is_context() || context.tag() != self.tag {
                    return None;
                }
                self.add(id)
            }
        };
        self.all.get_mut(index(place))
    }

    fn add(&mut self, id: u64) -> u32 {
        let place = index_u32(self.all.len());
        self.places.insert(id, place);
        self.all.push(Context { id, highest: -1, ..Context::default() });
        place
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Context> {
        self.all.get_mut(index(*self.places.get(&id)?))
    }

    pub(crate) fn member(&self, id: u64) -> Option<Member> {
        self.all.get(index(*self.places.get(&id)?))?.member
    }

    /// Takes in `init`, or a record that repeats it.
    pub(crate) fn init(&mut self, record: &Record) {
        let (RecordBody::CommInit(comm) | RecordBody::CommKnown(comm)) = &record.body else {
            return;
        };
        let place = self.places.get(&record.id).copied().unwrap_or_else(|| self.add(record.id));
        if let Some(context) = self.all.get_mut(index(place)).filter(|context| !context.is_known) {
            context.is_known = true;
            context.has_identity = comm.comm_id != 0 && CommInit::possible(comm.rank, comm.ranks).is_some();
            self.records.push(record.clone());
            self.is_changed = true;
        }
    }

    pub(crate) fn finalize(&mut self, id: u64) {
        // The context's `init` may be in a slot that is read later.
        if let Some(context) = self.place(id) {
            context.is_finalized = true;
        }
    }

    /// Takes in what an event shows about its context, also of the identity if `init` reported none (v1–v3).
    #[inline]
    pub(crate) fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        let own_pid = self.pid;
        if let Body::ProxyOp(op) = &start.body {
            let pid = u32::try_from(op.pid).unwrap_or(0);
            // PXN: a transfer for another process.
            if pid != 0 && own_pid != 0 && pid != own_pid {
                return;
            }
        }
        let Some(context) = self.place(start.context) else {
            return;
        };
        context.last_start = context.last_start.max(ticks);
        if context.has_identity {
            return;
        }
        let (hash, highest) = match &start.body {
            Body::Coll(coll) => (coll.comm_hash, start.rank),
            Body::P2p(p2p) => (p2p.comm_hash, start.rank.max(p2p.peer)),
            Body::ProxyOp(op) => (0, start.rank.max(op.peer)),
            _ => return,
        };
        if hash != 0 && !context.has_hash || highest > context.highest {
            context.has_hash |= hash != 0;
            context.highest = highest.max(context.highest);
            self.records.push(Record { slot, ticks, id, body: RecordBody::Start(*start) });
            self.is_changed = true;
        }
    }

    /// Determines the communicator and rank of each context. `owner` is the number of the process, and its part.
    pub(crate) fn identify(&mut self, communicators: &mut Communicators, symbols: &Symbols, owner: (usize, &str)) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let mut builder = TableBuilder::default();
        for record in &self.records {
            builder.record(record.clone());
        }
        let mut tables = builder.finish(&Losses::default(), &Removed::default(), self.tag);
        tables.process_id = self.pid;
        let comms = Comms::new(&tables, &Devices::default());
        for known in &mut communicators.all {
            known.members.retain(|_, claimant| *claimant != owner.0);
        }
        let numbers = communicators.add(owner, Claim::all(&comms, symbols, |_, _| owner.0));
        for (context, member) in tables.contexts.iter().zip(&comms.members) {
            if let Some(context) = self.get_mut(context.id) {
                let number = numbers.get(index(member.comm));
                context.member = number.map(|&number| Member { communicator: index_u32(number), rank: member.rank });
            }
        }
    }
}
