//! Calls of NCCL's API that operations refer to: groups with their calls, launches and plans. Also the members of
//! collectives that NCCL makes of sends and receives.
//!
//! A group is kept until its operations enter the sums, and a captured group as long as there is room: a graph can be
//! replayed as long as the process runs.

use crate::process::{Kept, Lifecycle, SeenIds};
use model::links::launches::ReportedOperation;

use journal::format::Symbol;
use journal::reader::Symbols;
use model::links::derived;
use model::links::derived::Members;
use model::links::intervals::{Interval, enclosing_interval};
use model::links::launches::{Started, in_order, last_before};
use nccl_events::collective::Pattern;
use nccl_events::event::P2pApi;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

const MOST: usize = 1 << 17;

/// Nearly always a single element.
pub(crate) type Few<T> = SmallVec<[T; 1]>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) id: u64,
    pub(crate) start: u64,
    /// 0 if the launch has not returned.
    stop: u64,
    context: u32,
    thread: u32,
}

impl Launch {
    /// When the launch returned; if unknown, when it began.
    pub(crate) const fn returned(&self) -> u64 {
        if self.stop == 0 { self.start } else { self.stop }
    }
}

/// A launch plan (one kernel) with operations of the group's calls, and the start of the first of these.
#[derive(Clone, Copy, Debug)]
struct PlanOfGroup {
    id: u64,
    context: u32,
    start: u64,
}

#[derive(Debug, Default)]
struct Group {
    is_known: bool,
    is_captured: bool,
    depth: i32,
    stop: Option<u64>,
    calls: Few<u64>,
    launches: Few<Launch>,
    plans: Few<PlanOfGroup>,
    messages: Option<Box<Messages>>,
    unserved: u32,
    /// Number of operations that are not in the sums.
    open: u32,
}

impl Group {
    /// Whether no more operations will come: each launch has its plan, or each call its operation.
    fn is_over(&self) -> bool {
        let launched = self.launches.len();
        let is_served = self.unserved == 0 || launched > 0 && self.plans.len() >= launched;
        self.stop.is_some() && self.open == 0 && is_served && !self.is_captured
    }
}

#[derive(Debug)]
struct Messages {
    calls: derived::Calls<u32>,
    /// The collective that the calls form, once determined.
    derived: Option<Option<DerivedCall>>,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    group: u64,
    thread: u32,
    is_captured: bool,
    /// Number of operations, without those at capture.
    operations: u64,
}

#[derive(Debug, Default)]
struct Plan {
    start: Option<u64>,
    /// The groups of the plan's operations, in the order of the operations.
    groups: Few<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfCall {
    /// 0 if the call is unknown.
    group: u64,
    pub(crate) is_captured: bool,
    pub(crate) is_at_capture: bool,
    /// From 1; 0 if the call was not captured.
    pub(crate) replay: u64,
    /// Whether this is the call's first operation. If uncaptured, later ones are replays: the launch is not theirs.
    pub(crate) is_first: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Launches {
    all: Few<Started<Launch>>,
    /// The launch at the same position in the order of launches as the plan in the order of plans.
    by_order: Option<Launch>,
}

impl Launches {
    pub(crate) fn of(&self, start: u64, call: &OfCall) -> Option<Launch> {
        self.by_order.or_else(|| last_before(&self.all, start).map(|launch| launch.of)).filter(|_| !call.is_captured)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    groups: Kept<Group>,
    calls: FxHashMap<u64, Call>,
    /// The group of each launch that has not returned, by the launch's id.
    launching: FxHashMap<u64, u64>,
    plans: Kept<Plan>,
    /// Calls dropped before they had an operation, because there were too many.
    pub(crate) late: u64,
}

impl Calls {
    /// Adds a call to its group and returns the group; a call outside groups gets a group of its own.
    fn add(&mut self, id: u64, (ticks, thread, group): (u64, u32, u64), is_captured: bool) -> &mut Group {
        let group_id = if group == 0 { id } else { group };
        self.calls.insert(id, Call { group: group_id, thread, is_captured, operations: 0 });
        let group = self.groups.get_or(group_id, ticks, Group::default);
        group.calls.push(id);
        group.unserved += 1;
        group.is_captured |= is_captured;
        group
    }

    pub(crate) fn start_call(&mut self, id: u64, at: (u64, u32, u64), is_captured: bool) {
        self.add(id, at, is_captured);
    }

    pub(crate) fn start_message(&mut self, id: u64, at: (u64, u32, u64), (context, call): (u32, &P2pApi<Symbol>)) {
        let group = self.add(id, at, call.graph_captured);
        match &mut group.messages {
            Some(messages) => messages.calls.add(context, call),
            None => {
                group.messages = Some(Box::new(Messages { calls: derived::Calls::new(context, call), derived: None }));
            }
        }
    }

    pub(crate) fn start_group(&mut self, id: u64, ticks: u64, depth: i32) {
        let group = self.groups.get_or(id, ticks, Group::default);
        (group.is_known, group.depth) = (true, depth);
    }

    pub(crate) fn stop_group(&mut self, id: u64, ticks: u64, seen: &SeenIds) {
        // NCCL 2.28–2.32 stops stale handles again.
        if self.groups.get(id).is_none() && seen.lifecycle(id) != Lifecycle::NotStarted {
            return;
        }
        let group = self.groups.get_or(id, ticks, Group::default);
        group.stop.get_or_insert(ticks);
        if group.is_over() {
            self.forget_group(id);
        }
    }

    pub(crate) fn start_launch(&mut self, id: u64, (ticks, thread, group): (u64, u32, u64), context: u32) {
        if group != 0 {
            let launch = Launch { id, context, thread, start: ticks, stop: 0 };
            self.groups.get_or(group, ticks, Group::default).launches.push(launch);
            self.launching.insert(id, group);
        }
    }

    pub(crate) fn stop_launch(&mut self, id: u64, ticks: u64) {
        let group = self.launching.remove(&id).and_then(|group| self.groups.get_mut(group));
        let launch = group.and_then(|group| group.launches.iter_mut().find(|launch| launch.id == id));
        if let Some(launch) = launch {
            launch.stop = ticks;
        }
    }

    pub(crate) fn start_plan(&mut self, id: u64, ticks: u64) {
        self.plans.get_or(id, ticks, Plan::default).start = Some(ticks);
    }

    /// Links an operation (context, thread, plan) with its call; also returns the plan's start. Must be called in the
    /// order of starts, once all threads have been read up to the operation's start.
    pub(crate) fn arrange(
        &mut self,
        call: u64,
        start: u64,
        (context, thread, plan_id): (u32, u32, u64),
    ) -> (OfCall, Option<u64>) {
        let plan = (plan_id != 0).then(|| self.plans.get_or(plan_id, start, Plan::default));
        let enqueued = plan.as_ref().and_then(|plan| plan.start);
        let call = self.calls.get_mut(&call);
        let Some((call, group)) = call.and_then(|call| self.groups.get_mut(call.group).map(|group| (call, group)))
        else {
            return (OfCall::default(), enqueued);
        };
        let mut of_call = OfCall { group: call.group, is_captured: call.is_captured, ..OfCall::default() };
        group.open += 1;
        let reported = ReportedOperation {
            start,
            is_callers_thread: thread == call.thread,
            thread_launched: group.launches.iter().any(|launch| launch.thread == thread),
            group_stop: group.is_known.then_some(group.stop),
        };
        if call.is_captured && reported.is_at_capture() {
            return (OfCall { is_at_capture: true, ..of_call }, enqueued);
        }
        call.operations += 1;
        if call.is_captured {
            return (OfCall { replay: call.operations, ..of_call }, enqueued);
        }
        of_call.is_first = call.operations == 1;
        group.unserved = group.unserved.saturating_sub(of_call.is_first.into());
        if let Some(plan) = plan
            && !plan.groups.contains(&call.group)
        {
            plan.groups.push(call.group);
            group.plans.push(PlanOfGroup { id: plan_id, context, start });
        }
        (of_call, enqueued)
    }

    fn launches_of(&self, group: u64, context: u32) -> Few<Started<Launch>> {
        let group = self.groups.get(group).into_iter();
        let of_context = group.flat_map(|group| group.launches.iter()).filter(|launch| launch.context == context);
        let mut launches: Few<Started<Launch>> =
            of_context.map(|launch| Started { start: launch.start, of: *launch }).collect();
        launches.sort_by_key(|launch| launch.start);
        launches
    }

    /// The group whose launches a plan can have: the first group of its operations that has launches. NCCL gives a
    /// launch the group of one operation, and groups can be nested.
    fn group_of_plan(&self, plan: u64, context: u32) -> Option<u64> {
        let has_launches = |group: &u64| {
            let group = self.groups.get(*group);
            group.is_some_and(|group| group.launches.iter().any(|launch| launch.context == context))
        };
        self.plans.get(plan)?.groups.iter().copied().find(has_launches)
    }

    /// The launches of a kernel entering the sums, found by its plan, or by its only operation if the plan is unknown.
    pub(crate) fn launches(&self, plan: u64, call: &OfCall, context: u32) -> Launches {
        let group = if plan == 0 { Some(call.group) } else { self.group_of_plan(plan, context) };
        let Some(group) = group else {
            return Launches::default();
        };
        let all = self.launches_of(group, context);
        let by_order = if all.len() < 2 { None } else { self.by_order(plan, &all, (group, context)) };
        Launches { all, by_order }
    }

    fn by_order(&self, plan: u64, launches: &[Started<Launch>], (id, context): (u64, u32)) -> Option<Launch> {
        let group = self.groups.get(id)?;
        // Plans already in the sums remain only in the list of their group.
        let is_of_group = |plan: &&PlanOfGroup| {
            let is_open = self.plans.get(plan.id).is_some();
            plan.context == context && (!is_open || self.group_of_plan(plan.id, context) == Some(id))
        };
        let mut plans: Vec<&PlanOfGroup> = group.plans.iter().filter(is_of_group).collect();
        plans.sort_by_key(|plan| (plan.start, plan.id));
        let at = plans.iter().position(|known| known.id == plan)?;
        let is_in_order = in_order(launches, plans.iter().map(|plan| plan.start), group.unserved > 0);
        launches.get(at).filter(|_| is_in_order).map(|launch| launch.of)
    }

    /// The collective that a send or receive belongs to, and its group. `ranks` returns the rank and size of a context.
    pub(crate) fn derived(
        &mut self,
        call: &OfCall,
        symbols: &Symbols,
        ranks: impl Fn(u32) -> Option<(i32, usize)>,
    ) -> Option<(u64, DerivedCall)> {
        let messages = self.groups.get_mut(call.group).filter(|group| group.depth == 1)?.messages.as_mut()?;
        let calls = &messages.calls;
        let derived = messages.derived.get_or_insert_with(|| {
            let derived::CommonArguments { context, count, datatype, .. } = calls.common()?;
            let (rank, ranks) = ranks(context)?;
            Some(DerivedCall { pattern: calls.pattern(ranks, symbols)?, context, count, datatype, rank, ranks })
        });
        Some((call.group, (*derived)?))
    }

    /// Notes that the calls of a group form no collective after all.
    pub(crate) fn reject_collective(&mut self, group: u64) {
        if let Some(messages) = self.groups.get_mut(group).and_then(|group| group.messages.as_mut()) {
            messages.derived = Some(None);
        }
    }

    /// Whether a group has operations that are not in the sums yet. For a captured group, any replay may have them.
    pub(crate) fn has_open(&self, group: u64) -> bool {
        self.groups.get(group).is_some_and(|group| group.open > 0 && !group.is_captured)
    }

    /// Removes a kernel whose operations entered the sums.
    pub(crate) fn end_kernel(&mut self, plan: u64, context: u32, operations: impl Iterator<Item = OfCall>) {
        if self.plans.get(plan).is_some_and(|plan| plan.groups.len() > 1)
            && let Some(of_plan) = self.group_of_plan(plan, context)
        {
            let groups = self.plans.get(plan).map(|plan| plan.groups.clone());
            for other in groups.unwrap_or_default().into_iter().filter(|group| *group != of_plan) {
                if let Some(group) = self.groups.get_mut(other) {
                    group.plans.retain(|known| known.id != plan);
                }
            }
        }
        self.plans.remove(plan);
        for call in operations {
            if let Some(group) = self.groups.get_mut(call.group) {
                group.open = group.open.saturating_sub(1);
                if group.is_over() {
                    self.forget_group(call.group);
                }
            }
        }
    }

    /// Drops groups and plans without operations since `before`; everything up to `now` was read.
    pub(crate) fn forget(&mut self, before: u64, now: u64) {
        while let Some(id) = self.groups.oldest(before) {
            match self.groups.get(id).is_some_and(|group| group.open > 0 || group.is_captured) {
                true => self.groups.keep_again(id, now),
                false => self.forget_group(id),
            }
        }
        while self.calls.len() > MOST
            && let Some(id) = self.groups.oldest(u64::MAX)
        {
            self.late += self.groups.get(id).map_or(0, |group| group.unserved.into());
            self.forget_group(id);
        }
        while let Some(id) = self.plans.oldest(before) {
            match self.plans.get(id).is_some_and(|plan| !plan.groups.is_empty()) {
                true => self.plans.keep_again(id, now),
                false => drop(self.plans.remove(id)),
            }
        }
    }

    fn forget_group(&mut self, id: u64) {
        if let Some(group) = self.groups.remove(id) {
            for call in group.calls.iter() {
                self.calls.remove(call);
            }
            for launch in group.launches.iter().filter(|launch| launch.stop == 0) {
                self.launching.remove(&launch.id);
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DerivedCall {
    pub(crate) pattern: Pattern,
    pub(crate) context: u32,
    pub(crate) count: u64,
    pub(crate) datatype: Symbol,
    /// This rank, and the number of ranks.
    pub(crate) rank: i32,
    pub(crate) ranks: usize,
}

#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) call: DerivedCall,
    pub(crate) interval: Interval,
    members: Members,
    last: u64,
}

/// Collectives that NCCL makes of sends and receives: executions that are not in the sums, by group and replay.
#[derive(Debug, Default)]
pub(crate) struct Derived(FxHashMap<(u64, u64), Execution>);

impl Derived {
    /// Adds a member that ended, with its group and replay, function and peer, and the ticks of its last record.
    pub(crate) fn add(
        &mut self,
        (group, replay): (u64, u64),
        call: DerivedCall,
        (func, peer): (&str, i32),
        (interval, last): (Interval, u64),
    ) {
        let new = || Execution { call, interval, members: Members::new(call.rank, call.ranks), last };
        let one = self.0.entry((group, replay)).or_insert_with(new);
        one.interval = enclosing_interval([one.interval, interval].into_iter()).unwrap_or(interval);
        one.last = last.max(one.last);
        one.members.add(func, peer);
    }

    /// Removes and returns executions without open members and without records since `before`, with their groups.
    pub(crate) fn take(&mut self, before: u64, has_open: impl Fn(u64) -> bool) -> Vec<(u64, Execution)> {
        let over = self.0.extract_if(|(group, _), one| one.last < before && !has_open(*group));
        let mut over: Vec<_> = over.collect();
        nccl_events::sort::sort_by_key(&mut over, |(key, _)| *key);
        over.into_iter().map(|((group, _), one)| (group, one)).collect()
    }
}

impl Execution {
    /// Whether all sends and receives are known; `None` if they belong to another call after all.
    pub(crate) fn is_whole(&self) -> Option<bool> {
        Some(self.members.missing(self.call.pattern)? == 0)
    }
}

#[cfg(test)]
mod tests;
