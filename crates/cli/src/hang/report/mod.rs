//! From what is judged to the report.

mod comms;
mod doubts;
mod names;
mod quiet;
mod ranks;
pub(super) mod rows;
mod sentences;
mod straggler;
pub(super) mod text;
mod unknown;

use super::job::{Job, Process, ProcessState};
use super::judge::blockage::Blockage;
use super::judge::quiet::{self as silence, Quiet};
use super::judge::suspects::Suspect;
use super::judge::{Judgement, judge};
use crate::units::{plural, time};
use comms::comm_row;
use rows::{CommRow, Kind, ProcessRow, Report, SuspectRow, Verdict};

/// Judges a job. `after_ns`: who waits for less is not counted as hanging.
pub(crate) fn report(directory: &str, job: &Job, after_ns: u64) -> Report {
    let judgement = judge(job, after_ns);
    let comms = job.comms.iter().enumerate().map(|(index, comm)| {
        let blockages = judgement.blockages.iter();
        comm_row(job, comm, blockages.filter(|one| one.comm == index))
    });
    let communicators: Vec<CommRow> = comms.collect();
    let suspects = judgement.suspects.iter();
    // Made once: in a large communicator each rank can be a suspect, and the text of a wait lists all of them.
    let waits: Vec<String> = judgement.blockages.iter().map(|blockage| sentences::waits(job, blockage)).collect();
    let suspects = suspects.map(|suspect| suspect_row(job, (&judgement.blockages, &waits), suspect));
    let silence = silence::find(job, after_ns);
    let (kind, text) = verdict(job, &judgement, &communicators, silence.as_ref(), after_ns);
    let silence = silence.filter(|_| kind == Kind::Quiet);
    Report {
        format: 1,
        directory: directory.to_owned(),
        time_ns: job.now_ns,
        after_ns,
        source: job.source.name().into(),
        verdict: Verdict { found: !matches!(kind, Kind::Waiting | Kind::Nothing | Kind::Unknown), kind, text },
        suspects: suspects.collect(),
        quiet: silence.map(|silence| quiet::report(job, &silence)),
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
            let (name, text) = (&comm.name, &mismatch.text);
            let text = format!("MISMATCH: communicator {name}: {text}; nothing hangs in it yet");
            return (Kind::Mismatch, text);
        }
    }
    if let Some(text) = sentences::stuck_in_call(job, after_ns) {
        return (Kind::Hang, format!("HANG: {text}"));
    }
    let processes = job.processes.iter();
    let mut gone = processes.filter(|one| one.state == ProcessState::Gone);
    let n_gone = gone.clone().count();
    let some_run = job.processes.iter().any(|one| one.state.is_alive());
    if let Some(first) = gone.next().filter(|_| some_run) {
        let text = sentences::died(job, first, n_gone);
        return (Kind::Died, format!("DIED: {text}"));
    }
    let longest = judgement.blockages.iter().max_by_key(|one| one.longest_ns());
    match (longest, silence) {
        (Some(blockage), _) if judgement.is_unsure => {
            let text = suspected.unwrap_or_else(|| sentences::waits(job, blockage));
            let after = time(after_ns);
            (
                Kind::Unknown,
                format!(
                    "CANNOT TELL: when the recording ended, {text}; that is less than {after} (--after): the job may \
                     have hung, or have been killed while it worked"
                ),
            )
        }
        (Some(_), _) if job.is_over() && doubts::has_lost(job) => nobody_waits(job),
        (Some(blockage), _) => {
            let waits = sentences::waits(job, blockage);
            (Kind::Waiting, format!("No hang: {waits}; that is less than {} (--after)", time(after_ns)))
        }
        (None, Some(silence)) => (Kind::Quiet, format!("QUIET: {}", quiet::verdict(silence))),
        (None, None) => nobody_waits(job),
    }
}

/// Nobody is seen to wait for long. Of a job that is over no more can come, and what is not recorded is not known to be
/// well.
fn nobody_waits(job: &Job) -> (Kind, String) {
    let is_unclear = job.processes.iter().any(|process| process.state == ProcessState::NotKnown);
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

fn suspect_row(job: &Job, (blockages, waits): (&[Blockage], &[String]), suspect: &Suspect) -> SuspectRow {
    let (index, rank) = suspect.member;
    let process = job.process_of_member(suspect.member);
    let chain = suspect.chain.iter().filter_map(|&at| waits.get(at));
    let comm = job.comms.get(index);
    SuspectRow {
        reason: suspect.reason.name().into(),
        communicator: comm.map(|comm| comm.name.clone()).unwrap_or_default(),
        rank,
        job_rank: comm.and_then(|comm| comm.job_rank(rank)),
        process: process.map(Process::address),
        ranks_blocked: suspect.blocked,
        text: sentences::suspect(job, blockages, suspect),
        advice: sentences::advice(suspect.reason, process),
        chain: chain.cloned().collect(),
    }
}

fn process_row(process: &Process) -> ProcessRow {
    ProcessRow {
        part: process.part.clone(),
        host: process.host.clone(),
        pid: process.pid,
        launcher_rank: process.launcher_rank,
        process_state: process.state.name().into(),
        last_record_ns: process.last_record_ns,
        last_event_ns: process.last_event_ns,
        has_journal: process.has_journal,
        problems: process.problems.clone(),
    }
}
