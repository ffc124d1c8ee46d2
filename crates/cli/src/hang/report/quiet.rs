//! The report of a job of which NCCL reports nothing any more: what was last seen where, and where to look.

use std::collections::BTreeMap;

use nccl_events::Kind;

use super::names;
use super::ranks::stage_text;
use super::rows::{QuietReport, QuietRow};
use super::unknown::records;
use crate::hang::job::{Actor, Comm, Job, Process, ProcessState, Rank};
use crate::hang::judge::quiet::Quiet;
use crate::hang::sequence::Sequence;
use crate::units::{plural, time};

/// The verdict, without its word.
pub(crate) fn verdict(quiet: &Quiet) -> String {
    let n = quiet.processes.len() as u64;
    format!(
        "NCCL has reported nothing for {} in {}, and nobody is seen to wait in an operation: the job hangs in a call that NCCL does not report (such as ncclCommSplit) or outside NCCL, or it does something else",
        time(quiet.for_ns),
        if n == 1 {
            "the process that lives".to_owned()
        } else {
            format!("any of the {} that live", plural(n, "process", "processes"))
        },
    )
}

pub(crate) fn report(job: &Job, quiet: &Quiet) -> QuietReport {
    let reports_calls = reports_calls(job, quiet);
    QuietReport {
        for_ns: quiet.for_ns,
        reports_calls,
        ranks: rows(job, quiet),
        advice: advice(job, quiet, reports_calls),
    }
}

/// Whether calls of NCCL's functions would be in the records: then a rank without an open one is in none of them.
fn reports_calls(job: &Job, quiet: &Quiet) -> bool {
    let mut processes = quiet.processes.iter().filter_map(|&index| job.processes.get(index));
    records(job, Kind::CollApi) && processes.all(|process| process.event_mask.is_some())
}

/// A row for each GPU of each process: its ranks in all communicators are one line of work.
fn rows(job: &Job, quiet: &Quiet) -> Vec<QuietRow> {
    let mut last: BTreeMap<Actor, (u64, QuietRow)> = BTreeMap::new();
    for comm in &job.comms {
        for (number, rank) in &comm.ranks {
            let Some(process) = job.process_of(rank).filter(|_| quiet.processes.contains(&rank.actor.process)) else {
                continue;
            };
            let (at_ns, text) = last_seen(comm, rank, process.state.is_over());
            let mut row = row(job, process);
            row.rank = Some(*number);
            row.job_rank = rank.job_rank;
            row.communicator = Some(comm.name.clone());
            row.text = text;
            row.inside = rank.open_calls.iter().map(|call| open_call(process, call)).collect();
            match last.get_mut(&rank.actor) {
                None => {
                    last.insert(rank.actor, (at_ns, row));
                }
                Some((known_ns, known)) => {
                    let mut inside = std::mem::take(&mut known.inside);
                    inside.append(&mut row.inside);
                    if at_ns > *known_ns {
                        (*known_ns, *known) = (at_ns, row);
                    }
                    known.inside = inside;
                }
            }
        }
    }
    let without = |index: &&usize| !last.keys().any(|actor| actor.process == **index);
    let without = quiet.processes.iter().filter(without).filter_map(|&index| job.processes.get(index));
    let mut rows: Vec<QuietRow> = without.map(|process| row(job, process)).collect();
    rows.extend(last.into_values().map(|(_, row)| row));
    rows.sort_by_key(|row| (std::cmp::Reverse(row.quiet_ns), row.job_rank, row.rank));
    rows
}

fn row(job: &Job, process: &Process) -> QuietRow {
    QuietRow {
        rank: None,
        job_rank: None,
        communicator: None,
        process: process.address(),
        launcher_rank: process.launcher_rank,
        process_state: process.state.name().into(),
        quiet_ns: job.now_ns.saturating_sub(process.last_event_ns),
        inside: Vec::new(),
        text: "no communicator yet".to_owned(),
    }
}

fn open_call(process: &Process, call: &crate::hang::operation::OpenCall) -> String {
    format!("{} for {}", call.what, time(process.until_ns.saturating_sub(call.since_ns)))
}

/// The last operation of a rank, and when it was called.
fn last_seen(comm: &Comm, rank: &Rank, is_over: bool) -> (u64, String) {
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
    let messages = rank.messages.last().map(|message| {
        let direction = if message.is_send { "to" } else { "from" };
        let stage = stage_text(message.progress.stage, is_over);
        (message.entered_ns, format!("{} {direction} {}: {stage}", message.func(), names::ranks(comm, &[message.peer])))
    });
    let last = calls.chain(messages).max();
    last.unwrap_or_else(|| {
        let text = if rank.finalized { "it has ended the communicator" } else { "it has the communicator" };
        (0, text.to_owned())
    })
}

fn advice(job: &Job, quiet: &Quiet, reports_calls: bool) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(process) = quiet.processes.first().and_then(|&index| job.processes.get(index)) {
        advice.push(format!(
            "look at what the programs do, this one first, then the others; on {}: py-spy dump --native --pid {pid}, or gdb -p {pid} -batch -ex 'thread apply all backtrace'; a thread with libnccl in its stack is inside NCCL",
            process.host,
            pid = process.pid
        ));
    }
    let processes = quiet.processes.iter().filter_map(|&index| job.processes.get(index));
    for process in processes.filter(|process| process.state == ProcessState::Stopped) {
        advice.push(format!("{} is stopped: kill -CONT {} lets it go on", process.address(), process.pid));
    }
    advice.push(
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT in the next run: NCCL's log then names the communicators that are being made and split, and by whom".to_owned(),
    );
    if !reports_calls {
        advice.push(
            "calls are known from NCCL 2.28 on, and with the kind CollApi (NCCL_OTF2_EVENTS=standard): without them a rank inside a call looks like one outside".to_owned(),
        );
    }
    advice.push("if the program computes, loads data or waits for requests that long: a longer --after".to_owned());
    advice
}
