//! What the records do not show, and which events would show it.

use std::collections::BTreeSet;

use analysis::units::plural;
use job::communicators::rank_list;
use job::life::Life;
use nccl_events::sort::Gather;
use nccl_events::{Kind, MOST_RANKS};

use super::doubts::doubts;
use super::names;
use super::rows::Kind as VerdictKind;
use super::sentences::NO_NUMBERS;
use crate::job::{Comm, Job, Rank};
use crate::judge::Judgement;
use crate::judge::blockage::Cause;
use crate::operation::{Positions, Stage};
use crate::sequence::Sequence;

/// Whether all processes record such events. If that is unknown for a process, its problems say so.
pub(super) fn records(job: &Job, kind: Kind) -> bool {
    let is_archive = job.is_archive;
    let mut processes = job.processes.iter().filter(|process| process.has_journal || is_archive);
    processes.all(|process| process.event_mask.is_none_or(|mask| mask & kind.mask() != 0))
}

/// Whether the archive says of each rank's last operation that it ended on the GPU, which CUPTI or CUDA events timed.
fn has_ends(job: &Job) -> bool {
    let last = |rank: &Rank| {
        Sequence::ALL.into_iter().filter_map(|it| it.of(rank).list.last()).all(|it| it.progress.stage == Stage::Done)
    };
    job.is_archive && job.comms.iter().flat_map(|comm| comm.ranks.values()).all(last)
}

pub(crate) fn unknown(job: &Job, judgement: &Judgement, kind: VerdictKind) -> Vec<String> {
    let mut unknown = Vec::new();
    match kind {
        VerdictKind::Unknown => unknown.extend(doubts(job)),
        _ => unknown.extend(job.missing.iter().cloned()),
    }
    let mut lasting = judgement.lasting.iter().filter_map(|index| judgement.blockages.get(*index));
    let all_entered = lasting.any(|blockage| matches!(blockage.cause, Cause::AllEntered(_)));
    if !records(job, Kind::ProxyOp) {
        unknown.push("Network transfers were not recorded (NCCL_OTF2_EVENTS=standard): that a collective was called is known, whether it ended is not.".to_owned());
    } else if !records(job, Kind::KernelCh) && !has_ends(job) {
        unknown.push("What the GPU does was not recorded (NCCL_OTF2_EVENTS=full, which costs the job more): a collective counts as ended with its network transfers, and on a rank without any only its launch is known.".to_owned());
    }
    if all_entered && !records(job, Kind::ProxyStep) {
        unknown.push("The steps of network transfers were not recorded (NCCL_OTF2_EVENTS=standard,ProxyStep): whether a transfer waits for the GPU, for the peer or for the network is not known.".to_owned());
    }
    let shows_calls = job.processes.iter().all(|process| process.shows_calls);
    if !shows_calls && !records(job, Kind::CollApi) {
        unknown.push("There are no API events (NCCL 2.28 and later, not left out of NCCL_OTF2_EVENTS): a rank that is inside the call and one that has not called look alike, and collectives of CUDA graphs look like others.".to_owned());
    }
    for comm in &job.comms {
        let missing = comm.missing();
        if !missing.is_empty() {
            unknown.push(format!(
                "Communicator {}: of {} there is no record here; they never came, run without the plugin, or record elsewhere.",
                comm.name,
                names::ranks(comm, &missing)
            ));
        }
    }
    unknown.extend(job.comms.iter().flat_map(position_unknown));
    if judgement.lasting.is_empty() && shows_calls {
        unknown.push("Waiting outside of NCCL's calls is not seen: on a stream, in a nonblocking communicator, or in the program.".to_owned());
    } else if judgement.lasting.is_empty() {
        unknown.push("Waiting outside recorded operations is not seen: while communicators are created, split or destroyed, on a stream, or outside NCCL.".to_owned());
    }
    let silent = job.processes.iter().filter(|one| one.state == Life::Silent).count() as u64;
    if silent > 0 {
        unknown.push(format!(
            "{} on other hosts or in other containers, and silent: whether they run is known only there.",
            plural(silent, "process is", "processes are")
        ));
    }
    unknown.extend(never_seen(job));
    for process in &job.processes {
        unknown.extend(process.problems.iter().map(|problem| format!("{}: {problem}", process.address())));
    }
    unknown
}

/// What is unknown about the positions of a communicator's ranks, in flight recordings.
fn position_unknown(comm: &Comm) -> Vec<String> {
    let mut remarks = Vec::new();
    let sequences = [(Sequence::Calls, "collectives"), (Sequence::Replays, "collectives of launched CUDA graphs")];
    for (sequence, what) in sequences {
        let is_empty = |rank: &Rank| sequence.of(rank).list.is_empty();
        // Communicators without collectives are used for sends and receives.
        if comm.ranks.values().all(|rank| is_empty(rank) || rank.finalized) {
            continue;
        }
        let with = |positions: Positions, empty: bool| -> Option<String> {
            let is_such = |rank: &Rank| sequence.of(rank).positions == positions && is_empty(rank) == empty;
            let ranks: Vec<u32> =
                comm.ranks.iter().filter(|(_, rank)| is_such(rank)).map(|(number, _)| *number).collect();
            (!ranks.is_empty()).then(|| names::ranks(comm, &ranks))
        };
        let name = &comm.name;
        if let Some(ranks) = with(Positions::Unknown, false) {
            remarks.push(format!(
                "Communicator {name}: where {ranks} came to with their {what} is not known, nor who is behind: {NO_NUMBERS}."
            ));
        }
        if let Some(ranks) = with(Positions::Unknown, true).filter(|_| sequence == Sequence::Calls) {
            remarks.push(format!(
                "Communicator {name}: of {ranks} no {what} are kept; whether they have called what others wait in is not known."
            ));
        }
        if let Some(ranks) = with(Positions::Ordered, false) {
            remarks.push(format!(
                "Communicator {name}: what {ranks} called is not among the {what} that others have kept; NCCL's numbers say who is behind, not by how many."
            ));
        }
    }
    remarks
}

/// Ranks of the launcher that no process has: it is unknown whether their processes started.
fn never_seen(job: &Job) -> Option<String> {
    let Some(size) = job.processes.iter().filter_map(|one| one.launcher_size).max() else {
        let text =
            "No launcher says how many ranks there are (WORLD_SIZE …): one that has made no call of NCCL is not seen.";
        return job.comms.is_empty().then(|| text.to_owned());
    };
    if job.processes.iter().any(|one| one.event_mask.is_none() && one.launcher_rank.is_none()) {
        return None;
    }
    if size > MOST_RANKS {
        return Some(format!(
            "The launcher says that there are {size} processes, which cannot be (is WORLD_SIZE, or what the launcher \
             has in its place, set wrongly?): whether some recorded nothing is not known."
        ));
    }
    let seen: BTreeSet<u32> = job.processes.iter().filter_map(|one| one.launcher_rank).gather();
    let missing: Vec<u32> = (0..size).filter(|rank| !seen.contains(rank)).collect();
    let recorded = format!("{} {}", names::noun(&missing), rank_list(&missing));
    (!missing.is_empty()).then(|| format!("The launcher started {size} processes; {recorded} recorded nothing here."))
}
