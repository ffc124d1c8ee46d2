//! Judges invented jobs: each is a table of ranks, with their calls and the stages of the calls.

use crate::job::{
    Actor, Call, Comm, Job, Message, OpenCall, Place, Positions, Process, Progress, Rank, Signature, Stage, Tail, Wait,
    WaitState,
};
use crate::report::report;
use crate::report::rows::{Kind, Report};
use model::job::RecordingState;

mod flight;
mod journals;
mod programs;
mod reports;
mod scenarios;
mod steps;
mod suspects;
mod thread_activity;

const SECOND_NS: u64 = 1_000_000_000;
const NOW_NS: u64 = 1_000 * SECOND_NS;
const AFTER_NS: u64 = 10 * SECOND_NS;

fn process(number: usize) -> Process {
    Process {
        part: format!("part{number}"),
        host: "node".to_owned(),
        pid: 100 + u32::try_from(number).expect("few"),
        state: RecordingState::Running,
        until_ns: NOW_NS,
        last_record_ns: NOW_NS,
        last_event_ns: NOW_NS - SECOND_NS,
        event_mask: Some(0xffff),
        has_journal: true,
        is_whole: true,
        has_clock: true,
        ..Process::default()
    }
}

/// One rank and one GPU per process.
fn rank(process: usize, calls: Vec<Call>) -> Rank {
    Rank { actor: Actor { process, gpu: 0 }, calls: Tail { list: calls, ..Tail::default() }, ..Rank::default() }
}

/// A call, entered `seconds_ago`.
fn call(func: &str, count: u64, seconds_ago: u64, stage: Stage) -> Call {
    Call {
        what: Signature { func: func.into(), count, datatype: "ncclFloat32".into(), ..Signature::default() },
        from_api: true,
        sequence: None,
        by_copy_engine: false,
        entered_ns: NOW_NS - seconds_ago * SECOND_NS,
        place: Place::default(),
        progress: Progress { stage, began: stage >= Stage::Running, ..Progress::default() },
    }
}

fn done(seconds_ago: u64) -> Call {
    call("AllReduce", 8, seconds_ago, Stage::Done)
}

fn open(seconds_ago: u64) -> Call {
    call("AllReduce", 8, seconds_ago, Stage::Running)
}

fn wait(peer: i32, state: WaitState) -> Wait {
    Wait {
        channel: 0,
        peer,
        is_send: matches!(state, WaitState::SendGpu | WaitState::SendPeer),
        state,
        step: Some(0),
        steps: 4,
        since_ns: NOW_NS - 20 * SECOND_NS,
    }
}

fn comm(name: &str, size: u32, ranks: Vec<(u32, Rank)>) -> Comm {
    Comm { name: name.to_owned(), id: 7, size, knows_size: true, ranks: ranks.into_iter().collect(), ..Comm::default() }
}

fn job(processes: usize, comms: Vec<Comm>) -> Job {
    let processes = (0..processes).map(process).collect();
    let mut job = Job { processes, comms, now_ns: NOW_NS, ..Job::default() };
    job.number();
    job
}

fn judge(job: &Job) -> Report {
    report("dir", job, AFTER_NS)
}

/// One communicator, with one rank per process.
fn world(ranks: Vec<Rank>) -> Job {
    let size = u32::try_from(ranks.len()).expect("few");
    job(ranks.len(), vec![comm("world", size, (0..).zip(ranks).collect())])
}

/// A job of one communicator whose ranks made these calls.
fn calls(calls: impl IntoIterator<Item = Vec<Call>>) -> Job {
    world(calls.into_iter().enumerate().map(|(process, calls)| rank(process, calls)).collect())
}

/// A communicator with a rank for each of these processes and their calls.
fn group(name: &str, ranks: impl IntoIterator<Item = (usize, Vec<Call>)>) -> Comm {
    let ranks: Vec<(u32, Rank)> = (0..).zip(ranks).map(|(at, (process, calls))| (at, rank(process, calls))).collect();
    comm(name, u32::try_from(ranks.len()).expect("few"), ranks)
}

/// Asserts that a text contains all parts.
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// The first suspect: reason, communicator, rank, ranks blocked.
fn suspect(report: &Report) -> (&str, &str, u32, usize) {
    let first = report.suspects.first().unwrap_or_else(|| panic!("no suspect: {}", report.verdict.line));
    (&first.reason, &first.communicator, first.rank, first.ranks_blocked)
}

fn message(peer: u32, is_send: bool, stage: Stage) -> Message {
    Message {
        peer,
        is_send,
        number: 0,
        count: 8,
        datatype: "ncclFloat32".into(),
        bytes: Some(32),
        entered_ns: NOW_NS - 20 * SECOND_NS,
        place: Place::default(),
        progress: Progress { stage, ..Progress::default() },
    }
}
