//! What one process did in its communicators, from its joined records.

use nccl_events::event;
use std::collections::BTreeMap;
use std::sync::Arc;

use journal::format::record::Symbol;
use journal::reader::Symbols;
use nccl_events::Body;
use nccl_events::state;
use trace::links::operations::OperationRow;
use trace::tables::{EventRow, Head, P2p, ProxyOp, Row, Tables};

use super::job::{Call, Inside, Message, Place, Progress, Signature, Stage, Tail};
use super::kept::{self, GoneCall};
use super::proxy::Proxies;

/// How many collectives of a rank are kept: ranks are further apart only where something is wrong anyway.
const KEPT: usize = 1024;

/// What one context did: a rank of a communicator.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) calls: Tail,
    pub(crate) replays: Tail,
    pub(crate) messages: Vec<Message>,
    pub(crate) message_counts: BTreeMap<(u32, bool), u64>,
    pub(crate) inside: Vec<Inside>,
}

/// What is known of an operation's children.
#[derive(Clone, Copy, Debug, Default)]
struct Children {
    transfers: u32,
    transfers_open: u32,
    transfers_began: bool,
    channels: u32,
    channels_open: u32,
}

impl Children {
    const fn any(self) -> bool {
        self.transfers + self.channels > 0
    }

    const fn any_open(self) -> bool {
        self.transfers_open + self.channels_open > 0
    }

    /// Whether the kernel was seen to run.
    const fn began(self) -> bool {
        self.channels > 0
            || self.transfers_began
            || (self.transfers > 0 && self.transfers_open == 0)
    }
}

/// Reads a process's operations. Times as in the tables.
pub(crate) struct Reader<'a> {
    tables: &'a Tables,
    symbols: &'a Symbols,
    names: BTreeMap<Symbol, Arc<str>>,
    proxies: Proxies,
    /// By operation.
    children: BTreeMap<EventRow, Children>,
    /// By operation: its open transfers.
    open: BTreeMap<EventRow, Vec<Row<ProxyOp>>>,
    /// By group and context: whether a launch of it has not returned.
    launches: BTreeMap<(u64, u64), bool>,
    /// By call: its collective.
    below: BTreeMap<EventRow, EventRow>,
}

/// What happened on a context, before its progress is known.
#[derive(Clone, Copy)]
enum Item {
    /// A call and its collective below the API, or one of them.
    Collective {
        call: Option<EventRow>,
        below: Option<EventRow>,
    },
    Replay(EventRow),
    Message(Row<P2p>),
}

impl<'a> Reader<'a> {
    /// Looks at a process; `table` is the version of the interface that NCCL called.
    pub(crate) fn new(tables: &'a Tables, symbols: &'a Symbols, table: u8) -> Self {
        let mut reader = Self {
            tables,
            symbols,
            names: BTreeMap::new(),
            proxies: Proxies::of(tables, table),
            children: BTreeMap::new(),
            open: BTreeMap::new(),
            launches: BTreeMap::new(),
            below: BTreeMap::new(),
        };
        reader.join_transfers();
        reader.join_channels();
        for launch in &tables.events.kernel_launches {
            let of = (launch.parent, tables.context_of(launch));
            *reader.launches.entry(of).or_default() |= launch.stop().is_none();
        }
        for row in tables.events.in_order() {
            if let (EventRow::Coll(_) | EventRow::CeColl(_), Some(head)) = (row, tables.head(row))
                && let Some(parent) = tables.find(head.parent)
            {
                reader.below.entry(parent).or_insert(row);
            }
        }
        reader
    }

    fn join_transfers(&mut self) {
        let tables = self.tables;
        for (row, op) in tables.rows::<ProxyOp>() {
            let parent = tables.find(op.parent);
            let Some(parent) = parent.filter(|_| self.proxies.speaks(tables, op)) else {
                continue;
            };
            let is_open = op.stop().is_none();
            if is_open {
                self.open.entry(parent).or_default().push(row);
            }
            let children = self.children.entry(parent).or_default();
            children.transfers += 1;
            children.transfers_open += u32::from(is_open);
        }
        for step in &tables.events.proxy_steps {
            // A step that went on from waiting for the GPU, or data that the GPU took: the kernel runs.
            let went_on = step.saw(state::PROXY_STEP_SEND_WAIT)
                || (step.stop().is_some() && step.saw(state::PROXY_STEP_RECV_GPU_WAIT));
            let transfer = tables.head_of(step.parent).filter(|_| went_on);
            if let Some(owner) = transfer.and_then(|transfer| tables.find(transfer.parent)) {
                self.children.entry(owner).or_default().transfers_began = true;
            }
        }
    }

    fn join_channels(&mut self) {
        for channel in &self.tables.events.kernel_chs {
            if let Some(parent) = self.tables.find(channel.parent) {
                let children = self.children.entry(parent).or_default();
                children.channels += 1;
                children.channels_open += u32::from(channel.stop().is_none());
            }
        }
    }

    fn children(&self, of: EventRow) -> Children {
        self.children.get(&of).copied().unwrap_or_default()
    }

    fn name(&mut self, symbol: Symbol) -> Arc<str> {
        let symbols = self.symbols;
        let name = self.names.entry(symbol);
        Arc::clone(name.or_insert_with(|| symbols.text(symbol).into()))
    }

    /// The stories of all contexts, by context.
    pub(crate) fn stories(&mut self) -> BTreeMap<u64, Story> {
        let mut items: BTreeMap<u64, Vec<(u64, Item)>> = BTreeMap::new();
        let mut stories: BTreeMap<u64, Story> = BTreeMap::new();
        for row in self.tables.events.in_order() {
            let Some(event) = self.tables.head(row) else {
                continue;
            };
            let context = self.tables.context_of(event);
            if let Some(item) = self.item(row, event) {
                let entered = self.entered(item).unwrap_or(event.start);
                items.entry(context).or_default().push((entered, item));
            } else if let Some(inside) = self.inside(row, event) {
                stories.entry(context).or_default().inside.push(inside);
            }
        }
        for (context, mut items) in items {
            items.sort_by_cached_key(|(start, item)| self.order(*start, *item));
            self.leave_out_cut(&mut items);
            let story = stories.entry(context).or_default();
            self.tell(&items, story);
        }
        stories
    }

    fn parent(&self, event: &Head) -> Option<(EventRow, &'a Head)> {
        let row = self.tables.find(event.parent)?;
        Some((row, self.tables.head(row)?))
    }

    fn item(&self, row: EventRow, event: &Head) -> Option<Item> {
        let call = self.tables.find(event.parent);
        let has_children = || self.children(row).any();
        match row {
            EventRow::CollApi(_) if !self.tables.is_captured(row) => Some(Item::Collective {
                call: Some(row),
                below: self.below.get(&row).copied(),
            }),
            EventRow::Coll(_) | EventRow::CeColl(_) => match call {
                None if self.is_of_gone_capture(event) => {
                    has_children().then_some(Item::Replay(row))
                }
                // What was captured is told when it is captured or whenever it runs; only what ran has children.
                Some(call) if self.tables.is_captured(call) => {
                    has_children().then_some(Item::Replay(row))
                }
                // It is told of with its call.
                Some(call @ EventRow::CollApi(_)) => {
                    (self.below.get(&call) != Some(&row)).then_some(Item::Replay(row))
                }
                _ => Some(Item::Collective {
                    call: None,
                    below: Some(row),
                }),
            },
            // What was captured into a graph cannot be counted: its ends need not report it equally often.
            EventRow::P2p(p2p) if self.tables[p2p].fields.peer >= 0 => {
                let is_captured = match call {
                    Some(call) => self.tables.is_captured(call),
                    None => self.is_of_gone_capture(event),
                };
                (!is_captured).then_some(Item::Message(p2p))
            }
            _ => None,
        }
    }

    fn entered(&self, item: Item) -> Option<u64> {
        let row = match item {
            Item::Collective { call, below } => call.or(below)?,
            Item::Replay(row) => row,
            Item::Message(row) => EventRow::P2p(row),
        };
        Some(self.tables.head(row)?.start)
    }

    fn is_of_gone_capture(&self, event: &Head) -> bool {
        kept::gone_call(self.tables, event) == Some(GoneCall::Captured)
    }

    /// Of a collective whose call is just not kept: the call's number on its thread.
    fn cut_off(&self, item: Item) -> Option<u64> {
        let Item::Collective {
            call: None,
            below: Some(row),
        } = item
        else {
            return None;
        };
        match kept::gone_call(self.tables, self.tables.head(row)?)? {
            GoneCall::Near(number) => Some(number),
            GoneCall::Captured => None,
        }
    }

    /// Calls come in the order of their starts; those that are not kept came before the others.
    fn order(&self, start: u64, item: Item) -> (u64, u64) {
        let cut_off = self.cut_off(item);
        cut_off.map_or((start, 0), |number| (0, number))
    }

    /// Of a group only some may be kept: where later calls are, it does not count.
    fn leave_out_cut(&self, items: &mut Vec<(u64, Item)>) {
        let is_whole =
            |item: Item| matches!(item, Item::Collective { .. }) && self.cut_off(item).is_none();
        if items.iter().any(|(_, item)| is_whole(*item)) {
            items.retain(|(_, item)| self.cut_off(*item).is_none());
        }
    }

    /// A call that has not returned.
    fn inside(&self, row: EventRow, event: &Head) -> Option<Inside> {
        if event.stop().is_some() {
            return None;
        }
        let ends_group = event.saw(state::GROUP_END_API_START);
        let (what, is_in_nccl) = match row {
            EventRow::GroupApi(_) if !ends_group => {
                ("between ncclGroupStart and ncclGroupEnd".to_owned(), false)
            }
            EventRow::GroupApi(_) => (
                "in the call that starts the operations (ncclGroupEnd, or a call without a group)"
                    .to_owned(),
                true,
            ),
            EventRow::P2pApi(row) => {
                let func = self.symbols.text(self.tables[row].fields.func);
                (format!("in nccl{func}"), true)
            }
            EventRow::KernelLaunch(_) => ("in the launch of a kernel".to_owned(), true),
            _ => return None,
        };
        Some(Inside {
            what,
            is_in_nccl,
            since_ns: event.start,
        })
    }

    fn tell(&mut self, items: &[(u64, Item)], story: &mut Story) {
        let ran_until = self.ran_until(items);
        let mut calls = Vec::new();
        let mut replays = Vec::new();
        for &(start, item) in items {
            match item {
                Item::Collective { call, below } => {
                    calls.extend(self.call(start, call, below, ran_until));
                }
                Item::Replay(row) => replays.extend(self.call(start, None, Some(row), ran_until)),
                Item::Message(row) => self.message(row, ran_until, story),
            }
        }
        // Without transfers and kernel channels nothing tells when a message is complete.
        let unneeded = story.messages.len().saturating_sub(KEPT);
        story.messages.drain(..unneeded);
        if self.tables.not_kept.segments > 0 {
            let (all_calls, all_replays) = (calls.clone(), replays.clone());
            kept::leave_out_before_holes(&mut calls, &all_replays);
            kept::leave_out_before_holes(&mut replays, &all_calls);
        }
        story.calls = tail(calls);
        story.replays = tail(replays);
    }

    /// The kernels of a communicator run one after the other: what was launched before one that was seen to run,
    /// in another kernel, has ended. Its start and its launch plan.
    fn ran_until(&self, items: &[(u64, Item)]) -> (u64, u64) {
        let last = items.iter().rev().find_map(|(_, item)| {
            let row = match *item {
                Item::Collective { below, .. } => below?,
                Item::Replay(row) => row,
                Item::Message(row) => EventRow::P2p(row),
            };
            let operation = self.tables.operation(OperationRow::of(row)?);
            let began = self.children(row).began();
            began.then_some((operation.start, operation.plan))
        });
        last.unwrap_or((0, 0))
    }

    fn progress(
        &self,
        call: Option<EventRow>,
        below: Option<EventRow>,
        ran_until: (u64, u64),
    ) -> Progress {
        let call = call.and_then(|row| self.tables.head(row));
        let operation = below.and_then(|row| Some((row, OperationRow::of(row)?)));
        let Some((row, operation)) = operation else {
            return self.progress_of_call(call);
        };
        let operation = self.tables.operation(operation);
        let children = self.children(row);
        let open = self.open.get(&row).into_iter().flatten();
        let waits = open.map(|&transfer| self.proxies.wait(&self.tables[transfer]));
        let mut waits: Vec<_> = waits.collect();
        waits.sort_by_key(|wait| (wait.since_ns, wait.channel, wait.is_send));
        let ran_after = operation.start < ran_until.0 && operation.plan != ran_until.1;
        let stage = if children.any_open() {
            Stage::Running
        } else if children.channels > 0 || ran_after {
            Stage::Done
        } else if children.transfers > 0 {
            Stage::Transferred
        } else if operation.stop().is_none() {
            Stage::Calling
        } else {
            let call = call.or_else(|| self.parent(&operation).map(|(_, call)| call));
            match call.and_then(|call| {
                self.launches
                    .get(&(call.parent, self.tables.context_of(&operation)))
            }) {
                Some(true) => Stage::Launching,
                Some(false) => Stage::Launched,
                None => Stage::Enqueued,
            }
        };
        Progress {
            stage,
            waits,
            channels_open: children.channels_open,
            began: children.began(),
        }
    }

    /// Of a call without anything below.
    fn progress_of_call(&self, call: Option<&Head>) -> Progress {
        let Some(call) = call else {
            return Progress::default();
        };
        let launch = self
            .launches
            .get(&(call.parent, self.tables.context_of(call)));
        let group = self.parent(call);
        let in_group = group.is_some_and(|(_, group)| group.stop().is_none());
        let stage = if launch == Some(&true) {
            Stage::Launching
        } else if in_group || call.stop().is_none() {
            Stage::Calling
        } else {
            Stage::Called
        };
        Progress {
            stage,
            ..Progress::default()
        }
    }

    fn call(
        &mut self,
        entered_ns: u64,
        call: Option<EventRow>,
        below: Option<EventRow>,
        ran_until: (u64, u64),
    ) -> Option<Call> {
        let progress = self.progress(call, below, ran_until);
        let body = |row: Option<EventRow>| row.and_then(|row| self.tables.body(row));
        let sequence = match body(below) {
            Some(
                Body::Coll(event::Coll { sequence, .. })
                | Body::CeColl(event::CeColl { sequence, .. }),
            ) => Some(sequence),
            _ => None,
        };
        let (func, count, datatype, root) = match body(call.or(below))? {
            Body::CollApi(call) => (call.func, call.count, call.datatype, call.root),
            Body::Coll(coll) => (coll.func, coll.count, coll.datatype, coll.root),
            Body::CeColl(coll) => (coll.func, coll.count, coll.datatype, coll.root),
            _ => return None,
        };
        let func = self.name(func);
        let has_root = matches!(&*func, "Broadcast" | "Reduce" | "Gather" | "Scatter");
        Some(Call {
            what: Signature {
                func,
                count,
                datatype: self.name(datatype),
                root: has_root.then_some(root),
            },
            from_api: call.is_some(),
            sequence,
            by_copy_engine: matches!(below, Some(EventRow::CeColl(_))),
            entered_ns,
            progress,
        })
    }

    fn message(&mut self, row: Row<P2p>, ran_until: (u64, u64), story: &mut Story) {
        let operation = &self.tables[row];
        let P2p {
            func,
            datatype,
            count,
            peer,
            ..
        } = operation.fields;
        let Ok(peer) = u32::try_from(peer) else {
            return;
        };
        let is_send = &*self.name(func) == "Send";
        let number = story.message_counts.entry((peer, is_send)).or_default();
        let number = std::mem::replace(number, *number + 1);
        let progress = self.progress(None, Some(EventRow::P2p(row)), ran_until);
        if progress.stage.is_over() {
            return;
        }
        let call = self.parent(operation);
        story.messages.push(Message {
            peer,
            is_send,
            number,
            count,
            datatype: self.name(datatype),
            entered_ns: call.map_or(operation.start, |(_, call)| call.start.min(operation.start)),
            progress,
        });
    }
}

fn tail(mut calls: Vec<Call>) -> Tail {
    let before = calls.len().saturating_sub(KEPT);
    Tail {
        before: before as u64,
        list: calls.split_off(before),
        place: Place::Counted,
    }
}
