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

use std::collections::{BTreeMap, BTreeSet};

use super::operations::{Activities, Activity};
use tables::index::index;
use tables::{ContextName, EventRow, Head, KernelLaunch, Operation, Row, Tables};

/// What CUDA's own threads are called: they tell of replays, nobody calls there.
const CUDA_THREADS: &str = "cuda";

/// What is known of captured calls.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    /// By call: its replays.
    of_call: BTreeMap<EventRow, u64>,
    /// Launches of captured calls: they put a kernel into a graph.
    captured_launches: BTreeSet<Row<KernelLaunch>>,
}

/// Group and context of the captured calls.
fn captured_calls(tables: &Tables) -> BTreeSet<(u64, ContextName)> {
    let calls = tables.events.coll_apis.iter();
    let calls = calls.filter(|call| call.fields.graph_captured);
    let messages = tables.events.p2p_apis.iter();
    let messages = messages.filter(|call| call.fields.graph_captured);
    let groups = calls.map(|call| (call.parent, call.context));
    groups.chain(messages.map(|call| (call.parent, call.context))).collect()
}

/// Whether the group of the call was still under way, on the thread of the call; or it was reported on another thread
/// that launched the group: NCCL launches a captured call only when it is captured.
fn is_reported_at_capture(
    tables: &Tables,
    launch_threads: &BTreeSet<(u64, u32)>,
    operation: &Operation<'_>,
    call: &Head,
) -> bool {
    if operation.thread != call.thread {
        return launch_threads.contains(&(call.parent, operation.thread));
    }
    let group = tables.head_of(call.parent);
    group.is_some_and(|group| group.stop().is_none_or(|stop| operation.start <= stop))
}

/// Numbers the replays of each captured call in the order of time.
pub(super) fn number(tables: &Tables, activities: &mut Activities) -> Replays {
    let mut replays = Replays::default();
    let captured = captured_calls(tables);
    if captured.is_empty() {
        return replays;
    }
    let launches = || tables.rows::<KernelLaunch>();
    let put_in_graph = launches().filter(|(_, launch)| captured.contains(&(launch.parent, launch.context)));
    replays.captured_launches = put_in_graph.map(|(row, _)| row).collect();
    let launch_threads = launches().map(|(_, launch)| (launch.parent, launch.thread)).collect();
    let mut order: Vec<(EventRow, u64, usize)> = Vec::new();
    for (at, activity) in activities.all.iter_mut().enumerate() {
        let operation = tables.operation(activity.operation);
        let call = tables.find(operation.parent);
        let call = call.filter(|&call| tables.is_captured(call));
        let Some((row, call)) = call.and_then(|call| Some((call, tables.head(call)?))) else {
            continue;
        };
        if is_reported_at_capture(tables, &launch_threads, &operation, call) {
            activity.is_at_capture = true;
        } else {
            order.push((row, operation.start, at));
        }
    }
    order.sort_unstable();
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
    #[must_use]
    pub(crate) fn of_call(&self, call: EventRow) -> u64 {
        self.of_call.get(&call).copied().unwrap_or(0)
    }

    /// Whether a launch did not run its kernel but put it into a graph.
    #[must_use]
    pub(crate) fn is_captured_launch(&self, launch: Row<KernelLaunch>) -> bool {
        self.captured_launches.contains(&launch)
    }
}

impl Activity {
    /// Whether the operation tells that the rank uses graphs.
    #[must_use]
    pub(crate) fn tells_of_graphs(&self, tables: &Tables) -> bool {
        let thread = tables.operation(self.operation).thread;
        let thread = tables.threads.get(index(thread));
        self.is_at_capture
            || self.replay.is_some()
            || thread.is_some_and(|thread| thread.name.starts_with(CUDA_THREADS))
    }
}
