//! From what is judged to what is said.

use super::blame::{self, Reason, Suspect};
use super::job::{Call, Comm, Job, Life, Message, Process, Rank, Stage, Wait};
use super::judge::{self, At, Lane, Obstacle, Reach, Way};
use super::rows::{
    CollectiveRow, CommRow, Kind, MessageRow, MismatchCall, MismatchRow, ProcessRow, Report,
    SequenceRow, SuspectRow, Verdict, WaitRow,
};
use super::{not_known, places, words};

impl Report {
    /// Judges a job. `after_ns`: who waits for less is not counted as hanging.
    pub(crate) fn of(directory: &str, job: &Job, after_ns: u64) -> Self {
        let mut obstacles = Vec::new();
        for (at, comm) in job.comms.iter().enumerate() {
            obstacles.extend(judge::obstacles(job, at, comm));
        }
        let watches = blame::watches(job);
        let lasting: Vec<Obstacle> = obstacles
            .iter()
            .filter(|obstacle| blame::counts(job, &watches, obstacle, after_ns))
            .cloned()
            .collect();
        let suspects = blame::suspects(job, &watches, &lasting);
        let rows = job.comms.iter().enumerate();
        let communicators: Vec<CommRow> = rows
            .map(|(at, comm)| comm_row(job, comm, obstacles.iter().filter(|one| one.comm == at)))
            .collect();
        let verdict = verdict(
            job,
            &lasting,
            &obstacles,
            &suspects,
            &communicators,
            after_ns,
        );
        Self {
            format: 1,
            directory: directory.to_owned(),
            time_ns: job.now_ns,
            after_ns,
            verdict,
            suspects: suspects
                .iter()
                .map(|suspect| suspect_row(job, &lasting, suspect))
                .collect(),
            unknown: not_known::unknown(job, &lasting),
            processes: job.processes.iter().map(process_row).collect(),
            communicators,
        }
    }
}

fn verdict(
    job: &Job,
    lasting: &[Obstacle],
    all: &[Obstacle],
    suspects: &[Suspect],
    comms: &[CommRow],
    after_ns: u64,
) -> Verdict {
    if let Some(suspect) = suspects.first() {
        return Verdict {
            found: true,
            kind: Kind::Hang,
            text: format!("HANG: {}", words::verdict(job, lasting, suspect)),
        };
    }
    let sequences = || {
        comms
            .iter()
            .flat_map(|comm| comm.sequences.iter().map(move |one| (comm, one)))
    };
    let mismatches = sequences().find_map(|(comm, one)| Some((comm, one.mismatch.as_ref()?)));
    if let Some((comm, mismatch)) = mismatches {
        return Verdict {
            found: true,
            kind: Kind::Mismatch,
            text: format!(
                "MISMATCH: communicator {}: {}; nothing hangs in it yet",
                comm.name, mismatch.text
            ),
        };
    }
    if let Some(text) = words::stuck_inside(job, after_ns) {
        return Verdict {
            found: true,
            kind: Kind::Hang,
            text: format!("HANG: {text}"),
        };
    }
    let runs = |process: &&Process| matches!(process.life, Life::Running | Life::Stopped);
    let gone = job.processes.iter().filter(|one| one.life == Life::Gone);
    let gone: Vec<&Process> = gone.collect();
    let some_run = job.processes.iter().any(|process| runs(&process));
    if let Some(first) = gone.first().filter(|_| some_run) {
        return Verdict {
            found: true,
            kind: Kind::Died,
            text: format!("DIED: {}", words::died(job, first, gone.len())),
        };
    }
    let longest = all.iter().max_by_key(|obstacle| obstacle.longest_ns());
    match longest {
        Some(obstacle) => Verdict {
            found: false,
            kind: Kind::Waiting,
            text: format!("No hang: {}", words::short_wait(job, obstacle)),
        },
        None => Verdict {
            found: false,
            kind: Kind::Nothing,
            text: format!("No hang: {}", words::nothing(job)),
        },
    }
}

fn suspect_row(job: &Job, obstacles: &[Obstacle], suspect: &Suspect) -> SuspectRow {
    let (at, rank) = suspect.who;
    let comm = job.comms.get(at);
    let seat = comm.and_then(|comm| comm.ranks.get(&rank));
    let process = seat.and_then(|seat| job.processes.get(seat.actor.process));
    let chain = suspect.chain.iter().filter_map(|&at| obstacles.get(at));
    SuspectRow {
        reason: reason(suspect.reason),
        communicator: comm.map(|comm| comm.name.clone()).unwrap_or_default(),
        rank,
        process: process.map(Process::place),
        ranks_blocked: suspect.blocked,
        text: words::suspect(job, obstacles, suspect),
        advice: words::advice(suspect.reason, process),
        chain: chain.map(|obstacle| words::waits(job, obstacle)).collect(),
    }
}

const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Mismatch => "mismatch",
        Reason::Gone => "gone",
        Reason::Ended => "ended",
        Reason::Deadlock => "deadlock",
        Reason::Stopped => "stopped",
        Reason::InTheCall => "in-the-call",
        Reason::NotCalled => "not-called",
        Reason::NeverCame => "never-came",
        Reason::Silent => "silent",
        Reason::NotBegun => "kernel-not-begun",
        Reason::Gpu => "gpu",
        Reason::Unrecorded => "unrecorded",
        Reason::Unknown => "unknown",
    }
}

const fn life(life: Life) -> &'static str {
    match life {
        Life::Running => "running",
        Life::Stopped => "stopped",
        Life::Gone => "gone",
        Life::Ended => "ended",
        Life::Silent => "silent",
    }
}

fn process_row(process: &Process) -> ProcessRow {
    ProcessRow {
        part: process.part.clone(),
        host: process.host.clone(),
        pid: process.pid,
        launcher_rank: process.launcher_rank,
        life: life(process.life),
        last_record_ns: process.last_record_ns,
        last_event_ns: process.last_event_ns,
        has_journal: process.has_journal,
        problems: process.problems.clone(),
    }
}

fn comm_row<'a>(job: &Job, comm: &Comm, obstacles: impl Iterator<Item = &'a Obstacle>) -> CommRow {
    let lanes = judge::lanes(comm);
    let messages = obstacles.filter_map(|obstacle| match &obstacle.at {
        At::Message(message) => Some(message_row(job, comm, obstacle, message)),
        At::Collective { .. } => None,
    });
    CommRow {
        name: comm.name.clone(),
        id: format!("{:#018x}", comm.id),
        ranks: comm.size,
        ranks_known: comm.knows_size,
        ranks_missing: comm.missing(),
        messages: messages.collect(),
        sequences: lanes
            .into_iter()
            .map(|lane| sequence_row(job, comm, lane))
            .collect(),
        latecomer: places::latecomer(comm),
    }
}

fn sequence_row(job: &Job, comm: &Comm, lane: Lane) -> SequenceRow {
    let reach = judge::reach(job, comm, lane);
    let at = reach.first_incomplete;
    let taking_part = comm.ranks.iter();
    let taking_part =
        taking_part.filter(|(_, rank)| lane == Lane::Calls || lane.of(rank).count() > 0);
    let (mut entered, mut not_entered) = (Vec::new(), Vec::new());
    let mut waited_ns = None;
    let mut ranks = Vec::new();
    let taking_part: Vec<(&u32, &Rank)> = taking_part.collect();
    let all_came = at.is_none_or(|at| {
        let mut ranks = taking_part.iter();
        ranks.all(|(_, rank)| lane.of(rank).count() > at)
    });
    let mut not_placed = Vec::new();
    for (number, rank) in taking_part {
        if !lane.of(rank).is_placed() {
            not_placed.push(*number);
        }
        ranks.push(places::rank_row(
            job, comm, *number, rank, lane, at, all_came,
        ));
        let Some(at) = at.filter(|_| lane.of(rank).is_placed()) else {
            continue;
        };
        if lane.of(rank).count() > at {
            entered.push(*number);
        } else {
            not_entered.push(*number);
        }
        let call = lane.of(rank).at(at);
        let call = call.filter(|call| !call.progress.stage.is_over());
        let waited = call.and_then(|call| judge::waited_ns(job, rank, call.entered_ns));
        waited_ns = waited_ns.max(waited);
    }
    let complete = reach.last_complete;
    SequenceRow {
        graphs: lane == Lane::Replays,
        from_beginning: lane.is_counted(comm),
        last_complete: complete.map(|(at, is_sure)| collective_row(comm, lane, at, is_sure)),
        first_incomplete: at.map(|at| collective_row(comm, lane, at, true)),
        entered,
        not_entered,
        not_placed,
        waited_ns,
        mismatch: mismatch_row(comm, lane, &reach),
        ranks,
    }
}

fn collective_row(comm: &Comm, lane: Lane, position: u64, is_sure: bool) -> CollectiveRow {
    let calls = comm.ranks.values();
    let mut calls = calls.filter_map(|rank| lane.of(rank).at(position));
    let call = calls.next();
    let sequence = call.into_iter().chain(calls).find_map(|call| call.sequence);
    let what = call.map(|call| &call.what);
    CollectiveRow {
        position: position + 1,
        is_sure,
        function: what.map(words::function),
        sequence,
        count: what.map(|what| what.count),
        datatype: what.map(|what| what.datatype.to_string()),
        root: what.and_then(|what| what.root),
    }
}

fn mismatch_row(comm: &Comm, lane: Lane, reach: &Reach) -> Option<MismatchRow> {
    let mismatch = reach.mismatch.as_ref()?;
    let calls = mismatch.groups.iter().map(|(what, ranks)| {
        // Where not all are known from the API only functions were compared: say what was called all the same.
        let mut ranks_calls = ranks.iter().filter_map(|rank| comm.ranks.get(rank));
        let call: Option<&Call> = ranks_calls.find_map(|rank| lane.of(rank).at(mismatch.position));
        let what = call.map_or(what, |call| &call.what);
        MismatchCall {
            ranks: ranks.clone(),
            function: words::function(what),
            count: what.count,
            datatype: what.datatype.to_string(),
            root: what.root,
        }
    });
    Some(MismatchRow {
        position: mismatch.position + 1,
        text: words::mismatch(mismatch),
        calls: calls.collect(),
    })
}

fn message_row(job: &Job, comm: &Comm, obstacle: &Obstacle, message: &Message) -> MessageRow {
    let (rank, for_ns) = obstacle.waiters.first().copied().unwrap_or((0, 0));
    let until_ns = comm
        .ranks
        .get(&rank)
        .map_or(job.now_ns, |rank| until(job, rank));
    MessageRow {
        rank,
        function: message.func(),
        peer: message.peer,
        number: message.number + 1,
        count: message.count,
        datatype: message.datatype.to_string(),
        stage: stage(message.progress.stage),
        for_ns,
        peer_called: matches!(obstacle.way, Way::Inside(_)),
        waits: waits(&message.progress.waits, until_ns),
        text: words::waits(job, obstacle),
    }
}

/// Until when it is known what a rank did.
pub(crate) fn until(job: &Job, rank: &Rank) -> u64 {
    let process = job.processes.get(rank.actor.process);
    process.map_or(job.now_ns, |process| process.until_ns.min(job.now_ns))
}

/// The waits of a proxy, as rows.
pub(crate) fn waits(waits: &[Wait], until_ns: u64) -> Vec<WaitRow> {
    let row = |wait: &Wait| WaitRow {
        channel: wait.channel,
        direction: if wait.is_send { "send" } else { "receive" },
        peer: wait.peer,
        state: wait.state.name(),
        step: wait.step,
        steps: wait.steps,
        for_ns: until_ns.saturating_sub(wait.since_ns),
    };
    waits.iter().map(row).collect()
}

/// The name of a stage.
pub(crate) const fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Calling => "calling",
        Stage::Called => "called",
        Stage::Launching => "launching",
        Stage::Enqueued => "enqueued",
        Stage::Launched => "launched",
        Stage::Running => "running",
        Stage::Transferred => "transferred",
        Stage::Done => "done",
    }
}

/// The name of a life.
pub(crate) const fn life_name(of: Life) -> &'static str {
    life(of)
}
