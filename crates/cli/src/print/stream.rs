//! Journals as streams of callbacks (`docs/REFERENCE.md` §10): JSON Lines that `plugin-host replay` reads.
//!
//! Lines are not kept in memory: events are read one by one (`Events`) and merged with the rest by time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::vec;

use crate::print::process::{Comm, Filter, Finalize, Process};
use crate::print::values;
use crate::print::values::{GpuEntry, Json, Moment, Value, arguments, each_detail};
use anyhow::Result;
use clocks::ticks::{ClockReader, TickClock};
use journal::format::{Record, RecordBody, Symbol};
use journal::reader::InOrder;
use nccl_events::{Body, Start, StateArgs, event};
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) written: u64,
    /// For each process, the number of stops of events that its journal lacks.
    pub(crate) orphan_stops: Vec<u64>,
}

/// Passes the lines of processes to `each`, in time order across processes, until it returns `false`.
pub(crate) fn lines(
    processes: &[Process],
    filter: &Filter,
    mut each: impl FnMut(&[u8]) -> Result<bool>,
) -> Result<Count> {
    let mut count = Count::default();
    let mut streams: Vec<Stream<'_>> = processes.iter().map(|process| Stream::new(process, filter)).collect();
    let mut due: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        due.extend(stream.advance().map(|after_ns| Reverse((after_ns, index))));
    }
    let mut json = Json::default();
    'all: while let Some(Reverse((_, index))) = due.pop() {
        let Some(stream) = streams.get_mut(index) else { continue };
        for line in &stream.lines {
            json.line(|json| line.write(stream.process, json));
            count.written += 1;
            if !each(json.text())? {
                break 'all;
            }
        }
        due.extend(stream.advance().map(|after_ns| Reverse((after_ns, index))));
    }
    count.orphan_stops = streams.iter().map(|stream| stream.events.orphan_stops).collect();
    Ok(count)
}

struct Stream<'a> {
    process: &'a Process,
    events: Events<'a>,
    event: Option<Line<'a>>,
    rest: vec::IntoIter<Line<'a>>,
    lines: Vec<Line<'a>>,
}

impl<'a> Stream<'a> {
    fn new(process: &'a Process, filter: &'a Filter) -> Self {
        let comms = process.comms.iter().filter(|comm| comm.is_wanted).map(Line::Init);
        let rest = comms.chain(process.finalizes.iter().map(Line::Finalize)).chain(process.gpu.iter().map(Line::Gpu));
        let rest = rest.chain(process.ranges.iter().map(Line::Range));
        let mut rest: Vec<Line<'_>> = rest.collect();
        rest.sort_by_key(Line::written_ns);
        let mut events = Events::new(process, filter);
        Self {
            process,
            event: events.next().map(Line::from_callback),
            events,
            rest: rest.into_iter(),
            lines: Vec::new(),
        }
    }

    /// Advances to the next lines. Returns when they are written, in ns from the start.
    fn advance(&mut self) -> Option<u64> {
        self.lines.clear();
        let next = [self.event.as_ref(), self.rest.as_slice().first()];
        let ns = next.into_iter().flatten().map(Line::written_ns).min()?;
        let is_due = |line: &Line<'_>| line.written_ns() == ns;
        while self.rest.as_slice().first().is_some_and(is_due) {
            self.lines.extend(self.rest.next());
        }
        if ns == u64::MAX {
            // Take one event at a time, because there can be very many that did not stop.
            let event = self.take_event();
            self.lines.extend(event);
            return Some(ns);
        }
        while self.event.as_ref().is_some_and(is_due) {
            let event = self.take_event();
            self.lines.extend(event);
        }
        self.lines.sort_by_key(Line::place);
        Some(ns.saturating_sub(self.process.begin_ns))
    }

    fn take_event(&mut self) -> Option<Line<'a>> {
        std::mem::replace(&mut self.event, self.events.next().map(Line::from_callback))
    }
}

/// A line for one callback of NCCL's. The line of an event is written when the event stops.
enum Line<'a> {
    Init(&'a Comm),
    State(State),
    Event(Event),
    Finalize(&'a Finalize),
    Gpu(&'a GpuEntry),
    Range(&'a values::RangeEntry),
}

impl Line<'_> {
    fn from_callback(callback: Callback) -> Self {
        match callback {
            Callback::State(state) => Self::State(state),
            Callback::Event(event) => Self::Event(event),
        }
    }

    fn written_ns(&self) -> u64 {
        match self {
            Self::Init(comm) => comm.begin.ns,
            Self::State(state) => state.when.ns,
            Self::Event(event) => event.stop.map_or(u64::MAX, |stop| stop.ns),
            Self::Finalize(finalize) => finalize.begin.ns,
            Self::Gpu(entry) => entry.when.ns.saturating_add(entry.duration_ns.unwrap_or(0)),
            Self::Range(entry) => entry.when.ns,
        }
    }

    fn place(&self) -> (u8, u64) {
        match self {
            Self::Init(_) => (0, 0),
            Self::State(_) => (1, 0),
            Self::Event(event) => (2, event.number),
            Self::Finalize(_) => (3, 0),
            Self::Gpu(_) => (4, 0),
            Self::Range(_) => (5, 0),
        }
    }

    fn write(&self, process: &Process, json: &mut Json) {
        match self {
            Self::Init(comm) => init(process, comm, json),
            Self::State(record) => state(process, record, json),
            Self::Event(record) => event(process, record, json),
            Self::Finalize(record) => finalize(process, record, json),
            Self::Gpu(entry) => gpu(process, entry, json),
            Self::Range(entry) => range(process, entry, json),
        }
    }
}

fn moment(process: &Process, when: Moment, json: &mut Json) {
    json.put("ts", Value::Time(when.ns));
    json.put("pid", process.pid);
    json.put("tid", when.tid);
}

/// Writes start, stop and duration; only the start if the end was not recorded.
fn span(process: &Process, start: Moment, stop: Option<Moment>, json: &mut Json) {
    json.object("start", |json| moment(process, start, json));
    if let Some(stop) = stop {
        json.object("stop", |json| moment(process, stop, json));
        json.put("duration", Value::Time(stop.ns.saturating_sub(start.ns)));
    }
}

/// Writes communicator and rank. Contexts of other processes (PXN) are unknown here: id 0, and the descriptor's rank.
fn put_rank(process: &Process, context: u64, rank: i32, json: &mut Json) {
    let (id, rank) = match process.comm(context) {
        Some(comm) => (comm.comm_id, comm.rank),
        None => (0, rank),
    };
    json.put("commId", id);
    json.put("rank", rank);
}

fn lifecycle(func: &str, json: &mut Json) {
    json.put("type", "ProfilerLifecycle");
    json.put("func", func);
}

fn init(process: &Process, comm: &Comm, json: &mut Json) {
    let record = &comm.record;
    lifecycle("ProfilerInit", json);
    put_rank(process, comm.context, 0, json);
    span(process, comm.begin, Some(Moment { ns: comm.end_ns, ..comm.begin }), json);
    json.put("ctx", Value::Address(comm.context));
    json.object("details", |json| {
        json.put("nranks", record.ranks);
        json.put("nnodes", record.nodes);
        json.put("commName", process.outcome.symbols.text(record.name));
        json.put("table", record.table);
        json.put("ncclVersion", record.nccl_version);
    });
}

fn finalize(process: &Process, call: &Finalize, json: &mut Json) {
    lifecycle("ProfilerFinalize", json);
    put_rank(process, call.context, 0, json);
    span(process, call.begin, Some(Moment { ns: call.end_ns, ..call.begin }), json);
    json.put("ctx", Value::Address(call.context));
    json.object("details", |_| {});
}

fn gpu(process: &Process, entry: &GpuEntry, json: &mut Json) {
    json.put("recordType", "gpu");
    json.put("type", entry.kind());
    json.put("ts", Value::Time(entry.when.ns));
    if let Some(ns) = entry.duration_ns {
        json.put("duration", Value::Time(ns));
    }
    json.put("pid", process.pid);
    json.put("eventAddr", Value::Address(entry.id));
    json.put("details", Value::Object(entry.details(&process.outcome.symbols)));
}

fn range(process: &Process, entry: &values::RangeEntry, json: &mut Json) {
    json.put("recordType", "range");
    json.put("type", entry.kind());
    moment(process, entry.when, json);
    if entry.id != 0 {
        json.put("rangeId", Value::Address(entry.id));
    }
    json.put("details", Value::Object(entry.details(&process.outcome.symbols)));
}

fn event(process: &Process, event: &Event, json: &mut Json) {
    let record = &event.record;
    json.put("recordType", "event");
    match record.body {
        Body::Unknown(event::Unknown { event_type }) => json.put("type", format!("{event_type:#x}")),
        ref fields => json.put_joined("type", ["ncclProfile", fields.kind().name()]),
    }
    put_rank(process, record.context, record.rank, json);
    span(process, event.start, event.stop, json);
    json.put("parentObj", Value::Address(record.parent));
    json.put("eventAddr", Value::Address(event.id));
    json.put("ctx", Value::Address(record.context));
    json.object("details", |json| {
        each_detail(&record.body, &process.outcome.symbols, |name, value| json.put(name, value));
    });
}

fn state(process: &Process, state: &State, json: &mut Json) {
    json.put("recordType", "state");
    json.put("eventAddr", Value::Address(state.event));
    json.put("ts", Value::Time(state.when.ns));
    json.put("name", values::name(state.number));
    json.put("id", state.number);
    json.put("pid", process.pid);
    json.put("tid", state.when.tid);
    arguments(state.args, |name, value| json.put(name, value));
    if state.args == StateArgs::None && values::has_arguments(state.number) {
        json.put("noArgs", true);
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) start: Moment,
    pub(crate) stop: Option<Moment>,
    pub(crate) record: Start<Symbol>,
    /// The number of events of the process that started before.
    pub(crate) number: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) event: u64,
    pub(crate) when: Moment,
    pub(crate) number: u32,
    pub(crate) args: StateArgs,
}

#[derive(Debug)]
pub(crate) enum Callback {
    Event(Event),
    State(State),
}

/// Reads the wanted events and states of a process in time order. Events come when they stop; events that never stopped
/// come last, in the order of their starts. A state is wanted if its event is.
pub(crate) struct Events<'a> {
    process: &'a Process,
    filter: &'a Filter,
    records: InOrder,
    clock: ClockReader<'a>,
    threads: BTreeMap<u16, u32>,
    /// Events that have not stopped, by id; `None` for one that is not wanted.
    open: FxHashMap<u64, Option<Event>>,
    /// The wanted events, if the filter selects events.
    wanted: Option<FxHashSet<u64>>,
    started: u64,
    /// After the last record: numbers and ids of the events that did not stop.
    unstopped: vec::IntoIter<(u64, u64)>,
    /// Stops of events that the journal lacks or that had stopped before.
    pub(crate) orphan_stops: u64,
}

impl<'a> Events<'a> {
    pub(crate) fn new(process: &'a Process, filter: &'a Filter) -> Self {
        Self {
            process,
            filter,
            records: process.segments.in_order(process.outcome.symbols.clone()),
            clock: process.clock.reader(),
            threads: BTreeMap::new(),
            open: FxHashMap::default(),
            wanted: filter.is_about_events().then(FxHashSet::default),
            started: 0,
            unstopped: Vec::new().into_iter(),
            orphan_stops: 0,
        }
    }

    fn take(&mut self, record: Record) -> Option<Callback> {
        let ns = self.clock.nanoseconds(record.ticks);
        let when = |threads: &BTreeMap<u16, u32>| Moment { ns, tid: threads.get(&record.slot).copied().unwrap_or(0) };
        match record.body {
            RecordBody::ThreadBegin { thread_id, .. } => {
                self.threads.insert(record.slot, thread_id);
                None
            }
            RecordBody::Start(start) => {
                let event = self.is_wanted(record.id, &start).then(|| Event {
                    id: record.id,
                    start: when(&self.threads),
                    stop: None,
                    record: start,
                    number: self.started,
                });
                self.started += 1;
                self.open.insert(record.id, event);
                None
            }
            RecordBody::Stop => {
                // Only the first stop counts; a second one is NCCL's mistake.
                let Some(event) = self.open.remove(&record.id) else {
                    self.orphan_stops += 1;
                    return None;
                };
                let event = Event { stop: Some(when(&self.threads)), ..event? };
                self.is_in_time(event.start.ns, Some(ns)).then_some(Callback::Event(event))
            }
            RecordBody::State { state, args } => {
                let is_wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&record.id));
                let callback = State { event: record.id, when: when(&self.threads), number: state, args };
                (is_wanted && self.is_in_time(ns, Some(ns))).then_some(Callback::State(callback))
            }
            _ => None,
        }
    }

    fn is_wanted(&mut self, id: u64, start: &Start<Symbol>) -> bool {
        let Some(wanted) = &mut self.wanted else { return true };
        let is_wanted = self.filter.wants_kind(start.body.kind().name())
            && self.process.wants(self.filter, start.context, start.rank);
        if is_wanted {
            wanted.insert(id);
        }
        is_wanted
    }

    fn is_in_time(&self, first_ns: u64, last_ns: Option<u64>) -> bool {
        self.filter.wants_time(self.process.begin_ns, first_ns, last_ns)
    }
}

impl Iterator for Events<'_> {
    type Item = Callback;

    fn next(&mut self) -> Option<Callback> {
        while let Some(record) = self.records.next() {
            let callback = self.take(record);
            if callback.is_some() {
                return callback;
            }
        }
        if self.unstopped.len() == 0 {
            let open = self.open.iter().filter_map(|(id, event)| event.as_ref().map(|event| (event.number, *id)));
            let mut open: Vec<(u64, u64)> = open.collect();
            open.sort_unstable();
            self.unstopped = open.into_iter();
        }
        while let Some((_, id)) = self.unstopped.next() {
            let event = self.open.remove(&id).flatten();
            if let Some(event) = event.filter(|event| self.is_in_time(event.start.ns, None)) {
                return Some(Callback::Event(event));
            }
        }
        None
    }
}
