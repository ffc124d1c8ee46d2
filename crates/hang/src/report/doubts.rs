//! Why a finished job may have hung, although no rank is seen to wait for long.

use job::life::Life;

use super::names;
use crate::job::{Comm, Job, Process, Rank};
use crate::sequence::Sequence;

/// The reasons, most important first; empty if everything is recorded and has ended.
pub(super) fn doubts(job: &Job) -> Vec<String> {
    // Damage first: it may explain other gaps.
    let mut doubts: Vec<String> = job.processes.iter().filter_map(|process| of_process(job, process)).collect();
    let has_called =
        |rank: &Rank| Sequence::ALL.into_iter().any(|it| !it.of(rank).list.is_empty()) || !rank.messages.is_empty();
    if job.comms.is_empty() {
        doubts.push("no communicator was recorded".to_owned());
    } else if !job.comms.iter().flat_map(|comm| comm.ranks.values()).any(has_called) {
        doubts.push("no operation was recorded".to_owned());
    }
    doubts.extend(job.comms.iter().flat_map(|comm| of_comm(job, comm)));
    doubts.extend(job.missing.iter().chain(&job.signs).cloned());
    // Operations that ended, as the GPU's times show, need nothing more of the network.
    let has_open = job.comms.iter().any(|comm| open_ended(job, comm).next().is_some());
    doubts.extend(job.open_below.iter().filter(|_| has_open).cloned());
    doubts
}

/// Whether missing records could show a longer wait than the existing ones.
pub(super) fn has_lost(job: &Job) -> bool {
    job.comms.iter().any(|comm| !comm.missing().is_empty())
        || job.processes.iter().any(|process| of_process(job, process).is_some())
}

pub(super) const fn way_out(job: &Job) -> &'static str {
    if job.is_archive {
        "`nccl-otf2 hang` while the job runs, or --keep-journal in the next run, lets it see more; `nccl-otf2 check` says what is missing"
    } else {
        "`nccl-otf2 finalize` makes an archive of what can be read, and `nccl-otf2 check` says what that lacks"
    }
}

fn of_comm(job: &Job, comm: &Comm) -> Vec<String> {
    let mut doubts = Vec::new();
    let missing = comm.missing();
    if !missing.is_empty() {
        doubts.push(format!("of {} of communicator {} there is no record", names::ranks(comm, &missing), comm.name));
    }
    let open_ended: Vec<u32> = open_ended(job, comm).collect();
    if !open_ended.is_empty() {
        doubts.push(format!(
            "whether the last operation of {} in communicator {} ended is not recorded (NCCL_OTF2_EVENTS=full shows the end on the GPU)",
            names::ranks(comm, &open_ended),
            comm.name
        ));
    }
    doubts
}

/// The ranks that may be in their last operation. One that ended the communicator had completed it.
fn open_ended(job: &Job, comm: &Comm) -> impl Iterator<Item = u32> {
    let ranks = comm.ranks.iter().filter(|(_, rank)| !rank.finalized && may_be_in_its_last(job, rank));
    ranks.map(|(number, _)| *number)
}

/// Whether a rank's last operation is not known to have ended.
fn may_be_in_its_last(job: &Job, rank: &Rank) -> bool {
    let is_read = job.is_archive || job.process_of(rank).is_some_and(|process| process.has_journal);
    let calls = Sequence::ALL.into_iter().filter_map(|sequence| sequence.of(rank).list.last());
    let mut last = calls.map(|call| call.progress.stage).chain(rank.messages.last().map(|last| last.progress.stage));
    is_read && last.any(|stage| !stage.is_over())
}

fn of_process(job: &Job, process: &Process) -> Option<String> {
    let who = process.address();
    let problems = || {
        let first = process.problems.first().map_or("", String::as_str);
        format!("{first}{}", if process.problems.len() > 1 { " (more below)" } else { "" })
    };
    match process.state {
        _ if job.is_archive => None,
        // A process that ended all its communicators had no open operation.
        Life::Ended if process.has_clock && process.has_journal => None,
        Life::Ended if !process.has_journal => {
            Some(format!("the journal of {who} is removed, and only its archive says what it did"))
        }
        _ if !process.has_journal => Some(format!("nothing of {who} can be read here: {}", problems())),
        _ if !process.is_whole => Some(format!("not all that {who} did is recorded: {}", problems())),
        _ if !process.has_clock => Some(format!("the times of {who} are not known: {}", problems())),
        Life::Unknown => Some(format!("how {who} ended is not known: {}", problems())),
        _ => None,
    }
}
