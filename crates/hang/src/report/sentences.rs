//! What the report says beside its findings, for readers who know NCCL but not traces: what the records do not show,
//! and why a finished job may have hung.

use std::collections::BTreeSet;

use crate::job::{Comm, Job, Positions, Process, Rank, Sequence, Stage};
use crate::judge::Judgement;
use crate::report::rows;
use crate::report::rows::Kind as VerdictKind;
use crate::report::words::short;
use analysis::units::{plural, time};
use model::job::RecordingState;
use nccl_events::rank_list;
use nccl_events::sort::Gather;
use nccl_events::{Kind, MOST_RANKS};

/// Why calls of flight recordings may not be comparable.
pub(crate) const NO_NUMBERS: &str = "the beginning of the recording was not kept, and no sequence number of NCCL's \
    was kept on several ranks";

/// Present tense while a process of the job lives, else past tense.
pub(super) fn tense<'a>(job: &Job, now: &'a str, past: &'a str) -> &'a str {
    if job.is_over() { past } else { now }
}

/// Some processes are gone, and nobody waits for them yet.
pub(super) fn died(job: &Job, first: &Process, n: usize) -> [String; 2] {
    let others = job.processes.iter().filter(|one| one.state.is_alive());
    let gone = plural(n as u64, "process is", "processes are");
    let others = plural(others.count() as u64, "other runs", "others run");
    let last = time(job.now_ns.saturating_sub(first.last_record_ns));
    [
        format!("{gone} gone, first {}, and {others}", first.address()),
        format!("its last record is {last} old; no rank is seen to wait for it in NCCL"),
    ]
}

pub(crate) fn nothing(job: &Job) -> String {
    // A process that makes communicators anew has several parts.
    let addresses: BTreeSet<String> = job.processes.iter().map(Process::address).gather();
    let processes = plural(addresses.len() as u64, "process", "processes");
    let comms = plural(job.comms.len() as u64, "communicator", "communicators");
    if job.is_archive {
        return format!("according to the archive, all operations in the {comms} of {processes} ended on all ranks");
    }
    if job.processes.iter().all(|process| process.state == RecordingState::Ended) {
        return format!("no rank was seen to wait in the {comms} of {processes}, which have all ended");
    }
    if !job.processes.iter().any(|process| process.state == RecordingState::Running) {
        return format!("no rank was seen to wait in the {comms} of {processes} when they ended or were killed");
    }
    let idle = job.processes.iter().map(|one| one.last_event_ns).max().and_then(|last| job.now_ns.checked_sub(last));
    let idle = idle.map_or_else(String::new, |idle| format!("; last NCCL activity {} ago", time(idle)));
    format!("no rank waits in the {comms} of {processes}{idle}")
}

/// Whether all processes record such events. If that is unknown for a process, its problems say so.
pub(super) fn records(job: &Job, kind: Kind) -> bool {
    let is_archive = job.is_archive;
    let mut processes = job.processes.iter().filter(|process| process.has_journal || is_archive);
    processes.all(|process| process.event_mask.is_none_or(|mask| mask & kind.mask() != 0))
}

/// Whether the archive says of each rank's last operation that it ended on the GPU, which CUPTI or CUDA events timed.
fn has_ends(job: &Job) -> bool {
    let last = |rank: &Rank| {
        Sequence::ALL
            .into_iter()
            .filter_map(|sequence| sequence.tail(rank).list.last())
            .all(|call| call.progress.stage == Stage::Done)
    };
    job.is_archive && job.comms.iter().flat_map(|comm| comm.ranks.values()).all(last)
}

/// What the records do not show, and which events would show it.
pub(crate) fn unknown(job: &Job, judgement: &Judgement, kind: VerdictKind) -> Vec<String> {
    let mut unknown = Vec::new();
    match kind {
        VerdictKind::Unknown => unknown.extend(limitations(job)),
        _ => unknown.extend(job.missing.iter().cloned()),
    }
    if !records(job, Kind::ProxyOp) {
        unknown.push(
            "Network transfers were not recorded (NCCL_OTF2_EVENTS=standard): calls of collectives are \
            known, but not whether they ended."
                .to_owned(),
        );
    } else if !records(job, Kind::KernelCh) && !has_ends(job) {
        unknown.push(
            "No kernel channel was recorded (NCCL_OTF2_EVENTS=full, at a higher cost to the job): a \
            collective counts as ended when its network transfers have, and on a rank without transfers only its \
            launch is known."
                .to_owned(),
        );
    }
    if judgement.all_began && !records(job, Kind::ProxyStep) {
        unknown.push("The steps of network transfers were not recorded (NCCL_OTF2_EVENTS=standard,ProxyStep): whether a transfer waits for the GPU, for the peer or for the network is not known.".to_owned());
    }
    let shows_calls = job.processes.iter().all(|process| process.shows_calls);
    if !shows_calls && !records(job, Kind::CollApi) {
        unknown.push(
            "There are no API events (NCCL 2.28 and later, not left out of NCCL_OTF2_EVENTS): a rank inside \
            a call looks like one that has not made it, and collectives of CUDA graphs look like others."
                .to_owned(),
        );
    }
    for comm in &job.comms {
        let missing = comm.missing();
        if !missing.is_empty() {
            unknown.push(format!(
                "Communicator {}: nothing is recorded here about {}; they never called NCCL, run without the plugin, \
                or record elsewhere.",
                comm.name,
                rows::ranks(comm, &missing)
            ));
        }
    }
    unknown.extend(job.comms.iter().flat_map(position_unknown));
    if judgement.hang.is_none() && shows_calls {
        unknown.push(
            "Waiting outside NCCL calls is not recorded: on a stream, in a nonblocking communicator, or in \
            the program."
                .to_owned(),
        );
    } else if judgement.hang.is_none() {
        unknown.push(
            "Waiting outside recorded operations is not recorded: while communicators are created, split or \
            destroyed, on a stream, or outside NCCL."
                .to_owned(),
        );
    }
    let silent = job.processes.iter().filter(|one| one.state == RecordingState::Silent).count() as u64;
    if silent > 0 {
        unknown.push(format!(
            "{} on other hosts or in other containers, and silent: only there is it known whether they run.",
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
        let is_empty = |rank: &Rank| sequence.tail(rank).list.is_empty();
        // Communicators without collectives are used for sends and receives.
        if comm.ranks.values().all(|rank| is_empty(rank) || rank.finalized) {
            continue;
        }
        let with = |positions: Positions, empty: bool| -> Option<String> {
            let is_such = |rank: &Rank| sequence.tail(rank).positions == positions && is_empty(rank) == empty;
            let ranks: Vec<u32> =
                comm.ranks.iter().filter(|(_, rank)| is_such(rank)).map(|(number, _)| *number).collect();
            (!ranks.is_empty()).then(|| rows::ranks(comm, &ranks))
        };
        let name = &comm.name;
        if let Some(ranks) = with(Positions::Unknown, false) {
            remarks.push(format!(
                "Communicator {name}: how far {ranks} got with their {what} is not known, nor which rank is behind: \
                {NO_NUMBERS}."
            ));
        }
        if let Some(ranks) = with(Positions::Unknown, true).filter(|_| sequence == Sequence::Calls) {
            remarks.push(format!(
                "Communicator {name}: no {what} of {ranks} were kept; whether they called the ones that others wait \
                in is not known."
            ));
        }
        if let Some(ranks) = with(Positions::Ordered, false) {
            remarks.push(format!(
                "Communicator {name}: what {ranks} called is not among the {what} kept on other ranks; NCCL's \
                sequence numbers show who is behind, not by how many."
            ));
        }
    }
    remarks
}

/// Ranks of the launcher that no process has: it is unknown whether their processes started.
fn never_seen(job: &Job) -> Option<String> {
    let Some(size) = job.processes.iter().filter_map(|one| one.launcher_size).max() else {
        let text =
            "No launcher states the number of ranks (WORLD_SIZE …): a rank that has not called NCCL is not seen.";
        return job.comms.is_empty().then(|| text.to_owned());
    };
    if job.processes.iter().any(|one| one.event_mask.is_none() && one.launcher_rank.is_none()) {
        return None;
    }
    if size > MOST_RANKS {
        return Some(format!(
            "The launcher states {size} processes, which is impossible (is WORLD_SIZE, or the launcher's equivalent, \
            set wrongly?): whether some recorded nothing is not known."
        ));
    }
    let seen: BTreeSet<u32> = job.processes.iter().filter_map(|one| one.launcher_rank).gather();
    let missing: Vec<u32> = (0..size).filter(|rank| !seen.contains(rank)).collect();
    let recorded = format!("{} {}", rows::noun(&missing), rank_list(&missing));
    (!missing.is_empty()).then(|| format!("The launcher started {size} processes; {recorded} recorded nothing here."))
}

/// Why a finished job may have hung, although no rank is seen to wait for long: the reasons, most important first;
/// empty if everything is recorded and has ended.
pub(super) fn limitations(job: &Job) -> Vec<String> {
    // Damage first: it may explain other gaps.
    let mut doubts: Vec<String> =
        job.processes.iter().filter_map(|process| limitation_of_process(job, process)).collect();
    let has_called = |rank: &Rank| {
        Sequence::ALL.into_iter().any(|sequence| !sequence.tail(rank).list.is_empty()) || !rank.messages.is_empty()
    };
    if job.comms.is_empty() {
        doubts.push("no communicator was recorded".to_owned());
    } else if !job.comms.iter().flat_map(|comm| comm.ranks.values()).any(has_called) {
        doubts.push("no operation was recorded".to_owned());
    }
    doubts.extend(job.comms.iter().flat_map(|comm| limitations_of_comm(job, comm)));
    doubts.extend(job.missing.iter().chain(&job.signs).cloned());
    // Operations that ended, as the GPU's times show, need nothing more of the network.
    let has_open = job.comms.iter().any(|comm| open_ended(job, comm).next().is_some());
    doubts.extend(job.open_below.iter().filter(|_| has_open).cloned());
    doubts
}

/// Whether missing records could show a longer wait than the existing ones.
pub(super) fn has_lost(job: &Job) -> bool {
    job.comms.iter().any(|comm| !comm.missing().is_empty())
        || job.processes.iter().any(|process| limitation_of_process(job, process).is_some())
}

pub(super) const fn workaround(job: &Job) -> &'static str {
    if job.is_archive {
        "run `nccl-otf2 hang` while the job runs, or use --keep-journal in the next run, to see more; `nccl-otf2 \
        check` says what is missing"
    } else {
        "`nccl-otf2 finalize` makes an archive of what can be read, and `nccl-otf2 check` says what is missing from it"
    }
}

fn limitations_of_comm(job: &Job, comm: &Comm) -> Vec<String> {
    let mut doubts = Vec::new();
    let missing = comm.missing();
    if !missing.is_empty() {
        let ranks = rows::ranks(comm, &missing);
        let name = if ranks.ends_with(&*comm.name) { String::new() } else { format!(" of communicator {}", comm.name) };
        doubts.push(format!("nothing is recorded about {ranks}{name}"));
    }
    let open_ended: Vec<u32> = open_ended(job, comm).collect();
    if !open_ended.is_empty() {
        doubts.push(format!(
            "whether the last operation of {} in communicator {} ended is not recorded; NCCL_OTF2_EVENTS=full shows \
            the end on the GPU",
            rows::ranks(comm, &open_ended),
            short(&comm.name)
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
    let calls = Sequence::ALL.into_iter().filter_map(|sequence| sequence.tail(rank).list.last());
    let mut last = calls.map(|call| call.progress.stage).chain(rank.messages.last().map(|last| last.progress.stage));
    is_read && last.any(|stage| !stage.is_over())
}

fn limitation_of_process(job: &Job, process: &Process) -> Option<String> {
    let who = process.address();
    let problems = || {
        let first = process.problems.first().map_or("", String::as_str);
        format!("{first}{}", if process.problems.len() > 1 { " (more below)" } else { "" })
    };
    match process.state {
        _ if job.is_archive => None,
        // A process that ended all its communicators had no open operation.
        RecordingState::Ended if process.has_clock && process.has_journal => None,
        RecordingState::Ended if !process.has_journal => {
            Some(format!("the journal of {who} was removed, and only the archive shows what it did"))
        }
        _ if !process.has_journal => Some(format!("no recording of {who} can be read here: {}", problems())),
        _ if !process.is_whole => Some(format!("not all that {who} did is recorded: {}", problems())),
        _ if !process.has_clock => Some(format!("the times of {who} are not known: {}", problems())),
        RecordingState::Unknown => Some(format!("how {who} ended is not known: {}", problems())),
        _ => None,
    }
}
