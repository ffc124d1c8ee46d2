//! Journals for people: one line an event, in the order of starts, indented below its parent.

use nccl_events::event;
use std::collections::BTreeMap;

use anyhow::Result;
use nccl_events::Body;

use super::fields::{arguments, details};
use super::moment::Moment;
use super::output::Output;
use super::recording::Recording;
use super::states;
use super::value::pairs;
use crate::units;

/// What a line shows.
pub(crate) struct Line {
    /// Since the beginning.
    pub(crate) after_ns: u64,
    /// How long; `None` for what has no length or no end.
    pub(crate) duration: Option<String>,
    /// Thread or location.
    pub(crate) location: String,
    /// Whose.
    pub(crate) whose: String,
    /// How deep.
    pub(crate) depth: usize,
    /// What.
    pub(crate) what: String,
}

/// The widths of the columns whose contents are known before.
pub(crate) struct Columns {
    /// Of the threads or locations.
    pub(crate) location: usize,
    /// Of communicators and ranks.
    pub(crate) whose: usize,
}

impl Columns {
    /// The columns' heads.
    pub(crate) fn head(&self, location: &str) -> String {
        let (location_width, rank_width) = (self.location, self.whose);
        format!("{:>15}  {:>9}  {location:location_width$}  {:rank_width$}  event", "time [s]", "duration", "rank")
    }

    /// A line.
    pub(crate) fn line(&self, line: &Line) -> String {
        let (location, whose) = (self.location, self.whose);
        let time = format!("{}.{:09}", line.after_ns / 1_000_000_000, line.after_ns % 1_000_000_000);
        format!(
            "{time:>15}  {:>9}  {:location$}  {:whose$}  {:indent$}{}",
            line.duration.as_deref().unwrap_or(""),
            line.location,
            line.whose,
            "",
            line.what,
            indent = 2 * line.depth
        )
    }
}

/// The deepest that is shown: parents come from NCCL, and a ring of them must not hang us.
const MOST_DEPTH: usize = 16;

/// Prints the journals of processes, in the order of time over all of them.
pub(crate) fn print(recordings: &[Recording], output: &mut Output) -> Result<()> {
    let mut ids = recordings.iter().flat_map(|recording| &recording.comms);
    let first = ids.next().map(|comm| comm.record.comm_id);
    let names =
        Names { processes: recordings.len() > 1, communicators: ids.any(|comm| Some(comm.record.comm_id) != first) };
    let mut lines: Vec<Line> = Vec::new();
    for recording in recordings {
        lines_of(recording, &names, &mut lines);
    }
    lines.sort_by_key(|line| line.after_ns);
    let widest = |text: fn(&Line) -> &str, least: usize| {
        let widths = lines.iter().map(|line| text(line).chars().count());
        widths.max().unwrap_or(0).max(least)
    };
    let columns = Columns {
        location: widest(|line| &line.location, "thread".len()),
        whose: widest(|line| &line.whose, "rank".len()),
    };
    output.head(&columns.head("thread"))?;
    for line in &lines {
        if !output.line(&columns.line(line))? {
            break;
        }
    }
    Ok(())
}

/// What must be named because there are several.
struct Names {
    processes: bool,
    communicators: bool,
}

/// The lines of a process.
fn lines_of(recording: &Recording, names: &Names, lines: &mut Vec<Line>) {
    let symbols = &recording.outcome.symbols;
    let mut add = |when: Moment, duration, whose: String, depth: usize, what: String| {
        let location = match names.processes {
            true => format!("{}/{}", recording.pid, when.tid),
            false => when.tid.to_string(),
        };
        lines.push(Line {
            after_ns: when.ns.saturating_sub(recording.begin_ns),
            duration,
            location,
            whose,
            depth,
            what,
        });
    };
    let whose = |context, rank| whose(recording, names, context, rank);
    let until = |start: Moment, end_ns: u64| Some(units::time(end_ns.saturating_sub(start.ns)));
    for comm in recording.comms.iter().filter(|comm| comm.is_wanted) {
        let record = &comm.record;
        let name = match symbols.text(record.name) {
            "" => String::new(),
            name => format!(" {name}"),
        };
        let what = format!("init{name} commId={:#x} nranks={} nnodes={}", record.comm_id, record.ranks, record.nodes);
        let duration = until(comm.begin, comm.end_ns);
        add(comm.begin, duration, whose(comm.context, 0), 0, what);
    }
    let depths = depths(recording);
    let below = |id| depths.get(&id).map_or(0, |depth| depth + 1);
    for event in &recording.events {
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
        let whose = whose(record.context, record.rank);
        add(event.start, duration, whose, depth, what);
    }
    for state in &recording.states {
        let arguments = pairs(&arguments(state.args));
        let what = format!("· {}{arguments}", states::name(state.number));
        add(state.when, None, String::new(), below(state.event), what);
    }
    for entry in recording.gpu.iter().filter(|entry| entry.is_for_people()) {
        let what = format!("GPU {}{}", entry.kind(), pairs(&entry.details(symbols)));
        let duration = entry.duration_ns.map(units::time);
        add(entry.when, duration, String::new(), below(entry.id), what);
    }
    for call in &recording.finalizes {
        let duration = until(call.begin, call.end_ns);
        let what = "finalize".to_owned();
        add(call.begin, duration, whose(call.context, 0), 0, what);
    }
}

/// Communicator and rank; the communicator's name only where there are several.
fn whose(recording: &Recording, names: &Names, context: u64, rank: i32) -> String {
    let Some(comm) = recording.comm(context) else {
        return format!("foreign {rank}");
    };
    let rank = format!("{}/{}", comm.rank, comm.ranks);
    let name = recording.outcome.symbols.text(comm.name);
    match (names.communicators, name) {
        (false, _) => rank,
        (true, "") => format!("{:#x} {rank}", comm.comm_id),
        (true, name) => format!("{name} {rank}"),
    }
}

/// How many parents an event has that are printed, too.
fn depths(recording: &Recording) -> BTreeMap<u64, usize> {
    let mut depths: BTreeMap<u64, usize> = BTreeMap::new();
    for event in &recording.events {
        let parent = depths.get(&event.record.parent).copied();
        let depth = parent.map_or(0, |depth| (depth + 1).min(MOST_DEPTH));
        depths.insert(event.id, depth);
    }
    depths
}
