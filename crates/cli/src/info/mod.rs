//! `nccl-otf2 info`: shows what an archive contains.
//!
//! It counts the records of any writer in one pass, with memory for two chunks and for the durations. So it uses the
//! region instances of `analysis` instead of its tables, which have rows only for NCCL's operations.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::command_line::Exit;
use crate::info::report::{Communicators, Messages, Operations, Tables, places};
use crate::output::Side::{Left, Right};
use crate::output::{Bar, Table, TableColumn, Text, UNKNOWN, shortened};
use crate::{archives, output};
use analysis::units::{bandwidth, bytes, count, plural, time};
use analysis::{Clock, Completeness, Matching, Trace, is_merged};
use anyhow::{Context as _, Result};
use clap::Args;
use nccl_events::schema::Statements;
use nccl_events::{FULL, LIGHT, Progress as _, STANDARD, event, event_names};
use otf2::LocationRef;

mod counts;
mod report;

pub(crate) use crate::info::report::Report;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 info trace
  nccl-otf2 info --json trace/traces.otf2 | jq '.operations[].duration_ns'

Operations are counted on every rank that ran them: an all-reduce of 8 ranks counts 8 times. Their times are those of \
the operation, not of the call. `timing` says how they were measured:
  cupti          the kernels, as CUPTI reported
  event          CUDA events around the launch
  kernelch       the GPU's own times of the kernels' channels
  kernelch-host  the host's times: when NCCL saw these channels start and stop
  shared-kernel  while the other operations of its kernel ran
  proxy          from the launch to the last network transfer
  enqueue        only the time it took to queue them, not how long they ran";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory, or anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn info(request: &Request) -> Result<Exit> {
    let trace = archives::open(&request.path)?;
    let mut operations = Operations::new(&trace);
    let mut communicators = Communicators::from_trace(&trace);
    // Count the events that are read: in a damaged archive, the definitions may state other numbers.
    let mut events: BTreeMap<LocationRef, u64> = BTreeMap::new();
    let bar = Bar::new();
    bar.begin("locations", trace.definitions.locations.len() as u64);
    // One location at a time: counting needs no order between locations, and memory stays at two chunks.
    for location in trace.definitions.locations.keys().copied() {
        // NCCL's archive also contains what was passed to Score-P while the job ran.
        let is_scorep = is_merged(&trace.archive) && trace.location_kind(location).is_none();
        operations.next_location();
        let counted = trace
            .archive
            .for_each_event(&[location], |_, event| {
                communicators.event(&trace, location, event);
                if !is_scorep {
                    operations.event(event);
                }
                ControlFlow::Continue(())
            })
            .context("the archive is damaged; run `nccl-otf2 check` for details")?;
        events.insert(location, counted);
        bar.step();
    }
    drop(bar);
    let (hosts, processes) = places(&trace, &events);
    let events = events.values().sum();
    if events != trace.events() {
        let promised = count(trace.events());
        output::note(format_args!(
            "the archive promises {promised} events but has {}: see `nccl-otf2 check`",
            count(events)
        ));
    }
    let (communicators, messages) = communicators.finish();
    let completeness = Completeness::from_statements(&trace.statements);
    let tables =
        Tables { events, hosts, processes, communicators, operations: operations.finish(), messages, completeness };
    if request.json {
        output::json(&Report::new(&trace, &tables))?;
    } else {
        output::text(&text(&trace, &tables))?;
    }
    Ok(Exit::Well)
}

const MOST_ROWS: usize = 32;

fn cut(into: &mut Text, rows: usize) {
    if rows > MOST_ROWS {
        let more = rows - MOST_ROWS;
        into.line(format_args!("  … {more} more (--json has all)"));
    }
}

fn table<'a, R>(text: &mut Text, rows: &'a [R], columns: &[TableColumn<'_, &'a R>]) {
    let table = Table::from_rows(rows.iter().take(MOST_ROWS), columns);
    if !table.is_empty() {
        table.print(text);
    }
    cut(text, rows.len());
}

/// The report for people: long lists are cut; JSON is complete.
pub(crate) fn text(trace: &Trace, tables: &Tables) -> Text {
    let mut text = Text::default();
    head(trace, tables.events, &mut text);
    processes(tables, &mut text);
    communicators(tables, &mut text);
    operations(&tables.operations, &mut text);
    messages(&tables.messages, &mut text);
    completeness(&tables.completeness, &mut text);
    unreported(&trace.statements, &mut text);
    text
}

fn head(trace: &Trace, events: u64, text: &mut Text) {
    let statements = &trace.statements;
    text.line(trace.anchor.display());
    let mut fact = |name: &str, values: &[String]| {
        if !values.is_empty() {
            text.line(format_args!("  {name:<10}{}", values.join("; ")));
        }
    };
    let profiler_tables = statements.table.shown();
    fact("NCCL", &statements.version.shown());
    fact("table", &profiler_tables);
    fact("recorded", &statements.events.shown().iter().map(|set| preset(set, &profiler_tables)).collect::<Vec<_>>());
    // The level `full` shows all that was recorded: only another level is worth a line.
    fact("shown", &statements.level.shown().into_iter().filter(|level| level != "full").collect::<Vec<_>>());
    fact("command", &commands(statements.command.shown()));
    fact("job", &statements.job.shown());
    let creator = Some(trace.archive.creator()).filter(|creator| !creator.is_empty());
    fact("creator", &[creator.unwrap_or("not stated").to_owned()]);
    fact("clocks", &clocks(statements));
    fact("GPUs", report::line(statements).as_slice());
    fact("flight", flight(trace).as_slice());
    fact("steps", &statements.steps.shown());
    fact("switched", switches(statements).as_slice());
    fact("PXN", pxn(statements).as_slice());
    fact("ranges", ranges(statements).as_slice());
    text.line(format_args!(
        "  {:<10}{} in {}, {}",
        "length",
        time(Clock::from_trace(trace).length_ns(trace)),
        plural(trace.definitions.locations.len() as u64, "location", "locations"),
        plural(events, "event", "events"),
    ));
}

fn flight(trace: &Trace) -> Option<String> {
    let processes = plural(trace.statements.flight_processes.0?, "process", "processes");
    let from = trace.start_ns().map_or_else(String::new, |start_ns| {
        let from = time(trace.statements.flight_complete_from.get().saturating_sub(start_ns));
        format!("; complete from {from} after the beginning on")
    });
    Some(format!("the end of {processes}{from}"))
}

fn switches(statements: &Statements) -> Option<String> {
    let times = plural(statements.measurement_list.shown().len() as u64, "time", "times");
    let is_any = !statements.measurement_list.is_empty();
    is_any.then(|| format!("recording was switched off or on {times} (--json lists when, where and by what)"))
}

fn pxn(statements: &Statements) -> Option<String> {
    let (transfers, counted) = (statements.pxn_transfers.0?, statements.pxn_counted.get());
    let counts = if counted < transfers {
        format!(
            "; only {} of them count for the operations they were for (NCCL_OTF2_FINALIZE=offline gives all)",
            count(counted)
        )
    } else {
        String::new()
    };
    Some(format!("{} done for ranks of other processes{counts}", plural(transfers, "transfer", "transfers")))
}

/// What NVTX showed; `None` without it.
fn ranges(statements: &Statements) -> Option<String> {
    let counts = &statements.counts;
    let parts = [
        (counts.ranges_user, "range of the program", "ranges of the program"),
        (counts.ranges_marks, "mark", "marks"),
        (counts.ranges_nccl, "call that only NVTX shows", "calls that only NVTX shows"),
        (counts.ranges_lost.saturating_add(counts.ranges_too_deep), "not recorded", "not recorded"),
    ];
    let parts = parts.into_iter().filter(|(number, ..)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, one, many)| plural(number, one, many)).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How far a command is shown; --json has it in full.
const MOST_OF_COMMAND: usize = 100;

/// Launchers give each process its own command line, so only the first is shown.
fn commands(commands: Vec<String>) -> Vec<String> {
    match commands.as_slice() {
        [first, others @ ..] if !others.is_empty() => {
            let others = plural(others.len() as u64, "other", "others");
            vec![format!("{} (and {others}: --json has all)", shortened(first, MOST_OF_COMMAND))]
        }
        _ => commands.iter().map(|command| shortened(command, MOST_OF_COMMAND)).collect(),
    }
}

/// How exact times are: between hosts, on a host, and of stamps by GPU timers.
fn clocks(statements: &Statements) -> Vec<String> {
    let own = match statements.clock_uncertainty_ns.0 {
        Some(ns) => Some(format!("exact to {} on a host", time(ns))),
        None => statements.has_assumed_ticks().then(|| "the length of a tick is not known".to_owned()),
    };
    // Of the last two kinds, upper-only and inconsistent, no error is known.
    let known: Vec<(u64, u64)> = statements.gpu_clocks().take(2).filter(|(number, _)| *number > 0).collect();
    let most_ns = known.iter().map(|(_, residual_ns)| *residual_ns).max();
    let number = known.iter().map(|(number, _)| number).sum();
    let known = most_ns.map(|ns| format!("GPU timers of {} exact to {}", ranks(number), time(ns)));
    let unknown: u64 = statements.gpu_clocks().skip(2).map(|(number, _)| number).sum();
    let unknown = (unknown > 0).then(|| format!("the error of the GPU timers of {} is not known", ranks(unknown)));
    [hosts(statements), own, known, unknown].into_iter().flatten().collect()
}

fn ranks(number: u64) -> String {
    plural(number, "rank", "ranks")
}

/// How accurately the hosts' clocks are related; `None` for one host.
fn hosts(statements: &Statements) -> Option<String> {
    let hosts = plural(statements.hosts.number.0?, "host", "hosts");
    let constraints = plural(statements.alignment_constraints.0?, "constraint", "constraints");
    let violated = match statements.alignment_violations.0? {
        0 => String::new(),
        number => {
            let worst_ns = statements.alignment_worst_violation_ns.get();
            format!(", {} of them violated, by up to {}", count(number), time(worst_ns))
        }
    };
    Some(match (statements.alignment_groups.0?, statements.alignment_uncertainty_ns.0) {
        (1, Some(uncertainty)) => format!("{hosts} on one clock to {} by {constraints}{violated}", time(uncertainty)),
        (groups, _) => format!(
            "{hosts}, {} without any common reference: the system clocks are not corrected ({constraints}{violated})",
            plural(groups, "group", "groups")
        ),
    })
}

/// The short name of an event set, if it has one for any of the tables: older tables lack newer kinds.
fn preset(events: &str, tables: &[String]) -> String {
    let tables = nccl_events::Table::ALL.into_iter().filter(|table| tables.contains(&format!("ncclProfiler_{table}")));
    let tables: Vec<u32> = tables.map(event::kinds).collect();
    let presets = [("light", LIGHT), ("standard", STANDARD), ("full", FULL)];
    let found =
        presets.iter().find(|(_, mask)| tables.iter().any(|kinds| event_names(mask & kinds).join(",") == events));
    found.map_or_else(|| events.to_owned(), |(name, _)| (*name).to_owned())
}

fn processes(tables: &Tables, text: &mut Text) {
    text.paragraph(format_args!(
        "{} on {}",
        plural(tables.processes.len() as u64, "process", "processes"),
        plural(tables.hosts.len() as u64, "host", "hosts")
    ));
    table(
        text,
        &tables.processes,
        &[
            ("process", Left, |row| row.name.clone()),
            ("host", Left, |row| row.host.clone()),
            ("GPUs", Right, |row| count(row.gpus.len() as u64)),
            ("locations", Right, |row| count(row.locations)),
            ("events", Right, |row| count(row.events)),
        ],
    );
}

fn communicators(tables: &Tables, text: &mut Text) {
    text.paragraph(plural(tables.communicators.len() as u64, "communicator", "communicators"));
    table(
        text,
        &report::by_shape(&tables.communicators),
        &[
            ("name", Left, |row| or_unknown(&row.name)),
            ("id", Left, |row| or_unknown(&row.id)),
            ("ranks", Right, |row| count(row.ranks)),
            ("recorded", Right, |row| count(row.ranks_recorded)),
            ("collectives", Right, |row| count(row.collectives.values().sum())),
            ("messages", Right, |row| count(row.sends)),
            ("message bytes", Right, |row| bytes(row.bytes_sent)),
        ],
    );
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { UNKNOWN } else { text }.to_owned()
}

fn operations(rows: &[report::OperationRow], text: &mut Text) {
    if rows.is_empty() {
        text.paragraph("no operations");
        return;
    }
    text.paragraph("operations, counted on every rank");
    let columns: [TableColumn<'_, &report::OperationRow>; 9] = [
        ("function", Left, |row| row.function.clone()),
        ("bytes", Right, |row| match (bytes(row.bytes_min), bytes(row.bytes_max)) {
            (least, _) if row.bytes_min == row.bytes_max => least,
            (least, most) => format!("{least} … {most}"),
        }),
        ("count", Right, |row| count(row.count)),
        ("min", Right, |row| duration(row, |all| all.min)),
        ("median", Right, |row| duration(row, |all| all.median)),
        ("max", Right, |row| duration(row, |all| all.max)),
        ("total", Right, |row| duration(row, |all| all.total)),
        ("algbw", Right, |row| row.algbw.map_or_else(|| UNKNOWN.to_owned(), |all| bandwidth(all.median))),
        ("timing", Left, |row| timing(row)),
    ];
    Table::from_rows(rows, &columns).print(text);
    if rows.iter().any(|row| row.algbw.is_some_and(|algbw| algbw.count < row.count - row.unfinished)) {
        text.line("  algbw: only of operations with a kernel of their own, which may be fewer than count");
    }
    if rows.iter().any(|row| row.timing.contains_key("enqueue")) {
        text.line("  enqueue: only the queueing was seen; these times do not say how long the operations ran");
    }
}

fn duration(row: &report::OperationRow, pick: fn(report::Durations) -> u64) -> String {
    row.duration_ns.map_or_else(|| UNKNOWN.to_owned(), |all| time(pick(all)))
}

fn timing(row: &report::OperationRow) -> String {
    let mut words: Vec<String> = match row.timing.len() {
        1 => row.timing.keys().cloned().collect(),
        _ => row.timing.iter().map(|(source, number)| format!("{source} {}", count(*number))).collect(),
    };
    if row.unfinished > 0 {
        words.push(format!("unfinished {}", count(row.unfinished)));
    }
    words.join(", ")
}

fn messages(rows: &[Messages], text: &mut Text) {
    if rows.is_empty() {
        return;
    }
    text.paragraph("messages between ranks");
    table(
        text,
        rows,
        &[
            ("communicator", Left, |row| row.communicator.clone()),
            ("from", Right, |row| row.from.to_string()),
            ("to", Right, |row| row.to.to_string()),
            ("count", Right, |row| count(row.count)),
            ("bytes", Right, |row| bytes(row.bytes)),
        ],
    );
}

fn completeness(completeness: &Completeness, text: &mut Text) {
    if completeness.kinds.is_empty() {
        text.paragraph("completeness is unknown: the plugin did not make this archive");
        return;
    }
    text.paragraph("completeness");
    let all = [
        "seen",
        "written",
        "not_shown",
        "duplicate",
        "unfinished",
        "orphan",
        "lost",
        "left_out",
        "late",
        "stops_lost",
        "states_lost",
    ];
    let is_any =
        |column: &str| completeness.kinds.values().any(|counts| counts.get(column).is_some_and(|number| *number > 0));
    let columns = all.into_iter().filter(|column| ["seen", "written", "lost"].contains(column) || is_any(column));
    let columns: Vec<&str> = columns.collect();
    let mut headings = vec![("kind", Left)];
    headings.extend(columns.iter().map(|column| (*column, Right)));
    let mut table = Table::new(&headings);
    for (kind, counts) in &completeness.kinds {
        let numbers = columns.iter().map(|column| count(counts.get(*column).copied().unwrap_or(0)));
        table.row([kind.clone()].into_iter().chain(numbers).collect());
    }
    table.print(text);
    for (name, number) in &completeness.other {
        if *number > 0 && !counts::EXPECTED.contains(&name.as_str()) {
            text.line(format_args!("  {}: {}", counts::words(name), count(*number)));
        }
    }
    for (number, what) in [
        (completeness.callbacks_lost, "callbacks not recorded"),
        (completeness.callbacks_late, "callbacks after the end of recording"),
        (completeness.ranks_missing, "ranks of communicators not recorded"),
        (completeness.ranks_impossible.number, "communicators with an impossible rank or size"),
        (completeness.collectives_unmatched, "collectives not on all recorded ranks"),
        (completeness.problem_count, "problems in journals"),
        (completeness.topology_unused.len() as u64, "dumps of NCCL's topology that could not be used"),
    ] {
        if number > 0 {
            text.line(format_args!("  {what}: {}", count(number)));
        }
    }
    matching(&completeness.matching, text);
    let (problems, parts) = (&completeness.problems, &completeness.parts_left_out);
    let impossible = &completeness.ranks_impossible.lines;
    let lines = problems.iter().chain(parts).chain(&completeness.topology_unused).chain(impossible);
    for problem in lines.take(MOST_ROWS) {
        text.line(format_args!("    {problem}"));
    }
}

fn matching(matching: &Matching, text: &mut Text) {
    let mismatches: Vec<String> = matching.lines().collect();
    for (number, what, lines) in [
        (matching.number(), "mismatches between ranks", &mismatches),
        (
            matching.ranks_behind.number,
            "ranks that had called fewer collectives than others",
            &matching.ranks_behind.lines,
        ),
        (matching.unknown.number, "communicators whose ranks cannot all be compared", &matching.unknown.lines),
    ] {
        if number > 0 {
            text.line(format_args!("  {what}: {}", count(number)));
        }
        for entry in lines.iter().take(MOST_ROWS) {
            text.line(format_args!("    {entry}"));
        }
    }
}

/// How much this NCCL release does not report, so that users do not look for it.
fn unreported(statements: &Statements, text: &mut Text) {
    let lines = statements.unreported.shown();
    if !lines.is_empty() {
        let versions = statements.version.shown().join(", ");
        let release = if versions.is_empty() { "(release not stated)" } else { versions.as_str() };
        let cases = plural(lines.len() as u64, "kind of event", "kinds of events");
        text.paragraph(format_args!("NCCL {release} does not report {cases}: --json has them, in `unreported`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_sets_with_a_name_are_called_by_it() {
        let table = |number: u32| [format!("ncclProfiler_v{number}")];
        assert_eq!(preset(&event_names(STANDARD).join(","), &table(7)), "standard");
        assert_eq!(preset("Coll,KernelCh", &table(7)), "Coll,KernelCh");
        let v1_kinds = "Group,Coll,P2p,ProxyOp,ProxyStep,ProxyCtrl";
        assert_eq!((preset(v1_kinds, &table(1)).as_str(), preset(v1_kinds, &table(5)).as_str()), ("full", v1_kinds));
    }
}
