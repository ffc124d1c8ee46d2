//! Which kernel launch an operation had. NCCL does not say: a launch names the API group, as the operation's call
//! does, and a group has a launch for each plan (kernel) of each communicator.
//!
//! ```text
//!  GroupApi ──┬── KernelLaunch 1     Group 1 ── Coll, Coll     the k-th plan has the k-th launch
//!             └── KernelLaunch 2     Group 2 ── P2p
//! ```
//!
//! Plans are mostly reported right after their launch, but all later, by CUDA's callback thread, where the host stream
//! is busy or launches block. So the order counts, and time only where the numbers of plans and launches differ:
//! because something was lost, or does not name its plan.

use std::cell::Cell;

use rustc_hash::{FxHashMap, FxHashSet};

use super::operations::Activities;
use tables::{ContextName, EventRow, Head, KernelLaunch, Operation, Row, Tables};

/// The handles of an API group, or a plan, and the communicator.
type Of = (u64, ContextName);
/// The same, and which replay.
type Sequence = (u64, ContextName, u64);

/// Launches by group and communicator.
#[derive(Debug, Default)]
struct Launches {
    /// All: of which, start and row, in order.
    all: Vec<Launch>,
    /// Where in them those of each group and communicator begin, in order.
    begins: Vec<(Of, usize)>,
    /// Which were asked for last: groups come in order, so the next ones are beside them.
    last: Cell<usize>,
}

/// A launch: of which, start and row.
type Launch = (Of, u64, Row<KernelLaunch>);

impl Launches {
    fn new(tables: &Tables) -> Self {
        let with_group = tables.rows::<KernelLaunch>().filter(|(_, launch)| launch.parent != 0);
        let all = with_group.map(|(row, launch)| ((launch.parent, launch.context), launch.start, row));
        let mut all: Vec<Launch> = all.collect();
        all.sort_unstable();
        let mut begins: Vec<(Of, usize)> = Vec::with_capacity(all.len());
        for (at, (of, ..)) in all.iter().enumerate() {
            if begins.last().is_none_or(|(last, _)| last != of) {
                begins.push((*of, at));
            }
        }
        Self { all, begins, last: Cell::new(0) }
    }

    /// Those of a group and communicator, by start; none where there are none.
    fn of(&self, of: Of) -> &[Launch] {
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
        let of_it = begin(at).and_then(|begin| self.all.get(begin..end));
        of_it.unwrap_or(&[])
    }
}

fn call_of<'a>(tables: &'a Tables, operation: &Operation<'_>) -> Option<(EventRow, &'a Head)> {
    let row = tables.find(operation.parent)?;
    Some((row, tables.head(row)?))
}

/// A plan on its communicator: when it was reported, and the group whose launches it may have.
#[derive(Clone, Copy, Debug)]
struct Plan {
    start: u64,
    group: u64,
    replay: u64,
}

/// The plans by handle and communicator. The group of one is that of its first task that has launches: NCCL gives a
/// launch the group of one task, and groups may be nested.
fn plans(tables: &Tables, activities: &Activities, launches: &Launches) -> FxHashMap<Of, Plan> {
    let tasks = activities.all.iter().map(|activity| (activity, tables.operation(activity.operation)));
    let tasks = tasks.filter(|(_, operation)| operation.plan != 0);
    let mut tasks: Vec<_> = tasks.collect();
    tasks.sort_by_key(|(_, operation)| operation.start);
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

/// The k-th launch of the k-th plan, where there are as many.
fn by_order(plans: &FxHashMap<Of, Plan>, launches: &Launches) -> FxHashMap<Of, Row<KernelLaunch>> {
    let plans = plans.iter().map(|(&(plan, context), found)| {
        let sequence: Sequence = (found.group, context, found.replay);
        (sequence, found.start, plan)
    });
    let mut plans: Vec<(Sequence, u64, u64)> = plans.collect();
    plans.sort_unstable();
    let mut linked = FxHashMap::default();
    for plans in plans.chunk_by(|a, b| a.0 == b.0) {
        let Some(&((group, context, _), ..)) = plans.first() else {
            continue;
        };
        let launches = launches.of((group, context));
        let mut pairs = launches.iter().zip(plans);
        let in_time = pairs.all(|(launch, plan)| launch.1 <= plan.1);
        if launches.len() == plans.len() && in_time {
            let pairs = plans.iter().zip(launches);
            linked.extend(pairs.map(|(plan, launch)| ((plan.2, context), launch.2)));
        }
    }
    linked
}

/// The last launch of the group on the communicator that began by then.
fn last_before(launches: &Launches, of: Of, time: u64) -> Option<Row<KernelLaunch>> {
    let launches = launches.of(of);
    let after = launches.partition_point(|&(_, start, _)| start <= time);
    let last = launches.get(after.checked_sub(1)?)?;
    Some(last.2)
}

/// Gives operations their launches.
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
        let launch = launch.or_else(|| last_before(&launches, of, operation.start));
        if launch.is_some() {
            activity.launch = launch;
            // A second operation of one call is a replay.
            activity.launch_is_own = !tables.is_captured(row) && calls_seen.insert(row);
        }
    }
}
