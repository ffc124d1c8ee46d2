//! The report for people: the verdict first, then why, then every communicator where somebody waits.

use std::fmt::{Display, Write as _};

use super::names;
use super::rows::{CollectiveRow, CommRow, QuietReport, RankRow, Report, SequenceRow};
use crate::table::{Side, Table};
use crate::units::{count, plural, time};

/// Longest lists printed without `--all`; JSON has everything.
const MOST_ROWS: usize = 16;

/// Writing to a string cannot fail.
fn line(into: &mut String, text: impl Display) {
    let _ = writeln!(into, "{text}");
}

/// The report as text. `all`: no list is cut, and communicators where nobody waits are shown too.
pub(crate) fn text(report: &Report, all: bool) -> String {
    let mut text = String::new();
    line(&mut text, &report.verdict.text);
    suspects(report, all, &mut text);
    if let Some(report) = &report.quiet {
        quiet(report, all, &mut text);
    }
    let (waiting, quiet): (Vec<&CommRow>, Vec<&CommRow>) =
        report.communicators.iter().partition(|comm| all || is_of_interest(comm));
    for comm in cut(&waiting, all) {
        communicator(comm, all, &mut text);
    }
    rest(&mut text, waiting.len(), all, "communicators where ranks wait");
    if !quiet.is_empty() {
        line(
            &mut text,
            format_args!(
                "\n{} where nobody waits (--all shows them)",
                plural(quiet.len() as u64, "communicator", "communicators")
            ),
        );
    }
    if !report.unknown.is_empty() {
        line(&mut text, "\nNot known:");
        for unknown in cut(&report.unknown, all) {
            line(&mut text, format_args!("  {unknown}"));
        }
        rest(&mut text, report.unknown.len(), all, "remarks");
    }
    text
}

fn cut<T>(list: &[T], all: bool) -> &[T] {
    if all {
        return list;
    }
    list.get(..MOST_ROWS).unwrap_or(list)
}

fn rest(text: &mut String, length: usize, all: bool, what: &str) {
    if let Some(more) = length.checked_sub(MOST_ROWS).filter(|more| !all && *more > 0) {
        line(text, format_args!("  … {more} more {what} (--all)"));
    }
}

fn is_of_interest(comm: &CommRow) -> bool {
    let sequences = comm.sequences.iter();
    let mut sequences =
        sequences.filter(|one| one.first_incomplete.is_some() || one.mismatch.is_some() || is_lost(one));
    sequences.next().is_some()
        || comm.has_open_calls()
        || !comm.messages.is_empty()
        || !comm.ranks_missing.is_empty()
        || comm.straggler.is_some()
}

/// Whether a rank is seen to wait, nobody knows where.
fn is_lost(sequence: &SequenceRow) -> bool {
    let mut ranks = sequence.ranks.iter();
    ranks.any(|row| {
        sequence.position_unknown.contains(&row.rank) && matches!(row.stage, "calling" | "launching" | "running")
    })
}

fn suspects(report: &Report, all: bool, text: &mut String) {
    for (number, suspect) in cut(&report.suspects, all).iter().enumerate() {
        if number > 0 {
            line(text, format_args!("  also: {}", suspect.text));
        }
        let is_chain = suspect.chain.len() > 1 && suspect.reason != "deadlock";
        for step in suspect.chain.iter().filter(|_| is_chain) {
            line(text, format_args!("  {step}"));
        }
        if let Some(advice) = &suspect.advice {
            line(text, format_args!("  {advice}"));
        }
    }
    rest(text, report.suspects.len(), all, "suspects");
}

fn quiet(report: &QuietReport, all: bool, text: &mut String) {
    for advice in &report.advice {
        line(text, format_args!("  {advice}"));
    }
    line(text, "\nlast seen");
    let mut table = Table::new(&[
        ("rank", Side::Right),
        ("communicator", Side::Left),
        ("process", Side::Left),
        ("", Side::Left),
        ("quiet for", Side::Right),
        ("its last operation", Side::Left),
    ]);
    for row in cut(&report.ranks, all) {
        table.row(vec![
            row.rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string()),
            row.communicator.clone().unwrap_or_else(|| "–".to_owned()),
            row.process.clone(),
            row.process_state.to_owned(),
            time(row.quiet_ns),
            row.text.clone(),
        ]);
    }
    table.print(text);
    rest(text, report.ranks.len(), all, "ranks");
    let mut inside = report.ranks.iter().filter(|row| !row.inside.is_empty()).peekable();
    match (inside.peek(), report.reports_calls) {
        (None, true) => line(
            text,
            "inside NCCL: nobody, as far as calls tell (those that make, split or destroy communicators are not reported)",
        ),
        (None, false) => line(text, "inside NCCL: not known, calls are not recorded"),
        (Some(_), _) => {}
    }
    for row in inside {
        let rank = row.rank.map_or_else(|| "?".to_owned(), |rank| rank.to_string());
        line(text, format_args!("inside NCCL: rank {rank} [{}], {}", row.process, row.inside.join("; ")));
    }
}

fn communicator(comm: &CommRow, all: bool, text: &mut String) {
    let size = if comm.ranks_known { "" } else { " seen" };
    line(text, format_args!("\ncommunicator {}, {}{size}", comm.name, plural(u64::from(comm.ranks), "rank", "ranks")));
    if !comm.ranks_missing.is_empty() {
        line(text, format_args!("  not recorded      {}", names::ranks(&comm.ranks_missing)));
    }
    for sequence in &comm.sequences {
        sequence_text(sequence, all, text);
    }
    for message in cut(&comm.messages, all) {
        line(text, format_args!("  {}", message.text));
    }
    rest(text, comm.messages.len(), all, "messages");
    if let Some(late) = &comm.straggler {
        line(
            text,
            format_args!(
                "  comes last        rank {}, in {} of the last {} collectives that all ranks called, by {} in the median",
                late.rank,
                late.times,
                late.of,
                time(late.behind_ns)
            ),
        );
    }
}

fn collective(row: &CollectiveRow, from_beginning: bool) -> String {
    let place = names::position(row.position, from_beginning);
    let Some(function) = &row.function else {
        return place;
    };
    let root = row.root.map_or_else(String::new, |root| format!(", root {root}"));
    let sequence = row.sequence.map_or_else(String::new, |number| format!(", sequence {number}"));
    format!(
        "{place}: {function} of {} {}{root}{sequence}",
        count(row.count.unwrap_or(0)),
        row.datatype.as_deref().unwrap_or(""),
    )
}

fn sequence_text(sequence: &SequenceRow, all: bool, text: &mut String) {
    if sequence.graphs {
        line(text, "  in launched CUDA graphs");
    }
    let last = sequence.last_complete.as_ref();
    if let Some(last) = last {
        let unsure = if last.is_sure { "" } else { " (called by all; whether it ended is not recorded)" };
        line(text, format_args!("  last complete     {}{unsure}", collective(last, sequence.from_beginning)));
    }
    if let Some(mismatch) = &sequence.mismatch {
        line(text, format_args!("  mismatch          {}", mismatch.text));
    }
    if let Some(first) = &sequence.first_incomplete {
        line(text, format_args!("  first incomplete  {}", collective(first, sequence.from_beginning)));
        line(text, format_args!("  entered           {}", names::numbers(&sequence.entered)));
        if !sequence.not_entered.is_empty() {
            line(text, format_args!("  not entered       {}", names::numbers(&sequence.not_entered)));
        }
        position_unknown(sequence, text);
        ranks(&sequence.ranks, all, text);
    } else if !sequence.position_unknown.is_empty() {
        position_unknown(sequence, text);
        ranks(&sequence.ranks, all, text);
    } else if sequence.ranks.iter().any(|rank| !rank.inside.is_empty()) {
        ranks(&sequence.ranks, all, text);
    }
}

fn position_unknown(sequence: &SequenceRow, text: &mut String) {
    if !sequence.position_unknown.is_empty() {
        line(text, format_args!("  not known where   {}", names::numbers(&sequence.position_unknown)));
    }
}

/// Those that have not entered first, then those that wait longest: they tell most.
fn ranks(rows: &[RankRow], all: bool, text: &mut String) {
    let mut rows: Vec<&RankRow> = rows.iter().collect();
    rows.sort_by_key(|row| (row.stage != "not-entered", std::cmp::Reverse(row.for_ns), row.rank));
    let mut table = Table::new(&[
        ("rank", Side::Right),
        ("process", Side::Left),
        ("", Side::Left),
        ("since its call", Side::Right),
        ("where", Side::Left),
    ]);
    for row in cut(&rows, all) {
        table.row(vec![
            row.rank.to_string(),
            row.process.clone(),
            row.process_state.to_owned(),
            row.for_ns.map_or_else(|| "–".to_owned(), time),
            row.text.clone(),
        ]);
    }
    table.print(text);
    rest(text, rows.len(), all, "ranks");
}
