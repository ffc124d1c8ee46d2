//! Everything `info` says, for people.

use analysis::Matching;
use nccl_events::{FULL, LIGHT, STANDARD, event, event_names};

use crate::print::Text;
use crate::table::Side::{Left, Right};
use crate::table::{Side, Table};
use crate::units::{bandwidth, bytes, count, plural, time};

use super::operations;
use super::report::Report;

/// Longest lists printed; JSON has all.
const MOST_ROWS: usize = 32;

fn cut(into: &mut Text, rows: usize) {
    if rows > MOST_ROWS {
        let more = rows - MOST_ROWS;
        into.line(format_args!("  … {more} more (--json has all)"));
    }
}

/// A table of the first rows.
fn table<T>(text: &mut Text, columns: &[(&str, Side)], rows: &[T], cells: impl Fn(&T) -> Vec<String>) {
    let mut table = Table::new(columns);
    for row in rows.iter().take(MOST_ROWS) {
        table.row(cells(row));
    }
    if !table.is_empty() {
        table.print(text);
    }
    cut(text, rows.len());
}

pub(crate) fn text(report: &Report) -> Text {
    let mut text = Text::default();
    head(report, &mut text);
    processes(report, &mut text);
    communicators(report, &mut text);
    operations(report, &mut text);
    messages(report, &mut text);
    completeness(report, &mut text);
    blind_spots(report, &mut text);
    text
}

fn head(report: &Report, text: &mut Text) {
    text.line(&report.anchor);
    let mut fact = |name: &str, values: &[String]| {
        if !values.is_empty() {
            text.line(format_args!("  {name:<10}{}", values.join("; ")));
        }
    };
    fact("NCCL", &report.nccl_versions);
    fact("table", &report.profiler_tables);
    let event_sets: Vec<String> = report.event_sets.iter().map(|set| preset(set, &report.profiler_tables)).collect();
    fact("recorded", &event_sets);
    fact("command", &commands(&report.commands));
    fact("job", &report.job);
    fact("creator", std::slice::from_ref(&report.creator));
    fact("clocks", clocks(report).as_slice());
    fact("GPUs", report.gpus.line().as_slice());
    for (name, said) in report.recording.facts(report.start_ns) {
        fact(name, &[said]);
    }
    text.line(format_args!(
        "  {:<10}{} in {}, {}",
        "length",
        time(report.duration_ns),
        plural(report.locations, "location", "locations"),
        plural(report.events, "event", "events"),
    ));
}

/// Launchers give each process a command of its own: one tells what it was.
fn commands(commands: &[String]) -> Vec<String> {
    match commands {
        [first, _, ..] => {
            vec![format!("{first} (and {}: --json has all)", plural(commands.len() as u64 - 1, "other", "others"))]
        }
        _ => commands.to_owned(),
    }
}

/// How well the clocks of hosts are known against each other; nothing where there is one host.
fn clocks(report: &Report) -> Option<String> {
    let said = |name: &str| -> Option<u64> {
        let value = report.clock.get(&format!("clock.alignment.{name}"));
        value?.trim().parse().ok()
    };
    let hosts = plural(said("hosts")?, "host", "hosts");
    let constraints = plural(said("constraints")?, "constraint", "constraints");
    let violated = match said("violations")? {
        0 => String::new(),
        number => {
            format!(", {} of them violated, by up to {}", count(number), time(said("worst_violation_ns").unwrap_or(0)))
        }
    };
    Some(match (said("groups")?, said("uncertainty_ns")) {
        (1, Some(uncertainty)) => format!("{hosts} on one clock to {} by {constraints}{violated}", time(uncertainty)),
        (groups, _) => format!(
            "{hosts}, {} that nothing compares: the system clocks are not corrected ({constraints}{violated})",
            plural(groups, "group", "groups")
        ),
    })
}

/// The short name of an event set that has one with one of the tables: a table lacks kinds that came later.
fn preset(events: &str, tables: &[String]) -> String {
    let tables = nccl_events::Table::ALL.into_iter().filter(|table| tables.contains(&format!("ncclProfiler_{table}")));
    let tables: Vec<u32> = tables.map(event::kinds).collect();
    let presets = [("light", LIGHT), ("standard", STANDARD), ("full", FULL)];
    let found =
        presets.iter().find(|(_, mask)| tables.iter().any(|kinds| event_names(mask & kinds).join(",") == events));
    found.map_or_else(|| events.to_owned(), |(name, _)| (*name).to_owned())
}

fn processes(report: &Report, text: &mut Text) {
    text.paragraph(format_args!(
        "{} on {}",
        plural(report.processes.len() as u64, "process", "processes"),
        plural(report.hosts.len() as u64, "host", "hosts")
    ));
    let columns = [("process", Left), ("host", Left), ("GPUs", Right), ("locations", Right), ("events", Right)];
    table(text, &columns, &report.processes, |process| {
        vec![
            process.name.clone(),
            process.host.clone(),
            count(process.gpus.len() as u64),
            count(process.locations),
            count(process.events),
        ]
    });
}

fn communicators(report: &Report, text: &mut Text) {
    let number = report.communicators.len() as u64;
    let number = plural(number, "communicator", "communicators");
    text.paragraph(format_args!("{number}"));
    let columns = [
        ("name", Left),
        ("ranks", Right),
        ("recorded", Right),
        ("collectives", Right),
        ("messages", Right),
        ("bytes", Right),
    ];
    table(text, &columns, &report.communicators, |communicator| {
        vec![
            communicator.name.clone(),
            count(communicator.ranks),
            count(communicator.ranks_recorded),
            count(communicator.collectives.values().sum()),
            count(communicator.sends),
            bytes(communicator.bytes_sent),
        ]
    });
}

fn operations(report: &Report, text: &mut Text) {
    if report.operations.is_empty() {
        text.paragraph("no operations");
        return;
    }
    text.paragraph("operations, counted on every rank");
    let mut table = Table::new(&[
        ("function", Left),
        ("bytes", Right),
        ("count", Right),
        ("min", Right),
        ("median", Right),
        ("max", Right),
        ("total", Right),
        ("algbw", Right),
        ("timing", Left),
    ]);
    for row in &report.operations {
        let duration = |pick: fn(operations::Durations) -> u64| {
            row.duration_ns.map_or_else(|| "-".to_owned(), |all| time(pick(all)))
        };
        let sizes = if row.bytes_min == row.bytes_max {
            bytes(row.bytes_min)
        } else {
            format!("{} … {}", bytes(row.bytes_min), bytes(row.bytes_max))
        };
        let algorithm = row.algbw.map(|all| bandwidth(all.median));
        table.row(vec![
            row.function.clone(),
            sizes,
            count(row.count),
            duration(|all| all.min),
            duration(|all| all.median),
            duration(|all| all.max),
            duration(|all| all.total),
            algorithm.unwrap_or_else(|| "-".to_owned()),
            timing(row),
        ]);
    }
    table.print(text);
    if report.operations.iter().any(|row| row.timing.contains_key("enqueue")) {
        text.line("  enqueue: only the queueing was seen; these times do not say how long the operations ran");
    }
}

fn timing(row: &operations::Row) -> String {
    let mut words: Vec<String> = match row.timing.len() {
        1 => row.timing.keys().cloned().collect(),
        _ => {
            let sources = row.timing.iter();
            sources.map(|(source, number)| format!("{source} {}", count(*number))).collect()
        }
    };
    if row.unfinished > 0 {
        words.push(format!("unfinished {}", count(row.unfinished)));
    }
    words.join(", ")
}

fn messages(report: &Report, text: &mut Text) {
    if report.messages.is_empty() {
        return;
    }
    text.paragraph("messages between ranks");
    let columns = [("communicator", Left), ("from", Right), ("to", Right), ("count", Right), ("bytes", Right)];
    table(text, &columns, &report.messages, |messages| {
        vec![
            messages.communicator.clone(),
            messages.from.to_string(),
            messages.to.to_string(),
            count(messages.count),
            bytes(messages.bytes),
        ]
    });
}

fn completeness(report: &Report, text: &mut Text) {
    let completeness = &report.completeness;
    if completeness.kinds.is_empty() {
        text.paragraph("nothing is said about completeness: this archive is not the plugin's");
        return;
    }
    text.paragraph("completeness");
    let mut columns = vec!["seen", "written", "not_shown", "duplicate", "unfinished", "orphan", "lost"];
    // Few archives have these.
    let rare = ["left_out", "late", "stops_lost", "states_lost"].into_iter();
    columns.extend(rare.filter(|column| completeness.kinds.values().any(|counts| counts.contains_key(*column))));
    let mut headings = vec![("kind", Left)];
    headings.extend(columns.iter().map(|column| (*column, Right)));
    let mut table = Table::new(&headings);
    for (kind, counts) in &completeness.kinds {
        let numbers = columns.iter();
        let numbers = numbers.map(|column| count(counts.get(*column).copied().unwrap_or(0)));
        table.row([kind.clone()].into_iter().chain(numbers).collect());
    }
    table.print(text);
    for (name, number) in &completeness.other {
        if *number > 0 {
            text.line(format_args!("  {}: {}", name.replace('_', " "), count(*number)));
        }
    }
    for (number, what) in [
        (completeness.callbacks_lost, "callbacks not recorded"),
        (completeness.callbacks_late, "callbacks after the end of recording"),
        (completeness.ranks_missing, "ranks of communicators not recorded"),
        (completeness.collectives_unmatched, "collectives not on all recorded ranks"),
        (completeness.problem_count, "problems in journals"),
    ] {
        if number > 0 {
            text.line(format_args!("  {what}: {}", count(number)));
        }
    }
    matching(&completeness.matching, text);
    for problem in completeness.problems.iter().chain(&completeness.parts_left_out).take(MOST_ROWS) {
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
        for said in lines.iter().take(MOST_ROWS) {
            text.line(format_args!("    {said}"));
        }
    }
}

/// What is in no archive of this release, so that nobody looks for it.
fn blind_spots(report: &Report, text: &mut Text) {
    if report.blind_spots.is_empty() {
        return;
    }
    text.paragraph("what NCCL does not report");
    for spot in report.blind_spots.iter().take(MOST_ROWS) {
        text.line(format_args!("  {spot}"));
    }
    cut(text, report.blind_spots.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_sets_with_a_name_are_called_by_it() {
        let table = |number: u32| [format!("ncclProfiler_v{number}")];
        assert_eq!(preset(&event_names(STANDARD).join(","), &table(7)), "standard");
        assert_eq!(preset("Coll,KernelCh", &table(7)), "Coll,KernelCh");
        let of_v1 = "Group,Coll,P2p,ProxyOp,ProxyStep,ProxyCtrl";
        assert_eq!((preset(of_v1, &table(1)).as_str(), preset(of_v1, &table(5)).as_str()), ("full", of_v1));
    }
}
