//! What the threads of a process are in, by their NVTX ranges.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::job::{NcclCall, OpenRange, Step, StepsTaken, ThreadActivity};
use journal::format::Symbol;
use journal::reader::Symbols;
use model::communicators::Comms;
use model::tables::ranges::{RangeAt, RangeKind};
use model::tables::{Event, Head, Tables};
use nccl_events::ids::index;
use nccl_events::range::{NCCL_DOMAIN, Range, RangeCount, RangeField};
use nccl_events::sort::Gather;

/// NCCL's work on a thread of CUDA's, which is no call of the program.
const NO_CALL: &str = "hostStreamPlanCallback";

const ABORT: &str = "ncclCommAbort";

/// The threads of a process. Times are those of the tables.
pub(super) struct Threads<'a> {
    tables: &'a Tables,
    symbols: &'a Symbols,
    /// The first index of each thread.
    firsts: Vec<u32>,
    /// The device of each communicator rank, by index of its context.
    gpus: Vec<u32>,
    /// By the thread's first index.
    all: BTreeMap<u32, Thread<'a>>,
    /// Whether each call of NCCL that a thread is in would be seen.
    pub(super) show_calls: bool,
    /// Whether the process has ended: its recording ends within its last call of NCCL, and nothing is open any more.
    has_ended: bool,
}

#[derive(Default)]
struct Thread<'a> {
    is_main: bool,
    /// The communicator ranks that the thread has called NCCL for, as indices of contexts.
    contexts: BTreeSet<u32>,
    /// When it last called NCCL; 0 if never.
    last_call: u64,
    /// The open ranges, outermost first.
    open: Vec<&'a RangeAt>,
    group: Group<'a>,
    taken: BTreeMap<Step, StepsTaken>,
}

/// The group of calls that a thread is in: the communicators of a group are made when it ends.
#[derive(Default)]
struct Group<'a> {
    depth: u32,
    last_step: Option<(Step, &'a RangeAt)>,
}

/// How many ranges, or ends of ranges, the process could not record.
pub(super) fn not_recorded(tables: &Tables) -> u64 {
    let count = |count: RangeCount| tables.ranges.counts.get(count as usize).copied().unwrap_or(0);
    count(RangeCount::Lost) + count(RangeCount::TooDeep)
}

impl<'a> Threads<'a> {
    pub(super) fn of(tables: &'a Tables, symbols: &'a Symbols, comms: &Comms, has_ended: bool) -> Self {
        let gpus = comms.members.iter().map(|member| member.gpu).collect();
        let firsts = (0..).zip(&tables.threads).map(|(at, _)| tables.first_index_of_thread(at)).collect();
        let mut threads = Self { tables, symbols, firsts, gpus, all: BTreeMap::new(), show_calls: false, has_ended };
        let mut ranges = tables.ranges.all.iter();
        threads.show_calls = not_recorded(tables) == 0 && ranges.any(|at| threads.is_nccl(&at.range));
        // A range that was not recorded may be one that is open, or the end of one that seems to be.
        if !tables.ranges.all.is_empty() && not_recorded(tables) == 0 {
            threads.read_events();
            threads.read_ranges();
        }
        threads
    }

    fn first(&self, thread: u32) -> u32 {
        self.firsts.get(index(thread)).copied().unwrap_or(thread)
    }

    fn is_nccl(&self, range: &Range<Symbol>) -> bool {
        self.symbols.text(range.domain) == NCCL_DOMAIN
    }

    fn read_events(&mut self) {
        let (tables, events) = (self.tables, &self.tables.events);
        for (at, thread) in (0..).zip(&tables.threads) {
            let is_main = thread.thread_id != 0 && thread.thread_id == tables.process_id;
            self.all.entry(self.first(at)).or_default().is_main |= is_main;
        }
        let api = events.coll_apis.iter().map(Event::head).chain(events.p2p_apis.iter().map(Event::head));
        let below = events.colls.iter().map(Event::head).chain(events.p2ps.iter().map(Event::head));
        for Head { context, thread, start, .. } in api.chain(below).copied() {
            let thread = self.all.entry(self.first(thread)).or_default();
            thread.contexts.extend(context.at());
            thread.last_call = thread.last_call.max(start);
        }
        // Not a call of the program: NCCL makes the communicators of a group on threads of its own.
        for call in &tables.comm_calls {
            self.all.entry(self.first(call.thread)).or_default().contexts.extend(call.context);
        }
    }

    fn read_ranges(&mut self) {
        let (tables, has_ended) = (self.tables, self.has_ended);
        for at in &tables.ranges.all {
            let RangeKind::Pushed { level } = at.kind else {
                continue;
            };
            let is_nccl = self.is_nccl(&at.range);
            let name = self.symbols.text(at.range.name);
            let thread = self.all.entry(self.first(at.thread)).or_default();
            let end = at.stop.or(at.cut);
            if is_nccl && name != NO_CALL {
                thread.last_call = thread.last_call.max(at.start);
                thread.group_call(name, at, end);
            }
            if end.is_none() && name != NO_CALL && !has_ended {
                let is_outer = |other: &&RangeAt| matches!(other.kind, RangeKind::Pushed { level: at } if at < level);
                let place = thread.open.partition_point(is_outer);
                thread.open.insert(place, at);
            }
        }
    }

    /// NCCL's ranges of these calls, in order.
    fn ranges_of(&self, is_one: impl Fn(&str) -> bool) -> Vec<&'a RangeAt> {
        let ranges = self.tables.ranges.all.iter().filter(|_| self.show_calls);
        let ranges = ranges.filter(|at| self.is_nccl(&at.range) && is_one(self.symbols.text(at.range.name)));
        let mut ranges: Vec<&RangeAt> = ranges.collect();
        ranges.sort_by_key(|at| at.start);
        ranges
    }

    /// When the program called `ncclCommAbort`.
    pub(super) fn aborts(&self) -> Vec<u64> {
        self.ranges_of(|name| name == ABORT).into_iter().map(|at| at.start).collect()
    }

    /// When a communicator rank was ended, and whether by `ncclCommAbort`: NCCL's range does not say of which one.
    pub(super) fn end_of_context(&self, context: u32) -> Option<(u64, bool)> {
        let mut calls = self.tables.comm_calls.iter();
        let at = calls.find(|call| !call.is_init && call.context == Some(context))?.start;
        let aborts = self.ranges_of(|name| name == ABORT);
        let aborted = aborts.into_iter().find(|range| range.start <= at && range.end(u64::MAX) >= at);
        Some((aborted.map_or(at, |range| range.start), aborted.is_some()))
    }

    /// When calls that make a communicator returned without one, as they do for a nonblocking one or after an error.
    pub(super) fn unmade_since(&self) -> Vec<u64> {
        let is_left_out = |at: &RangeAt| at.range.fields.get(RangeField::SplitColor) == Some(u64::MAX);
        let mut calls = self.ranges_of(|name| Step::from_call(name).is_some_and(|step| step != Step::End));
        calls.retain(|at| !is_left_out(at));
        let mut inits: Vec<u64> =
            self.tables.comm_calls.iter().filter(|call| call.is_init).map(|call| call.end).collect();
        inits.sort_unstable();
        for began in inits {
            if let Some(made) = calls.iter().rposition(|at| at.start <= began) {
                calls.remove(made);
            }
        }
        calls.into_iter().filter_map(|at| at.stop).collect()
    }

    fn text(&self, range: &Range<Symbol>) -> String {
        let name = self.symbols.text(range.name);
        match (name.rsplit_once('#'), range.fields.get(RangeField::Number)) {
            (Some((before, after)), Some(number)) => format!("{before}{number}{after}"),
            _ => name.to_owned(),
        }
    }

    /// The call that a thread is in, and how many open ranges are around it.
    fn call(&self, thread: &Thread<'a>) -> Option<(NcclCall, usize)> {
        let (around, at) = thread.open.iter().enumerate().rev().find(|(_, at)| self.is_nccl(&at.range))?;
        let name = self.symbols.text(at.range.name);
        let of = match thread.group.last_step {
            Some((_, step)) if name == "ncclGroupEnd" => step,
            _ => at,
        };
        let (name, fields) = (self.symbols.text(of.range.name).to_owned(), of.range.fields);
        Some((NcclCall { name, since_ns: at.start, fields }, around))
    }

    /// What the most telling of these threads is in: one that takes a step, else one in another call, else the one that
    /// called NCCL last, unless only the main thread has ranges.
    fn activity(&self, threads: impl Iterator<Item = &'a Thread<'a>>) -> ThreadActivity {
        let found = threads
            .map(|thread| (thread, self.call(thread)))
            .filter(|(thread, call)| call.is_some() || thread.last_call > 0 || thread.is_main);
        let best = found.max_by_key(|(thread, call)| {
            let call = call.as_ref().map(|(call, _)| (call.step().is_some(), Reverse(call.since_ns)));
            (call, !thread.open.is_empty(), thread.last_call, thread.is_main)
        });
        let Some((thread, call)) = best else {
            return ThreadActivity::default();
        };
        let around = call.as_ref().map_or(thread.open.len(), |(_, around)| *around);
        let own = thread.open.iter().take(around).filter(|at| !self.is_nccl(&at.range));
        let ranges = own.map(|at| OpenRange {
            domain: self.symbols.text(at.range.domain).to_owned(),
            name: self.text(&at.range),
            since_ns: at.start,
        });
        ThreadActivity { ranges: ranges.collect(), call: call.map(|(call, _)| call), taken: BTreeMap::new() }
    }

    /// What a communicator rank is in: by the threads that called NCCL for it, and those that called for no other one.
    pub(super) fn activity_of_context(&'a self, context: u32) -> ThreadActivity {
        let has_one_gpu = self.gpus.windows(2).all(|pair| matches!(pair, [one, other] if one == other));
        let serves =
            |thread: &&Thread<'_>| thread.contexts.contains(&context) || (has_one_gpu && thread.contexts.is_empty());
        self.activity(self.all.values().filter(serves))
    }

    /// What each GPU's ranks are in. A process without ranks counts as one GPU.
    pub(super) fn activity_of_gpus(&'a self) -> BTreeMap<u32, ThreadActivity> {
        let gpus: BTreeSet<u32> = self.gpus.iter().copied().gather();
        let activity = |gpu: Option<u32>| {
            let is_of = |context: &u32| gpu.is_none() || self.gpus.get(index(*context)).copied() == gpu;
            let serves = |thread: &&Thread<'_>| {
                thread.contexts.iter().any(is_of) || (gpus.len() <= 1 && thread.contexts.is_empty())
            };
            let threads = || self.all.values().filter(serves);
            let mut taken: BTreeMap<Step, StepsTaken> = BTreeMap::new();
            for (step, of_thread) in threads().flat_map(|thread| &thread.taken) {
                let taken = taken.entry(*step).or_default();
                taken.times += of_thread.times;
                taken.last_ns = taken.last_ns.max(of_thread.last_ns);
            }
            ThreadActivity { taken, ..self.activity(threads()) }
        };
        if gpus.is_empty() {
            BTreeMap::from([(0, activity(None))])
        } else {
            gpus.iter().map(|gpu| (*gpu, activity(Some(*gpu)))).gather()
        }
    }
}

impl<'a> Thread<'a> {
    /// Counts the steps that are over: those of a group with its end.
    fn group_call(&mut self, name: &str, at: &'a RangeAt, end: Option<u64>) {
        let group = &mut self.group;
        let over = match (name, end) {
            ("ncclGroupStart", _) => {
                group.depth += 1;
                return;
            }
            ("ncclGroupEnd", Some(end)) => {
                group.depth = group.depth.saturating_sub(1);
                let is_last = group.depth == 0;
                is_last.then(|| group.last_step.take()).flatten().map(|(step, _)| (step, end))
            }
            ("ncclGroupEnd", None) => None,
            _ => match (Step::from_call(name), end) {
                (Some(step), Some(end)) if group.depth == 0 => Some((step, end)),
                (Some(step), Some(_)) => {
                    group.last_step = Some((step, at));
                    None
                }
                _ => None,
            },
        };
        if let Some((step, end)) = over {
            let taken = self.taken.entry(step).or_default();
            taken.times += 1;
            taken.last_ns = taken.last_ns.max(end);
        }
    }
}
