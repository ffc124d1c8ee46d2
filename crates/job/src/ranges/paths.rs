//! Which user ranges are open around calls and operations.
//!
//! The names of the ranges that are open on a thread, outermost first, are a path in a tree. Each push and pop changes
//! the thread's path; only paths that a call or an operation has become texts.

use rustc_hash::FxHashMap;

use super::role::{RangeRole, range_name};
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::Table;
use nccl_events::archive::{OTHER_RANGES, path_of_ranges};
use nccl_events::ids::{index, index_u32};
use tables::ranges::{RangeAt, RangeKind};
use tables::{CommCall, EventRow, Head, OperationRow, Tables};

/// The most paths, and the most bytes of all their texts. Others share the text [`OTHER_RANGES`].
const MOST: usize = 4096;
const MOST_BYTES: usize = 1 << 20;

/// The path without a range.
const NONE: u32 = 0;

#[derive(Debug, Default)]
pub struct Paths {
    /// By the first index of the thread, in order of time.
    changes: FxHashMap<u32, Vec<Change>>,
    threads: Vec<u32>,
    /// The thread whose ranges count for threads that have none, such as PyTorch's for backward passes: the only one
    /// with ranges in a process of one rank.
    main: Option<u32>,
    /// The text of each path that a call or operation has: an index in [`Self::texts`].
    numbers: FxHashMap<u32, u32>,
    pub texts: Vec<String>,
}

/// From here on a thread is in these ranges.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Time, and order of a push; 0 for a pop, which comes before what begins at the same time.
    at: (u64, u32),
    path: u32,
}

/// Parent and name of each path but [`NONE`].
#[derive(Default)]
struct Tree {
    nodes: Vec<(u32, Symbol)>,
    numbers: FxHashMap<(u32, Symbol), u32>,
}

impl Tree {
    fn child(&mut self, parent: u32, name: Symbol) -> u32 {
        *self.numbers.entry((parent, name)).or_insert_with(|| {
            self.nodes.push((parent, name));
            index_u32(self.nodes.len())
        })
    }

    fn text(&self, mut path: u32, symbols: &Symbols) -> String {
        let mut names = Vec::new();
        while let Some(&(parent, name)) = index(path).checked_sub(1).and_then(|at| self.nodes.get(at)) {
            names.push(range_name(symbols, name));
            path = parent;
        }
        names.reverse();
        path_of_ranges(names)
    }
}

impl Paths {
    pub(super) fn of(
        tables: &Tables,
        symbols: &Symbols,
        operations: impl Iterator<Item = Begin>,
        roles: &[RangeRole],
        threads: Vec<u32>,
    ) -> Self {
        let mut pushed: FxHashMap<u32, Vec<&RangeAt>> = FxHashMap::default();
        let last = tables.span.1;
        for (range, role) in tables.ranges.all.iter().zip(roles) {
            let is_around = matches!(range.kind, RangeKind::Pushed { .. }) && range.end(last) > range.start;
            if is_around && *role == RangeRole::User {
                let thread = threads.get(index(range.thread)).copied().unwrap_or(range.thread);
                pushed.entry(thread).or_default().push(range);
            }
        }
        let mut tree = Tree::default();
        let changes = pushed.into_iter().map(|(thread, ranges)| (thread, changes(&mut tree, &ranges, last)));
        let mut paths = Self { changes: changes.collect(), threads, ..Self::default() };
        if let (1, true) = (paths.changes.len(), has_one_rank(tables)) {
            paths.main = paths.changes.keys().next().copied();
        }
        if !paths.changes.is_empty() {
            paths.number(tables, symbols, operations, roles, &tree);
        }
        paths
    }

    /// Numbers the texts of the paths that calls and operations have.
    fn number(
        &mut self,
        tables: &Tables,
        symbols: &Symbols,
        operations: impl Iterator<Item = Begin>,
        roles: &[RangeRole],
        tree: &Tree,
    ) {
        let mut bytes = 0;
        let mut note = |(thread, time, order): Begin| {
            let path = self.path(thread, (time, order));
            if path == NONE || self.numbers.contains_key(&path) {
                return;
            }
            let text = tree.text(path, symbols);
            let is_room = self.texts.len() < MOST && bytes + text.len() <= MOST_BYTES;
            let text = if is_room { text } else { OTHER_RANGES.to_owned() };
            let known = self.texts.last().is_some_and(|last| last == OTHER_RANGES);
            if is_room || !known {
                bytes += text.len();
                self.texts.push(text);
            }
            self.numbers.insert(path, index_u32(self.texts.len() - 1));
        };
        let events = &tables.events;
        events.group_apis.iter().for_each(|call| note(begin(call)));
        events.coll_apis.iter().for_each(|call| note(begin(call)));
        events.p2p_apis.iter().for_each(|call| note(begin(call)));
        tables.comm_calls.iter().for_each(|call| note(begin_of_comm_call(call)));
        for (range, _) in tables.ranges.all.iter().zip(roles).filter(|(_, role)| **role == RangeRole::Call) {
            note(begin_of_range(range));
        }
        operations.for_each(note);
    }

    fn path(&self, thread: u32, at: (u64, u32)) -> u32 {
        let thread = self.threads.get(index(thread)).copied().unwrap_or(thread);
        let own = self.changes.get(&thread).or_else(|| self.changes.get(&self.main?));
        let Some(changes) = own else {
            return NONE;
        };
        let before = changes.partition_point(|change| change.at <= at);
        before.checked_sub(1).and_then(|at| changes.get(at)).map_or(NONE, |change| change.path)
    }

    /// The text of the ranges around what began: an index in [`Self::texts`].
    #[inline]
    pub fn around(&self, (thread, time, order): Begin) -> Option<u32> {
        if self.texts.is_empty() {
            return None;
        }
        self.numbers.get(&self.path(thread, (time, order))).copied()
    }
}

/// Whether the process is known to have one rank of each communicator.
fn has_one_rank(tables: &Tables) -> bool {
    let comms = || tables.contexts.iter().map(|context| &context.comm);
    let are_described =
        comms().all(|comm| Table::of_number(comm.table).is_some_and(|table| table.facts().describes_communicators));
    let mut ids: Vec<u64> = comms().map(|comm| comm.comm_id).collect();
    nccl_events::sort::sort(&mut ids);
    are_described && ids.is_sorted_by(|one, next| one < next)
}

/// Where something began: thread, time, and order at that time.
pub type Begin = (u32, u64, u32);

pub const fn begin(head: &Head) -> Begin {
    (head.thread, head.start, head.order)
}

pub const fn begin_of_range(range: &RangeAt) -> Begin {
    (range.thread, range.start, range.order)
}

pub const fn begin_of_comm_call(call: &CommCall) -> Begin {
    (call.thread, call.start, 0)
}

/// Where an operation was called, if its call was reported; else where it was enqueued. A graph's replay has no call.
pub fn begin_of_operation(tables: &Tables, operation: OperationRow, is_replay: bool) -> Begin {
    let operation = tables.operation(operation);
    let is_call = |row: &EventRow| matches!(row, EventRow::CollApi(_) | EventRow::P2pApi(_));
    let call = if is_replay { None } else { tables.find(operation.parent).filter(is_call) };
    begin(call.and_then(|call| tables.head(call)).unwrap_or(&operation))
}

/// The changes of a thread's path.
fn changes(tree: &mut Tree, ranges: &[&RangeAt], last: u64) -> Vec<Change> {
    let ends = ranges.iter().map(|range| (range.end(last), 0, range.order, false, range.range.name));
    let begins = ranges.iter().map(|range| (range.start, range.order, range.order, true, range.range.name));
    let mut moments: Vec<(u64, u32, u32, bool, Symbol)> = ends.chain(begins).collect();
    // Pops come first, as their second number is 0: none of these ranges begins when it ends.
    moments.sort_unstable_by_key(|&(time, order, of, is_push, _)| (time, is_push, order, of));
    // The order that identifies each open range, its name, and the path with it.
    let mut open: Vec<(u32, Symbol, u32)> = Vec::new();
    let mut changes = Vec::with_capacity(moments.len());
    for (time, order, of, is_push, name) in moments {
        if is_push {
            let path = tree.child(open.last().map_or(NONE, |top| top.2), name);
            open.push((of, name, path));
        } else if let Some(at) = open.iter().rposition(|one| one.0 == of) {
            open.remove(at);
            let mut path = at.checked_sub(1).and_then(|below| open.get(below)).map_or(NONE, |below| below.2);
            for above in open.iter_mut().skip(at) {
                path = tree.child(path, above.1);
                above.2 = path;
            }
        }
        changes.push(Change { at: (time, order), path: open.last().map_or(NONE, |top| top.2) });
    }
    changes
}
