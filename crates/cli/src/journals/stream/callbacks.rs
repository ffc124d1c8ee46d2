//! Writes what NCCL reported to a process, one line per report.

use std::borrow::Cow;

use nccl_events::Body;
use nccl_events::StateArgs;
use nccl_events::event;

use super::minimal::Minimal;
use super::{Callback, Event, State};
use crate::journals::fields::{arguments, each_detail};
use crate::journals::gpu::Entry;
use crate::journals::process::{Comm, Finalize, Process};
use crate::journals::range;
use crate::journals::states;
use crate::journals::value::{Json, Moment, Value};

/// A line; the line of an event is written when it stops.
pub(super) enum Line<'a> {
    Init(&'a Comm),
    State(State),
    Event(Event),
    Finalize(&'a Finalize),
    Gpu(&'a Entry),
    Range(&'a range::Entry),
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

fn gpu(process: &Process, entry: &Entry, json: &mut Json) {
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

fn range(process: &Process, entry: &range::Entry, json: &mut Json) {
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
    state_head(process, state, states::name(state.number), json);
    arguments(state.args, |name, value| json.put(name, value));
    if state.args == StateArgs::None && states::has_arguments(state.number) {
        json.put("noArgs", true);
    }
}
