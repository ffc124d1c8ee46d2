//! What NCCL reported to a process, a line each.

use nccl_events::Body;
use nccl_events::StateArgs;
use nccl_events::event;

use crate::listing::fields::{arguments, details};
use crate::listing::gpu::Entry;
use crate::listing::moment::Moment;
use crate::listing::recording::{Comm, Event, Finalize, Recording, State};
use crate::listing::states;
use crate::listing::value::{List, Value};

/// One line and when it is written: an event's when it stops.
pub(super) enum Line<'a> {
    Init(&'a Comm),
    State(&'a State),
    Event(&'a Event),
    Finalize(&'a Finalize),
    Gpu(&'a Entry),
}

impl Line<'_> {
    /// When it is written.
    pub(super) fn written_ns(&self) -> u64 {
        match self {
            Self::Init(comm) => comm.begin.ns,
            Self::State(state) => state.when.ns,
            Self::Event(event) => event.stop.map_or(u64::MAX, |stop| stop.ns),
            Self::Finalize(finalize) => finalize.begin.ns,
            Self::Gpu(entry) => entry.when.ns.saturating_add(entry.duration_ns.unwrap_or(0)),
        }
    }

    /// Its fields.
    pub(super) fn fields(&self, recording: &Recording) -> List {
        match self {
            Self::Init(comm) => init(recording, comm),
            Self::State(it) => state(recording, it),
            Self::Event(it) => event(recording, it),
            Self::Finalize(it) => finalize(recording, it),
            Self::Gpu(entry) => gpu(recording, entry),
        }
    }
}

fn moment(recording: &Recording, when: Moment) -> Value {
    Value::Object(vec![("ts", Value::Time(when.ns)), ("pid", recording.pid.into()), ("tid", when.tid.into())])
}

/// From when to when; nothing is said of an end that was not recorded.
pub(super) fn span(recording: &Recording, start: Moment, stop: Option<Moment>) -> List {
    let mut list = vec![("start", moment(recording, start))];
    if let Some(stop) = stop {
        let duration_ns = stop.ns.saturating_sub(start.ns);
        list.push(("stop", moment(recording, stop)));
        list.push(("duration", Value::Time(duration_ns)));
    }
    list
}

/// Whose it is. A context of another process (PXN) is not known here: the descriptor's rank, and no id.
pub(super) fn who(recording: &Recording, context: u64, rank: i32) -> List {
    let (id, rank) = match recording.comm(context) {
        Some(comm) => (comm.comm_id, comm.rank),
        None => (0, rank),
    };
    vec![("commId", id.into()), ("rank", rank.into())]
}

pub(super) fn lifecycle(func: &str) -> List {
    vec![("type", "ProfilerLifecycle".into()), ("func", func.into())]
}

fn init(recording: &Recording, comm: &Comm) -> List {
    let record = &comm.record;
    let stop = Moment { ns: comm.end_ns, ..comm.begin };
    let details = vec![
        ("nranks", record.ranks.into()),
        ("nnodes", record.nodes.into()),
        ("commName", recording.outcome.symbols.text(record.name).into()),
        ("table", record.table.into()),
        ("ncclVersion", record.nccl_version.into()),
    ];
    let rest = vec![("ctx", Value::Address(comm.context)), ("details", Value::Object(details))];
    let who = who(recording, comm.context, 0);
    [lifecycle("ProfilerInit"), who, span(recording, comm.begin, Some(stop)), rest].concat()
}

fn finalize(recording: &Recording, call: &Finalize) -> List {
    let stop = Moment { ns: call.end_ns, ..call.begin };
    let rest = vec![("ctx", Value::Address(call.context)), ("details", Value::Object(List::new()))];
    let who = who(recording, call.context, 0);
    [lifecycle("ProfilerFinalize"), who, span(recording, call.begin, Some(stop)), rest].concat()
}

fn gpu(recording: &Recording, entry: &Entry) -> List {
    let mut list =
        vec![("recordType", "gpu".into()), ("type", entry.kind().into()), ("ts", Value::Time(entry.when.ns))];
    list.extend(entry.duration_ns.map(|ns| ("duration", Value::Time(ns))));
    list.push(("pid", recording.pid.into()));
    list.push(("eventAddr", Value::Address(entry.id)));
    let details = entry.details(&recording.outcome.symbols);
    list.push(("details", Value::Object(details)));
    list
}

fn event(recording: &Recording, event: &Event) -> List {
    let record = &event.record;
    let kind = match record.body {
        Body::Unknown(event::Unknown { event_type }) => format!("{event_type:#x}"),
        ref fields => format!("ncclProfile{}", fields.kind().name()),
    };
    let details = details(&record.body, &recording.outcome.symbols);
    let rest = vec![
        ("parentObj", Value::Address(record.parent)),
        ("eventAddr", Value::Address(event.id)),
        ("ctx", Value::Address(record.context)),
        ("details", Value::Object(details)),
    ];
    let kind = vec![("recordType", "event".into()), ("type", kind.into())];
    let who = who(recording, record.context, record.rank);
    [kind, who, span(recording, event.start, event.stop), rest].concat()
}

fn state(recording: &Recording, state: &State) -> List {
    let mut list = vec![
        ("recordType", "state".into()),
        ("eventAddr", format!("{:#x}", state.event).into()),
        ("ts", Value::Time(state.when.ns)),
        ("name", states::name(state.number).into()),
        ("id", state.number.into()),
        ("pid", recording.pid.into()),
        ("tid", state.when.tid.into()),
    ];
    list.extend(arguments(state.args));
    if state.args == StateArgs::None && states::has_arguments(state.number) {
        list.push(("noArgs", true.into()));
    }
    list
}
