//! What one process did in its communicators, from its joined records.

use nccl_events::event;
use std::collections::BTreeMap;
use std::sync::Arc;

use journal::format::record::Symbol;
use journal::reader::Symbols;
use nccl_events::Body;
use nccl_events::{Kind, state};
use trace::tables::assembly::{Assembly, Operation};

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

/// Reads a process's operations. Times as in the assembly.
pub(crate) struct Reader<'a> {
    assembly: &'a Assembly,
    symbols: &'a Symbols,
    names: BTreeMap<Symbol, Arc<str>>,
    proxies: Proxies,
    /// By place of the operation.
    children: Vec<Children>,
    /// By place of the operation: its open transfers.
    open: BTreeMap<u32, Vec<u32>>,
    /// By group and context: whether a launch of it has not returned.
    launches: BTreeMap<(u64, u64), bool>,
    /// By place of the call: its collective.
    below: BTreeMap<u32, u32>,
}

fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

fn places(assembly: &Assembly) -> impl Iterator<Item = (u32, &Operation)> {
    (0..).zip(&assembly.operations)
}

const fn is_captured(fields: &Body<Symbol>) -> bool {
    match fields {
        Body::CollApi(event::CollApi { graph_captured, .. })
        | Body::P2pApi(event::P2pApi { graph_captured, .. }) => *graph_captured,
        _ => false,
    }
}

/// What happened on a context, before its progress is known.
#[derive(Clone, Copy)]
enum Item {
    /// A call and its collective below the API, or one of them.
    Collective {
        call: Option<u32>,
        below: Option<u32>,
    },
    Replay(u32),
    Message(u32),
}

impl<'a> Reader<'a> {
    /// Looks at a process; `table` is the version of the interface that NCCL called.
    pub(crate) fn new(assembly: &'a Assembly, symbols: &'a Symbols, table: u8) -> Self {
        let mut reader = Self {
            assembly,
            symbols,
            names: BTreeMap::new(),
            proxies: Proxies::of(assembly, table),
            children: vec![Children::default(); assembly.operations.len()],
            open: BTreeMap::new(),
            launches: BTreeMap::new(),
            below: BTreeMap::new(),
        };
        for (at, operation) in places(assembly) {
            reader.join(at, operation);
        }
        reader
    }

    fn join(&mut self, at: u32, operation: &Operation) {
        let parent = self.assembly.find(operation.parent);
        let is_open = operation.end().is_none();
        match self.assembly.fields_of(operation) {
            Body::ProxyOp(event::ProxyOp { .. }) => {
                let Some(parent) = parent.filter(|_| self.proxies.speaks(self.assembly, operation))
                else {
                    return;
                };
                if is_open {
                    self.open.entry(parent).or_default().push(at);
                }
                if let Some(children) = self.children.get_mut(index(parent)) {
                    children.transfers += 1;
                    children.transfers_open += u32::from(is_open);
                }
            }
            Body::ProxyStep(event::ProxyStep { .. }) => {
                // A step that went on from waiting for the GPU, or data that the GPU took: the kernel runs.
                let went_on = operation.saw(state::PROXY_STEP_SEND_WAIT)
                    || (!is_open && operation.saw(state::PROXY_STEP_RECV_GPU_WAIT));
                let transfer = parent.and_then(|at| self.assembly.operation(at));
                let owner = transfer.and_then(|transfer| self.assembly.find(transfer.parent));
                if let Some(owner) = owner.filter(|_| went_on)
                    && let Some(children) = self.children.get_mut(index(owner))
                {
                    children.transfers_began = true;
                }
            }
            Body::KernelCh(event::KernelCh { .. }) => {
                if let Some(parent) = parent
                    && let Some(children) = self.children.get_mut(index(parent))
                {
                    children.channels += 1;
                    children.channels_open += u32::from(is_open);
                }
            }
            Body::KernelLaunch(event::KernelLaunch { .. }) => {
                let of = (operation.parent, self.assembly.context_of(operation));
                *self.launches.entry(of).or_default() |= is_open;
            }
            Body::Coll(event::Coll { .. }) | Body::CeColl(event::CeColl { .. }) => {
                if let Some(parent) = parent {
                    self.below.entry(parent).or_insert(at);
                }
            }
            _ => {}
        }
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
        for (at, operation) in places(self.assembly) {
            if let Some(item) = self.item(at, operation) {
                let of = items
                    .entry(self.assembly.context_of(operation))
                    .or_default();
                of.push((self.entered(item).unwrap_or(operation.start), item));
            } else if let Some(inside) = self.inside(operation) {
                let story = stories
                    .entry(self.assembly.context_of(operation))
                    .or_default();
                story.inside.push(inside);
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

    fn parent(&self, operation: &Operation) -> Option<(u32, &'a Operation)> {
        let at = self.assembly.find(operation.parent)?;
        Some((at, self.assembly.operation(at)?))
    }

    fn item(&self, at: u32, operation: &Operation) -> Option<Item> {
        let call = self.parent(operation);
        let children = self.children.get(index(at)).copied().unwrap_or_default();
        match self.assembly.fields_of(operation) {
            Body::CollApi(event::CollApi { graph_captured, .. }) if !graph_captured => {
                Some(Item::Collective {
                    call: Some(at),
                    below: self.below.get(&at).copied(),
                })
            }
            Body::Coll(event::Coll { .. }) | Body::CeColl(event::CeColl { .. }) => match call {
                None if self.is_of_gone_capture(operation) => {
                    children.any().then_some(Item::Replay(at))
                }
                // What was captured is told when it is captured or whenever it runs; only what ran has children.
                Some((_, call)) if is_captured(&self.assembly.fields_of(call)) => {
                    children.any().then_some(Item::Replay(at))
                }
                // It is told of with its call.
                Some((call_at, call)) if call.kind() == Kind::CollApi => {
                    (self.below.get(&call_at) != Some(&at)).then_some(Item::Replay(at))
                }
                _ => Some(Item::Collective {
                    call: None,
                    below: Some(at),
                }),
            },
            // What was captured into a graph cannot be counted: its ends need not report it equally often.
            Body::P2p(event::P2p { peer, .. }) if peer >= 0 => {
                let is_captured = match call {
                    Some((_, call)) => is_captured(&self.assembly.fields_of(call)),
                    None => self.is_of_gone_capture(operation),
                };
                (!is_captured).then_some(Item::Message(at))
            }
            _ => None,
        }
    }

    fn entered(&self, item: Item) -> Option<u64> {
        let at = match item {
            Item::Collective { call, below } => call.or(below)?,
            Item::Replay(at) | Item::Message(at) => at,
        };
        Some(self.assembly.operation(at)?.start)
    }

    fn is_of_gone_capture(&self, operation: &Operation) -> bool {
        kept::gone_call(self.assembly, operation) == Some(GoneCall::Captured)
    }

    /// Of a collective whose call is just not kept: the call's number on its thread.
    fn cut_off(&self, item: Item) -> Option<u64> {
        let Item::Collective {
            call: None,
            below: Some(at),
        } = item
        else {
            return None;
        };
        match kept::gone_call(self.assembly, self.assembly.operation(at)?)? {
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
    fn inside(&self, operation: &Operation) -> Option<Inside> {
        if operation.end().is_some() {
            return None;
        }
        let what = match self.assembly.fields_of(operation) {
            Body::GroupApi(event::GroupApi { .. })
                if !operation.saw(state::GROUP_END_API_START) =>
            {
                "between ncclGroupStart and ncclGroupEnd".to_owned()
            }
            Body::GroupApi(event::GroupApi { .. }) => {
                "in the call that starts the operations (ncclGroupEnd, or a call without a group)"
                    .to_owned()
            }
            Body::P2pApi(event::P2pApi { func, .. }) => {
                format!("in nccl{}", self.symbols.text(func))
            }
            Body::KernelLaunch(event::KernelLaunch { .. }) => {
                "in the launch of a kernel".to_owned()
            }
            _ => return None,
        };
        let is_in_nccl = !matches!(
            self.assembly.fields_of(operation),
            Body::GroupApi(event::GroupApi { .. })
        ) || operation.saw(state::GROUP_END_API_START);
        Some(Inside {
            what,
            is_in_nccl,
            since_ns: operation.start,
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
                Item::Replay(at) => replays.extend(self.call(start, None, Some(at), ran_until)),
                Item::Message(at) => self.message(at, ran_until, story),
            }
        }
        // Without transfers and kernel channels nothing tells when a message is complete.
        let unneeded = story.messages.len().saturating_sub(KEPT);
        story.messages.drain(..unneeded);
        if self.assembly.not_kept.segments > 0 {
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
            let at = match *item {
                Item::Collective { below, .. } => below?,
                Item::Replay(at) | Item::Message(at) => at,
            };
            let began = self.children.get(index(at))?.began();
            let operation = self.assembly.operation(at)?;
            began.then(|| (operation.start, self.assembly.launch_plan(operation)))
        });
        last.unwrap_or((0, 0))
    }

    fn progress(&self, call: Option<u32>, below: Option<u32>, ran_until: (u64, u64)) -> Progress {
        let operation_at = |at: Option<u32>| at.and_then(|at| self.assembly.operation(at));
        let (call, operation) = (operation_at(call), operation_at(below));
        let Some((at, operation)) = below.zip(operation) else {
            return self.progress_of_call(call);
        };
        let children = self.children.get(index(at)).copied().unwrap_or_default();
        let open = self.open.get(&at).into_iter().flatten();
        let open = open.filter_map(|&transfer| self.assembly.operation(transfer));
        let mut waits: Vec<_> = open
            .filter_map(|transfer| self.proxies.wait(self.assembly, transfer))
            .collect();
        waits.sort_by_key(|wait| (wait.since_ns, wait.channel, wait.is_send));
        let ran_after =
            operation.start < ran_until.0 && self.assembly.launch_plan(operation) != ran_until.1;
        let stage = if children.any_open() {
            Stage::Running
        } else if children.channels > 0 || ran_after {
            Stage::Done
        } else if children.transfers > 0 {
            Stage::Transferred
        } else if operation.end().is_none() {
            Stage::Calling
        } else {
            let call = call.or_else(|| self.parent(operation).map(|(_, call)| call));
            match call.and_then(|call| {
                self.launches
                    .get(&(call.parent, self.assembly.context_of(operation)))
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
    fn progress_of_call(&self, call: Option<&Operation>) -> Progress {
        let Some(call) = call else {
            return Progress::default();
        };
        let launch = self
            .launches
            .get(&(call.parent, self.assembly.context_of(call)));
        let group = self.parent(call);
        let in_group = group.is_some_and(|(_, group)| group.end().is_none());
        let stage = if launch == Some(&true) {
            Stage::Launching
        } else if in_group || call.end().is_none() {
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
        call: Option<u32>,
        below: Option<u32>,
        ran_until: (u64, u64),
    ) -> Option<Call> {
        let progress = self.progress(call, below, ran_until);
        let operation = |at: Option<u32>| at.and_then(|at| self.assembly.operation(at));
        let below_fields = operation(below).map(|operation| self.assembly.fields_of(operation));
        let sequence = match below_fields {
            Some(
                Body::Coll(event::Coll { sequence, .. })
                | Body::CeColl(event::CeColl { sequence, .. }),
            ) => Some(sequence),
            _ => None,
        };
        let Some(
            Body::CollApi(event::CollApi {
                func,
                count,
                datatype,
                root,
                ..
            })
            | Body::Coll(event::Coll {
                func,
                count,
                datatype,
                root,
                ..
            })
            | Body::CeColl(event::CeColl {
                func,
                count,
                datatype,
                root,
                ..
            }),
        ) = operation(call.or(below)).map(|of| self.assembly.fields_of(of))
        else {
            return None;
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
            by_copy_engine: matches!(below_fields, Some(Body::CeColl(event::CeColl { .. }))),
            entered_ns,
            progress,
        })
    }

    fn message(&mut self, at: u32, ran_until: (u64, u64), story: &mut Story) {
        let Some(operation) = self.assembly.operation(at) else {
            return;
        };
        let Body::P2p(event::P2p {
            func,
            datatype,
            count,
            peer,
            ..
        }) = self.assembly.fields_of(operation)
        else {
            return;
        };
        let Ok(peer) = u32::try_from(peer) else {
            return;
        };
        let is_send = &*self.name(func) == "Send";
        let number = story.message_counts.entry((peer, is_send)).or_default();
        let number = std::mem::replace(number, *number + 1);
        let progress = self.progress(None, Some(at), ran_until);
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
