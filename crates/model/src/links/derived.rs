//! Collectives that NCCL makes of sends and receives: `ncclAlltoAll`, `ncclGather` and `ncclScatter`.
//!
//! ```text
//!  GroupApi, depth 1 ──┬── P2pApi Send ── P2p ─┐
//!   (NCCL's own)       ├── P2pApi Recv ── P2p ─┤  members
//!                      └── …             ── P2p ─┘
//! ```
//!
//! A call of `ncclSend` or `ncclRecv` outside a user's group has its own group, so several in a group of depth 1 come
//! from NCCL. Their order identifies the collective, on N ranks: an all-to-all is a send and a receive N times, the
//! root of a gather one send and N receives, the root of a scatter N sends and one receive. On the other ranks of a
//! gather or scatter NCCL does the same as for a lone `ncclSend` or `ncclRecv`, so these cannot be recognised.

use std::collections::BTreeMap;

use crate::links::intervals::{Interval, enclosing_interval};
use crate::links::operations::LinkedOperations;
use crate::tables::{OperationRow, P2p, P2pApi, Row, Tables};
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::CommInit;
use nccl_events::collective::{Function, Pattern};
use nccl_events::event::{GroupApi, P2pApi as P2pApiEvent};
use nccl_events::ids::{index, index_u32};

fn is_send(func: &str) -> Option<bool> {
    Function::named(func)?.is_send()
}

/// The sends and receives of one execution of a derived collective, on rank `rank` of `ranks`.
#[derive(Debug)]
struct Members {
    rank: i32,
    ranks: usize,
    /// A bit for each peer received from, then a bit for each peer sent to.
    seen: Vec<u64>,
    own: u32,
    others: usize,
    /// Whether an operation was added that does not belong to such a collective.
    has_foreign: bool,
}

impl Members {
    fn new(rank: i32, ranks: usize) -> Self {
        Self { rank, ranks, seen: vec![0; (2 * ranks).div_ceil(64)], own: 0, others: 0, has_foreign: false }
    }

    fn add(&mut self, func: &str, peer: i32) {
        let at = usize::try_from(peer).ok().filter(|peer| *peer < self.ranks).zip(is_send(func));
        let at = at.map(|(peer, is_send)| peer + if is_send { self.ranks } else { 0 });
        let Some((at, word)) = at.and_then(|at| Some((at, self.seen.get_mut(at / 64)?))) else {
            self.has_foreign = true;
            return;
        };
        self.has_foreign |= *word & (1 << (at % 64)) != 0;
        *word |= 1 << (at % 64);
        if peer == self.rank { self.own += 1 } else { self.others += 1 }
    }

    /// How many operations are missing; `None` if they do not fit the collective after all.
    fn missing(&self, pattern: Pattern) -> Option<u32> {
        let missing = pattern.transfers(self.ranks).checked_sub(self.others).filter(|_| !self.has_foreign)?;
        // NCCL leaves out both ends of an in-place transfer of a rank to itself.
        Some(u32::try_from(missing).unwrap_or(u32::MAX).saturating_add(self.own % 2))
    }
}

/// A call that NCCL turned into sends and receives.
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
    /// The sends and receives: indices of operations, ascending.
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
        enclosing_interval(self.members.iter().filter_map(|&at| intervals.get(index(at)).copied().flatten()))
    }
}

#[derive(Debug, Default)]
pub struct DerivedCollectives {
    pub calls: Vec<DerivedCall>,
    pub all: Vec<DerivedCollective>,
    /// The execution that each operation belongs to.
    by_member: BTreeMap<u32, u32>,
}

/// The collective call that a group's sends and receives form, if they form one.
fn recognise(tables: &Tables, symbols: &Symbols, calls: Vec<Row<P2pApi>>) -> Option<DerivedCall> {
    let arguments = |row: Row<P2pApi>| {
        let call = &tables[row];
        let P2pApiEvent { count, datatype, stream, graph_captured, .. } = call.fields;
        (call.context, count, datatype, stream, graph_captured)
    };
    let common = arguments(*calls.first()?);
    if calls.iter().any(|&row| arguments(row) != common) {
        return None;
    }
    let (context, count, datatype, ..) = common;
    let comm = &tables.contexts.get(index(context.at()?))?.comm;
    let (_, ranks) = CommInit::possible(comm.rank, comm.ranks)?;
    let sends: Option<Vec<bool>> = calls.iter().map(|&row| is_send(symbols.text(tables[row].fields.func))).collect();
    let pattern = Pattern::from_sends(&sends?, index(ranks))?;
    Some(DerivedCall { pattern, calls, count, datatype, rank: comm.rank, ranks })
}

/// How many transfers of an execution are missing; `None` if its members do not fit the call after all.
fn missing(
    (tables, symbols): (&Tables, &Symbols),
    call: &DerivedCall,
    operations: &LinkedOperations,
    members: &[u32],
) -> Option<u32> {
    let mut all = Members::new(call.rank, index(call.ranks));
    for &member in members {
        let OperationRow::P2p(row) = operations.all.get(index(member))?.operation else {
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
    pub fn new(tables: &Tables, symbols: &Symbols, operations: &LinkedOperations) -> Self {
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
        for (at, linked) in operations.all.iter().enumerate() {
            let call = tables.find_as::<P2pApi>(tables.operation(linked.operation).parent);
            let Some(&call) = call.and_then(|call| by_call.get(&call)) else {
                continue;
            };
            if linked.is_at_capture {
                continue;
            }
            let executions = executions.entry(call).or_default();
            executions.entry(linked.replay.unwrap_or(0)).or_default().push(index_u32(at));
        }
        for (number, call) in (0..).zip(recognised) {
            let members = executions.remove(&number).unwrap_or_default().into_values();
            let found: Option<Vec<(Vec<u32>, u32)>> = members
                .map(|members| {
                    let missing = missing((tables, symbols), &call, operations, &members)?;
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

    /// The execution that an operation belongs to: an index in [`DerivedCollectives::all`].
    pub fn place_of_member(&self, at: u32) -> Option<u32> {
        self.by_member.get(&at).copied()
    }

    pub fn collective_of_member(&self, at: u32) -> Option<(&DerivedCollective, &DerivedCall)> {
        let collective = self.all.get(index(self.place_of_member(at)?))?;
        Some((collective, self.call(collective)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(members: &[(&str, i32)]) -> Option<u32> {
        let mut all = Members::new(1, 40);
        members.iter().for_each(|(func, peer)| all.add(func, *peer));
        all.missing(Pattern::AlltoAll)
    }

    #[test]
    fn each_rank_is_sent_to_and_received_from_once() {
        let whole: Vec<_> = (0..40).flat_map(|peer| [("Send", peer), ("Recv", peer)]).collect();
        assert_eq!(missing(&whole), Some(0));
        let others: Vec<_> = whole.iter().copied().filter(|(_, peer)| *peer != 1).collect();
        assert_eq!(missing(&others), Some(0), "a rank need not send to itself");
        assert_eq!(missing(&others[..77]), Some(1));
        assert_eq!(missing(&whole[..3]), Some(77), "one end of what it sends to itself, and all but two others");
        for wrong in [("Send", 40), ("Send", -1), ("Recv", 3), ("AllReduce", 1)] {
            assert_eq!(missing(&[&others[..], &[wrong]].concat()), None, "{wrong:?}");
        }
    }
}
