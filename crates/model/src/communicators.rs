//! The communicators of a process, this process's ranks in them, their GPUs, and the threads that call for them. A
//! communicator is identified by NCCL's id, the number of ranks, and the zero-based repetition of that pair: all ranks
//! derive the same identity without communicating. Repetitions are counted per rank, in order of creation, because a
//! process with several GPUs initialises a communicator once for each of its ranks.

use std::collections::{BTreeMap, BTreeSet};

use crate::tables::events::{ContextName, Event, Fields, Head};
use crate::tables::{Coll, CollApi, Context, P2p, P2pApi, Tables, Thread, ThreadKey};
use journal::format::Symbol;
use nccl_events::event::{GroupApi, KernelLaunch};
use nccl_events::gpu::{Device, GpuRecord};
use nccl_events::ids::{index, index_u32};
use nccl_events::sort::Gather;
use nccl_events::{CommInit, MOST_RANKS, Table};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

// NCCL's interface names no device. Which ranks of a process's communicators share a GPU is inferred:
//
// 1. Operations on one CUDA stream are on one GPU. Handles 0, 1, 2 are CUDA's default streams: they exist on every GPU
//    and prove nothing.
// 2. The ranks of one communicator are on different GPUs. The communicator with the most ranks in the process names the
//    GPUs: `GPU of rank 2`.
// 3. If each thread works for only one rank of that communicator, its other calls are on that rank's GPU.
//
// A rank that no rule places gets a GPU of its own: one too many is better than a wrong one. Known devices of ranks
// (`Devices`) take precedence; the rules apply to the rest. Devices that work but have no rank are GPUs, too.

/// A GPU of a process, named after a communicator rank that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// An index in [`Comms::comms`]; `None` if no rank uses the GPU.
    pub comm: Option<u32>,
    pub rank: u32,
    /// Whether the communicator is the one that all GPUs are named after, where possible.
    pub in_largest: bool,
    /// CUDA's ordinal, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
}

#[derive(Debug)]
struct Sets {
    /// Another context of the same set, or the context itself, by index of the context.
    next: Vec<u32>,
    /// The communicators with a rank in the set, by index of the set's first context.
    comms: Vec<BTreeSet<u32>>,
    /// The device of the set, if known, by index of the set's first context.
    ordinals: Vec<Option<u32>>,
}

impl Sets {
    fn new(members: &[Member], devices: &Devices) -> Self {
        Self {
            ordinals: (0..index_u32(members.len())).map(|context| devices.device_of_context(context)).collect(),
            next: (0..index_u32(members.len())).collect(),
            comms: members.iter().map(|member| [member.comm].into_iter().gather()).collect(),
        }
    }

    /// The context that represents the set.
    fn first(&self, mut context: u32) -> u32 {
        while let Some(&next) = self.next.get(index(context))
            && next != context
        {
            context = next;
        }
        context
    }

    /// The device, if known, of the set with this first context.
    fn ordinal(&self, first: u32) -> Option<u32> {
        self.ordinals.get(index(first)).copied().flatten()
    }

    /// Merges two sets, unless that would merge two ranks of one communicator, or two devices.
    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.first(a), self.first(b));
        let of = |set: u32| self.comms.get(index(set));
        let apart = match (of(a), of(b)) {
            (Some(one), Some(other)) => one.is_disjoint(other),
            _ => false,
        };
        let devices = (self.ordinal(a), self.ordinal(b));
        let is_one = !matches!(devices, (Some(one), Some(other)) if one != other);
        if apart && is_one {
            self.unite(a, b);
        }
    }

    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.first(a), self.first(b));
        let (first, other) = (a.min(b), a.max(b));
        if first == other {
            return;
        }
        let moving = self.comms.get(index(other)).cloned().unwrap_or_default();
        let ordinal = self.ordinal(first).or(self.ordinal(other));
        if let Some(comms) = self.comms.get_mut(index(first)) {
            comms.extend(moving);
        }
        if let Some(set_ordinal) = self.ordinals.get_mut(index(first)) {
            *set_ordinal = ordinal;
        }
        if let Some(next) = self.next.get_mut(index(other)) {
            *next = first;
        }
    }
}

/// Finds the GPUs of a process, and the GPU of each member.
pub fn place_members(tables: &Tables, comms: &[Comm], members: &mut [Member], devices: &Devices) -> Vec<Gpu> {
    let Some(largest) = largest(comms, members) else {
        return without_ranks(&[], devices);
    };
    let mut sets = Sets::new(members, devices);
    // Even ranks of one communicator, if the program put them on one device.
    for contexts in devices.contexts().values() {
        for (&a, &b) in contexts.iter().zip(contexts.iter().skip(1)) {
            sets.unite(a, b);
        }
    }
    join_by_stream(tables, members, &mut sets);
    join_by_thread(tables, members, largest, &mut sets);
    // Members of the largest communicator come first, in rank order; then others, by communicator and rank.
    let mut order: Vec<(bool, u32, u32, u32)> = (0..)
        .zip(&*members)
        .map(|(context, member)| (member.comm != largest, member.comm, member.rank, context))
        .collect();
    nccl_events::sort::sort(&mut order);
    let mut gpus = Vec::new();
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for (elsewhere, comm, rank, context) in order {
        let first = sets.first(context);
        let number = *numbers.entry(first).or_insert_with(|| {
            gpus.push(Gpu { comm: Some(comm), rank, in_largest: !elsewhere, ordinal: sets.ordinal(first) });
            index_u32(gpus.len().saturating_sub(1))
        });
        if let Some(member) = members.get_mut(index(context)) {
            member.gpu = number;
        }
    }
    let others = without_ranks(&gpus, devices);
    gpus.extend(others);
    gpus
}

/// Devices that work and have no known rank.
fn without_ranks(gpus: &[Gpu], devices: &Devices) -> Vec<Gpu> {
    let known: BTreeSet<u32> = gpus.iter().filter_map(|gpu| gpu.ordinal).gather();
    let others = devices.with_work.difference(&known);
    others.map(|&ordinal| Gpu { comm: None, rank: 0, in_largest: false, ordinal: Some(ordinal) }).collect()
}

/// The communicator with most ranks in this process, then in total; the first of equals.
fn largest(comms: &[Comm], members: &[Member]) -> Option<u32> {
    let mut here = vec![0_u32; comms.len()];
    for member in members {
        if let Some(count) = here.get_mut(index(member.comm)) {
            *count += 1;
        }
    }
    let sizes = (0..).zip(comms).zip(here).map(|((at, comm), here)| (here, comm.ranks, std::cmp::Reverse(at)));
    sizes.max().map(|(_, _, at)| at.0)
}

/// The highest handle that CUDA gives a special meaning: 0, `cudaStreamLegacy`, `cudaStreamPerThread`.
const LAST_SPECIAL_STREAM: u64 = 2;

/// The streams of calls and launches, with the contexts that use them.
fn streams(tables: &Tables) -> BTreeMap<u64, BTreeSet<u32>> {
    let calls = tables.events.coll_apis.iter().map(|call| (call.fields.stream, call.context));
    let messages = tables.events.p2p_apis.iter().map(|call| (call.fields.stream, call.context));
    let launches = tables.events.kernel_launches.iter().map(|launch| (launch.fields.stream, launch.context));
    let mut users: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    let mut last = None;
    for (stream, context) in calls.chain(messages).chain(launches) {
        // Fast path: consecutive events usually agree.
        if stream <= LAST_SPECIAL_STREAM || last == Some((stream, context)) {
            continue;
        }
        last = Some((stream, context));
        if let Some(context) = context.at() {
            users.entry(stream).or_default().insert(context);
        }
    }
    users
}

fn join_by_stream(tables: &Tables, members: &[Member], sets: &mut Sets) {
    for contexts in streams(tables).values() {
        let comms = contexts.iter().filter_map(|&at| members.get(index(at))).map(|member| member.comm);
        // Two ranks of one communicator: the handle was reused for a stream of another GPU.
        if comms.gather::<BTreeSet<u32>>().len() < contexts.len() {
            continue;
        }
        for (&a, &b) in contexts.iter().zip(contexts.iter().skip(1)) {
            sets.join(a, b);
        }
    }
}

/// The application threads that work with each context, by index of the context.
fn threads(tables: &Tables) -> Vec<BTreeSet<ThreadKey>> {
    let mut threads: Vec<BTreeSet<ThreadKey>> = vec![BTreeSet::new(); tables.contexts.len()];
    let mut add = |context: Option<u32>, thread: u32| {
        let threads = context.and_then(|at| threads.get_mut(index(at)));
        if let (Some(threads), Some(thread)) = (threads, tables.threads.get(index(thread))) {
            threads.insert(thread.key());
        }
    };
    // Not finalize: the last rank's thread does it for all ranks.
    for call in tables.comm_calls.iter().filter(|call| call.is_init) {
        add(call.context, call.thread);
    }
    // Before v5 there are no calls. With calls, a Coll may be a replay on a CUDA thread, so it does not count.
    let mut callers = callers_of_calls(tables);
    callers.extend(callers_of_launches(tables));
    if callers.is_empty() {
        callers = callers_of_operations(tables);
    }
    callers.into_iter().for_each(|(context, thread)| add(context.at(), thread));
    threads
}

fn join_by_thread(tables: &Tables, members: &[Member], largest: u32, sets: &mut Sets) {
    let threads = threads(tables);
    let mut works_for: BTreeMap<ThreadKey, u32> = BTreeMap::new();
    for ((context, member), threads) in (0..).zip(members).zip(&threads) {
        if member.comm != largest {
            continue;
        }
        for &thread in threads {
            if works_for.insert(thread, context).is_some() {
                // A thread that works for several ranks proves nothing.
                return;
            }
        }
    }
    for ((context, member), threads) in (0..).zip(members).zip(&threads) {
        let mut ranks = threads.iter().filter_map(|thread| works_for.get(thread));
        if let Some(&rank) = ranks.next()
            && ranks.all(|&other| other == rank)
            && member.comm != largest
        {
            sets.join(rank, context);
        }
    }
}

/// The communicators of a process, and its ranks in them.
///
/// NCCL's v1–v3 interfaces pass neither id nor rank to `init`. Then the hash in the first operation with one is the id,
/// and that operation's rank the rank; all parts give the size. A communicator without operations is unidentified. So
/// is one with a rank or a size that cannot be: it has one member, and nobody else is in it.
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
    let is_described = Table::from_number(comm.table).is_some_and(|table| table.properties().describes_communicators);
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
        if let Some(context_evidence) = coll.context_at().and_then(|at| evidence.get_mut(index(at))) {
            context_evidence.take_operation(coll, coll.rank, coll.fields.comm_hash);
        }
    }
    for p2p in &tables.events.p2ps {
        if let Some(context_evidence) = p2p.context_at().and_then(|at| evidence.get_mut(index(at))) {
            context_evidence.take_operation(p2p, p2p.rank, p2p.fields.comm_hash);
            context_evidence.see(possible_rank(p2p.fields.peer));
        }
    }
    for op in &tables.events.proxy_ops {
        if let Some(context_evidence) =
            op.context_at().filter(|_| !tables.is_foreign(op)).and_then(|at| evidence.get_mut(index(at)))
        {
            let rank = possible_rank(op.rank);
            // A proxy operation's rank is wrong in some releases, a collective's never.
            context_evidence.rank = context_evidence.rank.or(rank);
            context_evidence.see(rank);
            context_evidence.see(possible_rank(op.fields.peer));
        }
    }
    evidence
}

impl Comms {
    pub fn new(tables: &Tables, devices: &Devices) -> Self {
        let mut comms = Self::default();
        let mut known: BTreeMap<(CommIdentity, u64, u32, u32), u32> = BTreeMap::new();
        let mut repetitions: BTreeMap<(CommIdentity, u64, u32, u32), u32> = BTreeMap::new();
        let evidence = evidence(tables);
        for (context, context_evidence) in tables.contexts.iter().zip(&evidence) {
            let info = &context.comm;
            let (identity, comm_id, ranks, rank) = match (stated(context), context_evidence.rank) {
                (Some((comm_id, ranks, rank)), _) => (CommIdentity::Id, comm_id, ranks, rank),
                // Nobody knows what else of such a communicator is true: it belongs to this rank alone.
                _ if is_impossible(context) => (CommIdentity::Part, context.id, 0, 0),
                (_, Some(rank)) if context_evidence.hash != 0 => (CommIdentity::Hash, context_evidence.hash, 0, rank),
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
                let highest = rank.max(if ranks == 0 { context_evidence.highest } else { 0 });
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

/// The devices of a process, and the devices of its communicators' ranks.
#[derive(Debug, Default)]
pub struct Devices {
    pub facts: BTreeMap<u32, Device<Symbol>>,
    /// The device of each context's rank, by index of the context, if known.
    pub of_context: Vec<Option<u32>>,
    /// Ordinals by CUPTI's device number, where the kernels of communicators show that they differ.
    renumbered: BTreeMap<u32, u32>,
    /// Ordinals of devices with kernels or copies.
    pub with_work: BTreeSet<u32>,
    /// Whether kernels of communicators ran on other devices than the journal names for those communicators.
    pub is_contradicted: bool,
}

impl Devices {
    /// Devices as recorded in the journal, else as the work of ranks shows them.
    pub fn new(tables: &Tables) -> Self {
        let mut devices = Self { of_context: vec![None; tables.contexts.len()], ..Self::default() };
        for at in &tables.gpu {
            match at.record {
                GpuRecord::Device(device) => {
                    devices.facts.insert(device.ordinal, device);
                }
                GpuRecord::DeviceOfCommunicator { ordinal } => {
                    let context = tables.find_context(at.id);
                    devices.put(context, ordinal);
                }
                _ => {}
            }
        }
        let mut by_cupti: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for at in &tables.gpu {
            let (device, is_ordinal) = match at.record {
                GpuRecord::LaunchTime(time) => (time.ordinal, true),
                GpuRecord::Kernel(kernel) => (kernel.device, false),
                GpuRecord::Copy(copy) => (copy.device, false),
                _ => continue,
            };
            let context = tables.head_of(at.id).and_then(Head::context_at);
            if !is_ordinal && let Some(ordinal) = context.and_then(|at| devices.device_of_context(at)) {
                by_cupti.entry(device).or_default().insert(ordinal);
            }
            devices.put(context, device);
        }
        devices.renumber(tables, &by_cupti);
        for at in &tables.gpu {
            let device = match at.record {
                GpuRecord::Kernel(kernel) => kernel.device,
                GpuRecord::Copy(copy) => copy.device,
                _ => continue,
            };
            devices.with_work.insert(devices.ordinal(device));
        }
        devices
    }

    /// Maps CUPTI's devices to the ordinals that communicators use. Unless the mapping is one to one, the devices that
    /// work ran on take precedence.
    fn renumber(&mut self, tables: &Tables, by_cupti: &BTreeMap<u32, BTreeSet<u32>>) {
        let mut ordinals: BTreeSet<u32> = BTreeSet::new();
        let mut numbers = by_cupti.values();
        if numbers.all(|of| of.len() == 1 && of.iter().all(|&ordinal| ordinals.insert(ordinal))) {
            for (&device, of) in by_cupti {
                self.renumbered.extend(of.iter().map(|&ordinal| (device, ordinal)));
            }
            return;
        }
        self.is_contradicted = true;
        for at in &tables.gpu {
            let device = match at.record {
                GpuRecord::Kernel(kernel) => kernel.device,
                GpuRecord::Copy(copy) => copy.device,
                _ => continue,
            };
            let context = tables.head_of(at.id).and_then(Head::context_at);
            let context_device = context.and_then(|at| self.of_context.get_mut(index(at)));
            if let Some(context_device) = context_device {
                *context_device = Some(device);
            }
        }
    }

    fn put(&mut self, context: Option<u32>, ordinal: u32) {
        let context_device = context.and_then(|at| self.of_context.get_mut(index(at)));
        if let Some(context_device) = context_device {
            context_device.get_or_insert(ordinal);
        }
    }

    pub fn device_of_context(&self, context: u32) -> Option<u32> {
        self.of_context.get(index(context)).copied().flatten()
    }

    pub fn ordinal(&self, device: u32) -> u32 {
        self.renumbered.get(&device).copied().unwrap_or(device)
    }

    /// The ranks that use each device: indices of contexts by ordinal.
    pub fn contexts(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut contexts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (context, ordinal) in self.of_context.iter().enumerate() {
            if let Some(ordinal) = ordinal {
                contexts.entry(*ordinal).or_default().push(index_u32(context));
            }
        }
        contexts
    }
}

/// How a communicator is identified across processes, most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommIdentity {
    /// By NCCL's id and the number of ranks.
    Id,
    /// By the hash that its operations carry (v1–v3).
    Hash,
    /// Not identified: the communicator belongs to the process alone.
    Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    pub identity: CommIdentity,
    /// NCCL's id, the hash, or the context.
    pub comm_id: u64,
    /// Number of ranks; 0 if this process does not know.
    pub ranks: u32,
    /// Zero-based index among the communicators with this id and size.
    pub repetition: u32,
    /// The highest rank seen, plus one; 0 if NCCL states an impossible rank.
    pub ranks_seen: u32,
    pub name: Symbol,
    /// Number of hosts; 0 if not reported.
    pub nodes: u32,
}

impl CommIdentity {
    /// A communicator's name: the user's, else its id, with a suffix for repetitions.
    pub fn name<'a>(
        self,
        comm_id: u64,
        repetition: u32,
        given: impl IntoIterator<Item = &'a str>,
        part: &str,
    ) -> String {
        let base = match (given_name(given), self) {
            (Some(name), _) => name.to_owned(),
            (None, Self::Part) => format!("{part} {comm_id:#x}"),
            (None, _) => format!("{comm_id:#x}"),
        };
        match repetition {
            0 => base,
            repetition => format!("{base} #{}", repetition + 1),
        }
    }
}

/// The least of the users' names. Processes may give different names, or unreadable ones, as NCCL does to some
/// communicators that it splits.
pub fn given_name<'a>(given: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let is_readable = |name: &&str| name.chars().any(|letter| !letter.is_control() && !letter.is_whitespace());
    given.into_iter().filter(is_readable).min()
}

/// One rank of a communicator, which a context represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// An index in [`Comms::comms`].
    pub comm: u32,
    pub rank: u32,
    /// An index in [`Comms::gpus`].
    pub gpu: u32,
}

/// Pairs of context and thread, without duplicates.
pub type Callers = FxHashSet<(ContextName, u32)>;

fn add<F: Fields>(callers: &mut Callers, events: &[Event<F>]) {
    let mut last = None;
    for event in events {
        let caller = (event.context, event.thread);
        // Fast path: consecutive events usually have the same caller.
        if last != Some(caller) {
            callers.insert(caller);
            last = Some(caller);
        }
    }
}

pub fn callers_of_calls(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<GroupApi>(&mut callers, &tables.events.group_apis);
    add::<CollApi>(&mut callers, &tables.events.coll_apis);
    add::<P2pApi>(&mut callers, &tables.events.p2p_apis);
    callers
}

pub fn callers_of_launches(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<KernelLaunch>(&mut callers, &tables.events.kernel_launches);
    callers
}

pub fn callers_of_operations(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<Coll>(&mut callers, &tables.events.colls);
    add::<P2p>(&mut callers, &tables.events.p2ps);
    callers
}

/// CUDA's own threads: they call the host functions that NCCL puts into streams and graphs. In these, NCCL reports the
/// operations of a replay, or of a launch on a busy stream.
///
/// Inferred, as no event marks them. A program thread that reports operations has called NCCL or launched (nonblocking
/// communicators); a thread that has done neither is CUDA's. Needs the calls and launches of NCCL 2.28 or later.
pub fn callback_threads(tables: &Tables) -> BTreeSet<ThreadKey> {
    let key = |thread: u32| tables.threads.get(index(thread)).map(Thread::key);
    let threads = |callers: Callers| -> BTreeSet<ThreadKey> {
        callers.into_iter().filter_map(|(_, thread)| key(thread)).gather()
    };
    let mut callers = threads(callers_of_calls(tables));
    let launchers = threads(callers_of_launches(tables));
    if callers.is_empty() || launchers.is_empty() {
        return BTreeSet::new();
    }
    callers.extend(launchers);
    callers.extend(tables.comm_calls.iter().filter_map(|call| key(call.thread)));
    threads(callers_of_operations(tables)).difference(&callers).copied().gather()
}

#[cfg(test)]
mod tests {
    use super::CommIdentity;

    #[test]
    fn a_name_that_nobody_can_read_is_none() {
        let name = |given: &[&str]| CommIdentity::Id.name(0xab, 0, given.iter().copied(), "part");
        for nothing in [&[][..], &[""], &["\u{1}"], &[" \t"]] {
            assert_eq!(name(nothing), "0xab", "{nothing:?}");
        }
        assert_eq!(name(&["\u{1}", "world", "a\u{1}b", ""]), "a\u{1}b");
        assert_eq!(CommIdentity::Part.name(7, 1, ["\u{1}"], "part"), "part 0x7 #2");
    }
}
