//! The report for people: the verdict first, then why, then every communicator where somebody waits.

use super::names;
use super::rows::{CollectiveRow, CommRow, FILE, QuietReport, QuietRow, RankRow, Report, SequenceRow};
use crate::calendar;
use crate::hang::job::Source;
use crate::print::Text;
use crate::table::{Side, Table};
use crate::units::{count, plural, time};

/// Longest lists printed without `--all`; JSON has everything.
const MOST_ROWS: usize = 16;

/// The report as text. `all`: no list is cut, and communicators where nobody waits are shown too.
pub(crate) fn text(report: &Report, all: bool) -> Text {
    let mut text = Text::default();
    text.line(&report.verdict.text);
    origin(report, &mut text);
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
        text.paragraph(format_args!(
            "{} where nobody waits (--all shows them)",
            plural(quiet.len() as u64, "communicator", "communicators")
        ));
    }
    if !report.unknown.is_empty() {
        text.paragraph("Not known:");
        for unknown in cut(&report.unknown, all) {
            text.line(format_args!("  {unknown}"));
        }
        rest(&mut text, report.unknown.len(), all, "remarks");
    }
    text
}

/// What the verdict is from, where it is not from the journals as they are now.
fn origin(report: &Report, text: &mut Text) {
    if report.archive_events.is_some() {
        let ns = i64::try_from(report.time_ns).unwrap_or(i64::MAX);
        let at = calendar::moment(ns);
        text.line(format_args!("  (as it was on {at}, before its recordings were removed; kept in {FILE})"));
    } else if report.source == Source::Archive.name() {
        text.line("  (from the archive: the recordings that it was made of are removed)");
    }
}

fn cut<T>(list: &[T], all: bool) -> &[T] {
    if all {
        return list;
    }
    list.get(..MOST_ROWS).unwrap_or(list)
}

fn rest(text: &mut Text, length: usize, all: bool, what: &str) {
    if let Some(more) = length.checked_sub(MOST_ROWS).filter(|more| !all && *more > 0) {
        text.line(format_args!("  … {more} more {what} (--all)"));
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
        sequence.position_unknown.contains(&row.rank) && matches!(&*row.stage, "calling" | "launching" | "running")
    })
}

fn suspects(report: &Report, all: bool, text: &mut Text) {
    for (number, suspect) in cut(&report.suspects, all).iter().enumerate() {
        if number > 0 {
            text.line(format_args!("  also: {}", suspect.text));
        }
        let is_chain = suspect.chain.len() > 1 && suspect.reason != "deadlock";
        for step in suspect.chain.iter().filter(|_| is_chain) {
            text.line(format_args!("  {step}"));
        }
        if let Some(advice) = &suspect.advice {
            text.line(format_args!("  {advice}"));
        }
    }
    rest(text, report.suspects.len(), all, "suspects");
}

fn quiet(report: &QuietReport, all: bool, text: &mut Text) {
    for advice in &report.advice {
        text.line(format_args!("  {advice}"));
    }
    text.paragraph("last seen");
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
            quiet_rank(row),
            row.communicator.clone().unwrap_or_else(|| "–".to_owned()),
            row.process.clone(),
            row.process_state.to_string(),
            time(row.quiet_ns),
            row.text.clone(),
        ]);
    }
    table.print(text);
    rest(text, report.ranks.len(), all, "ranks");
    let mut inside = report.ranks.iter().filter(|row| !row.inside.is_empty()).peekable();
    match (inside.peek(), report.reports_calls) {
        (None, true) => text.line("inside NCCL: nobody, as far as calls tell (those that make, split or destroy communicators are not reported)",
        ),
        (None, false) => text.line("inside NCCL: not known, calls are not recorded"),
        (Some(_), _) => {}
    }
    for row in inside {
        let (rank, inside) = (quiet_rank(row), row.inside.join("; "));
        text.line(format_args!("inside NCCL: rank {rank} [{}], {inside}", row.process));
    }
}

/// The job's number of a rank, else that in its communicator.
fn quiet_rank(row: &QuietRow) -> String {
    let own = || Some(format!("{} of {}", row.rank?, row.communicator.as_deref()?));
    row.job_rank.map(|rank| rank.to_string()).or_else(own).unwrap_or_else(|| "–".to_owned())
}

fn communicator(comm: &CommRow, all: bool, text: &mut Text) {
    let size = if comm.ranks_known { "" } else { " seen" };
    text.paragraph(format_args!(
        "communicator {}, {}{size}",
        comm.name,
        plural(u64::from(comm.ranks), "rank", "ranks")
    ));
    if !comm.ranks_missing.is_empty() {
        text.line(format_args!("  not recorded      {}", names::ranks(comm, &comm.ranks_missing)));
    }
    for sequence in &comm.sequences {
        sequence_text(comm, sequence, all, text);
    }
    for message in cut(&comm.messages, all) {
        text.line(format_args!("  {}", message.text));
    }
    rest(text, comm.messages.len(), all, "messages");
    if let Some(late) = &comm.straggler {
        text.line(format_args!(
            "  comes last        {}, in {} of the last {} collectives that all ranks called, by {} in the median",
            names::ranks(comm, &[late.rank]),
            late.times,
            late.of,
            time(late.behind_ns)
        ));
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

fn sequence_text(comm: &CommRow, sequence: &SequenceRow, all: bool, text: &mut Text) {
    if sequence.graphs {
        text.line("  in launched CUDA graphs");
    }
    let last = sequence.last_complete.as_ref();
    if let Some(last) = last {
        let unsure = if last.is_sure { "" } else { " (called by all; whether it ended is not recorded)" };
        text.line(format_args!("  last complete     {}{unsure}", collective(last, sequence.from_beginning)));
    }
    if let Some(mismatch) = &sequence.mismatch {
        text.line(format_args!("  mismatch          {}", mismatch.text));
    }
    if let Some(first) = &sequence.first_incomplete {
        text.line(format_args!("  first incomplete  {}", collective(first, sequence.from_beginning)));
        text.line(format_args!("  entered           {}", names::numbers(comm, &sequence.entered)));
        if !sequence.not_entered.is_empty() {
            text.line(format_args!("  not entered       {}", names::numbers(comm, &sequence.not_entered)));
        }
        position_unknown(comm, sequence, text);
        ranks(comm, &sequence.ranks, all, text);
    } else if !sequence.position_unknown.is_empty() {
        position_unknown(comm, sequence, text);
        ranks(comm, &sequence.ranks, all, text);
    } else if sequence.ranks.iter().any(|rank| !rank.inside.is_empty()) {
        ranks(comm, &sequence.ranks, all, text);
    }
}

fn position_unknown(comm: &CommRow, sequence: &SequenceRow, text: &mut Text) {
    if !sequence.position_unknown.is_empty() {
        text.line(format_args!("  not known where   {}", names::numbers(comm, &sequence.position_unknown)));
    }
}

/// Those that have not entered first, then those that wait longest: they tell most.
fn ranks(comm: &CommRow, rows: &[RankRow], all: bool, text: &mut Text) {
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
            names::numbers(comm, &[row.rank]),
            row.process.clone(),
            row.process_state.to_string(),
            row.for_ns.map_or_else(|| "–".to_owned(), time),
            row.text.clone(),
        ]);
    }
    table.print(text);
    rest(text, rows.len(), all, "ranks");
}
