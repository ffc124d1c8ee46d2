//! Replays of a CUDA graph: what NCCL reports again at each launch of a captured call.
//!
//! ```text
//!  capture   GroupApi ── CollApi (graph captured)         once, on the calling thread
//!  replay 1      Group ── Coll, parent: that CollApi      CUDA's callback thread
//!  replay 2      Group ── Coll, the same parent
//! ```
//!
//! A launch plan without network transfers and kernel channels is reported at capture instead, on the calling
//! thread inside the call's group: that is no execution, and NCCL never tells of its replays. A nonblocking
//! communicator launches from a thread of its own, where the group may be over: that thread has the kernel launch.

use nccl_events::event;
use std::collections::{BTreeMap, BTreeSet};

use crate::tables::assembly::{Assembly, Operation};
use crate::tables::place::index;
use journal::format::record::Symbol;
use nccl_events::Body;
use nccl_events::Kind;

/// What CUDA's own threads are called: they tell of replays, nobody calls there.
const CUDA_THREADS: &str = "cuda";

/// What is known of captured calls.
#[derive(Debug, Default)]
pub struct Replays {
    /// By place of the Coll or P2p: which replay of its call it is, from 1.
    numbers: BTreeMap<u32, u64>,
    /// By place of the call: its replays.
    of_call: BTreeMap<u32, u64>,
    /// Operations that were reported at capture.
    at_capture: BTreeSet<u32>,
    /// Launches of captured calls: they put a kernel into a graph.
    captured_launches: BTreeSet<u32>,
}

/// Whether a call was captured into a graph.
pub(crate) const fn is_captured(call: &Body<Symbol>) -> bool {
    match *call {
        Body::CollApi(event::CollApi { graph_captured, .. })
        | Body::P2pApi(event::P2pApi { graph_captured, .. }) => graph_captured,
        _ => false,
    }
}

/// Group and thread of the launches: NCCL launches a captured call only when it is captured.
fn launch_threads(assembly: &Assembly) -> BTreeSet<(u64, u32)> {
    let launches = assembly.of_kind(Kind::KernelLaunch);
    launches
        .map(|(_, launch)| (launch.parent, launch.thread))
        .collect()
}

/// The launches of groups with a captured call on their communicator: a launch does not say it itself.
fn captured_launches(assembly: &Assembly) -> BTreeSet<u32> {
    let calls = assembly.of_kinds([Kind::CollApi, Kind::P2pApi]);
    let calls = calls.filter(|(_, call)| is_captured(&assembly.fields_of(call)));
    let calls = calls.map(|(_, call)| (call.parent, assembly.context_of(call)));
    let captured: BTreeSet<(u64, u64)> = calls.collect();
    let launches = assembly.of_kind(Kind::KernelLaunch);
    let launches = launches
        .filter(|(_, launch)| captured.contains(&(launch.parent, assembly.context_of(launch))));
    launches.map(|(at, _)| at).collect()
}

/// Whether the group of the call was still under way, on the thread of the call; or it was reported on another thread
/// that launched the group.
fn is_reported_at_capture(
    assembly: &Assembly,
    launch_threads: &BTreeSet<(u64, u32)>,
    operation: &Operation,
    call: &Operation,
) -> bool {
    if operation.thread != call.thread {
        return launch_threads.contains(&(call.parent, operation.thread));
    }

    let group = call.parent_at();
    let group = group.and_then(|at| assembly.operation(at));
    group.is_some_and(|group| group.end().is_none_or(|end| operation.start <= end))
}

impl Replays {
    /// Numbers the replays of each captured call in the order of time.
    #[must_use]
    pub fn of(assembly: &Assembly) -> Self {
        let mut replays = Self::default();
        if !assembly.seen.captured {
            return replays;
        }
        replays.captured_launches = captured_launches(assembly);
        let launch_threads = launch_threads(assembly);
        let mut order: Vec<(u32, u64, u32)> = Vec::new();
        for (at, operation) in assembly.of_kinds([Kind::Coll, Kind::P2p, Kind::CeColl]) {
            let Some(call_at) = operation.parent_at() else {
                continue;
            };
            let Some(call) = assembly
                .operation(call_at)
                .filter(|call| is_captured(&assembly.fields_of(call)))
            else {
                continue;
            };
            if is_reported_at_capture(assembly, &launch_threads, operation, call) {
                replays.at_capture.insert(at);
            } else {
                order.push((call_at, operation.start, at));
            }
        }
        order.sort_unstable();
        for (call, _, at) in order {
            let seen = replays.of_call.entry(call).or_insert(0);
            *seen += 1;
            replays.numbers.insert(at, *seen);
        }
        replays
    }

    /// Which replay of its captured call an operation is, from 1.
    #[must_use]
    pub fn number(&self, operation: u32) -> Option<u64> {
        self.numbers.get(&operation).copied()
    }

    /// Whether an operation tells that the rank uses graphs.
    #[must_use]
    pub fn is_told(&self, assembly: &Assembly, operation: u32) -> bool {
        let thread = assembly.operation(operation).map(|one| one.thread);
        let thread = thread.and_then(|thread| assembly.threads.get(index(thread)));
        self.is_at_capture(operation)
            || self.number(operation).is_some()
            || thread.is_some_and(|thread| thread.name.starts_with(CUDA_THREADS))
    }

    /// How many replays of a captured call NCCL reported.
    #[must_use]
    pub fn of_call(&self, call: u32) -> u64 {
        self.of_call.get(&call).copied().unwrap_or(0)
    }

    /// Whether a launch did not run its kernel but put it into a graph.
    #[must_use]
    pub fn is_captured_launch(&self, launch: u32) -> bool {
        self.captured_launches.contains(&launch)
    }

    /// Whether an operation was reported while it was captured: it did not run then.
    #[must_use]
    pub fn is_at_capture(&self, operation: u32) -> bool {
        self.at_capture.contains(&operation)
    }
}
