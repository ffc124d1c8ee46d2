//! `nccl-otf2 hang`: finds who holds up a job, from the journals of its live or dead processes, or from its archive.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command_line::Exit;
use crate::finalize::{AFTER_SECONDS, judge_job, ns};
use crate::output::{Side, Table, TableColumn, Text, seconds};
use crate::{archives, flight_recorder, output, stacks};
use analysis::units::{count, plural, time};
use anyhow::Result;
use archive::ANCHOR;
use clap::Args;
use hang::{CollectiveRow, CommRow, FILE, Kind, Place, QuietReport, QuietRow, RankRow, Report, SequenceRow};
use settings::shell_word;

const EXAMPLES: &str = "\
Reads what the processes of a job have recorded so far, without contacting them: they may run, hang, or have been \
killed. The first line is the verdict: who holds up the job, and why. It is followed, for every communicator on which \
a rank waits, by the last complete and the first incomplete collective, the ranks that have entered it and those that \
have not, and the state of each rank.

  nccl-otf2 hang trace                  a job that hangs now, or was killed
  nccl-otf2 hang trace --after 300      only waits of five minutes or more
  nccl-otf2 hang trace --watch 60       check every minute until something hangs
  nccl-otf2 hang trace --stacks         also the stacks of the suspects
  nccl-otf2 hang trace --flight-recorder dumps   also lines of Python code
  nccl-otf2 hang trace --json | jq -r .verdict.line

Ranks wait for the last one in a healthy job, too: a rank counts as hanging only if it has waited for --after \
seconds, or can never continue (a process is gone, ranks call different operations). For a process that is gone, time \
ends with its last record. Run this on a host of the job: only there can it tell which processes are running.

A flight recording lacks the beginning: NCCL's sequence numbers then show which calls of the ranks belong together. \
Operations without such a number (sends and receives; broadcasts from NCCL 2.29 on, unless NCCL_ALLGATHERV_ENABLE=0) \
are not compared, and the report says so.

The more is recorded, the more the report can say. NCCL_OTF2_EVENTS=light shows which rank called what; standard (the \
default) also whose network transfers have ended; standard,ProxyStep also what each transfer waits for; full also \
what the GPU does. docs/HANG.md explains the report.

NVTX ranges of NCCL and of the program, which `run` records, show which NCCL call each rank is in, also while \
communicators are created, split or destroyed, and which part of the program, such as `load_batch`.

If NCCL has reported nothing for --after seconds (at least 2) although processes are alive, and no rank is seen to \
wait, the verdict is QUIET, with the last activity of each rank. A job looks like this if it hangs outside NCCL, if \
it computes that long, and, without NVTX ranges, if it hangs while communicators are created or split.

When a job is over, `run` and `finalize` judge it before they remove its journals, and keep the verdict in \
DIR/hang.json, where `hang` finds it later. Without that file, or if the anchor file is given, `hang` judges the \
archive. If the archive or the rest of the recording is not enough, the verdict is CANNOT TELL, with the reason.

Exit codes: 0 nothing hangs, 1 the job hangs, is bound to hang (a mismatch, or a process that is gone while others \
continue) or is quiet, 2 wrong usage, nothing readable, or CANNOT TELL.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory; or anchor file of an archive, to judge the archive alone
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// Count a rank as hanging only if it has waited this long
    #[arg(long, visible_alias = "hang-after", value_name = "SECONDS", default_value_t = AFTER_SECONDS, value_parser = seconds)]
    after: f64,

    /// Repeat at this interval until something hangs or all processes have ended
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<f64>,

    /// Show all ranks and all communicators
    #[arg(long)]
    all: bool,

    /// Save the suspects' stacks to DIR/stacks, using py-spy, gdb or eu-stack
    ///
    /// Reads at most four processes, of this host and this user only. A debugger stops a process while it reads it.
    #[arg(long)]
    stacks: bool,

    /// Add group names and Python lines of calls from the dumps of PyTorch's flight recorder in DIR
    ///
    /// Uses the newest file of each rank whose name ends in the rank's number. Nothing in a dump is executed.
    #[arg(long, value_name = "DIR")]
    flight_recorder: Option<PathBuf>,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn hang(request: &Request) -> Result<Exit> {
    archives::note_other_jobs(&request.path);
    let mut noted = String::new();
    loop {
        let mut report = judge_job(&request.path, request.after)?;
        let Some(pause) = request.watch.filter(|_| !report.verdict.found && report.runs()) else {
            if request.stacks {
                stacks::collect(archives::directory(&request.path), &mut report);
            }
            if let Some(dumps) = &request.flight_recorder {
                flight_recorder::collect(dumps, &mut report)?;
            }
            return end(request, &report);
        };
        if report.verdict.kind != Kind::Nothing || noted != report.verdict.line {
            output::note(&report.verdict.line);
            noted = report.verdict.line;
        }
        std::thread::sleep(Duration::from_secs_f64(pause.max(0.1)));
    }
}

fn end(request: &Request, report: &Report) -> Result<Exit> {
    if request.json {
        output::json(report)?;
    } else {
        output::text(&text(report, archives::directory(&request.path), request.all))?;
    }
    if report.after_ns != ns(request.after) {
        output::note(format_args!(
            "the verdict was made with --after {} when the job was over; to judge the archive with another value: \
            `nccl-otf2 hang --after {} {}`",
            time(report.after_ns),
            request.after,
            archives::directory(&request.path).join(ANCHOR).display()
        ));
    }
    Ok(match report.verdict.kind {
        Kind::Unknown => Exit::CannotDo,
        _ if report.verdict.found => Exit::Problems,
        _ => Exit::Well,
    })
}

const MOST_ROWS: usize = 16;

/// The report for people: the verdict, its reasons, then every communicator in which ranks wait. With `all`, lists are
/// not cut, and communicators in which no rank waits are shown, too.
pub(crate) fn text(report: &Report, directory: &Path, all: bool) -> Text {
    let mut text = Text::default();
    text.headline(&report.verdict.line, report.verdict.found);
    origin(report, &mut text);
    grounds(report, directory, &mut text);
    if let Some(report) = &report.quiet {
        quiet(report, all, &mut text);
    }
    if all || report.verdict.found || report.verdict.kind == Kind::Unknown {
        places(&report.places(), all, &mut text);
    }
    let (waiting, quiet): (Vec<&CommRow>, Vec<&CommRow>) =
        report.communicators.iter().partition(|comm| all || is_of_interest(comm));
    for comm in cut(&waiting, all) {
        communicator(comm, all, &mut text);
    }
    rest(&mut text, waiting.len(), all, "communicators where ranks wait");
    if !quiet.is_empty() {
        let communicators = plural(quiet.len() as u64, "communicator", "communicators");
        text.paragraph(format_args!("{communicators} without waiting ranks: see --all"));
    }
    if !report.unknown.is_empty() {
        text.paragraph("Not known:");
        for unknown in cut(&report.unknown, all) {
            text.sentence(unknown);
        }
        rest(&mut text, report.unknown.len(), all, "remarks");
    }
    text
}

/// Prints what the verdict is based on, unless it is the current state of the journals.
fn origin(report: &Report, text: &mut Text) {
    if report.archive_events.is_some() {
        let at = output::moment(i64::try_from(report.time_ns).unwrap_or(i64::MAX));
        let source = if report.is_of_archive() { "archive" } else { "journals" };
        text.line(format_args!("  (as of {at}, judged from the {source}; kept in {FILE})"));
    } else if report.is_of_archive() {
        text.line("  (from the archive)");
    }
}

fn cut<T>(list: &[T], all: bool) -> &[T] {
    if all { list } else { list.get(..MOST_ROWS).unwrap_or(list) }
}

fn rest(text: &mut Text, length: usize, all: bool, what: &str) {
    if let Some(more) = length.checked_sub(MOST_ROWS).filter(|more| !all && *more > 0) {
        text.line(format_args!("  … {more} more {what} (--all)"));
    }
}

fn is_of_interest(comm: &CommRow) -> bool {
    let has_news = |one: &SequenceRow| one.first_incomplete.is_some() || one.mismatch.is_some() || is_lost(one);
    comm.sequences.iter().any(has_news)
        || comm.has_open_calls()
        || !comm.messages.is_empty()
        || !comm.ranks_missing.is_empty()
        || comm.straggler.is_some()
}

fn is_lost(sequence: &SequenceRow) -> bool {
    let is_open = |row: &RankRow| matches!(&*row.stage, "calling" | "launching" | "running");
    sequence.ranks.iter().any(|row| sequence.position_unknown.contains(&row.rank) && is_open(row))
}

/// What the verdict rests on, how sure it is, and what to do next.
fn grounds(report: &Report, directory: &Path, text: &mut Text) {
    let verdict = &report.verdict;
    for line in &verdict.evidence {
        text.sentence(line);
    }
    match verdict.confidence.as_deref() {
        Some("likely") => text.line("  likely, not certain: a part of this is not recorded"),
        Some("cannot-tell-whom") => text.line("  the recording does not show which rank is at fault"),
        Some("below-nccls-calls") => text.line("  the cause is below NCCL's calls: GPU, driver or network"),
        _ => {}
    }
    let is_command = |advice: &&String| verdict.command.as_ref().is_some_and(|command| advice.starts_with(command));
    if let Some(advice) = verdict.next.as_ref().filter(|advice| !is_command(advice)) {
        text.sentence(format_args!("to do: {advice}"));
    }
    if let Some(command) = &verdict.command {
        text.next(command);
    } else if report.is_over() && verdict.kind != Kind::Nothing {
        let verb = if verdict.kind == Kind::Unknown { "check" } else { "report" };
        text.next(format_args!("nccl-otf2 {verb} {}", shell_word(directory)));
    }
}

fn places(places: &[Place], all: bool, text: &mut Text) {
    if places.is_empty() {
        return;
    }
    text.paragraph("where ranks are");
    let all_columns: [TableColumn<'_, &Place>; 4] = [
        ("rank", Side::Right, |place| place.who.clone()),
        ("in NCCL", Side::Left, |place| or_none(&place.call)),
        ("for", Side::Right, |place| place.for_ns.map_or_else(|| "–".to_owned(), time)),
        ("in the program", Side::Left, |place| or_none(&place.ranges)),
    ];
    let columns =
        if places.iter().any(|place| !place.ranges.is_empty()) { &all_columns[..] } else { &all_columns[..3] };
    Table::from_rows(cut(places, all), columns).print(text);
    rest(text, places.len(), all, "places");
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "–" } else { text }.to_owned()
}

fn quiet(report: &QuietReport, all: bool, text: &mut Text) {
    for advice in &report.advice {
        text.sentence(advice);
    }
    text.paragraph("last seen");
    let columns: [TableColumn<'_, &QuietRow>; 6] = [
        ("rank", Side::Right, |row| quiet_rank(row)),
        ("communicator", Side::Left, |row| row.communicator.clone().unwrap_or_else(|| "–".to_owned())),
        ("process", Side::Left, |row| row.process.clone()),
        ("", Side::Left, |row| row.process_state.replace('-', " ")),
        ("quiet for", Side::Right, |row| time(row.quiet_ns)),
        ("its last operation", Side::Left, |row| row.text.clone()),
    ];
    Table::from_rows(cut(&report.ranks, all), &columns).print(text);
    rest(text, report.ranks.len(), all, "ranks");
    let inside: Vec<&QuietRow> = report.ranks.iter().filter(|row| !row.inside.is_empty()).collect();
    match (inside.is_empty(), report.reports_calls) {
        (true, _) if report.reports_all_calls => text.line("inside NCCL: nobody"),
        (true, true) => text.line(
            "inside NCCL: nobody, as far as recorded calls show (those that create, split or destroy communicators \
            are not reported)",
        ),
        (true, false) => text.line("inside NCCL: not known, calls are not recorded"),
        (false, _) => {}
    }
    for row in inside {
        let (rank, inside) = (quiet_rank(row), row.inside.join("; "));
        text.line(format_args!("inside NCCL: rank {rank} [{}], {inside}", row.process));
    }
}

/// The rank's number in the job or, if unknown, in its communicator.
fn quiet_rank(row: &QuietRow) -> String {
    let own = || Some(format!("{} of {}", row.rank?, row.communicator.as_deref()?));
    row.job_rank.map(|rank| rank.to_string()).or_else(own).unwrap_or_else(|| "–".to_owned())
}

fn communicator(comm: &CommRow, all: bool, text: &mut Text) {
    let size = if comm.ranks_known { "" } else { " seen" };
    let ranks = plural(u64::from(comm.ranks), "rank", "ranks");
    text.paragraph(format_args!("communicator {}, {ranks}{size}", comm.name));
    if !comm.ranks_missing.is_empty() {
        text.line(format_args!("  not recorded      {}", comm.named(&comm.ranks_missing)));
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
            "  comes last        {}, in {} of the last {} collectives that all ranks called, by a median of {}",
            comm.named(&[late.rank]),
            late.times,
            late.of,
            time(late.behind_ns)
        ));
    }
}

fn collective(row: &CollectiveRow, from_beginning: bool) -> String {
    let mut text = row.place(from_beginning);
    if let (Some(function), Some(elements)) = (&row.function, row.count) {
        text += &format!(": {function} of {} {}", count(elements), row.datatype.as_deref().unwrap_or_default());
        text += &row.root.map_or_else(String::new, |root| format!(", root {root}"));
        text += &row.sequence.map_or_else(String::new, |number| format!(", sequence {number}"));
    }
    text
}

fn sequence_text(comm: &CommRow, sequence: &SequenceRow, all: bool, text: &mut Text) {
    let mut line = |head: &str, rest: &str| text.line(format_args!("  {head:<18}{rest}"));
    if sequence.graphs {
        line("in launched CUDA graphs", "");
    }
    if let Some(last) = &sequence.last_complete {
        let unsure = if last.is_sure { "" } else { " (called by all; whether it ended is not recorded)" };
        line("last complete", &format!("{}{unsure}", collective(last, sequence.from_beginning)));
    }
    if let Some(mismatch) = &sequence.mismatch {
        line("mismatch", &mismatch.text);
    }
    if let Some(first) = &sequence.first_incomplete {
        line("first incomplete", &collective(first, sequence.from_beginning));
        line("entered", &comm.numbers(&sequence.entered));
        if !sequence.not_entered.is_empty() {
            line("not entered", &comm.numbers(&sequence.not_entered));
        }
    }
    if !sequence.position_unknown.is_empty() {
        line("not known where", &comm.numbers(&sequence.position_unknown));
    }
    let is_open = sequence.first_incomplete.is_some() || !sequence.position_unknown.is_empty();
    if is_open || sequence.ranks.iter().any(|rank| !rank.inside.is_empty()) {
        ranks(comm, &sequence.ranks, all, text);
    }
}

/// Prints ranks that have not entered first, then those that have waited longest, because long lists are cut.
fn ranks(comm: &CommRow, rows: &[RankRow], all: bool, text: &mut Text) {
    let mut rows: Vec<&RankRow> = rows.iter().collect();
    nccl_events::sort::sort_by_key(&mut rows, |row| (row.stage != "not-entered", Reverse(row.for_ns), row.rank));
    let columns: [TableColumn<'_, (&CommRow, &RankRow)>; 5] = [
        ("rank", Side::Right, |(comm, row)| comm.numbers(&[row.rank])),
        ("process", Side::Left, |(_, row)| row.process.clone()),
        ("", Side::Left, |(_, row)| row.process_state.replace('-', " ")),
        ("since its call", Side::Right, |(_, row)| row.for_ns.map_or_else(|| "–".to_owned(), time)),
        ("where", Side::Left, |(_, row)| row.text.clone()),
    ];
    Table::from_rows(cut(&rows, all).iter().map(|row| (comm, *row)), &columns).print(text);
    rest(text, rows.len(), all, "ranks");
}
