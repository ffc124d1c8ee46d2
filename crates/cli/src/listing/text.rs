//! Journals for people: one line an event, in the order of starts, indented below its parent.

use nccl_events::event;
use std::collections::BTreeMap;

use anyhow::Result;
use nccl_events::Body;

use super::fields::{List, Value, arguments, details};
use super::output::Output;
use super::states;
use super::story::{Moment, Story};
use crate::units;

/// What a line shows.
pub(crate) struct Row {
    /// Since the beginning.
    pub(crate) after_ns: u64,
    /// How long; `None` for what has no length or no end.
    pub(crate) duration: Option<String>,
    /// Thread or location.
    pub(crate) place: String,
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
    pub(crate) place: usize,
    /// Of communicators and ranks.
    pub(crate) whose: usize,
}

impl Columns {
    /// The columns' heads.
    pub(crate) fn head(&self, place: &str) -> String {
        let (place_width, whose_width) = (self.place, self.whose);
        format!(
            "{:>15}  {:>9}  {place:place_width$}  {:whose_width$}  event",
            "time [s]", "duration", "rank"
        )
    }

    /// A line.
    pub(crate) fn line(&self, row: &Row) -> String {
        let (place, whose) = (self.place, self.whose);
        let time = format!(
            "{}.{:09}",
            row.after_ns / 1_000_000_000,
            row.after_ns % 1_000_000_000
        );
        format!(
            "{time:>15}  {:>9}  {:place$}  {:whose$}  {:indent$}{}",
            row.duration.as_deref().unwrap_or(""),
            row.place,
            row.whose,
            "",
            row.what,
            indent = 2 * row.depth
        )
    }
}

/// The deepest that is shown: parents come from NCCL, and a ring of them must not hang us.
const MOST_DEPTH: usize = 16;

/// Prints the journals of processes, in the order of time over all of them.
///
/// # Errors
///
/// When stdout cannot be written.
pub(crate) fn print(stories: &[Story], output: &mut Output) -> Result<()> {
    let mut ids = stories.iter().flat_map(|story| &story.comms);
    let first = ids.next().map(|comm| comm.record.comm_id);
    let names = Names {
        processes: stories.len() > 1,
        communicators: ids.any(|comm| Some(comm.record.comm_id) != first),
    };
    let mut rows: Vec<Row> = Vec::new();
    for story in stories {
        rows_of(story, &names, &mut rows);
    }
    rows.sort_by_key(|row| row.after_ns);
    let widest = |text: fn(&Row) -> &str, least: usize| {
        let widths = rows.iter().map(|row| text(row).chars().count());
        widths.max().unwrap_or(0).max(least)
    };
    let columns = Columns {
        place: widest(|row| &row.place, "thread".len()),
        whose: widest(|row| &row.whose, "rank".len()),
    };
    output.head(&columns.head("thread"))?;
    for row in &rows {
        if !output.line(&columns.line(row))? {
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
fn rows_of(story: &Story, names: &Names, rows: &mut Vec<Row>) {
    let row = |when: Moment, context: Option<(u64, i32)>, depth: usize, what: String| Row {
        after_ns: when.ns.saturating_sub(story.begin_ns),
        duration: None,
        place: if names.processes {
            format!("{}/{}", story.pid, when.tid)
        } else {
            when.tid.to_string()
        },
        whose: context.map_or_else(String::new, |(context, rank)| {
            whose(story, names, context, rank)
        }),
        depth,
        what,
    };
    for comm in story.comms.iter().filter(|comm| comm.is_wanted) {
        let record = &comm.record;
        let name = story.outcome.symbols.text(record.name);
        let named = if name.is_empty() {
            String::new()
        } else {
            format!(" {name}")
        };
        let what = format!(
            "init{named} commId={:#x} nranks={} nnodes={}",
            record.comm_id, record.ranks, record.nodes
        );
        let mut line = row(comm.begin, Some((comm.context, 0)), 0, what);
        line.duration = Some(units::time(comm.end_ns.saturating_sub(comm.begin.ns)));
        rows.push(line);
    }
    let depths = depths(story);
    for event in &story.events {
        let record = &event.record;
        let kind = match record.body {
            Body::Unknown(event::Unknown { event_type }) => format!("type {event_type:#x}"),
            ref fields => fields.kind().name().to_owned(),
        };
        let what = with_fields(kind, &details(&record.body, &story.outcome.symbols));
        let depth = depths.get(&event.id).copied().unwrap_or(0);
        let mut line = row(
            event.start,
            Some((record.context, record.rank)),
            depth,
            what,
        );
        line.duration = Some(event.stop.map_or_else(
            || "no end".to_owned(),
            |stop| units::time(stop.ns.saturating_sub(event.start.ns)),
        ));
        rows.push(line);
    }
    for state in &story.states {
        let depth = depths.get(&state.event).map_or(0, |depth| depth + 1);
        let what = with_fields(
            format!("· {}", states::name(state.number)),
            &arguments(state.args),
        );
        rows.push(row(state.when, None, depth, what));
    }
    for said in story.gpu.iter().filter(|said| said.is_for_people()) {
        let depth = depths.get(&said.id).map_or(0, |depth| depth + 1);
        let details = said.details(&story.outcome.symbols);
        let what = with_fields(format!("GPU {}", said.kind()), &details);
        let mut line = row(said.when, None, depth, what);
        line.duration = said.duration_ns.map(units::time);
        rows.push(line);
    }
    for said in &story.finalizes {
        let mut line = row(
            said.begin,
            Some((said.context, 0)),
            0,
            "finalize".to_owned(),
        );
        line.duration = Some(units::time(said.end_ns.saturating_sub(said.begin.ns)));
        rows.push(line);
    }
}

/// Communicator and rank; the communicator's name only where there are several.
fn whose(story: &Story, names: &Names, context: u64, rank: i32) -> String {
    let Some(comm) = story.comm(context) else {
        return format!("foreign {rank}");
    };
    let rank = format!("{}/{}", comm.rank, comm.ranks);
    let name = story.outcome.symbols.text(comm.name);
    match (names.communicators, name) {
        (false, _) => rank,
        (true, "") => format!("{:#x} {rank}", comm.comm_id),
        (true, name) => format!("{name} {rank}"),
    }
}

/// How many parents an event has that are printed, too.
fn depths(story: &Story) -> BTreeMap<u64, usize> {
    let mut depths: BTreeMap<u64, usize> = BTreeMap::new();
    for event in &story.events {
        let parent = depths.get(&event.record.parent).copied();
        let depth = parent.map_or(0, |depth| (depth + 1).min(MOST_DEPTH));
        depths.insert(event.id, depth);
    }
    depths
}

/// The fields after what they belong to, `name=value`.
fn with_fields(mut what: String, fields: &List) -> String {
    for (name, value) in fields {
        what.push_str(&format!(" {name}={}", value_text(value)));
    }
    what
}

/// A value for people.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Flag(is_set) => if *is_set { "yes" } else { "no" }.to_owned(),
        Value::Address(0) => "NULL".to_owned(),
        Value::Address(address) => format!("{address:#x}"),
        Value::Several(values) => {
            let values: Vec<String> = values.iter().map(value_text).collect();
            values.join(",")
        }
        Value::Object(list) => with_fields(String::new(), list).trim_start().to_owned(),
    }
}
