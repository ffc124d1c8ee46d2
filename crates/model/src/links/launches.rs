//! Infers the kernel launch of an operation, and the replays of a CUDA graph's operations. NCCL does not report the
//! launch: a launch names the API group, as the operation's call does, and a group has a launch for each plan (kernel)
//! of each communicator.
//!
//! ```text
//!  GroupApi ──┬── KernelLaunch 1     Group 1 ── Coll, Coll     the k-th plan has the k-th launch
//!             └── KernelLaunch 2     Group 2 ── P2p
//! ```
//!
//! Plans are mostly reported right after their launch, but all later, by CUDA's callback thread, if the host stream is
//! busy or launches block. So order decides, and time only if the numbers of plans and launches differ: because
//! something was lost, or does not name its plan.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::links::operations::{LinkedOperation, LinkedOperations};
use crate::tables::{ContextName, EventRow, Head, Operation, Row, Tables};
use nccl_events::event::KernelLaunch;
use nccl_events::ids::{index, index_u32};
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Started<R> {
    start: u64,
    of: R,
}

/// Whether the k-th plan of a group on a communicator has the k-th launch: both are equally many, sorted by time, and
/// each launch precedes its plan.
fn in_order<R>(launches: &[Started<R>], plans: impl ExactSizeIterator<Item = u64>) -> bool {
    plans.len() == launches.len() && launches.iter().zip(plans).all(|(launch, plan)| launch.start <= plan)
}

/// The last launch that began at or before `time`; `launches` is sorted by time.
fn last_before<R>(launches: &[Started<R>], time: u64) -> Option<&Started<R>> {
    launches.get(launches.partition_point(|launch| launch.start <= time).checked_sub(1)?)
}

/// A group of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct GroupOfRank {
    /// Handle of an API group or a plan.
    group: u64,
    context: ContextName,
}

/// One execution of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupReplay {
    group: GroupOfRank,
    replay: u64,
}

#[derive(Debug, Default)]
struct Launches {
    /// All launches with a group, sorted by group, communicator and start.
    all: Vec<Started<Row<KernelLaunch>>>,
    /// Index in `all` of the first launch of each group and communicator, in order.
    begins: Vec<(GroupOfRank, usize)>,
    /// Index in `begins` of the last lookup: groups come in order, so the next one is close to it.
    last: Cell<usize>,
}

impl Launches {
    fn new(tables: &Tables) -> Self {
        let with_group = tables.rows::<KernelLaunch>().filter(|(_, launch)| launch.parent != 0);
        let all = with_group.map(|(of, launch)| {
            let group = GroupOfRank { group: launch.parent, context: launch.context };
            (group, Started { start: launch.start, of })
        });
        let mut all: Vec<(GroupOfRank, Started<Row<KernelLaunch>>)> = all.collect();
        nccl_events::sort::sort(&mut all);
        let mut begins: Vec<(GroupOfRank, usize)> = Vec::with_capacity(all.len());
        for (at, (group, _)) in all.iter().enumerate() {
            if begins.last().is_none_or(|(last, _)| last != group) {
                begins.push((*group, at));
            }
        }
        let all = all.into_iter().map(|(_, launch)| launch).collect();
        Self { all, begins, last: Cell::new(0) }
    }

    /// The launches of a group and communicator, by start.
    fn in_group(&self, group: GroupOfRank) -> &[Started<Row<KernelLaunch>>] {
        let is_at = |at: &usize| self.begins.get(*at).is_some_and(|begin| begin.0 == group);
        let last = self.last.get();
        let near = [last, last + 1].into_iter().find(is_at);
        let search = || self.begins.binary_search_by_key(&group, |begin| begin.0).ok();
        let Some(at) = near.or_else(search) else {
            return &[];
        };
        self.last.set(at);
        let begin = |at: usize| self.begins.get(at).map(|begin| begin.1);
        let end = begin(at + 1).unwrap_or(self.all.len());
        begin(at).and_then(|begin| self.all.get(begin..end)).unwrap_or(&[])
    }
}

fn call_of<'a>(tables: &'a Tables, operation: &Operation<'_>) -> Option<(EventRow, &'a Head)> {
    let row = tables.find(operation.parent)?;
    Some((row, tables.head(row)?))
}

/// A plan on its communicator: when it was reported, and the group whose launches it can have.
#[derive(Clone, Copy, Debug)]
struct Plan {
    start: u64,
    group: u64,
    replay: u64,
}

/// The plans by handle and communicator. A plan's group is that of its first task with launches: NCCL gives a launch
/// the group of one task, and groups can be nested.
fn plans(tables: &Tables, operations: &LinkedOperations, launches: &Launches) -> FxHashMap<GroupOfRank, Plan> {
    let tasks = operations.all.iter().map(|linked| (linked, tables.operation(linked.operation)));
    let mut tasks: Vec<_> = tasks.filter(|(_, operation)| operation.plan != 0).collect();
    nccl_events::sort::sort_by_key(&mut tasks, |(_, operation)| operation.start);
    let mut plans: FxHashMap<GroupOfRank, Plan> = FxHashMap::default();
    for (linked, operation) in tasks {
        let Some((_, call)) = call_of(tables, &operation) else {
            continue;
        };
        // A second operation of a call that was not captured is a replay, too: the group's launches are not its own.
        let replay = linked.replay.unwrap_or(linked.repetition);
        let context = operation.context;
        if !launches.in_group(GroupOfRank { group: call.parent, context }).is_empty() {
            plans.entry(GroupOfRank { group: operation.plan, context }).or_insert(Plan {
                start: operation.start,
                group: call.parent,
                replay,
            });
        }
    }
    plans
}

/// Pairs the k-th plan with the k-th launch, if there are equally many.
fn by_order(plans: &FxHashMap<GroupOfRank, Plan>, launches: &Launches) -> FxHashMap<GroupOfRank, Row<KernelLaunch>> {
    let plans = plans.iter().map(|(&plan, found)| {
        let group = GroupOfRank { group: found.group, context: plan.context };
        (GroupReplay { group, replay: found.replay }, found.start, plan)
    });
    let mut plans: Vec<(GroupReplay, u64, GroupOfRank)> = plans.collect();
    nccl_events::sort::sort(&mut plans);
    let mut linked = FxHashMap::default();
    for plans in plans.chunk_by(|a, b| a.0 == b.0) {
        let Some(&(GroupReplay { group, .. }, ..)) = plans.first() else {
            continue;
        };
        let launches = launches.in_group(group);
        if in_order(launches, plans.iter().map(|plan| plan.1)) {
            linked.extend(plans.iter().zip(launches).map(|(plan, launch)| (plan.2, launch.of)));
        }
    }
    linked
}

/// Counts the operations of each call, in the order in which they began.
fn count_repetitions(tables: &Tables, operations: &mut LinkedOperations) {
    let starts = operations.all.iter().map(|linked| tables.operation(linked.operation).start);
    let mut order: Vec<(u64, usize)> = starts.zip(0..).collect();
    // A stable sort is faster here: the input has a few sorted runs.
    order.sort();
    let mut earlier: FxHashMap<EventRow, u64> = FxHashMap::default();
    for (_, at) in order {
        let Some(linked) = operations.all.get_mut(at) else {
            continue;
        };
        if let Some(call) = tables.find(tables.operation(linked.operation).parent) {
            let earlier = earlier.entry(call).or_insert(0);
            linked.repetition = *earlier;
            *earlier += 1;
        }
    }
}

pub fn link_launches(tables: &Tables, operations: &mut LinkedOperations) {
    count_repetitions(tables, operations);
    let launches = Launches::new(tables);
    let plans = plans(tables, operations, &launches);
    let by_order = by_order(&plans, &launches);
    for linked in &mut operations.all {
        let operation = tables.operation(linked.operation);
        let Some((row, call)) = call_of(tables, &operation) else {
            continue;
        };
        let context = operation.context;
        let plan = GroupOfRank { group: operation.plan, context };
        let group = GroupOfRank { group: plans.get(&plan).map_or(call.parent, |plan| plan.group), context };
        let launch = by_order.get(&plan).copied();
        let launch = launch.or_else(|| last_before(launches.in_group(group), operation.start).map(|launch| launch.of));
        if launch.is_some() {
            linked.launch = launch;
            // A second operation of the same call is a replay.
            linked.launch_is_own = !tables.is_captured(row) && linked.repetition == 0;
        }
    }
}

// NCCL reports the operations of a captured call again at each launch of the graph: these are its replays.

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

/// Numbers the replays of each captured call in time order. `known` has the numbers of a running process's operations,
/// by id: their earlier replays have left the tables.
pub fn number_replays(
    tables: &Tables,
    operations: &mut LinkedOperations,
    known: Option<&FxHashMap<u64, u64>>,
) -> Replays {
    let mut replays = Replays::default();
    let captured = captured_calls(tables);
    if captured.is_empty() {
        return replays;
    }
    let launches = || tables.rows::<KernelLaunch>();
    let put_in_graph = launches().filter(|(_, launch)| captured.contains(&(launch.parent, launch.context)));
    replays.captured_launches = put_in_graph.map(|(row, _)| row).collect();
    if let Some(known) = known {
        for linked in &mut operations.all {
            linked.replay = known.get(&tables.operation(linked.operation).id).copied();
        }
        return replays;
    }
    // A thread can have written in several slots.
    let threads: Vec<u32> =
        (0..index_u32(tables.threads.len())).map(|thread| tables.first_index_of_thread(thread)).collect();
    let thread_of = |head: &Head| threads.get(index(head.thread)).copied();
    let launch_threads: BTreeSet<(u64, Option<u32>)> =
        launches().map(|(_, launch)| (launch.parent, thread_of(launch))).collect();
    let mut order: Vec<(EventRow, u64, usize)> = Vec::new();
    for (at, linked) in operations.all.iter_mut().enumerate() {
        let operation = tables.operation(linked.operation);
        let call = tables.find(operation.parent).filter(|&call| tables.is_captured(call));
        let Some((row, call)) = call.and_then(|call| Some((call, tables.head(call)?))) else {
            continue;
        };
        let thread = thread_of(&operation);
        let reported = ReportedOperation {
            start: operation.start,
            is_callers_thread: thread == thread_of(call),
            thread_launched: launch_threads.contains(&(call.parent, thread)),
            group_stop: tables.head_of(call.parent).map(Head::stop),
        };
        if reported.is_at_capture() {
            linked.is_at_capture = true;
        } else {
            order.push((row, operation.start, at));
        }
    }
    nccl_events::sort::sort(&mut order);
    for (call, _, at) in order {
        let seen = replays.of_call.entry(call).or_insert(0);
        *seen += 1;
        if let Some(linked) = operations.all.get_mut(at) {
            linked.replay = Some(*seen);
        }
    }
    replays
}

impl Replays {
    /// How many replays of a captured call NCCL reported.
    pub fn replays_of_call(&self, call: EventRow) -> u64 {
        self.of_call.get(&call).copied().unwrap_or(0)
    }

    /// Whether a launch put its kernel into a graph instead of running it.
    pub fn is_captured_launch(&self, launch: Row<KernelLaunch>) -> bool {
        self.captured_launches.contains(&launch)
    }
}

impl LinkedOperation {
    /// Whether the operation shows that the rank uses graphs.
    pub fn shows_graphs(&self, tables: &Tables) -> bool {
        let thread = tables.operation(self.operation).thread;
        let thread = tables.threads.get(index(thread));
        self.is_at_capture
            || self.replay.is_some()
            || thread.is_some_and(|thread| thread.name.starts_with(CUDA_THREADS))
    }
}

// What NCCL reports of a captured call, during capture and at each launch of the graph:
//
//  capture   GroupApi ── CollApi (graph captured)         once, on the calling thread
//  replay 1      Group ── Coll, parent: that CollApi      CUDA's callback thread
//  replay 2      Group ── Coll, the same parent
//
// A launch plan without network transfers and kernel channels is reported at capture instead, on the calling thread
// inside the call's group. Such a report is not an execution, and NCCL never reports the replays. A nonblocking
// communicator launches from its own thread, perhaps after the group ended: that thread has the kernel launch.

/// An operation of a captured call, as NCCL reported it.
#[derive(Clone, Copy, Debug)]
pub struct ReportedOperation {
    pub start: u64,
    /// Whether the thread is the one that made the call.
    pub is_callers_thread: bool,
    /// Whether the thread launched a kernel of the call's group.
    pub thread_launched: bool,
    /// When the call's group stopped; `None` if the group is unknown.
    pub group_stop: Option<Option<u64>>,
}

impl ReportedOperation {
    /// Whether the operation was reported at capture, the only time when NCCL launches a captured call.
    pub fn is_at_capture(&self) -> bool {
        if self.is_callers_thread {
            self.group_stop.is_some_and(|stop| stop.is_none_or(|stop| self.start <= stop))
        } else {
            self.thread_launched
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launches(starts: &[u64]) -> Vec<Started<u64>> {
        starts.iter().map(|&start| Started { start, of: start }).collect()
    }

    #[test]
    fn the_order_counts_where_there_are_as_many() {
        let is = |starts: &[u64], plans: &[u64]| in_order(&launches(starts), plans.iter().copied());
        assert!(is(&[1, 2], &[5, 6]));
        assert!(!is(&[1, 2], &[5]), "a plan was lost: it may be either");
        assert!(!is(&[1], &[5, 6]), "a launch was lost");
        assert!(!is(&[1, 6], &[2, 5]), "launched after it was reported");
    }

    #[test]
    fn else_it_is_the_last_one_before() {
        let of = |time| last_before(&launches(&[3, 5, 5]), time).map(|launch| launch.of);
        assert_eq!([2, 3, 4, 9].map(of), [None, Some(3), Some(3), Some(5)]);
    }
}
