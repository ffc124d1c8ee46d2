//! Gives operations their kernel launches.

use std::cell::Cell;

use rustc_hash::{FxHashMap, FxHashSet};

use super::operations::Activities;
use job::launch::{At, in_order, last_before};
use tables::{ContextName, EventRow, Head, KernelLaunch, Operation, Row, Tables};

/// Handle of an API group or a plan, and the communicator.
type Of = (u64, ContextName);
/// Group, communicator, and number of the replay.
type Sequence = (u64, ContextName, u64);

#[derive(Debug, Default)]
struct Launches {
    /// All launches with a group, sorted by group, communicator and start.
    all: Vec<At<Row<KernelLaunch>>>,
    /// Index in `all` of the first launch of each group and communicator, in order.
    begins: Vec<(Of, usize)>,
    /// Index in `begins` of the last lookup: groups come in order, so the next one is close to it.
    last: Cell<usize>,
}

impl Launches {
    fn new(tables: &Tables) -> Self {
        let with_group = tables.rows::<KernelLaunch>().filter(|(_, launch)| launch.parent != 0);
        let all = with_group.map(|(of, launch)| ((launch.parent, launch.context), At { start: launch.start, of }));
        let mut all: Vec<(Of, At<Row<KernelLaunch>>)> = all.collect();
        nccl_events::sort::sort(&mut all);
        let mut begins: Vec<(Of, usize)> = Vec::with_capacity(all.len());
        for (at, (of, _)) in all.iter().enumerate() {
            if begins.last().is_none_or(|(last, _)| last != of) {
                begins.push((*of, at));
            }
        }
        let all = all.into_iter().map(|(_, launch)| launch).collect();
        Self { all, begins, last: Cell::new(0) }
    }

    /// The launches of a group and communicator, by start.
    fn of(&self, of: Of) -> &[At<Row<KernelLaunch>>] {
        let is_at = |at: &usize| self.begins.get(*at).is_some_and(|begin| begin.0 == of);
        let last = self.last.get();
        let near = [last, last + 1].into_iter().find(is_at);
        let search = || self.begins.binary_search_by_key(&of, |begin| begin.0).ok();
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
fn plans(tables: &Tables, activities: &Activities, launches: &Launches) -> FxHashMap<Of, Plan> {
    let tasks = activities.all.iter().map(|activity| (activity, tables.operation(activity.operation)));
    let mut tasks: Vec<_> = tasks.filter(|(_, operation)| operation.plan != 0).collect();
    nccl_events::sort::sort_by_key(&mut tasks, |(_, operation)| operation.start);
    let mut plans: FxHashMap<Of, Plan> = FxHashMap::default();
    for (activity, operation) in tasks {
        let Some((_, call)) = call_of(tables, &operation) else {
            continue;
        };
        if !launches.of((call.parent, operation.context)).is_empty() {
            plans.entry((operation.plan, operation.context)).or_insert(Plan {
                start: operation.start,
                group: call.parent,
                replay: activity.replay.unwrap_or(0),
            });
        }
    }
    plans
}

/// Pairs the k-th plan with the k-th launch, if there are equally many.
fn by_order(plans: &FxHashMap<Of, Plan>, launches: &Launches) -> FxHashMap<Of, Row<KernelLaunch>> {
    let plans = plans.iter().map(|(&(plan, context), found)| {
        let sequence: Sequence = (found.group, context, found.replay);
        (sequence, found.start, plan)
    });
    let mut plans: Vec<(Sequence, u64, u64)> = plans.collect();
    nccl_events::sort::sort(&mut plans);
    let mut linked = FxHashMap::default();
    for plans in plans.chunk_by(|a, b| a.0 == b.0) {
        let Some(&((group, context, _), ..)) = plans.first() else {
            continue;
        };
        let launches = launches.of((group, context));
        if in_order(launches, plans.iter().map(|plan| plan.1), false) {
            linked.extend(plans.iter().zip(launches).map(|(plan, launch)| ((plan.2, context), launch.of)));
        }
    }
    linked
}

pub(super) fn link(tables: &Tables, activities: &mut Activities) {
    let launches = Launches::new(tables);
    let plans = plans(tables, activities, &launches);
    let by_order = by_order(&plans, &launches);
    let mut calls_seen: FxHashSet<EventRow> = FxHashSet::default();
    for activity in &mut activities.all {
        let operation = tables.operation(activity.operation);
        let Some((row, call)) = call_of(tables, &operation) else {
            continue;
        };
        let plan = (operation.plan, operation.context);
        let group = plans.get(&plan).map_or(call.parent, |plan| plan.group);
        let of = (group, operation.context);
        let launch = by_order.get(&plan).copied();
        let launch = launch.or_else(|| last_before(launches.of(of), operation.start).map(|launch| launch.of));
        if launch.is_some() {
            activity.launch = launch;
            // A second operation of the same call is a replay.
            activity.launch_is_own = !tables.is_captured(row) && calls_seen.insert(row);
        }
    }
}
