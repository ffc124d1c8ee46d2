//! Describes where each rank is: the rows of ranks and communicators, the rank that is last in most collectives, and
//! the report of a job from which NCCL reports nothing any more.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::compare::Mismatch;
use crate::graph::parts::Described;
use crate::job::{Actor, Call, Comm, Job, Message, Process, Rank, Sequence, Stage, Wait, WaitState, state_name};
use crate::judge::{Judgement, ProgressOfRanks, WaitingMessage};
use crate::lifetimes::NoRecentEvents;
use crate::report::rows::{
    CollectiveRow, CommRow, MessageRow, MismatchCall, MismatchRow, QuietReport, QuietRow, RankRow, SequenceRow,
    Straggler, WaitRow, are_all_outside, call_text,
};
use crate::report::sentences::records;
use crate::report::{lines, rows};
use analysis::units::{plural, time};
use model::job::RecordingState;
use nccl_events::Kind;

/// Limit on the waits spelled out in a line.
const MOST_WAITS: usize = 4;

/// The time up to which a rank's actions are known.
fn until_ns(job: &Job, rank: &Rank) -> u64 {
    job.process_of(rank).map_or(job.now_ns, |process| process.until_ns)
}

#[derive(Clone, Copy)]
pub(crate) struct Incomplete {
    pub(crate) position: u64,
    pub(crate) all_entered: bool,
}

/// Whether a rank has entered the first incomplete collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HasEntered {
    Yes,
    No,
    Unknown,
}

/// The row of a rank: in the first incomplete collective if it has entered, else after its last.
pub(crate) fn rank_row(
    job: &Job,
    comm: &Comm,
    (number, rank): (u32, &Rank),
    sequence: Sequence,
    incomplete: Option<Incomplete>,
) -> RankRow {
    let tail = sequence.tail(rank);
    let until_ns = until_ns(job, rank);
    let (entered, call) = match incomplete {
        _ if !tail.has_positions() => (HasEntered::Unknown, tail.first_open()),
        Some(first) if tail.count() <= first.position => (HasEntered::No, None),
        Some(first) => (HasEntered::Yes, tail.at(first.position)),
        None => (HasEntered::Yes, None),
    };
    // Not all ranks entered, so transfers that ended have failed.
    let was_aborted = rank.ended.is_some_and(|(_, is_abort)| is_abort);
    let has_failed = entered == HasEntered::Yes
        && !was_aborted
        && incomplete.is_some_and(|first| !first.all_entered)
        && call.is_some_and(|call| call.progress.stage.is_over() && call.what.needs_all());
    let call = call.or_else(|| tail.list.last());
    let inside = open_calls(rank, until_ns);
    let process = job.process_of(rank);
    let is_over = process.is_some_and(|process| process.state.is_over());
    let mut text = whereabouts(comm, rank, call, entered, (until_ns, is_over));
    for call in &all_open_calls(rank, until_ns) {
        text += &format!("; {call}");
    }
    if has_failed {
        text += ", and not all ranks called it: the transfers failed";
    }
    RankRow {
        rank: number,
        job_rank: comm.job_rank(number),
        process: process.map(Process::address).unwrap_or_default(),
        process_state: process.map_or("", |process| state_name(process.state)).into(),
        entered: tail.count(),
        stage: match call {
            _ if entered == HasEntered::No => "not-entered",
            None => "nothing",
            Some(call) => call.progress.stage.name(),
        }
        .into(),
        for_ns: call.and_then(|call| job.waited_ns(rank, call.entered_ns)),
        waits: call.map_or_else(Vec::new, |call| wait_rows(job, rank, &call.progress.waits)),
        text,
        inside,
    }
}

pub(super) fn open_calls(rank: &Rank, until_ns: u64) -> Vec<String> {
    let calls = rank.open_calls.iter();
    calls.map(|call| format!("{} for {}", call.what, time(until_ns.saturating_sub(call.since_ns)))).collect()
}

/// Like [`open_calls`]; without such a call, that of the rank's NVTX ranges.
pub(super) fn all_open_calls(rank: &Rank, until_ns: u64) -> Vec<String> {
    let calls = open_calls(rank, until_ns);
    if calls.is_empty() { call_text(&rank.activity, until_ns).into_iter().collect() } else { calls }
}

fn whereabouts(
    comm: &Comm,
    rank: &Rank,
    call: Option<&Call>,
    entered: HasEntered,
    (until_ns, is_over): (u64, bool),
) -> String {
    let Some(call) = call else {
        return match entered {
            _ if rank.finalized => "has ended the communicator",
            HasEntered::Unknown => "none of its calls are kept",
            _ if is_over => "had called no collective",
            _ => "has called no collective",
        }
        .to_owned();
    };
    let what = rows::call(&call.what);
    if let (HasEntered::Yes, Some((ended_ns, true))) = (entered, rank.ended) {
        let after = time(ended_ns.saturating_sub(call.entered_ns));
        return format!("called it, and aborted the communicator {after} later");
    }
    let stage = stage_text(call.progress.stage, is_over);
    let mut text = match entered {
        HasEntered::No => return format!("not called; last: {what}, {stage}"),
        HasEntered::Unknown => format!("position in the order not known; {what}: {stage}"),
        HasEntered::Yes => stage.to_owned(),
    };
    if call.progress.channels_open > 0 {
        let (one, several) = if is_over { ("channel ran", "channels ran") } else { ("channel runs", "channels run") };
        text += &format!(", {} on the GPU", plural(call.progress.channels_open.into(), one, several));
    }
    let waits = waits_text(comm, &call.progress.waits, until_ns);
    if !waits.is_empty() {
        text += &format!("; proxy: {waits}");
    }
    text
}

pub(super) const fn stage_text(stage: Stage, is_over: bool) -> &'static str {
    match stage {
        Stage::Calling if !is_over => "in the call, which has not returned",
        Stage::Calling => "in the call, which had not returned when the recording ended",
        Stage::Called => "called",
        Stage::Launching if !is_over => "in the launch of its kernel, which has not returned",
        Stage::Launching => "in the launch of its kernel, which had not returned when the recording ended",
        Stage::Enqueued => "enqueued",
        Stage::Launched => "launched",
        Stage::Running if !is_over => "under way",
        Stage::Running => "had not ended when the recording ended",
        Stage::Transferred => "its transfers have ended",
        Stage::Done => "done",
    }
}

fn waits_text(comm: &Comm, waits: &[Wait], until_ns: u64) -> String {
    let text = |wait: &Wait| {
        let direction = if wait.is_send { "send to" } else { "receive from" };
        let state = match wait.state {
            WaitState::Unknown => String::new(),
            state => format!(" in {}", state.name()),
        };
        let step =
            wait.step.map_or_else(String::new, |step| format!(", step {} of {}", i64::from(step) + 1, wait.steps));
        let peer = match u32::try_from(wait.peer) {
            Ok(peer) if peer < comm.size => rows::ranks(comm, &[peer]),
            _ => format!("peer {}", wait.peer),
        };
        let since = time(until_ns.saturating_sub(wait.since_ns));
        format!("channel {} {direction} {peer}{state}{step} for {since}", wait.channel)
    };
    let mut texts: Vec<String> = waits.iter().take(MOST_WAITS).map(text).collect();
    if waits.len() > MOST_WAITS {
        texts.push(format!("{} more", waits.len() - MOST_WAITS));
    }
    texts.join(", ")
}

pub(crate) fn wait_rows(job: &Job, rank: &Rank, waits: &[Wait]) -> Vec<WaitRow> {
    let until_ns = until_ns(job, rank);
    let row = |wait: &Wait| WaitRow {
        channel: wait.channel,
        direction: if wait.is_send { "send" } else { "receive" }.into(),
        peer: wait.peer,
        state: wait.state.name().into(),
        step: wait.step,
        steps: wait.steps,
        for_ns: until_ns.saturating_sub(wait.since_ns),
    };
    waits.iter().map(row).collect()
}

/// Where the job may hang, after "the job hangs".
fn place(job: &Job, quiet: &NoRecentEvents) -> String {
    let is_whole = processes(job, quiet).iter().all(|process| process.is_whole);
    let unrecorded = if is_whole { "" } else { "in an operation that was not recorded, " };
    let place = if are_all_outside(processes(job, quiet)) {
        "outside NCCL, or in a call of a nonblocking communicator,"
    } else {
        "in a call that NCCL does not report (such as ncclCommSplit) or outside NCCL,"
    };
    format!("{unrecorded}{place}")
}

fn processes<'a>(job: &'a Job, quiet: &NoRecentEvents) -> Vec<&'a Process> {
    quiet.processes.iter().filter_map(|&index| job.processes.get(index)).collect()
}

pub(crate) fn silence(job: &Job, quiet: &NoRecentEvents) -> [String; 2] {
    let place = place(job, quiet);
    let quiet_ns = time(quiet.for_ns);
    let number = quiet.processes.len() as u64;
    let processes = plural(number, "process", "processes");
    if job.is_over() {
        let ended = if job.is_archive {
            "had not ended their communicators"
        } else {
            "were killed, crashed, or ended without telling NCCL"
        };
        let (hung, did) = if job.is_archive { ("may have hung", "it did") } else { ("hung", "did") };
        return [
            format!("NCCL had reported nothing for {quiet_ns} in any of {processes} when the recording ended"),
            format!(
                "they {ended}, and no rank was seen to wait in an operation: the job {hung} {place} or {did} \
                something else"
            ),
        ];
    }
    let living = if number == 1 {
        "the process that is alive".to_owned()
    } else {
        format!(
            "any of the {processes} that are \
            alive"
        )
    };
    let stopped = quiet
        .processes
        .iter()
        .filter_map(|&process| job.processes.get(process))
        .find(|process| process.state == RecordingState::Stopped);
    let stopped = stopped.map_or_else(String::new, |process| format!("{} is stopped, and ", process.address()));
    [
        format!("NCCL has reported nothing for {quiet_ns} in {living}"),
        format!("{stopped}no rank is seen to wait in an operation: the job hangs {place} or it does something else"),
    ]
}

/// The report of a job from which NCCL reports nothing any more: the last operations, and where to look.
pub(crate) fn report(job: &Job, quiet: &NoRecentEvents) -> QuietReport {
    let processes = processes(job, quiet);
    // If API calls are recorded, a rank without an open call is outside NCCL.
    let reports_all_calls = processes.iter().all(|process| process.shows_calls);
    let reports_calls = reports_all_calls
        || records(job, Kind::CollApi) && processes.iter().all(|process| process.event_mask.is_some());
    let advice = advice(&processes, job.is_over(), reports_calls);
    QuietReport { for_ns: quiet.for_ns, reports_calls, reports_all_calls, ranks: rows(job, quiet), advice }
}

/// A row for each GPU of each process: its ranks in all communicators share one line of work.
fn rows(job: &Job, quiet: &NoRecentEvents) -> Vec<QuietRow> {
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

fn row(quiet: &NoRecentEvents, process: &Process) -> QuietRow {
    QuietRow {
        process: process.address(),
        launcher_rank: process.launcher_rank,
        process_state: state_name(process.state).into(),
        quiet_ns: quiet.until_ns.saturating_sub(process.last_event_ns),
        text: "no communicator yet".to_owned(),
        inside: process.activities.values().filter_map(|activity| call_text(activity, process.until_ns)).collect(),
        ..QuietRow::default()
    }
}

/// The last operation of a rank, and the time of its call.
fn last_operation(comm: &Comm, rank: &Rank, is_over: bool) -> (u64, String) {
    let calls = Sequence::ALL.into_iter().filter_map(|sequence| {
        let tail = sequence.tail(rank);
        let call = tail.list.last()?;
        let at = if tail.has_positions() {
            rows::position(tail.count(), sequence.is_from_beginning(comm))
        } else {
            "not known which".to_owned()
        };
        let stage = stage_text(call.progress.stage, is_over);
        Some((call.entered_ns, format!("{} ({at}): {stage}", rows::call(&call.what))))
    });
    let message = rank.messages.last().map(|message| {
        let stage = stage_text(message.progress.stage, is_over);
        (message.entered_ns, format!("{}: {stage}", rows::message(Some(comm), message)))
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
            "look at what the programs are doing, this one first, then the others; on {host}: py-spy dump --native \
            --pid {pid}, or gdb -p {pid} -batch -ex 'thread apply all backtrace'; a thread with libnccl in its stack \
            is inside NCCL"
        ));
    }
    for process in processes.iter().filter(|process| process.state == RecordingState::Stopped) {
        advice.push(format!("{} is stopped: kill -CONT {} lets it continue", process.address(), process.pid));
    }
    if !are_all_outside(processes.iter().copied()) {
        advice.push(
            "set NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT in the next run: NCCL's log then names the communicators that \
            are being created and split, and the ranks that do it"
                .to_owned(),
        );
    }
    if !reports_calls {
        advice.push(
            "calls are recorded from NCCL 2.28 on, with the event kind CollApi (NCCL_OTF2_EVENTS=standard): without \
            them, a rank inside a call looks like one outside"
                .to_owned(),
        );
    }
    advice.push("if the program computes, loads data or waits for requests that long, use a longer --after".to_owned());
    advice
}

pub(crate) fn comm_row(job: &Job, index: usize, comm: &Comm, judgement: &Judgement) -> CommRow {
    let messages = judgement.messages.iter().filter(|one| one.member.0 == index);
    let messages = messages.filter_map(|waiting| message_row(job, comm, waiting));
    let all_progress = judgement.progress.get(index).into_iter().flatten();
    CommRow {
        name: comm.name.clone(),
        id: format!("{:#x}", comm.id),
        ranks: comm.size,
        ranks_known: comm.knows_size,
        has_all_ranks: comm.has_all,
        ranks_missing: comm.missing(),
        messages: messages.collect(),
        sequences: all_progress.map(|(sequence, progress)| sequence_row(job, comm, *sequence, progress)).collect(),
        straggler: straggler(job, comm),
    }
}

fn sequence_row(job: &Job, comm: &Comm, sequence: Sequence, progress: &ProgressOfRanks) -> SequenceRow {
    let ranks: Vec<(u32, &Rank)> = sequence.ranks(comm).collect();
    let numbers = |of: &dyn Fn(&Rank) -> bool| -> Vec<u32> {
        ranks.iter().filter(|(_, rank)| of(rank)).map(|(number, _)| *number).collect()
    };
    let at = progress.first_incomplete;
    let has_positions = |rank: &Rank| sequence.tail(rank).has_positions();
    let is_past = |rank: &Rank| at.is_some_and(|at| sequence.tail(rank).count() > at);
    let waited_ns = |&(_, rank): &(u32, &Rank)| {
        let call = sequence.tail(rank).at(at?).filter(|call| !call.progress.stage.is_over())?;
        job.waited_ns(rank, call.entered_ns)
    };
    let all_entered = ranks.iter().all(|(_, rank)| is_past(rank));
    let incomplete = at.map(|position| Incomplete { position, all_entered });
    SequenceRow {
        graphs: sequence == Sequence::Replays,
        from_beginning: sequence.is_from_beginning(comm),
        last_complete: progress.last_complete.map(|(at, is_sure)| collective_row(comm, sequence, at, is_sure)),
        first_incomplete: at.map(|at| collective_row(comm, sequence, at, true)),
        entered: numbers(&|rank| has_positions(rank) && is_past(rank)),
        not_entered: numbers(&|rank| at.is_some() && has_positions(rank) && !is_past(rank)),
        position_unknown: numbers(&|rank| !has_positions(rank)),
        waited_ns: ranks.iter().filter_map(waited_ns).max(),
        mismatch: progress.mismatch.as_ref().map(|mismatch| mismatch_row(job, comm, sequence, mismatch)),
        ranks: ranks.iter().map(|rank| rank_row(job, comm, *rank, sequence, incomplete)).collect(),
    }
}

fn collective_row(comm: &Comm, sequence: Sequence, position: u64, is_sure: bool) -> CollectiveRow {
    let calls = comm.ranks.values().filter_map(|rank| sequence.tail(rank).at(position));
    let what = calls.clone().next().map(|call| &call.what);
    CollectiveRow {
        position: position + 1,
        is_sure,
        function: what.map(rows::function),
        sequence: calls.clone().find_map(|call| call.sequence),
        count: what.map(|what| what.count),
        datatype: what.map(|what| what.datatype.to_string()),
        root: what.and_then(|what| what.root),
    }
}

fn mismatch_row(job: &Job, comm: &Comm, sequence: Sequence, mismatch: &Mismatch) -> MismatchRow {
    let calls = mismatch.groups.iter().filter_map(|(_, ranks)| {
        let mut members = ranks.iter().filter_map(|rank| comm.ranks.get(rank));
        let call: &Call = members.find_map(|rank| sequence.tail(rank).at(mismatch.key.position()))?;
        Some(MismatchCall {
            ranks: ranks.clone(),
            call: lines::arguments(&Described::Collective(call), mismatch),
            function: rows::function(&call.what),
            count: call.what.count,
            datatype: call.what.datatype.to_string(),
            root: call.what.root,
        })
    });
    // Whether results are wrong is for the verdict to say.
    let text = lines::mismatch(job, mismatch, None).line.replace("; results may be wrong", "");
    MismatchRow {
        position: mismatch.key.position() + 1,
        difference: mismatch.difference.name().into(),
        text,
        calls: calls.collect(),
    }
}

fn message_row(job: &Job, comm: &Comm, waiting: &WaitingMessage) -> Option<MessageRow> {
    let (_, number) = waiting.member;
    let rank = comm.ranks.get(&number)?;
    let message: &Message = rank.messages.get(waiting.message)?;
    Some(MessageRow {
        rank: number,
        job_rank: comm.job_rank(number),
        function: message.func().into(),
        peer: message.peer,
        number: message.number + 1,
        count: message.count,
        datatype: message.datatype.to_string(),
        stage: message.progress.stage.name().into(),
        for_ns: waiting.waited_ns,
        peer_called: waiting.peer_called,
        waits: wait_rows(job, rank, &message.progress.waits),
        text: waiting.text.clone(),
    })
}

/// How many of the last collectives are compared at most, and how many are needed.
const MOST_COLLECTIVES: u64 = 16;
const FEWEST_COLLECTIVES: u64 = 4;

/// One of two ranks is always last: a rank that is behind by less than this is not named.
const LEAST_BEHIND_NS: u64 = 10_000_000;

/// The rank that was last in most of the last collectives. Clock differences between hosts are not subtracted.
pub(crate) fn straggler(job: &Job, comm: &Comm) -> Option<Straggler> {
    let has_clock = |rank: &Rank| job.process_of(rank).is_some_and(|process| process.has_clock);
    let ranks: Vec<(u32, &Rank)> =
        comm.ranks.iter().filter(|(_, rank)| has_clock(rank)).map(|(number, rank)| (*number, rank)).collect();
    let tails = ranks.iter().map(|(_, rank)| &rank.calls).filter(|tail| tail.has_positions());
    if tails.clone().count() < 2 {
        return None;
    }
    let common = tails.clone().map(|tail| tail.count()).min()?;
    let first = tails.map(|tail| tail.before).max()?;
    let mut behind_of: Vec<(u32, Vec<u64>)> = ranks.iter().map(|(number, _)| (*number, Vec::new())).collect();
    let mut of = 0;
    for position in first.max(common.saturating_sub(MOST_COLLECTIVES))..common {
        let entered = |(at, (_, rank)): (usize, &(u32, &Rank))| Some((rank.calls.at(position)?.entered_ns, at));
        let mut entered: Vec<(u64, usize)> = ranks.iter().enumerate().filter_map(entered).collect();
        nccl_events::sort::sort(&mut entered);
        if let [.., (before, _), (last, at)] = entered.as_slice()
            && let Some((_, behind)) = behind_of.get_mut(*at)
        {
            behind.push(last - before);
            of += 1;
        }
    }
    let (rank, mut behind) = behind_of.into_iter().max_by_key(|(_, behind)| behind.len())?;
    nccl_events::sort::sort(&mut behind);
    let behind_ns = behind.get(behind.len() / 2).copied()?;
    let times = behind.len() as u64;
    let is_clear = of >= FEWEST_COLLECTIVES && times * 4 >= of * 3 && behind_ns >= LEAST_BEHIND_NS;
    is_clear.then_some(Straggler { rank, job_rank: comm.job_rank(rank), times, of, behind_ns })
}
