//! A journal as a stream of callbacks (`docs/REFERENCE.md` §10): JSON Lines that `plugin-host replay` reads.

use anyhow::Result;
use nccl_events::Body;
use nccl_events::StateArgs;
use nccl_events::event;

use super::fields::{arguments, details};
use super::gpu::Said;
use super::lines::Object;
use super::output::Output;
use super::states;
use super::story::{Comm, Event, Finalize, Moment, State, Story};

/// One line and when it is written: an event's when it stops.
enum Line<'a> {
    Init(&'a Comm),
    State(&'a State),
    Event(&'a Event),
    Finalize(&'a Finalize),
    Gpu(&'a Said),
}

impl Line<'_> {
    fn written_ns(&self) -> u64 {
        match self {
            Self::Init(comm) => comm.begin.ns,
            Self::State(state) => state.when.ns,
            Self::Event(event) => event.stop.map_or(u64::MAX, |stop| stop.ns),
            Self::Finalize(finalize) => finalize.begin.ns,
            Self::Gpu(said) => said.when.ns.saturating_add(said.duration_ns.unwrap_or(0)),
        }
    }
}

/// Prints the streams of processes, in the order of time over all of them.
///
/// # Errors
///
/// When stdout cannot be written.
pub(crate) fn print(stories: &[Story], output: &mut Output) -> Result<()> {
    let mut lines: Vec<(u64, &Story, Line<'_>)> = Vec::new();
    for story in stories {
        let comms = story.comms.iter().filter(|comm| comm.is_wanted);
        let own = comms
            .map(Line::Init)
            .chain(story.states.iter().map(Line::State))
            .chain(story.events.iter().map(Line::Event))
            .chain(story.finalizes.iter().map(Line::Finalize))
            .chain(story.gpu.iter().map(Line::Gpu));
        lines.extend(own.map(|line| {
            let after_ns = match line.written_ns() {
                u64::MAX => u64::MAX,
                ns => ns.saturating_sub(story.begin_ns),
            };
            (after_ns, story, line)
        }));
    }
    lines.sort_by_key(|(after_ns, ..)| *after_ns);
    for (_, story, line) in lines {
        let object = match line {
            Line::Init(comm) => init(story, comm),
            Line::State(said) => state(story, said),
            Line::Event(said) => event(story, said),
            Line::Finalize(said) => finalize(story, said),
            Line::Gpu(said) => gpu(story, said),
        };
        if !output.line(&object.end())? {
            break;
        }
    }
    Ok(())
}

fn moment(story: &Story, when: Moment) -> Object {
    Object::new()
        .microseconds("ts", when.ns)
        .number("pid", story.pid)
        .number("tid", when.tid)
}

/// From when to when; nothing is said of an end that was not recorded.
fn span(object: Object, story: &Story, start: Moment, stop: Option<Moment>) -> Object {
    let object = object.object("start", moment(story, start));
    match stop {
        None => object,
        Some(stop) => object
            .object("stop", moment(story, stop))
            .microseconds("duration", stop.ns.saturating_sub(start.ns)),
    }
}

/// Whose it is. A context of another process (PXN) is not known here: the descriptor's rank, and no id.
fn who(object: Object, story: &Story, context: u64, rank: i32) -> Object {
    match story.comm(context) {
        Some(comm) => object
            .number("commId", comm.comm_id)
            .number("rank", comm.rank),
        None => object.number("commId", 0).number("rank", rank),
    }
}

fn lifecycle(func: &str) -> Object {
    Object::new()
        .text("type", "ProfilerLifecycle")
        .text("func", func)
}

fn init(story: &Story, comm: &Comm) -> Object {
    let record = &comm.record;
    let object = who(lifecycle("ProfilerInit"), story, comm.context, 0);
    let stop = Moment {
        ns: comm.end_ns,
        ..comm.begin
    };
    let details = Object::new()
        .number("nranks", record.ranks)
        .number("nnodes", record.nodes)
        .text("commName", story.outcome.symbols.text(record.name))
        .number("table", record.table)
        .number("ncclVersion", record.nccl_version);
    span(object, story, comm.begin, Some(stop))
        .address("ctx", comm.context)
        .object("details", details)
}

fn finalize(story: &Story, said: &Finalize) -> Object {
    let object = who(lifecycle("ProfilerFinalize"), story, said.context, 0);
    let stop = Moment {
        ns: said.end_ns,
        ..said.begin
    };
    span(object, story, said.begin, Some(stop))
        .address("ctx", said.context)
        .object("details", Object::new())
}

fn gpu(story: &Story, said: &Said) -> Object {
    let object = Object::new()
        .text("recordType", "gpu")
        .text("type", said.kind())
        .microseconds("ts", said.when.ns);
    let object = match said.duration_ns {
        Some(duration_ns) => object.microseconds("duration", duration_ns),
        None => object,
    };
    let details = said.details(&story.outcome.symbols);
    object
        .number("pid", story.pid)
        .address("eventAddr", said.id)
        .object("details", Object::new().list(&details))
}

fn event(story: &Story, event: &Event) -> Object {
    let record = &event.record;
    let kind = match record.body {
        Body::Unknown(event::Unknown { event_type }) => format!("{event_type:#x}"),
        ref fields => format!("ncclProfile{}", fields.kind().name()),
    };
    let object = Object::new()
        .text("recordType", "event")
        .text("type", &kind);
    let object = who(object, story, record.context, record.rank);
    let details = details(&record.body, &story.outcome.symbols);
    span(object, story, event.start, event.stop)
        .address("parentObj", record.parent)
        .address("eventAddr", event.id)
        .address("ctx", record.context)
        .object("details", Object::new().list(&details))
}

fn state(story: &Story, state: &State) -> Object {
    let object = Object::new()
        .text("recordType", "state")
        .text("eventAddr", &format!("{:#x}", state.event))
        .microseconds("ts", state.when.ns)
        .text("name", &states::name(state.number))
        .number("id", state.number)
        .number("pid", story.pid)
        .number("tid", state.when.tid)
        .list(&arguments(state.args));
    if state.args == StateArgs::None && states::has_arguments(state.number) {
        object.flag("noArgs", true)
    } else {
        object
    }
}
