//! What each NVTX range becomes. The program's ranges are shown, and are a path around calls and operations
//! ([`Paths`]). NCCL's are calls, or repeat what the interface reports ([`ReportedCalls`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::tables::ranges::{RangeAt, RangeKind};
use crate::tables::{CollApi, CommCall, EventRow, Head, OperationRow, P2pApi, Row, Tables};
use journal::format::{CommRecord, Symbol};
use journal::reader::Symbols;
use nccl_events::Table;
use nccl_events::archive::{OTHER_RANGES, path_of_ranges};
use nccl_events::collective::{ends_communicator, is_of_communicators};
use nccl_events::event::GroupApi;
use nccl_events::ids::{index, index_u32};
use nccl_events::range::{NCCL_DOMAIN, RangeField};
use rustc_hash::{FxHashMap, FxHashSet};

/// The most texts for numbers of categories and reduction operators. Others are left out.
const MOST_NUMBERS: usize = 4096;

#[derive(Debug, Default)]
pub struct RangeLinks {
    /// By index of the range.
    pub roles: Vec<RangeRole>,
    /// The domains with started ranges, by name.
    pub domains: Vec<Symbol>,
    pub paths: Paths,
    reported: ReportedCalls,
}

impl RangeLinks {
    /// `operations` are where operations were called; `derived` has the first send or receive of calls that NCCL turns
    /// into these, and NCCL's name of the function.
    pub fn new(
        tables: &Tables,
        symbols: &Symbols,
        operations: impl Iterator<Item = Begin>,
        derived: impl Iterator<Item = (Row<P2pApi>, &'static str)>,
    ) -> Self {
        let all = &tables.ranges.all;
        if all.is_empty() {
            return Self::default();
        }
        let nccl = symbols.all().find(|&symbol| symbols.text(symbol) == NCCL_DOMAIN);
        let is_call =
            |range: &RangeAt| matches!(range.kind, RangeKind::Pushed { .. }) && nccl == Some(range.range.domain);
        let role = |range| if is_call(range) { RangeRole::Call } else { RangeRole::User };
        let mut links = Self { roles: all.iter().map(role).collect(), ..Self::default() };
        let threads: Vec<u32> =
            (0..index_u32(tables.threads.len())).map(|thread| tables.first_index_of_thread(thread)).collect();
        links.reported = ReportedCalls::find(&mut links.roles, tables, symbols, derived, &threads);
        links.paths = Paths::new(tables, symbols, operations, &links.roles, threads);
        let started = all.iter().filter(|range| matches!(range.kind, RangeKind::Started { .. }));
        let domains: BTreeSet<(&str, Symbol)> =
            started.map(|range| (symbols.text(range.range.domain), range.range.domain)).collect();
        links.domains = domains.into_iter().map(|(_, domain)| domain).collect();
        links
    }

    /// Whether a call of init or finalize is shown as the range around it.
    pub fn shows_comm_call(&self, call: u32) -> bool {
        self.reported.replaced.contains(&call)
    }

    /// The call of init or finalize that a range shows: an index in [`Tables::comm_calls`].
    pub fn comm_call(&self, range: u32) -> Option<u32> {
        self.reported.comm_calls.get(&range).copied()
    }

    /// What is known of a range's end. Recording ends inside the call that ends the last communicator.
    pub fn end(&self, at: u32, range: &RangeAt) -> RangeEnd {
        match (range.stop, range.cut) {
            (Some(_), _) => RangeEnd::Known,
            (None, Some(_)) => RangeEnd::Bounded,
            (None, None) if self.reported.ends.contains(&at) => RangeEnd::Bounded,
            (None, None) => RangeEnd::Open,
        }
    }

    /// NCCL's range around a call that the interface reports, if it was recorded. The first send or receive stands for
    /// a call that NCCL turns into these.
    pub fn around_call<'a>(&self, tables: &'a Tables, call: EventRow) -> Option<&'a RangeAt> {
        tables.ranges.all.get(index(*self.reported.calls.get(&call)?))
    }

    /// `ncclRedOp_t` of a call, if a range says.
    pub fn reduction(&self, tables: &Tables, call: Row<CollApi>) -> Option<u64> {
        self.around_call(tables, EventRow::CollApi(call))?.range.fields.get(RangeField::Reduction)
    }

    fn ranges<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = (&'a RangeAt, RangeRole)> {
        tables.ranges.all.iter().zip(self.roles.iter().copied())
    }

    /// The strings in attributes of user ranges.
    pub fn symbols(&self, tables: &Tables) -> BTreeSet<Symbol> {
        let user = self.ranges(tables).filter(|(_, role)| *role == RangeRole::User);
        user.flat_map(|(range, _)| [range.range.domain, range.range.category]).collect()
    }

    /// The texts for numbers in attributes of ranges.
    pub fn texts(&self, tables: &Tables) -> BTreeSet<String> {
        let mut texts = BTreeSet::new();
        let mut numbers: FxHashSet<(bool, u64)> = FxHashSet::default();
        for (range, role) in self.ranges(tables) {
            let field = if role == RangeRole::User { RangeField::Category } else { RangeField::Reduction };
            if let Some(number) = range.range.fields.get(field)
                && numbers.len() < MOST_NUMBERS
                && numbers.insert((role == RangeRole::User, number))
            {
                texts.insert(if role == RangeRole::User { number.to_string() } else { reduction_name(number) });
            }
        }
        texts
    }

    /// For each communicator that was split from another, the index of its context or its id, and the other's id.
    pub fn parents<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = (Option<u32>, u64, u64)> {
        (0..).zip(self.ranges(tables)).filter_map(|(at, (range, role))| {
            let field = |field| range.range.fields.get(field).filter(|&number| number != 0);
            let parent = field(RangeField::ParentCommId).filter(|_| role == RangeRole::Call)?;
            let call = self.comm_call(at).and_then(|call| tables.comm_calls.get(index(call)));
            Some((call.and_then(|call| call.context), field(RangeField::CommId).unwrap_or(0), parent))
        })
    }
}

// A range of NCCL's repeats what the interface reports if an event of the same function on the same thread began inside
// the range. A group's event begins with its first call, behind `ncclGroupStart`.

#[derive(Clone, Copy)]
enum CallReport<'a> {
    GroupEnd,
    /// A call, by NCCL's name of its function.
    Call(&'a str, EventRow),
    /// An index in [`Tables::comm_calls`].
    CommCall(u32),
}

/// What the interface reports, by thread and time.
type Reports<'a> = Vec<((u32, u64), CallReport<'a>)>;

#[derive(Debug, Default)]
pub struct ReportedCalls {
    /// The init or finalize that is shown as the range around it: an index in [`Tables::comm_calls`], by range.
    pub comm_calls: FxHashMap<u32, u32>,
    pub replaced: FxHashSet<u32>,
    /// Ranges of which one or another shows a finalize.
    pub ends: FxHashSet<u32>,
    /// The range around each call.
    pub calls: FxHashMap<EventRow, u32>,
}

impl ReportedCalls {
    pub fn find(
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
                if let CallReport::Call(_, call) = what {
                    found.calls.insert(*call, at);
                }
            }
            for (_, what) in inside.iter().filter(|_| is_of_communicators(name)) {
                if let CallReport::CommCall(call) = what
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
    let mut group_ranges: Vec<(u32, u64, usize, bool)> = Vec::new();
    for (at, (range, role)) in tables.ranges.all.iter().zip(&*roles).enumerate() {
        let is_end = match symbols.text(range.range.name) {
            "ncclGroupStart" => false,
            "ncclGroupEnd" => true,
            _ => continue,
        };
        if *role != RangeRole::User {
            let thread = threads.get(index(range.thread)).copied().unwrap_or(range.thread);
            group_ranges.push((thread, range.start, at, is_end));
        }
    }
    nccl_events::sort::sort(&mut group_ranges);
    let mut open = Vec::new();
    for (thread, _, at, is_end) in group_ranges {
        if !is_end {
            open.push((thread, at));
        } else if let Some((_, start)) = open.pop_if(|(of, _)| *of == thread)
            && let Some(end_role) = roles.get(at).copied()
            && let Some(role) = roles.get_mut(start)
        {
            *role = end_role;
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
struct UnreportedRange<'a> {
    at: u32,
    range: &'a RangeAt,
    name: &'a str,
    /// Some init or finalize is inside it.
    is_used: bool,
}

impl<'a> UnreportedRange<'a> {
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
    let mut free = UnreportedRange::all(tables, symbols, roles, around);
    let mut calls: Vec<(u32, &CommCall)> =
        (0..).zip(&tables.comm_calls).filter(|(at, _)| !around.contains_key(at)).collect();
    nccl_events::sort::sort_by_key(&mut calls, |(_, call)| call.start);
    let mut covered = Vec::new();
    for (at, call) in calls {
        let Some(comm) = comm_of(tables, at) else {
            continue;
        };
        let mut candidates: Vec<&mut UnreportedRange<'_>> = free.iter_mut().collect();
        candidates.retain(|one| {
            let is_kind = ends_communicator(one.name) != call.is_init;
            is_kind && one.range.start <= call.start && can_be_of(one.range, one.name, comm)
        });
        let lasts = |one: &&mut UnreportedRange<'_>| call.end <= one.range.end(tables.span.1);
        // Who ends a communicator for others does it when their calls have returned.
        if call.is_init && candidates.iter().any(lasts) {
            candidates.retain(lasts);
        }
        // A rank ends a communicator once: other calls with its id failed before.
        let is_of_comm =
            |one: &&mut UnreportedRange<'_>| one.range.range.fields.get(RangeField::CommId) == Some(comm.comm_id);
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

fn is_reported(what: &CallReport<'_>, name: &str) -> bool {
    match what {
        CallReport::GroupEnd => name == "ncclGroupEnd",
        CallReport::Call(func, _) => name.strip_prefix("nccl") == Some(func),
        CallReport::CommCall(_) => false,
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
        reports.extend(group.stop().map(|stop| (place(group.thread, stop), CallReport::GroupEnd)));
    }
    for (row, call) in tables.rows::<CollApi>() {
        let what = CallReport::Call(symbols.text(call.fields.func), EventRow::CollApi(row));
        reports.push((place(call.thread, call.start), what));
    }
    for (row, call) in tables.rows::<P2pApi>() {
        let what = CallReport::Call(symbols.text(call.fields.func), EventRow::P2pApi(row));
        reports.push((place(call.thread, call.start), what));
    }
    for (row, func) in derived {
        let first: &Head = &tables[row];
        reports.push((place(first.thread, first.start), CallReport::Call(func, EventRow::P2pApi(row))));
    }
    for (at, call) in (0..).zip(&tables.comm_calls) {
        reports.push((place(call.thread, call.start), CallReport::CommCall(at)));
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
) -> &'r [((u32, u64), CallReport<'a>)] {
    let thread = threads.get(index(range.thread)).copied().unwrap_or(range.thread);
    let from = reports.partition_point(|(place, _)| *place < (thread, range.start));
    let to = reports.partition_point(|(place, _)| *place <= (thread, range.end(last)));
    reports.get(from..to).unwrap_or_default()
}

// The names of the ranges that are open on a thread, outermost first, are a path in a tree. Each push and pop changes
// the thread's path; only paths that a call or an operation has become texts.

/// The most paths, and the most bytes of all their texts. Others share the text [`OTHER_RANGES`].
const MOST: usize = 4096;
const MOST_BYTES: usize = 1 << 20;

/// The path without a range.
const NONE: u32 = 0;

/// Which of the program's ranges are open around calls and operations.
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
    pub fn new(
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
    pub fn path_at_begin(&self, (thread, time, order): Begin) -> Option<u32> {
        if self.texts.is_empty() {
            return None;
        }
        self.numbers.get(&self.path(thread, (time, order))).copied()
    }
}

/// Whether the process is known to have one rank of each communicator.
fn has_one_rank(tables: &Tables) -> bool {
    let comms = || tables.contexts.iter().map(|context| &context.comm);
    let are_described = comms()
        .all(|comm| Table::from_number(comm.table).is_some_and(|table| table.properties().describes_communicators));
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

/// What a range becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRole {
    /// A range or mark of the program or of a library.
    User,
    /// A call of NCCL's that only the range shows.
    Call,
    /// A call of NCCL's that the interface reports, too: the range is not shown.
    Reported,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeEnd {
    Known,
    /// The end was not recorded; something else shows that the range did not last longer.
    Bounded,
    /// The range had not ended when recording did.
    Open,
}

/// The name of a range's region.
pub fn range_name(symbols: &Symbols, name: Symbol) -> &str {
    match symbols.text(name) {
        "" => "range",
        name => name,
    }
}

/// The name of an `ncclRedOp_t`; its number if the program made the operator.
pub fn reduction_name(number: u64) -> String {
    let names = ["sum", "prod", "max", "min", "avg"];
    let known = usize::try_from(number).ok().and_then(|number| names.get(number));
    known.map_or_else(|| number.to_string(), |&name| name.to_owned())
}
