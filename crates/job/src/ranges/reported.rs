//! Ranges of NCCL's that repeat what the interface reports: an event of the same function on the same thread began
//! inside the range.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::role::RangeRole;
use journal::reader::Symbols;
use nccl_events::collective::{ends_communicator, is_of_communicators};
use nccl_events::range::RangeField;
use tables::index::index;
use tables::ranges::RangeAt;
use tables::{CollApi, GroupApi, Head, P2pApi, Row, Tables};

#[derive(Clone, Copy)]
enum What<'a> {
    GroupStart,
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
                if let What::CommCall(call) = what {
                    let innermost = around.entry(*call).or_insert((at, range.start));
                    if innermost.1 <= range.start {
                        *innermost = (at, range.start);
                    }
                }
            }
        }
        elsewhere(tables, symbols, roles, &mut around);
        found.replace(around);
        found
    }

    /// Shows each init or finalize as the range around it, unless the range is around several.
    fn replace(&mut self, around: BTreeMap<u32, (u32, u64)>) {
        let mut calls: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        for (call, (range, _)) in around {
            calls.entry(range).and_modify(|one| *one = None).or_insert(Some(call));
        }
        self.comm_calls = calls.into_iter().filter_map(|(range, call)| Some((range, call?))).collect();
        self.replaced = self.comm_calls.values().copied().collect();
    }
}

/// Finds the range of each init and finalize that NCCL calls on a thread of its own: the only range that lasts longer
/// and can be of this communicator and rank.
fn elsewhere(tables: &Tables, symbols: &Symbols, roles: &[RangeRole], around: &mut BTreeMap<u32, (u32, u64)>) {
    let ranges = (0_u32..).zip(tables.ranges.all.iter().zip(roles));
    let of_comms = ranges
        .filter(|(_, (range, role))| **role == RangeRole::Call && is_of_communicators(symbols.text(range.range.name)));
    let of_comms: Vec<(u32, &RangeAt, bool)> =
        of_comms.map(|(at, (range, _))| (at, range, ends_communicator(symbols.text(range.range.name)))).collect();
    for (at, call) in (0..).zip(&tables.comm_calls) {
        let comm = call.context.and_then(|at| tables.contexts.get(index(at))).map(|context| &context.comm);
        let Some(comm) = comm.filter(|_| !around.contains_key(&at)) else {
            continue;
        };
        let mut ranges = of_comms.iter().filter(|(_, range, is_end)| {
            let field = |field| range.range.fields.get(field);
            // NCCL gives no id before 2.28, and 0 where the range began before the communicator. The rank can then be
            // the one in the parent.
            let (id, own_id) = (field(RangeField::CommId).unwrap_or(0), comm.comm_id);
            let is_same_rank = || field(RangeField::Rank).is_none_or(|rank| i64::from(comm.rank) == rank.cast_signed());
            *is_end != call.is_init
                && (id == 0 || own_id == 0 || id == own_id && is_same_rank())
                && range.start <= call.start
                && call.end <= range.end(tables.span.1)
        });
        if let (Some((range, it, _)), None) = (ranges.next(), ranges.next()) {
            around.insert(at, (*range, it.start));
        }
    }
}

fn is_reported(what: &What<'_>, name: &str) -> bool {
    match what {
        What::GroupStart => name == "ncclGroupStart",
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
        reports.push((place(group.thread, group.start), What::GroupStart));
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
    reports.sort_by_key(|(place, _)| *place);
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
