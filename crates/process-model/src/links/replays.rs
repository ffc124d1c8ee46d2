//! Replays of a CUDA graph: operations that NCCL reports again at each launch of a captured call.

use std::collections::{BTreeMap, BTreeSet};

use super::operations::{Activities, Activity};
use job::capture::Reported;
use nccl_events::ids::{index, index_u32};
use tables::{ContextName, EventRow, Head, KernelLaunch, Row, Tables};

/// Prefix of the names of CUDA's own threads, which report replays and never call NCCL.
const CUDA_THREADS: &str = "cuda";

#[derive(Debug, Default)]
pub struct Replays {
    of_call: BTreeMap<EventRow, u64>,
    /// Launches of captured calls, which put a kernel into a graph.
    captured_launches: BTreeSet<Row<KernelLaunch>>,
}

fn captured_calls(tables: &Tables) -> BTreeSet<(u64, ContextName)> {
    let calls = tables.events.coll_apis.iter().filter(|call| call.fields.graph_captured);
    let messages = tables.events.p2p_apis.iter().filter(|call| call.fields.graph_captured);
    calls.map(|call| (call.parent, call.context)).chain(messages.map(|call| (call.parent, call.context))).collect()
}

/// Numbers the replays of each captured call in time order.
pub(super) fn number(tables: &Tables, activities: &mut Activities) -> Replays {
    let mut replays = Replays::default();
    let captured = captured_calls(tables);
    if captured.is_empty() {
        return replays;
    }
    let launches = || tables.rows::<KernelLaunch>();
    let put_in_graph = launches().filter(|(_, launch)| captured.contains(&(launch.parent, launch.context)));
    replays.captured_launches = put_in_graph.map(|(row, _)| row).collect();
    // A thread can have written in several slots.
    let threads: Vec<u32> =
        (0..index_u32(tables.threads.len())).map(|thread| tables.first_index_of_thread(thread)).collect();
    let thread_of = |head: &Head| threads.get(index(head.thread)).copied();
    let launch_threads: BTreeSet<(u64, Option<u32>)> =
        launches().map(|(_, launch)| (launch.parent, thread_of(launch))).collect();
    let mut order: Vec<(EventRow, u64, usize)> = Vec::new();
    for (at, activity) in activities.all.iter_mut().enumerate() {
        let operation = tables.operation(activity.operation);
        let call = tables.find(operation.parent).filter(|&call| tables.is_captured(call));
        let Some((row, call)) = call.and_then(|call| Some((call, tables.head(call)?))) else {
            continue;
        };
        let thread = thread_of(&operation);
        let reported = Reported {
            start: operation.start,
            is_callers_thread: thread == thread_of(call),
            thread_launched: launch_threads.contains(&(call.parent, thread)),
            group_stop: tables.head_of(call.parent).map(Head::stop),
        };
        if reported.is_at_capture() {
            activity.is_at_capture = true;
        } else {
            order.push((row, operation.start, at));
        }
    }
    nccl_events::sort::sort(&mut order);
    for (call, _, at) in order {
        let seen = replays.of_call.entry(call).or_insert(0);
        *seen += 1;
        if let Some(activity) = activities.all.get_mut(at) {
            activity.replay = Some(*seen);
        }
    }
    replays
}

impl Replays {
    /// How many replays of a captured call NCCL reported.
    pub fn of_call(&self, call: EventRow) -> u64 {
        self.of_call.get(&call).copied().unwrap_or(0)
    }

    /// Whether a launch put its kernel into a graph instead of running it.
    pub fn is_captured_launch(&self, launch: Row<KernelLaunch>) -> bool {
        self.captured_launches.contains(&launch)
    }
}

impl Activity {
    /// Whether the operation shows that the rank uses graphs.
    pub fn shows_graphs(&self, tables: &Tables) -> bool {
        let thread = tables.operation(self.operation).thread;
        let thread = tables.threads.get(index(thread));
        self.is_at_capture
            || self.replay.is_some()
            || thread.is_some_and(|thread| thread.name.starts_with(CUDA_THREADS))
    }
}
