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

use std::collections::{BTreeMap, BTreeSet};

use super::assembly::{Assembly, Operation};
use super::correlate::Activity;
use super::replays::{Replays, is_captured};
use crate::event::Kind;

/// The handles of an API group and a communicator.
type Of = (u64, u64);
/// The same, and which replay.
type Sequence = (u64, u64, u64);

/// Launches by group and communicator: start and place, in order.
type Launches = BTreeMap<Of, Vec<(u64, u32)>>;

fn launches(assembly: &Assembly) -> Launches {
    let mut launches = Launches::new();
    for (at, operation) in assembly.of_kind(Kind::KernelLaunch) {
        if operation.parent != 0 {
            let of = launches
                .entry((operation.parent, operation.context))
                .or_default();
            of.push((operation.start, at));
        }
    }
    for of in launches.values_mut() {
        of.sort_unstable();
    }
    launches
}

fn call_of<'a>(assembly: &'a Assembly, operation: &Operation) -> Option<&'a Operation> {
    assembly.operation(operation.parent_at()?)
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
fn plans(
    assembly: &Assembly,
    replays: &Replays,
    activities: &[Activity],
    launches: &Launches,
) -> BTreeMap<Of, Plan> {
    let mut tasks: Vec<(u64, u32)> = Vec::with_capacity(activities.len());
    for activity in activities {
        if let Some(operation) = assembly.operation(activity.operation) {
            tasks.push((operation.start, activity.operation));
        }
    }
    tasks.sort_unstable();
    let mut plans: BTreeMap<Of, Plan> = BTreeMap::new();
    for (start, at) in tasks {
        let Some(operation) = assembly.operation(at) else {
            continue;
        };
        let plan = operation.launch_plan();
        let Some(call) = call_of(assembly, operation).filter(|_| plan != 0) else {
            continue;
        };
        if launches.contains_key(&(call.parent, operation.context)) {
            plans.entry((plan, operation.context)).or_insert(Plan {
                start,
                group: call.parent,
                replay: replays.number(at).unwrap_or(0),
            });
        }
    }
    plans
}

/// The k-th launch of the k-th plan, where there are as many.
fn by_order(plans: &BTreeMap<Of, Plan>, launches: &Launches) -> BTreeMap<Of, u32> {
    let mut sequences: BTreeMap<Sequence, Vec<(u64, u64)>> = BTreeMap::new();
    for (&(plan, context), found) in plans {
        let sequence = sequences
            .entry((found.group, context, found.replay))
            .or_default();
        sequence.push((found.start, plan));
    }
    let mut linked = BTreeMap::new();
    for ((group, context, _), mut sequence) in sequences {
        sequence.sort_unstable();
        let Some(launches) = launches.get(&(group, context)) else {
            continue;
        };
        let in_time = launches
            .iter()
            .zip(&sequence)
            .all(|(launch, plan)| launch.0 <= plan.0);
        if launches.len() != sequence.len() || !in_time {
            continue;
        }
        for (&(_, plan), &(_, launch)) in sequence.iter().zip(launches) {
            linked.insert((plan, context), launch);
        }
    }
    linked
}

/// The last launch of the group on the communicator that began by then.
fn last_before(launches: &Launches, of: Of, time: u64) -> Option<u32> {
    let launches = launches.get(&of)?;
    let after = launches.partition_point(|&(start, _)| start <= time);
    let last = launches.get(after.checked_sub(1)?)?;
    Some(last.1)
}

/// Gives operations their launches.
pub(super) fn link(assembly: &Assembly, replays: &Replays, activities: &mut [Activity]) {
    let launches = launches(assembly);
    let plans = plans(assembly, replays, activities, &launches);
    let by_order = by_order(&plans, &launches);
    let mut calls_seen = BTreeSet::new();
    for activity in activities {
        let Some(operation) = assembly.operation(activity.operation) else {
            continue;
        };
        let Some(call) = call_of(assembly, operation) else {
            continue;
        };
        let plan = (operation.launch_plan(), operation.context);
        let group = plans.get(&plan).map_or(call.parent, |plan| plan.group);
        let of = (group, operation.context);
        let launch = by_order
            .get(&plan)
            .copied()
            .or_else(|| last_before(&launches, of, operation.start));
        if let Some(launch) = launch {
            activity.launch = launch;
            // A second operation of one call is a replay.
            activity.launch_is_own = !is_captured(call) && calls_seen.insert(call.id);
        }
    }
}
