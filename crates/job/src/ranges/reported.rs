//! Ranges of NCCL's that repeat what the interface reports: an event of the same function on the same thread began
//! inside the range. A group's event begins with its first call, behind `ncclGroupStart`.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::role::RangeRole;
use journal::format::CommRecord;
use journal::reader::Symbols;
use nccl_events::collective::{ends_communicator, is_of_communicators};
use nccl_events::ids::index;
use nccl_events::range::RangeField;
use tables::ranges::RangeAt;
use tables::{CollApi, CommCall, GroupApi, Head, P2pApi, Row, Tables};

#[derive(Clone, Copy)]
enum What<'a> {
    GroupEnd,
    /// A call, by NCCL's name of its function.
    Call(&'a str, Option<Row<CollApi>>),
    /// An index in [`Tables::comm_calls`].
    CommCall(u32),
}

/// What the interface reports, by thread and time.
type Reports<'a> = Vec<((u32, u64), What<'a>)>;

#[derive(Debug, Default)]
pub(super) struct Reported {
    /// The init or finalize that is shown as the range around it: an index in [`Tables::comm_calls`], by range.
    pub(super) comm_calls: FxHashMap<u32, u32>,
    pub(super) replaced: FxHashSet<u32>,
    /// Ranges of which one or another shows a finalize.
    pub(super) ends: FxHashSet<u32>,
    /// `ncclRedOp_t` of calls, from the ranges around them.
    pub(super) reductions: FxHashMap<Row<CollApi>, u64>,
}

impl Reported {
    pub(super) fn find(
        roles: &mut [RangeRole],
        tables: &Tables,
        symbols: &Symbols,
        derived: impl Iterator<Item = (Row<P2pApi>, &'static str)>,
        threads: &[u32],
    ) -> Self {
        let mut found = Self::default();
        if !roles.contains(&RangeRole::Call) {
            return found;
        }
        let reports = reports(tables, symbols, derived, threads);
        // The innermost range around each init and finalize, and its start.
        let mut around: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
        for (at, (range, role)) in (0..).zip(tables.ranges.all.iter().zip(&mut *roles)) {
            if *role != RangeRole::Call {
                continue;
            }
            let name = symbols.text(range.range.name);
            let inside = inside(&reports, threads, range, tables.span.1);
            if let Some((_, what)) = inside.iter().find(|(_, what)| is_reported(what, name)) {
                *role = RangeRole::Reported;
                if let (&What::Call(_, Some(row)), Some(op)) = (what, range.range.fields.get(RangeField::Reduction)) {
                    found.reductions.insert(row, op);
                }
            }
            for (_, what) in inside.iter().filter(|_| is_of_communicators(name)) {
                if let What::CommCall(call) = what
                    && comm_of(tables, *call).is_none_or(|comm| can_be_of(range, name, comm))
                {
                    let innermost = around.entry(*call).or_insert((at, range.start));
                    if innermost.1 <= range.start {
                        *innermost = (at, range.start);
                    }
                }
            }
        }
        group_starts(tables, symbols, roles, threads);
        // Of several calls inside a range, it is not known which one it shows.
        let mut inside: FxHashMap<u32, u32> = FxHashMap::default();
        around.values().for_each(|(range, _)| *inside.entry(*range).or_default() += 1);
        around.retain(|_, (range, _)| inside.get(range) == Some(&1));
        let covered = elsewhere(tables, symbols, roles, &mut around);
        found.replaced = around.keys().copied().chain(covered.iter().map(|(call, _)| *call)).collect();
        let is_end = |call: u32| tables.comm_calls.get(index(call)).is_some_and(|call| !call.is_init);
        let shown = around.iter().map(|(call, (range, _))| (*call, *range)).chain(covered);
        found.ends = shown.filter(|(call, _)| is_end(*call)).map(|(_, range)| range).collect();
        found.comm_calls = around.into_iter().map(|(call, (range, _))| (range, call)).collect();
        found
    }
}

/// `ncclGroupStart` is reported where the `ncclGroupEnd` is that belongs to it.
fn group_starts(tables: &Tables, symbols: &Symbols, roles: &mut [RangeRole], threads: &[u32]) {
    let mut of_groups: Vec<(u32, u64, usize, bool)> = Vec::new();
    for (at, (range, role)) in tables.ranges.all.iter().zip(&*roles).enumerate() {
        let is_end = match symbols.text(range.range.name) {
            "ncclGroupStart" => false,
            "ncclGroupEnd" => true,
            _ => continue,
        };
        if *role != RangeRole::User {
            let thread = threads.get(index(range.thread)).copied().unwrap_or(range.thread);
            of_groups.push((thread, range.start, at, is_end));
        }
    }
    nccl_events::sort::sort(&mut of_groups);
    let mut open = Vec::new();
    for (thread, _, at, is_end) in of_groups {
        if !is_end {
            open.push((thread, at));
        } else if let Some((_, start)) = open.pop_if(|(of, _)| *of == thread)
            && let Some(of_end) = roles.get(at).copied()
            && let Some(role) = roles.get_mut(start)
        {
            *role = of_end;
        }
    }
}

fn comm_of(tables: &Tables, call: u32) -> Option<&CommRecord> {
    let context = tables.comm_calls.get(index(call))?.context?;
    tables.contexts.get(index(context)).map(|context| &context.comm)
}

/// Whether a range can be the call that makes or ends this communicator's rank.
fn can_be_of(range: &RangeAt, name: &str, comm: &CommRecord) -> bool {
    let field = |field| range.range.fields.get(field);
    // NCCL gives no id before 2.28, and 0 where the range began before the communicator. The rank of a split is the one
    // in the parent. The interface gives none before 2.27.
    let id = field(RangeField::CommId).unwrap_or(0);
    let is_same_id = id == 0 || comm.comm_id == 0 || id == comm.comm_id;
    let has_rank = comm.rank >= 0 && (ends_communicator(name) || name.starts_with("ncclCommInit"));
    let is_same_rank = |rank: u64| i64::from(comm.rank) == rank.cast_signed();
    is_same_id && (!has_rank || field(RangeField::Rank).is_none_or(is_same_rank))
}

/// A range that makes or ends a communicator and that no init or finalize on its thread is shown as.
struct Free<'a> {
    at: u32,
    range: &'a RangeAt,
    name: &'a str,
    /// Some init or finalize is inside it.
    is_used: bool,
}

impl<'a> Free<'a> {
    /// In the order of their begins.
    fn all(
        tables: &'a Tables,
        symbols: &'a Symbols,
        roles: &[RangeRole],
        around: &BTreeMap<u32, (u32, u64)>,
    ) -> Vec<Self> {
        let taken: FxHashSet<u32> = around.values().map(|(range, _)| *range).collect();
        let mut free = Vec::new();
        for (at, (range, role)) in (0_u32..).zip(tables.ranges.all.iter().zip(roles)) {
            let name = symbols.text(range.range.name);
            // The interface has no event inside the first one, and one for each communicator of the other.
            let is_of_one = is_of_communicators(name) && !matches!(name, "ncclCommFinalize" | "ncclCommInitAll");
            if *role == RangeRole::Call && is_of_one && !taken.contains(&at) {
                free.push(Self { at, range, name, is_used: false });
            }
        }
        nccl_events::sort::sort_by_key(&mut free, |one| one.range.start);
        free
    }
}

/// Finds the range of each init and finalize that NCCL calls elsewhere: on a thread of its own, or where the last rank
/// of a process ends the communicator for the others. Returns the calls that are of one of several such ranges, nobody
/// knows which, each with one of these.
fn elsewhere(
    tables: &Tables,
    symbols: &Symbols,
    roles: &[RangeRole],
    around: &mut BTreeMap<u32, (u32, u64)>,
) -> Vec<(u32, u32)> {
    let mut free = Free::all(tables, symbols, roles, around);
    let mut calls: Vec<(u32, &CommCall)> =
        (0..).zip(&tables.comm_calls).filter(|(at, _)| !around.contains_key(at)).collect();
    nccl_events::sort::sort_by_key(&mut calls, |(_, call)| call.start);
    let mut covered = Vec::new();
    for (at, call) in calls {
        let Some(comm) = comm_of(tables, at) else {
            continue;
        };
        let mut candidates: Vec<&mut Free<'_>> = free.iter_mut().collect();
        candidates.retain(|one| {
            let is_kind = ends_communicator(one.name) != call.is_init;
            is_kind && one.range.start <= call.start && can_be_of(one.range, one.name, comm)
        });
        let lasts = |one: &&mut Free<'_>| call.end <= one.range.end(tables.span.1);
        // Who ends a communicator for others does it when their calls have returned.
        if call.is_init && candidates.iter().any(lasts) {
            candidates.retain(lasts);
        }
        // A rank ends a communicator once: other calls with its id failed before.
        let is_of_comm = |one: &&mut Free<'_>| one.range.range.fields.get(RangeField::CommId) == Some(comm.comm_id);
        let has_id = !call.is_init && candidates.iter().any(is_of_comm);
        if has_id {
            candidates.retain(is_of_comm);
        }
        let is_only = candidates.len() == 1;
        let Some(last) = candidates.into_iter().rfind(|one| !one.is_used) else {
            continue;
        };
        last.is_used = true;
        if is_only || has_id {
            around.insert(at, (last.at, last.range.start));
        } else {
            covered.push((at, last.at));
        }
    }
    covered
}

fn is_reported(what: &What<'_>, name: &str) -> bool {
    match what {
        What::GroupEnd => name == "ncclGroupEnd",
        What::Call(func, _) => name.strip_prefix("nccl") == Some(func),
        What::CommCall(_) => false,
    }
}

fn reports<'a>(
    tables: &Tables,
    symbols: &'a Symbols,
    derived: impl Iterator<Item = (Row<P2pApi>, &'static str)>,
    threads: &[u32],
) -> Reports<'a> {
    let place = |thread: u32, time: u64| (threads.get(index(thread)).copied().unwrap_or(thread), time);
    let mut reports = Reports::new();
    for (_, group) in tables.rows::<GroupApi>() {
        reports.extend(group.stop().map(|stop| (place(group.thread, stop), What::GroupEnd)));
    }
    for (row, call) in tables.rows::<CollApi>() {
        let what = What::Call(symbols.text(call.fields.func), Some(row));
        reports.push((place(call.thread, call.start), what));
    }
    for (_, call) in tables.rows::<P2pApi>() {
        reports.push((place(call.thread, call.start), What::Call(symbols.text(call.fields.func), None)));
    }
    for (first, func) in derived {
        let first: &Head = &tables[first];
        reports.push((place(first.thread, first.start), What::Call(func, None)));
    }
    for (at, call) in (0..).zip(&tables.comm_calls) {
        reports.push((place(call.thread, call.start), What::CommCall(at)));
    }
    nccl_events::sort::sort_by_key(&mut reports, |(place, _)| *place);
    reports
}

/// What is reported on the thread of a range while the range lasts.
fn inside<'r, 'a>(
    reports: &'r Reports<'a>,
    threads: &[u32],
    range: &RangeAt,
    last: u64,
) -> &'r [((u32, u64), What<'a>)] {
    let thread = threads.get(index(range.thread)).copied().unwrap_or(range.thread);
    let from = reports.partition_point(|(place, _)| *place < (thread, range.start));
    let to = reports.partition_point(|(place, _)| *place <= (thread, range.end(last)));
    reports.get(from..to).unwrap_or_default()
}
