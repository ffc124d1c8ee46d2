//! Makes the report from a judged job.

mod comms;
mod doing;
mod doubts;
mod names;
mod quiet;
mod ranks;
pub(super) mod rows;
mod sentences;
mod straggler;
mod stuck;
mod unknown;

use analysis::units::{plural, time};
use job::life::Life;

use super::job::{Job, Process, state_name};
use super::judge::quiet::{self as silence, Quiet};
use super::judge::suspects::Suspect;
use super::judge::{Judgement, judge};
use comms::comm_row;
use rows::{CommRow, Kind, ProcessRow, Report, SuspectRow, Verdict};

/// Judges a job. Waits shorter than `after_ns` do not count as hanging.
pub(crate) fn report(directory: &str, job: &Job, after_ns: u64) -> Report {
    let judgement = judge(job, after_ns);
    let comms = job.comms.iter().enumerate();
    let communicators: Vec<CommRow> = comms.map(|(index, comm)| comm_row(job, index, comm, &judgement)).collect();
    // Computed once: in a large communicator every rank can be a suspect, and the text of a wait lists all of them.
    let waits: Vec<String> = judgement.blockages.iter().map(|blockage| sentences::waits(job, blockage)).collect();
    let suspects = judgement.suspects.iter().map(|suspect| suspect_row(job, &judgement, &waits, suspect));
    let silence = silence::find(job, after_ns);
    let (kind, text) = verdict(job, &judgement, &communicators, silence.as_ref(), after_ns);
    let silence = silence.filter(|_| kind == Kind::Quiet);
    Report {
        format: 1,
        directory: directory.to_owned(),
        time_ns: job.now_ns,
        after_ns,
        source: if job.is_archive { "archive" } else { "journals" }.into(),
        verdict: Verdict { found: !matches!(kind, Kind::Waiting | Kind::Nothing | Kind::Unknown), kind, text },
        suspects: suspects.collect(),
        quiet: silence.map(|silence| quiet::report(job, &silence)),
        ranks: doing::rows(job),
        unknown: unknown::unknown(job, &judgement, kind),
        processes: job.processes.iter().map(process_row).collect(),
        communicators,
        archive_events: None,
    }
}

fn verdict(
    job: &Job,
    judgement: &Judgement,
    comms: &[CommRow],
    silence: Option<&Quiet>,
    after_ns: u64,
) -> (Kind, String) {
    let suspect = judgement.suspects.first();
    let suspected = suspect.map(|suspect| sentences::verdict(job, &judgement.blockages, suspect));
    if let Some(text) = suspected.as_ref().filter(|_| !judgement.is_unsure) {
        let doubt = if judgement.is_brief { "; a job that works can be killed in so short a wait, too" } else { "" };
        return (Kind::Hang, format!("HANG: {text}{doubt}"));
    }
    for comm in comms {
        if let Some(mismatch) = comm.sequences.iter().find_map(|one| one.mismatch.as_ref()) {
            let text = format!("MISMATCH: communicator {}: {}; nothing hangs in it yet", comm.name, mismatch.text);
            return (Kind::Mismatch, text);
        }
    }
    if let Some(text) = stuck::stuck_in_call(job, after_ns) {
        return (Kind::Hang, format!("HANG: {text}"));
    }
    let gone: Vec<&Process> = job.processes.iter().filter(|one| one.state == Life::Gone).collect();
    if let Some(first) = gone.first().filter(|_| !job.is_over()) {
        return (Kind::Died, format!("DIED: {}", sentences::died(job, first, gone.len())));
    }
    let longest = judgement.blockages.iter().max_by_key(|one| one.longest_ns());
    let after = time(after_ns);
    match (longest, silence) {
        (Some(blockage), _) if judgement.is_unsure => {
            let text = suspected.unwrap_or_else(|| sentences::waits(job, blockage));
            let text = format!(
                "CANNOT TELL: when the recording ended, {text}; that is less than {after} (--after): the job may have \
                 hung, or have been killed while it worked"
            );
            (Kind::Unknown, text)
        }
        (Some(_), _) if job.is_over() && doubts::has_lost(job) => nobody_waits(job),
        (Some(blockage), _) => {
            let waits = sentences::waits(job, blockage);
            let why = match blockage.takes_ns() {
                ns if ns > after_ns => format!("NCCL may take {} to make a communicator of many ranks", time(ns)),
                _ => format!("that is less than {after} (--after)"),
            };
            let word = if job.is_over() { "No hang" } else { "Not yet a hang" };
            (Kind::Waiting, format!("{word}: {waits}; {why}"))
        }
        // The missing records may show which rank holds up the job.
        (None, Some(_)) if job.is_over() && doubts::has_lost(job) => nobody_waits(job),
        (None, Some(silence)) if job.is_archive => {
            (Kind::Unknown, format!("CANNOT TELL: {}", quiet::verdict(job, silence)))
        }
        (None, Some(silence)) => (Kind::Quiet, format!("QUIET: {}", quiet::verdict(job, silence))),
        (None, None) => nobody_waits(job),
    }
}

/// The verdict if no rank is seen to wait for long. Missing records of a finished job could have shown a hang.
fn nobody_waits(job: &Job) -> (Kind, String) {
    let is_unclear = job.processes.iter().any(|process| process.state == Life::Unknown);
    let doubts = if job.is_over() || is_unclear { doubts::doubts(job) } else { Vec::new() };
    let Some((first, others)) = doubts.split_first() else {
        return (Kind::Nothing, format!("No hang: {}", sentences::nothing(job)));
    };
    let others = match others.len() {
        0 => String::new(),
        number => format!(" (and {} below)", plural(number as u64, "reason", "reasons")),
    };
    let way_out = doubts::way_out(job);
    (Kind::Unknown, format!("CANNOT TELL: nobody is seen to wait for long, but {first}{others}; {way_out}"))
}

fn suspect_row(job: &Job, judgement: &Judgement, waits: &[String], suspect: &Suspect) -> SuspectRow {
    let (index, rank) = suspect.member;
    let process = job.process_of_member(suspect.member);
    let comm = job.comm(index);
    SuspectRow {
        reason: suspect.reason.name().into(),
        communicator: comm.map(|comm| comm.name.clone()).unwrap_or_default(),
        rank,
        job_rank: comm.and_then(|comm| comm.job_rank(rank)),
        process: process.map(Process::address),
        ranks_blocked: suspect.blocked,
        text: sentences::suspect(job, &judgement.blockages, suspect),
        advice: sentences::advice(suspect.reason, process),
        chain: suspect.chain.iter().filter_map(|&at| waits.get(at)).cloned().collect(),
    }
}

fn process_row(process: &Process) -> ProcessRow {
    ProcessRow {
        part: process.part.clone(),
        host: process.host.clone(),
        pid: process.pid,
        launcher_rank: process.launcher_rank,
        process_state: state_name(process.state).into(),
        last_record_ns: process.last_record_ns,
        last_event_ns: process.last_event_ns,
        has_journal: process.has_journal,
        problems: process.problems.clone(),
    }
}
