//! Tests of which rank is the suspect.

use super::*;

/// A rank with these waits in a running collective.
fn waiting_for(waits: Vec<Wait>) -> Vec<Call> {
    let mut call = open(20);
    call.progress.waits = waits;
    vec![call]
}

#[test]
fn a_rank_that_never_calls_is_the_suspect() {
    let report = judge(&calls([vec![done(40), open(20)], vec![done(40)], vec![done(40), open(19)]]));
    assert_eq!(suspect(&report), ("not-called", "world", 1, 2));
    assert!(report.verdict.found);
    let line = "HANG: rank 1 has not called ncclAllReduce #2 of world; ranks 0, 2 wait for up to 20.0 s";
    assert_eq!(report.verdict.line, line);
    let sequence = &report.communicators[0].sequences[0];
    let last = sequence.last_complete.as_ref().expect("the first");
    assert_eq!((last.position, last.is_sure), (1, true));
    assert_eq!(sequence.not_entered, [1]);
    assert_eq!(sequence.waited_ns, Some(20 * SECOND_NS));
}

/// 0 waits in A for 1 and 2, and 1 waits in B for 2, which waits for nobody. Waits are in seconds.
fn chain(in_a: u64, in_b: u64) -> Job {
    let a = group("A", [(0, vec![open(in_a)]), (1, Vec::new()), (2, Vec::new())]);
    job(3, vec![a, group("B", [(1, vec![open(in_b)]), (2, Vec::new())])])
}

/// A wait shorter than `--after` is still a link of the chain, and its rank counts as blocked by the chain's last rank.
#[test]
fn the_end_of_a_chain_of_waits_is_the_suspect_whoever_waits_longest() {
    for (in_a, in_b) in [(20, 30), (20, 2), (2, 20)] {
        let report = judge(&chain(in_a, in_b));
        let (reason, _, _, blocked) = suspect(&report);
        let all: Vec<Option<u32>> = report.suspects.iter().map(|one| one.job_rank).collect();
        assert_eq!((reason, blocked, all), ("not-called", 2, vec![Some(2)]), "{in_a} {in_b}: {report:#?}");
    }
}

/// Launchers kill one process after the other: a process that is gone while others still wait had waited, too.
#[test]
fn who_was_killed_first_had_waited_as_well() {
    let mut job = chain(24, 26);
    for (process, before_s) in job.processes.iter_mut().zip([6, 3, 0]) {
        process.state = RecordingState::Gone;
        process.until_ns = NOW_NS - before_s * SECOND_NS;
    }
    let report = judge(&job);
    let (reason, _, _, blocked) = suspect(&report);
    assert_eq!((reason, report.suspects[0].job_rank, blocked), ("not-called", Some(2), 2), "{report:#?}");
}

/// Four ranks; 2 and 3 are also ranks 0 and 1 of `tp`, where 3 is missing. 1 waits for 2 in `pp`.
fn in_groups() -> Job {
    let world = group("world", (0..4).map(|process| (process, vec![done(60)])));
    let tp = group("tp", [(2, vec![open(30)]), (3, Vec::new())]);
    job(4, vec![world, tp, group("pp", [(1, vec![open(20)]), (2, Vec::new())])])
}

#[test]
fn ranks_have_the_numbers_of_the_job() {
    let report = judge(&in_groups());
    assert_eq!(suspect(&report), ("not-called", "tp", 1, 2));
    assert_eq!(report.suspects[0].job_rank, Some(3));
    let text = &report.verdict.line;
    assert!(text.starts_with("HANG: rank 3 has not called ncclAllReduce #1 of tp; ranks 1-2 wait"), "{text}");
    let chain = [
        "rank 1 waits in ncclAllReduce #1 of pp for 20.0 s for rank 2",
        "rank 2 waits in ncclAllReduce #1 of tp for 30.0 s for rank 3",
    ];
    assert_eq!(report.suspects[0].chain, chain);
    let tp = &report.communicators[1];
    assert_eq!(tp.numbers(&tp.sequences[0].not_entered), "3 (1 in tp)");
}

#[test]
fn without_a_communicator_of_all_ranks_the_launcher_says_their_numbers() {
    let mut job = in_groups();
    job.comms.remove(0);
    for (process, rank) in job.processes.iter_mut().zip(4..) {
        process.launcher_rank = Some(rank);
    }
    job.number();
    let text = judge(&job).verdict.line;
    assert!(text.starts_with("HANG: rank 7 has not called"), "{text}");
    // Without ranks of the job.
    job.processes.iter_mut().for_each(|process| process.launcher_rank = None);
    job.number();
    let report = judge(&job);
    assert!(report.verdict.line.starts_with("HANG: rank 1 of tp has not called"), "{}", report.verdict.line);
    assert_eq!(report.suspects[0].job_rank, None);
}

#[test]
fn different_calls_at_one_position_are_the_cause() {
    let reduce = |ago| call("ReduceScatter", 8, ago, Stage::Running);
    let most = || vec![done(40), open(20), reduce(20)];
    let report = judge(&calls([most(), most(), vec![done(40), reduce(20)]]));
    assert_eq!(suspect(&report), ("mismatch", "world", 2, 3));
    assert_says(&report.verdict.line, &["gave collective 2 different functions: rank 2 differs"]);
    assert_says(&report.verdict.evidence.join("\n"), &["if rank 2 left out one call before this one"]);
    let other = |mut call: Call| {
        (call.what.count, call.what.datatype, call.what.root) = (9, "ncclInt8".into(), Some(1));
        vec![call]
    };
    let text = judge(&calls([vec![open(20)], other(open(20))])).verdict.line;
    assert_says(&text, &["gave collective 1 different data types"]);
    // Nothing hangs yet.
    let verdict = judge(&calls([vec![done(20)], other(done(20))])).verdict;
    assert_eq!((verdict.kind, verdict.found), (Kind::Mismatch, true));
    // A count from below the API is not the program's.
    let below = |call: Call| vec![Call { from_api: false, ..call }];
    let mut bytes_call = open(20);
    bytes_call.what.count = 32;
    assert_eq!(suspect(&judge(&calls([vec![open(20)], below(bytes_call)]))).0, "running");
}

#[test]
fn transfers_that_ended_because_the_peer_died_are_not_taken_for_complete() {
    // Rank 1 was killed at the end of the first; the transfers of the second failed.
    let second = call("AllReduce", 8, 20, Stage::Transferred);
    let mut job = calls([vec![done(22), second], vec![open(21)]]);
    job.processes[1].state = RecordingState::Gone;
    job.processes[1].until_ns = NOW_NS - 20 * SECOND_NS;
    let report = judge(&job);
    assert_eq!(suspect(&report), ("gone", "world", 1, 1));
    let sequence = &report.communicators[0].sequences[0];
    assert_eq!(sequence.first_incomplete.as_ref().map(|first| first.position), Some(2));
    assert_says(&sequence.ranks[0].text, &["the transfers failed"]);
    // Killed in the same collective: whether the others' transfers ended or failed is unknown.
    let killed = |job: &mut Job, calls: Vec<Call>| {
        job.comms[0].ranks.get_mut(&1).expect("there").calls.list = calls;
    };
    killed(&mut job, vec![done(22), open(21)]);
    assert_eq!(suspect(&judge(&job)), ("gone", "world", 1, 1));
    killed(&mut job, vec![open(21)]);
    // A broadcast can be complete on its root.
    let calls = job.comms[0].ranks.values_mut().flat_map(|rank| &mut rank.calls.list);
    calls.for_each(|call| call.what.func = "Broadcast".into());
    assert!(judge(&job).suspects.is_empty());
}

/// That the record of its end lacks does not say that a process came through what it was killed in.
#[test]
fn a_process_that_was_killed_in_an_operation_holds_it_up() {
    let waits = || vec![done(30), Call { progress: Progress { shows_end: true, ..open(20).progress }, ..open(20) }];
    for (killed, other) in [(call("AllReduce", 8, 20, Stage::Launched), waits()), (open(20), vec![done(30), done(20)])]
    {
        let mut job = calls([waits(), vec![done(30), killed], other]);
        job.processes[1].until_ns = NOW_NS - 20 * SECOND_NS;
        job.processes.iter_mut().for_each(|process| process.state = RecordingState::Gone);
        let report = judge(&job);
        assert_eq!((suspect(&report).0, suspect(&report).2), ("gone", 1), "{report:#?}");
        assert_says(&report.verdict.line, &["the process of rank 1 ended inside ncclAllReduce #2 of world; rank"]);
    }
}

#[test]
fn after_the_job_was_killed_the_first_to_go_is_the_suspect() {
    let dead = |until: [u64; 2]| {
        let mut job = calls([vec![done(30), open(25)], vec![done(30)]]);
        for (process, ago) in job.processes.iter_mut().zip(until) {
            process.state = RecordingState::Gone;
            process.until_ns = NOW_NS - ago * SECOND_NS;
        }
        judge(&job)
    };
    let early = dead([1, 20]);
    assert_eq!(suspect(&early).0, "not-called");
    assert_says(
        &early.verdict.line,
        &["rank 1 had not called ncclAllReduce #2 of world for 5.0 s, then its process ended"],
    );
    let early = dead([1, 24]);
    assert_eq!(suspect(&early).0, "gone");
    assert_says(&early.verdict.line, &["the records of rank 1 end 23.0 s before the others'; rank 0 waited"]);
    // Killed together: one of them had not called. The wait ends with the last record.
    let together = dead([1, 1]);
    assert_eq!(suspect(&together).0, "not-called");
    assert_says(&together.verdict.line, &["rank 0 waited for 24.0 s"]);
    // Killed before `--after`: the report names who was behind, and why that proves nothing.
    let mut early = calls([vec![done(9), open(5)], vec![done(9)]]);
    early.processes.iter_mut().for_each(|process| process.state = RecordingState::Gone);
    let report = judge(&early);
    assert_eq!((report.verdict.kind, suspect(&report).0), (Kind::Unknown, "not-called"));
    assert_says(&report.verdict.line, &["CANNOT TELL: rank 1 had not called ncclAllReduce #2 of world; rank 0 waited"]);
    assert_says(&report.verdict.evidence[0], &["less than 10.000 s (--after)", "was killed while it was working"]);
}

#[test]
fn a_stopped_process_is_told_from_idle_ones() {
    let mut stopped = calls([vec![open(20)], Vec::new()]);
    stopped.processes[1].state = RecordingState::Stopped;
    assert_eq!(suspect(&judge(&stopped)).0, "stopped");
    // The stopped process is in the operation, with another.
    let mut inside = calls([vec![open(20)], vec![open(20)]]);
    inside.processes[1].state = RecordingState::Stopped;
    let report = judge(&inside);
    assert_eq!(suspect(&report), ("stopped", "world", 1, 1));
    assert_says(
        &report.verdict.line,
        &["the process of rank 1 is stopped (by a signal or a debugger) inside ncclAllReduce #1"],
    );
    assert_eq!(report.suspects[0].advice.as_deref(), Some("kill -CONT 101 lets it continue"));
    // All are stopped.
    inside.processes[0].state = RecordingState::Stopped;
    assert_eq!(judge(&inside).suspects.len(), 2);
    // The stopped rank waits elsewhere, too: the rank it waits for is not the only cause.
    let mut chain = in_groups();
    chain.processes[2].state = RecordingState::Stopped;
    let report = judge(&chain);
    let reasons: Vec<(&str, Option<u32>)> = report.suspects.iter().map(|one| (&*one.reason, one.job_rank)).collect();
    assert_eq!(reasons, [("stopped", Some(2)), ("not-called", Some(3))]);
}

/// A rank in the call that others wait for or, if nobody is seen to wait, in one that makes a connection.
#[test]
fn a_rank_in_a_call_is_told_from_idle_ones_in_the_tense_of_the_job() {
    let in_call = |rank_0_calls: Vec<Call>, state: RecordingState| {
        let mut job = calls([rank_0_calls, Vec::new()]);
        let (what, since_ns) = ("in the launch of a kernel".to_owned(), NOW_NS - 20 * SECOND_NS);
        let rank = job.comms[0].ranks.get_mut(&1).expect("there");
        rank.open_calls.push(OpenCall { what, is_in_nccl: true, since_ns });
        job.processes.iter_mut().for_each(|process| process.state = state);
        judge(&job)
    };
    let report = in_call(vec![open(20)], RecordingState::Running);
    assert_eq!(suspect(&report).0, "in-the-call");
    assert_says(
        &report.verdict.line,
        &["rank 1 is in a call that starts operations, which does not return; rank 0 waits"],
    );
    let text = in_call(vec![open(20)], RecordingState::Gone).verdict.line;
    assert_says(&text, &["rank 1 was in a call that starts operations, which did not return; rank 0 waited"]);
    let text = in_call(Vec::new(), RecordingState::Running).verdict.line;
    assert_says(&text, &["rank 1 is in a call that starts operations, which does not return"]);
    let text = in_call(Vec::new(), RecordingState::Gone).verdict.line;
    assert_says(&text, &["rank 1 was in a call that starts operations, which did not return"]);
}

#[test]
fn a_rank_without_a_record_never_came_or_records_elsewhere() {
    let with_third = |calls_of_each: fn() -> Vec<Call>| {
        let mut job = calls([calls_of_each(), calls_of_each()]);
        job.comms[0].size = 3;
        judge(&job)
    };
    let report = with_third(|| vec![open(20)]);
    assert_eq!(suspect(&report), ("never-came", "world", 2, 2));
    assert_eq!(report.communicators[0].ranks_missing, [2]);
    // An earlier collective was complete, so rank 2 took part in it.
    assert_eq!(suspect(&with_third(|| vec![done(40), open(20)])).0, "unrecorded");
}

#[test]
fn a_rank_with_damaged_records_is_not_accused_of_what_it_may_have_done() {
    let damaged = |stage, second: Vec<Call>| {
        let mut job = calls([vec![done(40), call("AllReduce", 8, 20, stage)], second]);
        job.processes[1].is_whole = false;
        judge(&job)
    };
    assert_eq!(suspect(&damaged(Stage::Running, vec![done(40)])).0, "unrecorded");
    // It is not even known that any rank waits.
    assert!(!damaged(Stage::Launched, vec![done(40)]).verdict.found);
    // Without known positions there is no mismatch either.
    let other = call("ReduceScatter", 8, 40, Stage::Done);
    assert_eq!(suspect(&damaged(Stage::Running, vec![other])).0, "unrecorded");
}

#[test]
fn a_rank_that_ended_the_communicator_will_not_come() {
    let waiting = || rank(0, vec![done(40), open(20)]);
    let mut ended = rank(1, vec![done(40)]);
    ended.finalized = true;
    assert_eq!(suspect(&judge(&world(vec![waiting(), ended]))).0, "ended");

    // The journal is removed: its part gives the number of collectives.
    let mut written = rank(1, Vec::new());
    written.calls.before = 1;
    let mut job = world(vec![waiting(), written]);
    job.processes[1].state = RecordingState::Ended;
    job.processes[1].is_whole = false;
    assert_eq!(suspect(&judge(&job)).0, "ended");
}

#[test]
fn inside_an_operation_the_one_that_waits_for_its_own_gpu_is_the_suspect() {
    let report = judge(&calls([
        waiting_for(vec![wait(2, WaitState::Receive)]),
        waiting_for(vec![wait(2, WaitState::SendGpu)]),
        waiting_for(vec![wait(1, WaitState::Receive), wait(0, WaitState::SendGpu)]),
    ]));
    assert_eq!(suspect(&report), ("gpu", "world", 1, 2));
    let row = &report.communicators[0].sequences[0].ranks[0];
    assert_says(&row.text, &["channel 0 receive from rank 2 in RecvWait, step 1 of 4 for 20.000 s"]);
    // Without steps nobody is accused.
    let without = || waiting_for(vec![Wait { step: None, ..wait(0, WaitState::Unknown) }]);
    let mut job = calls([without(), without()]);
    job.processes.iter_mut().for_each(|process| process.event_mask = Some(0xffff & !(1 << 4)));
    let report = judge(&job);
    assert_eq!(suspect(&report).0, "running");
    assert_says(&report.unknown.join("\n"), &["standard,ProxyStep"]);
}

#[test]
fn a_message_without_its_other_end_waits_for_the_peer_unless_it_may_be_complete() {
    let with = |is_send: bool, stage: Stage, answers: u64| {
        let mut one = rank(0, Vec::new());
        one.messages.push(message(1, is_send, stage));
        one.message_counts.insert((1, is_send), 1);
        let mut other = rank(1, Vec::new());
        other.message_counts.insert((0, !is_send), answers);
        judge(&world(vec![one, other]))
    };
    let report = with(false, Stage::Launched, 0);
    assert_eq!(suspect(&report), ("not-called", "world", 1, 1));
    assert_says(&report.verdict.line, &["ncclSend"]);
    // The message was sent: whether it has arrived is not recorded.
    assert!(!with(false, Stage::Launched, 1).verdict.found);
    // A small send may be complete without its receive.
    assert!(!with(true, Stage::Launched, 0).verdict.found);
    assert!(with(true, Stage::Running, 0).verdict.found);
}

#[test]
fn launches_of_graphs_are_compared_on_ranks_that_report_them() {
    let ranks = [vec![done(40), open(20)], vec![done(40)], Vec::new()].into_iter().enumerate();
    let ranks =
        ranks.map(|(process, list)| Rank { replays: Tail { list, ..Tail::default() }, ..rank(process, Vec::new()) });
    let report = judge(&world(ranks.collect()));
    assert_eq!(suspect(&report), ("not-called", "world", 1, 1));
    assert_says(&report.verdict.line, &["ncclAllReduce #2 (graph) of world"]);
}

/// The work must not grow with the square of the ranks without records: one suspect represents all of them.
#[test]
fn a_large_communicator_of_which_little_is_recorded_is_judged() {
    let size = 60_000;
    let report = judge(&job(1, vec![comm("world", size, vec![(0, rank(0, vec![done(30), open(25)]))])]));
    assert_eq!(report.suspects.len(), 16);
    assert_says(&report.verdict.line, &["ranks 1-59999"]);
}
