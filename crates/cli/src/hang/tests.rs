//! What is judged of jobs that are made up: each is a table of ranks with what they called and how far it came.

mod flight;

use std::collections::BTreeMap;

use super::job::{
    Actor, Call, Comm, Inside, Job, Life, Message, Place, Process, Progress, Rank, Signature,
    Stage, Tail, Wait, WaitState,
};
use super::rows::{Kind, Report};

const SECOND_NS: u64 = 1_000_000_000;
/// The moment of looking.
const NOW_NS: u64 = 1_000 * SECOND_NS;
const AFTER_NS: u64 = 10 * SECOND_NS;

fn process(number: usize) -> Process {
    Process {
        part: format!("part{number}"),
        host: "node".to_owned(),
        pid: 100 + u32::try_from(number).expect("few"),
        launcher_rank: None,
        launcher_size: None,
        life: Life::Running,
        until_ns: NOW_NS,
        last_record_ns: NOW_NS,
        last_event_ns: NOW_NS - 30 * SECOND_NS,
        event_mask: 0xffff,
        nccl_version: "2.28.9".to_owned(),
        has_journal: true,
        is_whole: true,
        kept_since_ns: None,
        problems: Vec::new(),
    }
}

/// One rank a process, one GPU a process.
fn rank(process: usize, calls: Vec<Call>) -> Rank {
    Rank {
        actor: Actor { process, gpu: 0 },
        calls: Tail {
            before: 0,
            list: calls,
            place: Place::Counted,
        },
        replays: Tail::default(),
        messages: Vec::new(),
        message_counts: BTreeMap::new(),
        inside: Vec::new(),
        finalized: false,
    }
}

/// A call of so many seconds ago.
fn call(func: &str, count: u64, seconds_ago: u64, stage: Stage) -> Call {
    Call {
        what: Signature {
            func: func.into(),
            count,
            datatype: "ncclFloat32".into(),
            root: None,
        },
        from_api: true,
        sequence: None,
        by_copy_engine: false,
        entered_ns: NOW_NS - seconds_ago * SECOND_NS,
        progress: Progress {
            stage,
            began: stage >= Stage::Running,
            ..Progress::default()
        },
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
    Comm {
        name: name.to_owned(),
        id: 7,
        repetition: 0,
        size,
        knows_size: true,
        ranks: ranks.into_iter().collect(),
    }
}

fn job(processes: usize, comms: Vec<Comm>) -> Job {
    Job {
        processes: (0..processes).map(process).collect(),
        comms,
        now_ns: NOW_NS,
    }
}

fn judge(job: &Job) -> Report {
    Report::of("dir", job, AFTER_NS)
}

/// The first suspect: reason, communicator, rank, ranks blocked.
fn suspect(report: &Report) -> (&str, &str, u32, usize) {
    let first = report.suspects.first();
    let first = first.unwrap_or_else(|| panic!("no suspect: {}", report.verdict.text));
    (
        first.reason,
        &first.communicator,
        first.rank,
        first.ranks_blocked,
    )
}

#[test]
fn a_rank_that_never_calls_is_the_suspect() {
    let ranks = vec![
        (0, rank(0, vec![done(40), open(20)])),
        (1, rank(1, vec![done(40)])),
        (2, rank(2, vec![done(40), open(19)])),
    ];
    let report = judge(&job(3, vec![comm("world", 3, ranks)]));
    assert_eq!(suspect(&report), ("not-called", "world", 1, 2));
    assert!(report.verdict.found);
    let text = &report.verdict.text;
    for part in ["HANG: rank 1 [node:101]", "collective 2", "20.000 s"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let sequence = &report.communicators[0].sequences[0];
    let last = sequence.last_complete.as_ref().expect("the first");
    assert_eq!((last.position, last.is_sure), (1, true));
    assert_eq!(sequence.not_entered, [1]);
    assert_eq!(sequence.waited_ns, Some(20 * SECOND_NS));
}

#[test]
fn who_waits_in_another_communicator_is_not_to_blame() {
    // 0 waits in A for 1, which waits in B for 2, which waits for nobody.
    let a = vec![(0, rank(0, vec![open(20)])), (1, rank(1, Vec::new()))];
    let b = vec![(0, rank(1, vec![open(30)])), (1, rank(2, Vec::new()))];
    let report = judge(&job(3, vec![comm("A", 2, a), comm("B", 2, b)]));
    assert_eq!(suspect(&report), ("not-called", "B", 1, 2));
    assert_eq!(report.suspects.len(), 1);
    assert_eq!(report.suspects[0].chain.len(), 2);
}

#[test]
fn ranks_that_wait_for_each_other_are_a_deadlock() {
    let a = vec![(0, rank(0, vec![open(20)])), (1, rank(1, Vec::new()))];
    let b = vec![(0, rank(0, Vec::new())), (1, rank(1, vec![open(20)]))];
    let report = judge(&job(2, vec![comm("A", 2, a), comm("B", 2, b)]));
    assert_eq!(suspect(&report).0, "deadlock");
    assert_eq!(report.suspects.len(), 1, "one circle is told once");
    assert!(report.verdict.text.contains("deadlock"));
}

#[test]
fn different_calls_at_one_place_are_the_cause() {
    let reduce = |ago| call("ReduceScatter", 8, ago, Stage::Running);
    let ranks = vec![
        (0, rank(0, vec![done(40), open(20), reduce(20)])),
        (1, rank(1, vec![done(40), open(20), reduce(20)])),
        (2, rank(2, vec![done(40), reduce(20)])),
    ];
    let report = judge(&job(3, vec![comm("world", 3, ranks)]));
    assert_eq!(suspect(&report), ("mismatch", "world", 2, 3));
    let text = &report.verdict.text;
    let parts = ["different functions in collective 2", "left out a call"];
    for part in parts {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_count_a_type_and_a_root_can_differ_too() {
    let mut other = open(20);
    other.what.count = 9;
    other.what.datatype = "ncclInt8".into();
    other.what.root = Some(1);
    let ranks = vec![(0, rank(0, vec![open(20)])), (1, rank(1, vec![other]))];
    let report = judge(&job(2, vec![comm("world", 2, ranks)]));
    let expected = "different counts and data types and roots in collective 1";
    assert!(
        report.verdict.text.contains(expected),
        "{}",
        report.verdict.text
    );
}

#[test]
fn a_mismatch_that_did_not_hang_is_found_all_the_same() {
    let mut other = done(20);
    other.what.count = 9;
    let ranks = vec![(0, rank(0, vec![done(20)])), (1, rank(1, vec![other]))];
    let report = judge(&job(2, vec![comm("world", 2, ranks)]));
    assert_eq!(report.verdict.kind, Kind::Mismatch);
    assert!(report.verdict.found);
}

#[test]
fn counts_from_below_the_api_are_not_compared_with_the_programs() {
    let mut below = open(20);
    below.from_api = false;
    below.what.count = 32;
    let ranks = vec![(0, rank(0, vec![open(20)])), (1, rank(1, vec![below]))];
    let report = judge(&job(2, vec![comm("world", 2, ranks)]));
    assert_eq!(suspect(&report).0, "unknown");
}

#[test]
fn a_process_that_is_gone_is_the_suspect_at_once() {
    let ranks = vec![
        (0, rank(0, vec![done(9), open(3)])),
        (1, rank(1, vec![done(9), open(4)])),
    ];
    let mut job = job(2, vec![comm("world", 2, ranks)]);
    job.processes[1].life = Life::Gone;
    job.processes[1].until_ns = NOW_NS - 3 * SECOND_NS;
    let report = judge(&job);
    assert_eq!(suspect(&report), ("gone", "world", 1, 1));
}

#[test]
fn transfers_that_ended_because_the_peer_died_are_not_taken_for_complete() {
    // Rank 1 was killed at the end of the first; the transfers of the second failed.
    let second = call("AllReduce", 8, 20, Stage::Transferred);
    let ranks = vec![
        (0, rank(0, vec![done(22), second])),
        (1, rank(1, vec![open(21)])),
    ];
    let mut job = job(2, vec![comm("world", 2, ranks)]);
    job.processes[1].life = Life::Gone;
    job.processes[1].until_ns = NOW_NS - 20 * SECOND_NS;
    let report = judge(&job);
    assert_eq!(suspect(&report), ("gone", "world", 1, 1));
    let sequence = &report.communicators[0].sequences[0];
    let first = sequence.first_incomplete.as_ref().expect("the second");
    assert_eq!(first.position, 2);
    let row = &sequence.ranks[0];
    assert!(row.text.contains("they failed"), "{}", row.text);
    // Killed in the same one: whether the transfers of the others ended or failed is not known, and they go nowhere.
    let killed = |job: &mut Job, calls: Vec<Call>| {
        job.comms[0].ranks.get_mut(&1).expect("there").calls.list = calls;
    };
    killed(&mut job, vec![done(22), open(21)]);
    assert_eq!(suspect(&judge(&job)), ("gone", "world", 1, 1));
    killed(&mut job, vec![open(21)]);
    // A broadcast can be complete on its root.
    for rank in job.comms[0].ranks.values_mut() {
        for call in &mut rank.calls.list {
            call.what.func = "Broadcast".into();
        }
    }
    assert!(judge(&job).suspects.is_empty());
}

#[test]
fn after_the_job_was_killed_the_first_to_go_is_the_suspect() {
    let ranks = || {
        vec![
            (0, rank(0, vec![done(30), open(25)])),
            (1, rank(1, vec![done(30)])),
        ]
    };
    let dead = |until: [u64; 2]| {
        let mut job = job(2, vec![comm("world", 2, ranks())]);
        for (process, ago) in job.processes.iter_mut().zip(until) {
            process.life = Life::Gone;
            process.until_ns = NOW_NS - ago * SECOND_NS;
        }
        job
    };
    assert_eq!(suspect(&judge(&dead([1, 20]))).0, "gone");
    // Killed together: one of them had not called.
    let report = judge(&dead([1, 1]));
    assert_eq!(suspect(&report).0, "not-called");
    assert!(
        report.verdict.text.contains("24.000 s"),
        "until its last record"
    );
}

#[test]
fn a_stopped_process_and_one_in_a_call_are_told_from_idle_ones() {
    let ranks = || vec![(0, rank(0, vec![open(20)])), (1, rank(1, Vec::new()))];
    let mut stopped = job(2, vec![comm("world", 2, ranks())]);
    stopped.processes[1].life = Life::Stopped;
    assert_eq!(suspect(&judge(&stopped)).0, "stopped");

    let mut calling = job(2, vec![comm("world", 2, ranks())]);
    let seat = calling.comms[0].ranks.get_mut(&1).expect("there");
    seat.inside.push(Inside {
        what: "in the launch of a kernel".to_owned(),
        is_in_nccl: true,
        since_ns: NOW_NS - 20 * SECOND_NS,
    });
    let report = judge(&calling);
    assert_eq!(suspect(&report).0, "in-the-call");
    assert!(report.verdict.text.contains("in the launch of a kernel"));
}

#[test]
fn a_rank_without_a_record_never_came_or_records_elsewhere() {
    let never = vec![(0, rank(0, vec![open(20)])), (1, rank(1, vec![open(20)]))];
    let report = judge(&job(2, vec![comm("world", 3, never)]));
    assert_eq!(suspect(&report), ("never-came", "world", 2, 2));
    assert_eq!(report.communicators[0].ranks_missing, [2]);

    // One was complete: so rank 2 took part in it.
    let ranks = vec![
        (0, rank(0, vec![done(40), open(20)])),
        (1, rank(1, vec![done(40), open(20)])),
    ];
    let report = judge(&job(2, vec![comm("world", 3, ranks)]));
    assert_eq!(suspect(&report).0, "unrecorded");
}

#[test]
fn a_rank_with_damaged_records_is_not_accused_of_what_it_may_have_done() {
    let ranks = |stage| {
        vec![
            (0, rank(0, vec![done(40), call("AllReduce", 8, 20, stage)])),
            (1, rank(1, vec![done(40)])),
        ]
    };
    let damaged = |stage| {
        let mut job = job(2, vec![comm("world", 2, ranks(stage))]);
        job.processes[1].is_whole = false;
        judge(&job)
    };
    assert_eq!(suspect(&damaged(Stage::Running)).0, "unrecorded");
    // Not even that anybody waits is known.
    assert!(!damaged(Stage::Launched).verdict.found);
    // Nor is it a mismatch, where places are not known.
    let mut job = job(2, vec![comm("world", 2, ranks(Stage::Running))]);
    job.processes[1].is_whole = false;
    let other = call("ReduceScatter", 8, 40, Stage::Done);
    job.comms[0].ranks.get_mut(&1).expect("there").calls.list = vec![other];
    assert_eq!(suspect(&judge(&job)).0, "unrecorded");
}

#[test]
fn a_rank_that_ended_the_communicator_will_not_come() {
    let mut ended = rank(1, vec![done(40)]);
    ended.finalized = true;
    let ranks = vec![(0, rank(0, vec![done(40), open(20)])), (1, ended)];
    let report = judge(&job(2, vec![comm("world", 2, ranks)]));
    assert_eq!(suspect(&report).0, "ended");

    // Its journal is gone: how many collectives it had is known, by what was written.
    let mut written = rank(1, Vec::new());
    written.calls.before = 1;
    let ranks = vec![(0, rank(0, vec![done(40), open(20)])), (1, written)];
    let mut job = job(2, vec![comm("world", 2, ranks)]);
    job.processes[1].life = Life::Ended;
    job.processes[1].is_whole = false;
    assert_eq!(suspect(&judge(&job)).0, "ended");
}

#[test]
fn inside_an_operation_the_one_that_waits_for_its_own_gpu_is_the_suspect() {
    let with = |waits: Vec<Wait>| {
        let mut call = open(20);
        call.progress.waits = waits;
        vec![call]
    };
    let ranks = vec![
        (0, rank(0, with(vec![wait(2, WaitState::Receive)]))),
        (1, rank(1, with(vec![wait(2, WaitState::SendGpu)]))),
        (
            2,
            rank(
                2,
                with(vec![
                    wait(1, WaitState::Receive),
                    wait(0, WaitState::SendGpu),
                ]),
            ),
        ),
    ];
    let report = judge(&job(3, vec![comm("world", 3, ranks)]));
    assert_eq!(suspect(&report), ("gpu", "world", 1, 3));
    let row = &report.communicators[0].sequences[0].ranks[0];
    let expected = "channel 0 receive from rank 2 in RecvWait, step 1 of 4 for 20.000 s";
    assert!(row.text.contains(expected), "{}", row.text);
}

#[test]
fn without_steps_nobody_inside_an_operation_is_accused() {
    let with = || {
        let mut call = open(20);
        let mut transfer = wait(0, WaitState::Unknown);
        transfer.step = None;
        call.progress.waits = vec![transfer];
        vec![call]
    };
    let ranks = vec![(0, rank(0, with())), (1, rank(1, with()))];
    let mut job = job(2, vec![comm("world", 2, ranks)]);
    for process in &mut job.processes {
        process.event_mask = 0xffff & !(1 << 4);
    }
    let report = judge(&job);
    assert_eq!(suspect(&report).0, "unknown");
    let says = |word: &str| report.unknown.iter().any(|line| line.contains(word));
    assert!(says("standard,ProxyStep"), "{:?}", report.unknown);
}

#[test]
fn a_short_wait_is_no_hang() {
    let ranks = vec![(0, rank(0, vec![open(3)])), (1, rank(1, Vec::new()))];
    let report = judge(&job(2, vec![comm("world", 2, ranks)]));
    assert_eq!(
        (report.verdict.found, report.verdict.kind),
        (false, Kind::Waiting)
    );
}

#[test]
fn what_began_after_the_moment_of_looking_does_not_wait() {
    let mut later = open(0);
    later.entered_ns = NOW_NS + SECOND_NS;
    let ranks = vec![(0, rank(0, vec![later])), (1, rank(1, Vec::new()))];
    let job = job(2, vec![comm("world", 2, ranks)]);
    let report = Report::of("dir", &job, 0);
    assert_eq!(report.verdict.kind, Kind::Nothing);
}

#[test]
fn what_all_called_is_complete_as_far_as_is_known() {
    let launched = || vec![call("AllReduce", 8, 20, Stage::Launched)];
    let ranks = vec![(0, rank(0, launched())), (1, rank(1, launched()))];
    let report = judge(&job(2, vec![comm("world", 2, ranks)]));
    assert!(!report.verdict.found);
    let sequence = &report.communicators[0].sequences[0];
    assert!(sequence.first_incomplete.is_none());
    let last = sequence.last_complete.as_ref().expect("one");
    assert_eq!((last.position, last.is_sure), (1, false));
}

fn message(peer: u32, is_send: bool, stage: Stage) -> Message {
    Message {
        peer,
        is_send,
        number: 0,
        count: 8,
        datatype: "ncclFloat32".into(),
        entered_ns: NOW_NS - 20 * SECOND_NS,
        progress: Progress {
            stage,
            ..Progress::default()
        },
    }
}

#[test]
fn a_receive_without_its_send_waits_for_the_peer() {
    let mut receiver = rank(0, Vec::new());
    receiver.messages.push(message(1, false, Stage::Launched));
    receiver.message_counts.insert((1, false), 1);
    let ranks = |sends: u64| {
        let mut sender = rank(1, Vec::new());
        sender.message_counts.insert((0, true), sends);
        sender
    };
    let mut receivers = rank(0, Vec::new());
    receivers.messages.clone_from(&receiver.messages);
    let report = judge(&job(
        2,
        vec![comm("world", 2, vec![(0, receiver), (1, ranks(0))])],
    ));
    assert_eq!(suspect(&report), ("not-called", "world", 1, 1));
    assert!(
        report.verdict.text.contains("ncclSend"),
        "{}",
        report.verdict.text
    );
    // It was sent: whether it has arrived is not recorded.
    let report = judge(&job(
        2,
        vec![comm("world", 2, vec![(0, receivers), (1, ranks(1))])],
    ));
    assert!(!report.verdict.found, "{}", report.verdict.text);
}

#[test]
fn a_small_send_may_be_complete_without_its_receive() {
    let job_with = |stage| {
        let mut sender = rank(0, Vec::new());
        sender.messages.push(message(1, true, stage));
        let ranks = vec![(0, sender), (1, rank(1, Vec::new()))];
        job(2, vec![comm("world", 2, ranks)])
    };
    assert!(!judge(&job_with(Stage::Launched)).verdict.found);
    assert!(judge(&job_with(Stage::Running)).verdict.found);
}

#[test]
fn who_always_comes_last_is_named() {
    let calls = |late: u64| -> Vec<Call> {
        let of = |place: u64| {
            let mut call = done(100 - place);
            call.entered_ns += late * 20_000_000;
            call
        };
        (0..6).map(of).collect()
    };
    let ranks = vec![(0, rank(0, calls(0))), (1, rank(1, calls(1)))];
    let report = judge(&job(2, vec![comm("world", 2, ranks)]));
    let late = report.communicators[0].latecomer.as_ref().expect("rank 1");
    assert_eq!(
        (late.rank, late.times, late.of, late.behind_ns),
        (1, 6, 6, 20_000_000)
    );
}

#[test]
fn a_process_that_is_gone_before_anybody_waits_is_told() {
    let ranks = vec![(0, rank(0, vec![done(20)])), (1, rank(1, vec![done(20)]))];
    let mut job = job(2, vec![comm("world", 2, ranks)]);
    job.processes[1].life = Life::Gone;
    let report = judge(&job);
    assert_eq!(
        (report.verdict.found, report.verdict.kind),
        (true, Kind::Died)
    );
}

#[test]
fn launches_of_graphs_are_compared_on_ranks_that_report_them() {
    let with = |process: usize, replays: Vec<Call>| {
        let mut rank = rank(process, Vec::new());
        rank.replays.list = replays;
        rank
    };
    let ranks = vec![
        (0, with(0, vec![done(40), open(20)])),
        (1, with(1, vec![done(40)])),
        (2, with(2, Vec::new())),
    ];
    let report = judge(&job(3, vec![comm("world", 3, ranks)]));
    assert_eq!(suspect(&report), ("not-called", "world", 1, 1));
    assert!(
        report.verdict.text.contains("CUDA graphs"),
        "{}",
        report.verdict.text
    );
}
