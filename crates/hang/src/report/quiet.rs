//! The report of a job from which NCCL reports nothing any more: the last operations, and where to look.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use analysis::units::{plural, time};
use job::life::Life;
use nccl_events::Kind;

use super::doing::{are_all_outside, call_text};
use super::names;
use super::ranks::{all_open_calls, stage_text};
use super::rows::{QuietReport, QuietRow};
use super::unknown::records;
use crate::job::{Actor, Comm, Job, Process, Rank, state_name};
use crate::judge::quiet::Quiet;
use crate::sequence::Sequence;

/// Where the job may hang, after "the job hangs".
fn place(job: &Job, quiet: &Quiet) -> String {
    let is_whole = processes(job, quiet).iter().all(|process| process.is_whole);
    let unrecorded = if is_whole { "" } else { "in an operation that was not recorded, " };
    let place = match are_all_outside(processes(job, quiet)) {
        true => "outside NCCL, or in a call of a nonblocking communicator,",
        false => "in a call that NCCL does not report (such as ncclCommSplit) or outside NCCL,",
    };
    format!("{unrecorded}{place}")
}

fn processes<'a>(job: &'a Job, quiet: &Quiet) -> Vec<&'a Process> {
    quiet.processes.iter().filter_map(|&index| job.processes.get(index)).collect()
}

pub(crate) fn verdict(job: &Job, quiet: &Quiet) -> String {
    let place = place(job, quiet);
    let quiet_ns = time(quiet.for_ns);
    let number = quiet.processes.len() as u64;
    if job.is_over() {
        let ended = match job.is_archive {
            true => "had not ended their communicators",
            false => "were killed, crashed, or ended without telling NCCL",
        };
        let (hung, did) = if job.is_archive { ("may have hung", "it did") } else { ("hung", "did") };
        return format!(
            "when the recording ended, NCCL had reported nothing for {quiet_ns} in any of {} that {ended}, and nobody was seen to wait in an operation: the job {hung} {place} or {did} something else",
            plural(number, "process", "processes"),
        );
    }
    let processes = match number {
        1 => "the process that lives".to_owned(),
        n => format!("any of the {} that live", plural(n, "process", "processes")),
    };
    let stopped = quiet.processes.iter().filter_map(|&it| job.processes.get(it)).find(|it| it.state == Life::Stopped);
    let stopped = stopped.map_or_else(String::new, |process| format!("{} is stopped, and ", process.address()));
    format!(
        "{stopped}NCCL has reported nothing for {quiet_ns} in {processes}, and nobody is seen to wait in an operation: the job hangs {place} or it does something else"
    )
}

pub(crate) fn report(job: &Job, quiet: &Quiet) -> QuietReport {
    let processes = processes(job, quiet);
    // If API calls are recorded, a rank without an open call is outside NCCL.
    let reports_all_calls = processes.iter().all(|process| process.shows_calls);
    let reports_calls = reports_all_calls
        || records(job, Kind::CollApi) && processes.iter().all(|process| process.event_mask.is_some());
    let advice = advice(&processes, job.is_over(), reports_calls);
    QuietReport { for_ns: quiet.for_ns, reports_calls, reports_all_calls, ranks: rows(job, quiet), advice }
}

/// A row for each GPU of each process: its ranks in all communicators share one line of work.
fn rows(job: &Job, quiet: &Quiet) -> Vec<QuietRow> {
    let mut last: BTreeMap<Actor, (u64, QuietRow)> = BTreeMap::new();
    for comm in &job.comms {
        for (number, rank) in &comm.ranks {
            let Some(process) = job.process_of(rank).filter(|_| quiet.processes.contains(&rank.actor.process)) else {
                continue;
            };
            let (at_ns, text) = last_operation(comm, rank, process.state.is_over());
            let mut row = QuietRow {
                rank: Some(*number),
                job_rank: rank.job_rank,
                communicator: Some(comm.name.clone()),
                text,
                inside: all_open_calls(rank, process.until_ns),
                ..row(quiet, process)
            };
            let (known_ns, known) = last.entry(rank.actor).or_insert_with(|| (0, QuietRow::default()));
            let inside = [std::mem::take(&mut known.inside), std::mem::take(&mut row.inside)].concat();
            if known.rank.is_none() || at_ns > *known_ns {
                (*known_ns, *known) = (at_ns, row);
            }
            known.inside = inside;
        }
    }
    let without = quiet.processes.iter().filter(|index| !last.keys().any(|actor| actor.process == **index));
    let mut rows: Vec<QuietRow> =
        without.filter_map(|&index| job.processes.get(index)).map(|process| row(quiet, process)).collect();
    rows.extend(last.into_values().map(|(_, row)| row));
    nccl_events::sort::sort_by_key(&mut rows, |row| (Reverse(row.quiet_ns), row.job_rank, row.rank));
    rows
}

fn row(quiet: &Quiet, process: &Process) -> QuietRow {
    QuietRow {
        process: process.address(),
        launcher_rank: process.launcher_rank,
        process_state: state_name(process.state).into(),
        quiet_ns: quiet.until_ns.saturating_sub(process.last_event_ns),
        text: "no communicator yet".to_owned(),
        inside: process.doing.values().filter_map(|doing| call_text(doing, process.until_ns)).collect(),
        ..QuietRow::default()
    }
}

/// The last operation of a rank, and the time of its call.
fn last_operation(comm: &Comm, rank: &Rank, is_over: bool) -> (u64, String) {
    let calls = Sequence::ALL.into_iter().filter_map(|sequence| {
        let tail = sequence.of(rank);
        let call = tail.list.last()?;
        let at = match tail.has_positions() {
            true => names::position(tail.count(), sequence.is_from_beginning(comm)),
            false => "not known which".to_owned(),
        };
        let stage = stage_text(call.progress.stage, is_over);
        Some((call.entered_ns, format!("{} ({at}): {stage}", names::call(&call.what))))
    });
    let message = rank.messages.last().map(|message| {
        let stage = stage_text(message.progress.stage, is_over);
        (message.entered_ns, format!("{}: {stage}", names::message(Some(comm), message)))
    });
    calls.chain(message).max().unwrap_or_else(|| {
        let text = if rank.finalized { "it has ended the communicator" } else { "it has the communicator" };
        (0, text.to_owned())
    })
}

fn advice(processes: &[&Process], is_over: bool, reports_calls: bool) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(Process { host, pid, .. }) = processes.first().filter(|_| !is_over) {
        advice.push(format!(
            "look at what the programs do, this one first, then the others; on {host}: py-spy dump --native --pid {pid}, or gdb -p {pid} -batch -ex 'thread apply all backtrace'; a thread with libnccl in its stack is inside NCCL"
        ));
    }
    for process in processes.iter().filter(|process| process.state == Life::Stopped) {
        advice.push(format!("{} is stopped: kill -CONT {} lets it go on", process.address(), process.pid));
    }
    if !are_all_outside(processes.iter().copied()) {
        advice.push(
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT in the next run: NCCL's log then names the communicators that are being made and split, and by whom".to_owned(),
        );
    }
    if !reports_calls {
        advice.push(
            "calls are known from NCCL 2.28 on, and with the kind CollApi (NCCL_OTF2_EVENTS=standard): without them a rank inside a call looks like one outside".to_owned(),
        );
    }
    advice.push("if the program computes, loads data or waits for requests that long: a longer --after".to_owned());
    advice
}
