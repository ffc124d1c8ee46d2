//! The communicator ranks of a process.

use job::communicators::Claim;
use job::interval::Earlier;
use journal::format::{Record, RecordBody, Records, Symbol};
use journal::reader::{Losses, Removed, Symbols};
use nccl_events::ids::ContextId;
use nccl_events::ids::{index, index_u32};
use nccl_events::{Body, CommInit};
use rustc_hash::FxHashMap;
use tables::builder::TableBuilder;
use tables::communicators::Comms;
use tables::communicators::devices::Devices;

use super::gpu::RecentBounds;
use crate::sums::{Communicators, Member};

#[derive(Debug, Default)]
pub(crate) struct Context {
    is_known: bool,
    /// Whether `init` reported id, size and rank (v4 and later).
    has_identity: bool,
    pub(crate) is_finalized: bool,
    pub(crate) by_init: (i32, i32),
    /// Whether an operation reported the hash. `highest` is the highest rank seen.
    has_hash: bool,
    highest: i32,
    pub(crate) member: Option<Member>,
    pub(crate) last: u64,
    /// Starts and ids of operations up to whose start not all threads were read.
    pub(crate) coming: Vec<(u64, u64)>,
    /// The other open operations.
    pub(crate) queue: Vec<u64>,
    pub(crate) earlier: Earlier,
    /// Whether NCCL ever reported when an operation ran.
    pub(crate) reports_times: bool,
    pub(crate) gpu: RecentBounds,
}

#[derive(Debug, Default)]
pub(crate) struct Contexts {
    tag: u16,
    pid: u32,
    places: FxHashMap<u64, u32>,
    pub(crate) all: Vec<Context>,
    records: Vec<Record>,
    is_changed: bool,
}

impl Contexts {
    pub(crate) fn new(tag: u16, pid: u32) -> Self {
        Self { tag, pid, ..Self::default() }
    }

    /// The index of a context; `None` if it belongs to another process.
    #[inline]
    pub(crate) fn place(&mut self, id: u64) -> Option<u32> {
        if let Some(&place) = self.places.get(&id) {
            return Some(place);
        }
        let context = ContextId::from_raw(id);
        (context.is_context() && context.tag() == self.tag).then(|| self.add(id))
    }

    fn add(&mut self, id: u64) -> u32 {
        let place = index_u32(self.all.len());
        self.places.insert(id, place);
        self.all.push(Context { highest: -1, ..Context::default() });
        place
    }

    pub(crate) fn get(&self, place: u32) -> Option<&Context> {
        self.all.get(index(place))
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut Context> {
        self.all.get_mut(index(place))
    }

    /// Takes in `init`, or a record that repeats it.
    pub(crate) fn init(&mut self, record: Record) {
        let place = self.places.get(&record.id).copied().unwrap_or_else(|| self.add(record.id));
        let (RecordBody::CommInit(comm) | RecordBody::CommKnown(comm)) = &record.body else {
            return;
        };
        if let Some(context) = self.all.get_mut(index(place)).filter(|context| !context.is_known) {
            context.is_known = true;
            let is_possible = CommInit::possible(comm.rank, comm.ranks).is_some();
            context.by_init = if is_possible { (comm.rank, comm.ranks) } else { (-1, 0) };
            context.has_identity = comm.comm_id != 0 && is_possible;
            self.records.push(record);
            self.is_changed = true;
        }
    }

    pub(crate) fn finalize(&mut self, id: u64) {
        // The context's `init` may be in a slot that is read later.
        if let Some(context) = self.place(id).and_then(|place| self.get_mut(place)) {
            context.is_finalized = true;
        }
    }

    /// Records what an operation or transfer shows about a context's identity, if `init` reported none (v1–v3).
    #[inline]
    pub(crate) fn record_identity_evidence(
        &mut self,
        place: u32,
        record: impl FnOnce() -> Record,
        body: &Body<Symbol>,
        rank: i32,
    ) {
        let Some(context) = self.all.get_mut(index(place)).filter(|context| !context.has_identity) else {
            return;
        };
        let (hash, highest) = match body {
            Body::Coll(coll) => (coll.comm_hash, rank),
            Body::P2p(p2p) => (p2p.comm_hash, rank.max(p2p.peer)),
            Body::ProxyOp(op) => (0, rank.max(op.peer)),
            _ => return,
        };
        if hash != 0 && !context.has_hash || highest > context.highest {
            context.has_hash |= hash != 0;
            context.highest = highest.max(context.highest);
            self.records.push(record());
            self.is_changed = true;
        }
    }

    /// Determines the communicator and rank of each context.
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
        let comms = Comms::of(&tables, &Devices::default());
        for known in &mut communicators.all {
            known.members.retain(|_, claimant| *claimant != owner.0);
        }
        let numbers = communicators.add(owner, Claim::all(&comms, symbols, |_, _| owner.0));
        for (context, member) in tables.contexts.iter().zip(&comms.members) {
            if let Some(context) = self.places.get(&context.id).and_then(|&place| self.all.get_mut(index(place))) {
                let number = numbers.get(index(member.comm));
                context.member = number.map(|&number| Member { communicator: index_u32(number), rank: member.rank });
            }
        }
    }
}
