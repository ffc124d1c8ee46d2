//! The operations of one process in its communicators, from its records.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::collective::{Collective, Function};
use nccl_events::{Body, event, state};
use tables::{EventRow, Head, P2p, Row, Tables};

use super::flight::{self, RemovedCall};
use super::progress::{Progresses, RanUntil};
use crate::job::Rank;
use crate::operation::{Call, KEPT, Message, OpenCall, Signature, Tail};

/// Reads a process's operations. Times are those of the tables.
pub(super) struct Reader<'a> {
    tables: &'a Tables,
    symbols: &'a Symbols,
    names: BTreeMap<Symbol, Arc<str>>,
    progresses: Progresses<'a>,
    below: BTreeMap<EventRow, EventRow>,
}

#[derive(Clone, Copy)]
enum Item {
    /// A call and its collective below the API, or only one of the two.
    Collective {
        call: Option<EventRow>,
        below: Option<EventRow>,
    },
    Replay(EventRow),
    Message(Row<P2p>),
}

impl Item {
    const fn below(self) -> Option<EventRow> {
        match self {
            Self::Collective { below, .. } => below,
            Self::Replay(row) => Some(row),
            Self::Message(row) => Some(EventRow::P2p(row)),
        }
    }
}

/// An item and the time of its call.
type Timed = (u64, Item);

impl<'a> Reader<'a> {
    /// `table` is the version of the interface that NCCL called.
    pub(super) fn new(tables: &'a Tables, symbols: &'a Symbols, table: u8) -> Self {
        let mut below = BTreeMap::new();
        for row in tables.events.in_order() {
            if let (EventRow::Coll(_) | EventRow::CeColl(_), Some(head)) = (row, tables.head(row))
                && let Some(parent) = tables.find(head.parent)
            {
                below.entry(parent).or_insert(row);
            }
        }
        Self { tables, symbols, names: BTreeMap::new(), progresses: Progresses::of(tables, table), below }
    }

    fn name(&mut self, symbol: Symbol) -> Arc<str> {
        Arc::clone(self.names.entry(symbol).or_insert_with(|| self.symbols.text(symbol).into()))
    }

    /// The rank of each context, by context id, without actor and finalization.
    pub(super) fn ranks(&mut self) -> BTreeMap<u64, Rank> {
        let mut items: BTreeMap<u64, Vec<Timed>> = BTreeMap::new();
        let mut ranks: BTreeMap<u64, Rank> = BTreeMap::new();
        for row in self.tables.events.in_order() {
            let Some(head) = self.tables.head(row) else {
                continue;
            };
            let context = self.tables.context_of(head);
            if let Some(item) = self.item(row, head) {
                items.entry(context).or_default().push((head.start, item));
            } else if let Some(call) = self.open_call(row, head) {
                ranks.entry(context).or_default().open_calls.push(call);
            }
        }
        for (context, mut items) in items {
            // Sorted by call; calls whose records are removed precede the others.
            items
                .sort_by_cached_key(|(start, item)| self.removed_call(*item).map_or((*start, 0), |number| (0, number)));
            // A removed group may be kept in part: it does not count if there are later calls.
            let is_whole = |item: Item| matches!(item, Item::Collective { .. }) && self.removed_call(item).is_none();
            if items.iter().any(|(_, item)| is_whole(*item)) {
                items.retain(|(_, item)| self.removed_call(*item).is_none());
            }
            self.fill(&items, ranks.entry(context).or_default());
        }
        ranks
    }

    /// Whether an operation belongs to a launched graph: its call was captured.
    fn is_captured(&self, operation: &Head) -> bool {
        match self.tables.find(operation.parent) {
            Some(call) => self.tables.is_captured(call),
            None => flight::removed_call(self.tables, operation) == Some(RemovedCall::Captured),
        }
    }

    fn item(&self, row: EventRow, head: &Head) -> Option<Item> {
        match row {
            EventRow::CollApi(_) => (!self.tables.is_captured(row))
                .then(|| Item::Collective { call: Some(row), below: self.below.get(&row).copied() }),
            // NCCL reports captured operations at capture or when they run; only those that ran have children.
            EventRow::Coll(_) | EventRow::CeColl(_) if self.is_captured(head) => {
                self.progresses.has_children(row).then_some(Item::Replay(row))
            }
            EventRow::Coll(_) | EventRow::CeColl(_) => match self.tables.find(head.parent) {
                // The first operation of a call is counted with the call.
                Some(call @ EventRow::CollApi(_)) => (self.below.get(&call) != Some(&row)).then_some(Item::Replay(row)),
                _ => Some(Item::Collective { call: None, below: Some(row) }),
            },
            // Captured messages cannot be counted: both ends need not report them equally often.
            EventRow::P2p(p2p) => {
                (self.tables[p2p].fields.peer >= 0 && !self.is_captured(head)).then_some(Item::Message(p2p))
            }
            EventRow::Group(_) | EventRow::GroupApi(_) | EventRow::P2pApi(_) | EventRow::KernelLaunch(_) => None,
            EventRow::ProxyOp(_) | EventRow::ProxyStep(_) | EventRow::ProxyCtrl(_) | EventRow::NetPlugin(_) => None,
            EventRow::KernelCh(_) | EventRow::KernelPhase(_) | EventRow::CeSync(_) | EventRow::CeBatch(_) => None,
            EventRow::Unknown(_) => None,
        }
    }

    /// The number of a collective's call on its thread, if the call was removed recently.
    fn removed_call(&self, item: Item) -> Option<u64> {
        let Item::Collective { call: None, below: Some(row) } = item else {
            return None;
        };
        let removed = flight::removed_call(self.tables, self.tables.head(row)?)?;
        if let RemovedCall::Near(number) = removed { Some(number) } else { None }
    }

    fn open_call(&self, row: EventRow, head: &Head) -> Option<OpenCall> {
        if head.stop().is_some() {
            return None;
        }
        let is_in_nccl = !matches!(row, EventRow::GroupApi(_)) || head.has_state(state::GROUP_END_API_START);
        let what = match row {
            EventRow::GroupApi(_) if !is_in_nccl => "between ncclGroupStart and ncclGroupEnd".to_owned(),
            EventRow::GroupApi(_) => {
                "in the call that starts the operations (ncclGroupEnd, or a call without a group)".to_owned()
            }
            EventRow::P2pApi(row) => format!("in nccl{}", self.symbols.text(self.tables[row].fields.func)),
            EventRow::KernelLaunch(_) => "in the launch of a kernel".to_owned(),
            _ => return None,
        };
        Some(OpenCall { what, is_in_nccl, since_ns: head.start })
    }

    fn fill(&mut self, items: &[Timed], rank: &mut Rank) {
        let ran_until = self.progresses.ran_until(items.iter().filter_map(|(_, item)| item.below()));
        let (mut calls, mut replays) = (Vec::new(), Vec::new());
        for &(start, item) in items {
            match item {
                Item::Collective { call, below } => calls.extend(self.call(start, call, below, ran_until)),
                Item::Replay(row) => replays.extend(self.call(start, None, Some(row), ran_until)),
                Item::Message(row) => self.message(row, ran_until, rank),
            }
        }
        // Without transfers and kernel channels nothing shows when a message is complete.
        let unneeded = rank.messages.len().saturating_sub(KEPT);
        rank.messages.drain(..unneeded);
        if self.tables.removed.segments > 0 {
            let (all_calls, all_replays) = (calls.clone(), replays.clone());
            flight::leave_out_before_holes(&mut calls, &all_replays);
            flight::leave_out_before_holes(&mut replays, &all_calls);
        }
        (rank.calls, rank.replays) = (Tail::of(calls), Tail::of(replays));
    }

    fn call(
        &mut self,
        entered_ns: u64,
        call: Option<EventRow>,
        below: Option<EventRow>,
        ran_until: RanUntil,
    ) -> Option<Call> {
        let body = |row: Option<EventRow>| self.tables.body(row?);
        let (sequence, by_copy_engine) = match body(below) {
            Some(Body::Coll(event::Coll { sequence, .. })) => (Some(sequence), false),
            Some(Body::CeColl(event::CeColl { sequence, .. })) => (Some(sequence), true),
            _ => (None, false),
        };
        let (func, count, datatype, root) = match body(call.or(below))? {
            Body::CollApi(coll) => (coll.func, coll.count, coll.datatype, coll.root),
            Body::Coll(coll) => (coll.func, coll.count, coll.datatype, coll.root),
            Body::CeColl(coll) => (coll.func, coll.count, coll.datatype, coll.root),
            _ => return None,
        };
        let func = self.name(func);
        let has_root = Collective::named(&*func).is_some_and(Collective::has_root);
        Some(Call {
            what: Signature { func, count, datatype: self.name(datatype), root: has_root.then_some(root) },
            from_api: call.is_some(),
            sequence,
            by_copy_engine,
            entered_ns,
            progress: self.progresses.progress(call, below, ran_until),
        })
    }

    fn message(&mut self, row: Row<P2p>, ran_until: RanUntil, rank: &mut Rank) {
        let operation = &self.tables[row];
        let P2p { func, datatype, count, peer, .. } = operation.fields;
        let is_send = Function::named(&*self.name(func)).and_then(Function::is_send);
        let (Ok(peer), Some(is_send)) = (u32::try_from(peer), is_send) else {
            return;
        };
        let number = rank.message_counts.entry((peer, is_send)).or_default();
        let number = std::mem::replace(number, *number + 1);
        let progress = self.progresses.progress(None, Some(EventRow::P2p(row)), ran_until);
        if progress.stage.is_over() {
            return;
        }
        let call = self.tables.head_of(operation.parent);
        rank.messages.push(Message {
            peer,
            is_send,
            number,
            count,
            datatype: self.name(datatype),
            entered_ns: call.map_or(operation.start, |call| call.start.min(operation.start)),
            progress,
        });
    }
}
