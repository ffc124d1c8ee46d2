//! A journal for people: one line an event, in the order of starts, indented below its parent.

use std::collections::BTreeMap;

use anyhow::Result;
use nccl_profiler_otf2::journal::record::Fields;

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

/// Prints a process's journal.
///
/// # Errors
///
/// When stdout cannot be written.
pub(crate) fn print(story: &Story, output: &mut Output) -> Result<()> {
    let mut rows: Vec<(u64, Row)> = Vec::new();
    let row = |when: Moment, context: Option<(u64, i32)>, depth: usize, what: String| Row {
        after_ns: when.ns.saturating_sub(story.begin_ns),
        duration: None,
        place: when.tid.to_string(),
        whose: context.map_or_else(String::new, |(context, rank)| whose(story, context, rank)),
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
        rows.push((comm.begin.ns, line));
    }
    let depths = depths(story);
    for event in &story.events {
        let record = &event.record;
        let kind = match record.fields {
            Fields::Unknown { event_type } => format!("type {event_type:#x}"),
            ref fields => fields.kind().name().to_owned(),
        };
        let what = with_fields(kind, &details(&record.fields, &story.outcome.symbols));
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
        rows.push((event.start.ns, line));
    }
    for state in &story.states {
        let depth = depths.get(&state.event).map_or(0, |depth| depth + 1);
        let what = with_fields(
            format!("· {}", states::name(state.number)),
            &arguments(state.args),
        );
        rows.push((state.when.ns, row(state.when, None, depth, what)));
    }
    for said in &story.finalizes {
        let mut line = row(
            said.begin,
            Some((said.context, 0)),
            0,
            "finalize".to_owned(),
        );
        line.duration = Some(units::time(said.end_ns.saturating_sub(said.begin.ns)));
        rows.push((said.begin.ns, line));
    }
    rows.sort_by_key(|(ns, _)| *ns);
    let widest = |text: fn(&Row) -> &str, least: usize| {
        let widths = rows.iter().map(|(_, row)| text(row).chars().count());
        widths.max().unwrap_or(0).max(least)
    };
    let columns = Columns {
        place: widest(|row| &row.place, "thread".len()),
        whose: widest(|row| &row.whose, "rank".len()),
    };
    output.head(&columns.head("thread"))?;
    for (_, row) in &rows {
        if !output.line(&columns.line(row))? {
            break;
        }
    }
    Ok(())
}

/// Communicator and rank; the communicator's name only where there are several.
fn whose(story: &Story, context: u64, rank: i32) -> String {
    let Some(comm) = story.comm(context) else {
        return format!("foreign {rank}");
    };
    let rank = format!("{}/{}", comm.rank, comm.ranks);
    let several = story
        .comms
        .iter()
        .any(|other| other.record.comm_id != comm.comm_id);
    let name = story.outcome.symbols.text(comm.name);
    match (several, name) {
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
        let value = match value {
            Value::Text(text) => text.clone(),
            Value::Unsigned(number) => number.to_string(),
            Value::Signed(number) => number.to_string(),
            Value::Flag(is_set) => if *is_set { "yes" } else { "no" }.to_owned(),
            Value::Address(0) => "NULL".to_owned(),
            Value::Address(address) => format!("{address:#x}"),
            Value::Object(list) => with_fields(String::new(), list).trim_start().to_owned(),
        };
        what.push_str(&format!(" {name}={value}"));
    }
    what
}
