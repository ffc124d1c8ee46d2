//! Journals for people: one line per event, in the order of starts, indented below its parent. [`Output`] is the stdout
//! of `print`.

use std::collections::BTreeMap;
use std::io;
use std::io::{BufWriter, ErrorKind, StdoutLock, Write as _};

use crate::print::process::{Filter, Process};
use crate::print::stream::{Callback, Event, Events, State};
use crate::print::values;
use crate::print::values::{List, Moment, arguments, details, pairs};
use analysis::units;
use anyhow::{Context as _, Result};
use nccl_events::{Body, event, visible};

pub(crate) struct Line {
    pub(crate) after_ns: u64,
    /// The duration; `None` for instants and for events without an end.
    pub(crate) duration: Option<String>,
    pub(crate) location: String,
    pub(crate) rank: String,
    pub(crate) depth: usize,
    pub(crate) what: String,
}

/// Widths of the columns whose contents are known in advance.
pub(crate) struct Columns {
    pub(crate) location: usize,
    pub(crate) whose: usize,
}

impl Columns {
    pub(crate) fn head(&self, location: &str) -> String {
        let (location_width, rank_width) = (self.location, self.whose);
        format!("{:>15}  {:>9}  {location:location_width$}  {:rank_width$}  event", "time [s]", "duration", "rank")
    }

    pub(crate) fn line(&self, line: &Line) -> String {
        let (location, whose) = (self.location, self.whose);
        let time = format!("{}.{:09}", line.after_ns / 1_000_000_000, line.after_ns % 1_000_000_000);
        let line = format!(
            "{time:>15}  {:>9}  {:location$}  {:whose$}  {:indent$}{}",
            line.duration.as_deref().unwrap_or(""),
            line.location,
            line.rank,
            "",
            line.what,
            indent = 2 * line.depth
        );
        visible(&line).into_owned()
    }
}

/// Maximum depth shown: parents come from NCCL, and a cycle of parents must not cause an endless loop.
const MOST_DEPTH: usize = 16;

/// Prints the journals in time order. Returns for each the number of stops of events that it lacks.
pub(crate) fn print(processes: &[Process], filter: &Filter, output: &mut Output) -> Result<Vec<u64>> {
    let mut ids = processes.iter().flat_map(|process| &process.comms);
    let first = ids.next().map(|comm| comm.record.comm_id);
    let names =
        Names { processes: processes.len() > 1, communicators: ids.any(|comm| Some(comm.record.comm_id) != first) };
    let mut lines: Vec<Line> = Vec::new();
    let mut orphan_stops = Vec::new();
    for process in processes {
        let callbacks = Callbacks::collect(process, filter);
        lines_of(process, &callbacks, &names, &mut lines);
        orphan_stops.push(callbacks.orphan_stops);
    }
    lines.sort_by_key(|line| line.after_ns);
    let widest = |text: fn(&Line) -> &str, least: usize| {
        lines.iter().map(|line| text(line).chars().count()).max().unwrap_or(0).max(least)
    };
    let columns = Columns {
        location: widest(|line| &line.location, "thread".len()),
        whose: widest(|line| &line.rank, "rank".len()),
    };
    output.head(&columns.head("thread"))?;
    for line in &lines {
        if !output.line(columns.line(line))? {
            break;
        }
    }
    Ok(orphan_stops)
}

struct Callbacks {
    events: Vec<Event>,
    states: Vec<State>,
    orphan_stops: u64,
}

impl Callbacks {
    fn collect(process: &Process, filter: &Filter) -> Self {
        let mut all = Events::new(process, filter);
        let mut found = Self { events: Vec::new(), states: Vec::new(), orphan_stops: 0 };
        for callback in &mut all {
            match callback {
                Callback::Event(event) => found.events.push(event),
                Callback::State(state) => found.states.push(state),
            }
        }
        found.events.sort_unstable_by_key(|event| event.number);
        found.orphan_stops = all.orphan_stops;
        found
    }
}

struct Names {
    processes: bool,
    communicators: bool,
}

fn lines_of(process: &Process, callbacks: &Callbacks, names: &Names, lines: &mut Vec<Line>) {
    let symbols = &process.outcome.symbols;
    let mut add = |when: Moment, duration, whose: String, depth: usize, what: String| {
        let location = if names.processes { format!("{}/{}", process.pid, when.tid) } else { when.tid.to_string() };
        lines.push(Line {
            after_ns: when.ns.saturating_sub(process.begin_ns),
            duration,
            location,
            rank: whose,
            depth,
            what,
        });
    };
    let whose = |context, rank| rank_text(process, names, context, rank);
    let until = |start: Moment, end_ns: u64| Some(units::time(end_ns.saturating_sub(start.ns)));
    for comm in process.comms.iter().filter(|comm| comm.is_wanted) {
        let record = &comm.record;
        let name = match symbols.text(record.name) {
            "" => String::new(),
            name => format!(" {name}"),
        };
        let what = format!("init{name} commId={:#x} nranks={} nnodes={}", record.comm_id, record.ranks, record.nodes);
        add(comm.begin, until(comm.begin, comm.end_ns), whose(comm.context, 0), 0, what);
    }
    let depths = depths(&callbacks.events);
    let below = |id| depths.get(&id).map_or(0, |depth| depth + 1);
    for event in &callbacks.events {
        let record = &event.record;
        let kind = match record.body {
            Body::Unknown(event::Unknown { event_type }) => format!("type {event_type:#x}"),
            ref fields => fields.kind().name().to_owned(),
        };
        let what = kind + &pairs(&details(&record.body, symbols));
        let depth = depths.get(&event.id).copied().unwrap_or(0);
        let duration = match event.stop {
            Some(stop) => until(event.start, stop.ns),
            None => Some("no end".to_owned()),
        };
        add(event.start, duration, whose(record.context, record.rank), depth, what);
    }
    for state in &callbacks.states {
        let mut list = List::new();
        arguments(state.args, |name, value| list.push((name, value)));
        let what = format!("· {}{}", values::name(state.number), pairs(&list));
        add(state.when, None, String::new(), below(state.event), what);
    }
    for entry in process.gpu.iter().filter(|entry| entry.is_for_people()) {
        let what = format!("GPU {}{}", entry.kind(), pairs(&entry.details(symbols)));
        add(entry.when, entry.duration_ns.map(units::time), String::new(), below(entry.id), what);
    }
    for entry in process.ranges.iter().filter(|entry| entry.is_for_people()) {
        let what = format!("range {}{}", entry.kind(), pairs(&entry.details(symbols)));
        add(entry.when, None, String::new(), 0, what);
    }
    for call in &process.finalizes {
        let duration = until(call.begin, call.end_ns);
        add(call.begin, duration, whose(call.context, 0), 0, "finalize".to_owned());
    }
}

/// Communicator and rank; the communicator is named only if there are several.
fn rank_text(process: &Process, names: &Names, context: u64, rank: i32) -> String {
    let Some(comm) = process.comm(context) else {
        return format!("foreign {rank}");
    };
    let rank = format!("{}/{}", comm.rank, comm.ranks);
    let name = process.outcome.symbols.text(comm.name);
    match (names.communicators, name) {
        (false, _) => rank,
        (true, "") => format!("{:#x} {rank}", comm.comm_id),
        (true, name) => format!("{name} {rank}"),
    }
}

/// The number of ancestors of each event that are printed, too.
fn depths(events: &[Event]) -> BTreeMap<u64, usize> {
    let mut depths: BTreeMap<u64, usize> = BTreeMap::new();
    for event in events {
        let depth = depths.get(&event.record.parent).copied().map_or(0, |depth| (depth + 1).min(MOST_DEPTH));
        depths.insert(event.id, depth);
    }
    depths
}

/// Writes lines to stdout as they are produced. A closed stdout is no failure; it ends the printing.
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    is_closed: bool,
    left: u64,
    pub(crate) lines: u64,
}

impl Output {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self {
            stdout: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
            is_closed: false,
            left: limit.unwrap_or(u64::MAX),
            lines: 0,
        }
    }

    /// Writes a line. Returns `false` if stdout is closed or the limit is reached.
    pub(crate) fn line(&mut self, text: impl AsRef<[u8]>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.lines += 1;
        let written = self.stdout.write_all(text.as_ref()).and_then(|()| self.stdout.write_all(b"\n"));
        self.check(written)
    }

    /// Writes a line that the limit does not count, such as column headings.
    pub(crate) fn head(&mut self, text: &str) -> Result<()> {
        let written = writeln!(self.stdout, "{text}");
        self.check(written).map(drop)
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let flushed = self.stdout.flush();
        self.check(flushed).map(drop)
    }

    fn check(&mut self, written: io::Result<()>) -> Result<bool> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(false)
            }
            other => other.context("cannot write to stdout").map(|()| true),
        }
    }
}
