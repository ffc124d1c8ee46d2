//! Collectives that NCCL makes of sends and receives, and their executions.

use std::collections::BTreeMap;

use super::operations::Activities;
use crate::links::interval::Interval;
use job::derived::{Calls, Members};
use job::interval::around;
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::CommInit;
use nccl_events::collective::Pattern;
use nccl_events::ids::{index, index_u32};
use tables::{GroupApi, OperationRow, P2p, P2pApi, Row, Tables};

#[derive(Clone, Debug)]
pub struct DerivedCall {
    pub pattern: Pattern,
    /// The calls of `ncclSend` and `ncclRecv`, in order. The first represents the collective.
    pub calls: Vec<Row<P2pApi>>,
    /// Elements to or from each rank.
    pub count: u64,
    pub datatype: Symbol,
    /// This rank, which is the root of a gather or scatter.
    pub rank: i32,
    pub ranks: u32,
}

/// One execution of a [`DerivedCall`].
#[derive(Clone, Debug)]
pub struct DerivedCollective {
    /// An index in [`DerivedCollectives::calls`].
    pub call: u32,
    /// The sends and receives: indices of activities, ascending.
    pub members: Vec<u32>,
    pub missing: u32,
}

impl DerivedCollective {
    /// The first member, which represents the collective.
    pub fn leader(&self) -> Option<u32> {
        self.members.first().copied()
    }

    /// From the first begin of the members to the last end, with the timing of the least precisely known member.
    /// A member without times of its own (`Timing::Kernel`) does not affect the timing.
    pub fn interval(&self, intervals: &[Option<Interval>]) -> Option<Interval> {
        around(self.members.iter().filter_map(|&at| intervals.get(index(at)).copied().flatten()))
    }
}

#[derive(Debug, Default)]
pub struct DerivedCollectives {
    pub calls: Vec<DerivedCall>,
    pub all: Vec<DerivedCollective>,
    /// The execution that each activity belongs to.
    by_member: BTreeMap<u32, u32>,
}

/// The collective call that a group's sends and receives form, if they form one.
fn recognise(tables: &Tables, symbols: &Symbols, calls: Vec<Row<P2pApi>>) -> Option<DerivedCall> {
    let mut events = calls.iter().map(|&row| &tables[row]);
    let first = events.next()?;
    let mut all = Calls::new(first.context, &first.fields);
    events.for_each(|call| all.add(call.context, &call.fields));
    let same = all.same()?;
    let comm = &tables.contexts.get(index(same.context.at()?))?.comm;
    let (_, ranks) = CommInit::possible(comm.rank, comm.ranks)?;
    let pattern = all.pattern(index(ranks), symbols)?;
    Some(DerivedCall { pattern, calls, count: same.count, datatype: same.datatype, rank: comm.rank, ranks })
}

/// How many transfers of an execution are missing; `None` if its members do not fit the call after all.
fn missing(
    (tables, symbols): (&Tables, &Symbols),
    call: &DerivedCall,
    activities: &Activities,
    members: &[u32],
) -> Option<u32> {
    let mut all = Members::new(call.rank, index(call.ranks));
    for &member in members {
        let OperationRow::P2p(row) = activities.all.get(index(member))?.operation else {
            return None;
        };
        let P2p { func, peer, .. } = tables[row].fields;
        all.add(symbols.text(func), peer);
    }
    all.missing(call.pattern)
}

/// The calls of sends and receives in groups that NCCL opened itself, by group, each in time order.
fn groups(tables: &Tables) -> BTreeMap<Row<GroupApi>, Vec<Row<P2pApi>>> {
    let mut groups: BTreeMap<Row<GroupApi>, Vec<Row<P2pApi>>> = BTreeMap::new();
    for (row, call) in tables.rows::<P2pApi>() {
        let group = tables.find_as::<GroupApi>(call.parent);
        if let Some(group) = group.filter(|&group| tables[group].fields.depth == 1) {
            groups.entry(group).or_default().push(row);
        }
    }
    for calls in groups.values_mut() {
        nccl_events::sort::sort_by_key(calls, |&row| (tables[row].start, row));
    }
    groups
}

impl DerivedCollectives {
    pub fn of(tables: &Tables, symbols: &Symbols, activities: &Activities) -> Self {
        let mut derived = Self::default();
        let mut by_call: BTreeMap<Row<P2pApi>, u32> = BTreeMap::new();
        let mut recognised = Vec::new();
        for calls in groups(tables).into_values() {
            if let Some(call) = recognise(tables, symbols, calls) {
                let number = index_u32(recognised.len());
                by_call.extend(call.calls.iter().map(|&row| (row, number)));
                recognised.push(call);
            }
        }
        if recognised.is_empty() {
            return derived;
        }
        let mut executions: BTreeMap<u32, BTreeMap<u64, Vec<u32>>> = BTreeMap::new();
        for (at, activity) in activities.all.iter().enumerate() {
            let call = tables.find_as::<P2pApi>(tables.operation(activity.operation).parent);
            let Some(&call) = call.and_then(|call| by_call.get(&call)) else {
                continue;
            };
            if activity.is_at_capture {
                continue;
            }
            let executions = executions.entry(call).or_default();
            executions.entry(activity.replay.unwrap_or(0)).or_default().push(index_u32(at));
        }
        for (number, call) in (0..).zip(recognised) {
            let members = executions.remove(&number).unwrap_or_default().into_values();
            let found: Option<Vec<(Vec<u32>, u32)>> = members
                .map(|members| {
                    let missing = missing((tables, symbols), &call, activities, &members)?;
                    Some((members, missing))
                })
                .collect();
            if let Some(found) = found {
                derived.add(call, found);
            }
        }
        derived
    }

    fn add(&mut self, call: DerivedCall, executions: Vec<(Vec<u32>, u32)>) {
        let number = index_u32(self.calls.len());
        self.calls.push(call);
        for (members, missing) in executions {
            let at = index_u32(self.all.len());
            self.by_member.extend(members.iter().map(|&member| (member, at)));
            self.all.push(DerivedCollective { call: number, members, missing });
        }
    }

    pub fn call(&self, collective: &DerivedCollective) -> Option<&DerivedCall> {
        self.calls.get(index(collective.call))
    }

    /// The execution that an activity belongs to: an index in [`DerivedCollectives::all`].
    pub fn place_of_member(&self, activity: u32) -> Option<u32> {
        self.by_member.get(&activity).copied()
    }

    pub fn of_member(&self, activity: u32) -> Option<(&DerivedCollective, &DerivedCall)> {
        let collective = self.all.get(index(self.place_of_member(activity)?))?;
        Some((collective, self.call(collective)?))
    }
}
