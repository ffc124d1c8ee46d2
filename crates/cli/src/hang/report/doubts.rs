//! Why it cannot be said of a job that is over that nothing hung, though nobody is seen to wait for long.

use super::names;
use crate::hang::job::{Comm, Job, Process, ProcessState, Rank, Source};
use crate::hang::sequence::Sequence;

/// The reasons, the weightiest first; none where all of it is recorded, and ended.
pub(super) fn doubts(job: &Job) -> Vec<String> {
    // What is damaged may be why something else is not there.
    let mut doubts: Vec<String> = job.processes.iter().filter_map(|process| of_process(job, process)).collect();
    if job.comms.is_empty() {
        doubts.push("no communicator was recorded".to_owned());
    }
    let has_called =
        |rank: &Rank| Sequence::ALL.into_iter().any(|it| !it.of(rank).list.is_empty()) || !rank.messages.is_empty();
    if !job.comms.is_empty() && !job.comms.iter().flat_map(|comm| comm.ranks.values()).any(has_called) {
        doubts.push("no operation was recorded".to_owned());
    }
    for comm in &job.comms {
        doubts.extend(of_comm(job, comm));
    }
    doubts.extend(job.missing.iter().chain(&job.signs).cloned());
    doubts
}

/// Whether records are missing that could show a longer wait than those that are there.
pub(super) fn has_lost(job: &Job) -> bool {
    let ranks = job.comms.iter().any(|comm| !comm.missing().is_empty());
    ranks || job.processes.iter().any(|process| of_process(job, process).is_some())
}

pub(super) fn way_out(job: &Job) -> &'static str {
    match job.source {
        Source::Journals => "`nccl-otf2 check` on the archive says what is missing",
        Source::Archive => {
            "`nccl-otf2 hang` while the job runs, or --keep-journal in the next run, lets it see more; `nccl-otf2 check` says what is missing"
        }
    }
}

fn of_comm(job: &Job, comm: &Comm) -> Vec<String> {
    let mut doubts = Vec::new();
    let missing = comm.missing();
    if !missing.is_empty() {
        doubts.push(format!("of {} of communicator {} there is no record", names::ranks(comm, &missing), comm.name));
    }
    // Who ended the communicator was through with it.
    let open_ended = comm.ranks.iter().filter(|(_, rank)| !rank.finalized && may_be_in_its_last(job, rank));
    let open_ended: Vec<u32> = open_ended.map(|(number, _)| *number).collect();
    if !open_ended.is_empty() {
        doubts.push(format!(
            "whether the last operation of {} in communicator {} ended is not recorded (NCCL_OTF2_EVENTS=full shows the end on the GPU)",
            names::ranks(comm, &open_ended),
            comm.name
        ));
    }
    doubts
}

/// Whether the last that a rank called is not known to have ended.
fn may_be_in_its_last(job: &Job, rank: &Rank) -> bool {
    let is_read = job.source == Source::Archive || job.process_of(rank).is_some_and(|process| process.has_journal);
    let calls = Sequence::ALL.into_iter().filter_map(|sequence| sequence.of(rank).list.last());
    let mut last = calls.map(|call| call.progress.stage).chain(rank.messages.last().map(|last| last.progress.stage));
    is_read && last.any(|stage| !stage.is_over())
}

fn of_process(job: &Job, process: &Process) -> Option<String> {
    let who = process.address();
    let first = process.problems.first().map_or("", String::as_str);
    let others = match process.problems.len() {
        0 | 1 => "",
        _ => " (more below)",
    };
    match process.state {
        // Of a process that ended all its communicators nothing was open.
        ProcessState::Ended if process.has_clock && process.has_journal || job.source == Source::Archive => None,
        ProcessState::Ended if !process.has_journal => {
            Some(format!("the journal of {who} is removed, and only its archive says what it did"))
        }
        _ if job.source == Source::Archive => None,
        _ if !process.has_journal => Some(format!("there is no journal of {who} here")),
        _ if !process.is_whole => Some(format!("not all that {who} did is recorded: {first}{others}")),
        _ if !process.has_clock => Some(format!("the times of {who} are not known: {first}{others}")),
        ProcessState::NotKnown => Some(format!("how {who} ended is not known: {first}{others}")),
        _ => None,
    }
}
