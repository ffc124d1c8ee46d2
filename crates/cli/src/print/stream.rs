//! Journals as streams of callbacks (`docs/REFERENCE.md` §10): JSON Lines that `plugin-host replay` reads.
//!
//! Lines are not kept in memory: events are read one by one (`Events`) and merged with the rest by time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::vec;

use crate::print::process::{Comm, Filter, Finalize, Process};
use crate::print::values;
use crate::print::values::{GpuEntry, Json, Moment, Value, arguments, each_detail};
use anyhow::Result;
use clap::ValueEnum;
use clocks::ticks::ClockReader;
use journal::format::{Record, RecordBody, Symbol};
use journal::reader::InOrder;
use nccl_events::gpu::GpuRecord;
use nccl_events::{Body, Kind, Start, StateArgs, event, state};
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schema {
    /// All that was recorded, as `nccl-otf2 print --json` prints it
    #[default]
    Callbacks,
    /// Those of TU Dresden's minimal profiler (version 5 of NCCL's interface), for tools that read them
    Minimal,
}

#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) written: u64,
    pub(crate) left_out: u64,
    /// For each process: stops of events that it lacks.
    pub(crate) orphan_stops: Vec<u64>,
}

/// Passes the lines of processes to `each`, in time order across processes, until it returns `false`.
pub(crate) fn lines(
    processes: &[Process],
    filter: &Filter,
    schema: Schema,
    mut each: impl FnMut(&[u8]) -> Result<bool>,
) -> Result<Count> {
    let mut count = Count::default();
    let mut streams: Vec<Stream<'_>> = processes.iter().map(|process| Stream::of(process, filter, schema)).collect();
    let mut due: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        due.extend(stream.advance().map(|after_ns| Reverse((after_ns, index))));
    }
    let mut json = Json::default();
    'all: while let Some(Reverse((_, index))) = due.pop() {
        let Some(stream) = streams.get_mut(index) else { continue };
        for line in &stream.lines {
            if !stream.write(line, &mut json) {
                count.left_out += 1;
                continue;
            }
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
    minimal: Option<Minimal<'a>>,
    events: Events<'a>,
    event: Option<Line<'a>>,
    rest: vec::IntoIter<Line<'a>>,
    lines: Vec<Line<'a>>,
}

impl<'a> Stream<'a> {
    fn of(process: &'a Process, filter: &'a Filter, schema: Schema) -> Self {
        let comms = process.comms.iter().filter(|comm| comm.is_wanted).map(Line::Init);
        let rest = comms.chain(process.finalizes.iter().map(Line::Finalize)).chain(process.gpu.iter().map(Line::Gpu));
        let rest = rest.chain(process.ranges.iter().map(Line::Range));
        let mut rest: Vec<Line<'_>> = rest.collect();
        rest.sort_by_key(Line::written_ns);
        let mut events = Events::new(process, filter);
        Self {
            process,
            minimal: (schema == Schema::Minimal).then(|| Minimal::of(process)),
            event: events.next().map(Line::of),
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
            // Unstopped events can be very many: take one at a time.
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
        std::mem::replace(&mut self.event, self.events.next().map(Line::of))
    }

    /// Writes a line; `false` if the schema does not include it.
    fn write(&self, line: &Line<'_>, json: &mut Json) -> bool {
        match &self.minimal {
            Some(minimal) => minimal.write(line, json),
            None => {
                json.line(|json| line.write(self.process, json));
                true
            }
        }
    }
}

/// A line for one report of NCCL's to a process; the line of an event is written when it stops.
pub(super) enum Line<'a> {
    Init(&'a Comm),
    State(State),
    Event(Event),
    Finalize(&'a Finalize),
    Gpu(&'a GpuEntry),
    Range(&'a values::RangeEntry),
}

impl Line<'_> {
    pub(super) fn of(callback: Callback) -> Self {
        match callback {
            Callback::State(state) => Self::State(state),
            Callback::Event(event) => Self::Event(event),
        }
    }

    pub(super) fn written_ns(&self) -> u64 {
        match self {
            Self::Init(comm) => comm.begin.ns,
            Self::State(state) => state.when.ns,
            Self::Event(event) => event.stop.map_or(u64::MAX, |stop| stop.ns),
            Self::Finalize(finalize) => finalize.begin.ns,
            Self::Gpu(entry) => entry.when.ns.saturating_add(entry.duration_ns.unwrap_or(0)),
            Self::Range(entry) => entry.when.ns,
        }
    }

    pub(super) fn place(&self) -> (u8, u64) {
        match self {
            Self::Init(_) => (0, 0),
            Self::State(_) => (1, 0),
            Self::Event(event) => (2, event.number),
            Self::Finalize(_) => (3, 0),
            Self::Gpu(_) => (4, 0),
            Self::Range(_) => (5, 0),
        }
    }

    pub(super) fn write(&self, process: &Process, json: &mut Json) {
        match self {
            Self::Init(comm) => init(process, comm, json),
            Self::State(it) => state(process, it, json),
            Self::Event(it) => event(process, it, None, json),
            Self::Finalize(it) => finalize(process, it, json),
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
pub(super) fn span(process: &Process, start: Moment, stop: Option<Moment>, json: &mut Json) {
    json.object("start", |json| moment(process, start, json));
    if let Some(stop) = stop {
        json.object("stop", |json| moment(process, stop, json));
        json.put("duration", Value::Time(stop.ns.saturating_sub(start.ns)));
    }
}

/// Writes communicator and rank. Contexts of other processes (PXN) are unknown here: id 0, and the descriptor's rank.
pub(super) fn who(process: &Process, context: u64, rank: i32, json: &mut Json) {
    let (id, rank) = match process.comm(context) {
        Some(comm) => (comm.comm_id, comm.rank),
        None => (0, rank),
    };
    json.put("commId", id);
    json.put("rank", rank);
}

pub(super) fn lifecycle(func: &str, json: &mut Json) {
    json.put("type", "ProfilerLifecycle");
    json.put("func", func);
}

fn init(process: &Process, comm: &Comm, json: &mut Json) {
    let record = &comm.record;
    lifecycle("ProfilerInit", json);
    who(process, comm.context, 0, json);
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
    who(process, call.context, 0, json);
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

pub(super) fn event(process: &Process, event: &Event, minimal: Option<&Minimal<'_>>, json: &mut Json) {
    let record = &event.record;
    json.put("recordType", "event");
    match record.body {
        Body::Unknown(event::Unknown { event_type }) => json.put("type", format!("{event_type:#x}")),
        ref fields => json.put_joined("type", ["ncclProfile", fields.kind().name()]),
    }
    if let Some(minimal) = minimal {
        json.put("gpuUuid", minimal.gpu_of(record.context));
    }
    who(process, record.context, record.rank, json);
    span(process, event.start, event.stop, json);
    if let Some(number) = minimal.and_then(|minimal| minimal.launch(event.id)) {
        json.put("extCorrId", number);
    }
    json.put("parentObj", Value::Address(record.parent));
    json.put("eventAddr", Value::Address(event.id));
    json.put("ctx", Value::Address(record.context));
    json.object("details", |json| {
        each_detail(&record.body, &process.outcome.symbols, |name, value| {
            if minimal.is_none() || Minimal::has_detail(name) {
                json.put(name, value);
            }
        });
    });
}

pub(super) fn state_head(process: &Process, state: &State, name: Cow<'_, str>, json: &mut Json) {
    json.put("recordType", "state");
    json.put("eventAddr", Value::Address(state.event));
    json.put("ts", Value::Time(state.when.ns));
    json.put("name", name);
    json.put("id", state.number);
    json.put("pid", process.pid);
    json.put("tid", state.when.tid);
}

fn state(process: &Process, state: &State, json: &mut Json) {
    state_head(process, state, values::name(state.number), json);
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

/// Reads the wanted events and states of a process in time order: events when they stop, then those that never stopped,
/// in the order of their starts. A state is wanted if its event is.
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

/// The event kinds of version 5.
const MASK: u32 = (1 << 12) - 1;

impl Minimal<'_> {
    /// Writes a line unless that profiler does not record it: events without a stop, newer kinds, other GPU facts.
    pub(super) fn write(&self, line: &Line<'_>, json: &mut Json) -> bool {
        match line {
            Line::Init(comm) => json.line(|json| self.init(comm, json)),
            Line::Finalize(call) => json.line(|json| self.finalize(call, json)),
            Line::State(it) => return self.state(it, json),
            Line::Event(it) => {
                if it.stop.is_none() || it.record.body.kind().mask() & MASK == 0 {
                    return false;
                }
                json.line(|json| event(self.process, it, Some(self), json));
            }
            Line::Gpu(entry) => return self.kernel(entry, json),
            Line::Range(_) => return false,
        }
        true
    }

    /// A state, with only the argument that NCCL passes with it.
    fn state(&self, it: &State, json: &mut Json) -> bool {
        let argument = match it.number {
            state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT => "transSize",
            state::PROXY_CTRL_APPEND_END => "appendedProxyOps",
            state::KERNEL_CH_STOP => "pTimer",
            number if number <= state::GROUP_END_API_START => "",
            _ => return false,
        };
        // The profiler's own names for these states; the numbers are NCCL's.
        let name = match it.number {
            state::GROUP_START_API_STOP => "EndGroupApiStart".into(),
            state::GROUP_END_API_START => "BeginGroupApiEnd".into(),
            number => values::name(number),
        };
        json.line(|json| {
            state_head(self.process, it, name, json);
            arguments(it.args, |name, value| {
                if name == argument {
                    json.put(name, value);
                }
            });
        });
        true
    }

    fn init(&self, comm: &Comm, json: &mut Json) {
        let record = &comm.record;
        self.head("ProfilerInit", comm.context, (comm.begin, Moment { ns: comm.end_ns, ..comm.begin }), json);
        json.object("details", |json| {
            json.put("nranks", record.ranks);
            json.put("commName", self.process.outcome.symbols.text(record.name));
            json.put("eventMask", self.process.event_mask & MASK);
        });
    }

    fn finalize(&self, call: &Finalize, json: &mut Json) {
        let init = self.process.comms.iter().find(|comm| comm.context == call.context);
        self.head("ProfilerFinalize", call.context, (call.begin, Moment { ns: call.end_ns, ..call.begin }), json);
        json.object("details", |json| {
            if let Some(init) = init {
                json.put("totalDuration", Value::Time(call.end_ns.saturating_sub(init.begin.ns)));
            }
        });
    }

    fn head(&self, func: &str, context: u64, (start, stop): (Moment, Moment), json: &mut Json) {
        lifecycle(func, json);
        json.put("gpuUuid", self.gpu_of(context));
        who(self.process, context, 0, json);
        span(self.process, start, Some(stop), json);
    }

    fn kernel(&self, entry: &GpuEntry, json: &mut Json) -> bool {
        let (GpuRecord::Kernel(kernel), Some(duration_ns)) = (entry.record, entry.duration_ns) else {
            return false;
        };
        let stop = Moment { ns: entry.when.ns.saturating_add(duration_ns), ..entry.when };
        json.line(|json| {
            json.put("recordType", "cuptiActivity");
            json.put("type", "KERNEL");
            json.put("extCorrId", self.launch(entry.id).unwrap_or(0));
            json.put("corrId", kernel.correlation);
            json.put("gpuUuid", self.gpu(Some(kernel.device)));
            json.put("deviceId", kernel.device);
            span(self.process, entry.when, Some(stop), json);
            json.put("name", self.process.outcome.symbols.text(kernel.name));
            json.put("stream", Value::Address(kernel.stream.into()));
            json.object("details", |json| {
                let names = ["gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"];
                for (name, size) in names.into_iter().zip(kernel.grid.into_iter().chain(kernel.block)) {
                    json.put(name, size);
                }
            });
        });
        true
    }
}

/// Fields that version 5 or that profiler does not have.
const NEWER: [&str; 5] = ["commHash", "kernelVariant", "isSymmetric", "userTag", "net"];

/// Writes lines in the format of TU Dresden's minimal profiler. It knows version 5 of NCCL's interface and names the
/// GPU in every line; kernels are `cuptiActivity`, which launches refer to by `extCorrId`.
pub(super) struct Minimal<'a> {
    pub(super) process: &'a Process,
    gpus: BTreeMap<u32, String>,
    of_comms: BTreeMap<u64, u32>,
    /// Events and numbers (from 1) of launches, sorted by event.
    launches: Vec<(u64, u64)>,
}

impl<'a> Minimal<'a> {
    pub(super) fn of(process: &'a Process) -> Self {
        let launches = process.launches.iter().filter(|launch| launch.kind == Kind::KernelLaunch);
        let mut launches: Vec<(u64, u64)> = launches.map(|launch| launch.id).zip(1..).collect();
        launches.sort_unstable();
        let mut found = Self { process, gpus: BTreeMap::new(), of_comms: BTreeMap::new(), launches };
        for entry in &process.gpu {
            match entry.record {
                GpuRecord::Device(device) => drop(found.gpus.insert(device.ordinal, uuid(device.uuid))),
                GpuRecord::DeviceOfCommunicator { ordinal } => drop(found.of_comms.insert(entry.id, ordinal)),
                _ => {}
            }
        }
        found
    }

    pub(super) fn launch(&self, event: u64) -> Option<u64> {
        self.launches.get(self.launches.binary_search_by_key(&event, |(id, _)| *id).ok()?).map(|(_, number)| *number)
    }

    pub(super) fn has_detail(name: &str) -> bool {
        !NEWER.contains(&name)
    }

    pub(super) fn gpu_of(&self, context: u64) -> &str {
        self.gpu(self.of_comms.get(&context).copied())
    }

    /// The UUID of a device; empty if unknown.
    pub(super) fn gpu(&self, ordinal: Option<u32>) -> &str {
        ordinal.and_then(|ordinal| self.gpus.get(&ordinal)).map_or("", String::as_str)
    }
}

fn uuid(bytes: [u8; 16]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}
