//! Describes where each rank is.

use analysis::units::{plural, time};

use super::doing::call_text;
use super::names;
use super::rows::{RankRow, WaitRow};
use crate::job::{Comm, Job, Process, Rank, state_name};
use crate::operation::{Call, Stage, Wait, WaitState};
use crate::sequence::Sequence;

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
enum Entered {
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
    let tail = sequence.of(rank);
    let until_ns = until_ns(job, rank);
    let (entered, call) = match incomplete {
        _ if !tail.has_positions() => (Entered::Unknown, tail.first_open()),
        Some(first) if tail.count() <= first.position => (Entered::No, None),
        Some(first) => (Entered::Yes, tail.at(first.position)),
        None => (Entered::Yes, None),
    };
    // Not all ranks entered, so transfers that ended have failed.
    let has_failed = entered == Entered::Yes
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
        text += ", and not all ranks came: they failed";
    }
    RankRow {
        rank: number,
        job_rank: comm.job_rank(number),
        process: process.map(Process::address).unwrap_or_default(),
        process_state: process.map_or("", |process| state_name(process.state)).into(),
        entered: tail.count(),
        stage: match call {
            _ if entered == Entered::No => "not-entered",
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
    if calls.is_empty() { call_text(&rank.doing, until_ns).into_iter().collect() } else { calls }
}

fn whereabouts(
    comm: &Comm,
    rank: &Rank,
    call: Option<&Call>,
    entered: Entered,
    (until_ns, is_over): (u64, bool),
) -> String {
    let Some(call) = call else {
        return match entered {
            _ if rank.finalized => "has ended the communicator",
            Entered::Unknown => "no call of it is kept",
            _ if is_over => "had called no collective",
            _ => "has called no collective",
        }
        .to_owned();
    };
    let what = names::call(&call.what);
    let stage = stage_text(call.progress.stage, is_over);
    let mut text = match entered {
        Entered::No => return format!("not there; its last: {what}, {stage}"),
        Entered::Unknown => format!("where in the order is not known; {what}: {stage}"),
        Entered::Yes => stage.to_owned(),
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
        Stage::Running => "had not ended when the recording did",
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
            Ok(peer) if peer < comm.size => names::ranks(comm, &[peer]),
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
