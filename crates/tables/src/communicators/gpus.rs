//! Infers from events which of a process's communicator ranks share a GPU: NCCL's interface names no device.
//!
//! 1. Operations on one CUDA stream are on one GPU. Handles 0, 1, 2 are CUDA's default streams: they exist on every GPU
//!    and prove nothing.
//! 2. The ranks of one communicator are on different GPUs. The communicator with the most ranks in the
//!    process names the GPUs: `GPU of rank 2`.
//! 3. If each thread works for only one rank of that communicator, its other calls are on that rank's GPU.
//!
//! A rank that no rule places gets a GPU of its own: one too many is better than a wrong one.
//!
//! Known devices of ranks ([`crate::communicators::devices`]) take precedence; the rules above apply to the rest.
//! Devices that work but have no rank are GPUs, too.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::callers;
use super::comm::{Comm, Member};
use super::devices::Devices;
use crate::{Tables, ThreadKey};
use nccl_events::ids::{index, index_u32};
use nccl_events::sort::Gather;

/// A GPU of a process, named after a communicator rank that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// An index in [`super::Comms::comms`]; `None` if no rank uses the GPU.
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
            ordinals: (0..index_u32(members.len())).map(|context| devices.of_context(context)).collect(),
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
        if let Some(of_set) = self.ordinals.get_mut(index(first)) {
            *of_set = ordinal;
        }
        if let Some(next) = self.next.get_mut(index(other)) {
            *next = first;
        }
    }
}

/// Finds the GPUs of a process, and the GPU of each member.
pub(super) fn place_members(tables: &Tables, comms: &[Comm], members: &mut [Member], devices: &Devices) -> Vec<Gpu> {
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
    let mut callers = callers::of_calls(tables);
    callers.extend(callers::of_launches(tables));
    if callers.is_empty() {
        callers = callers::of_operations(tables);
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
