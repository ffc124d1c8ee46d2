//! Who is the suspect.

use super::*;

/// A rank with these waits in a collective that runs.
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
fn the_end_of_a_chain_of_waits_is_the_suspect() {
    // 0 waits in A for 1, which waits in B for 2, which waits for nobody.
    let a = vec![(0, rank(0, vec![open(20)])), (1, rank(1, Vec::new()))];
    let b = vec![(0, rank(1, vec![open(30)])), (1, rank(2, Vec::new()))];
    let report = judge(&job(3, vec![comm("A", 2, a), comm("B", 2, b)]));
    assert_eq!(suspect(&report), ("not-called", "B", 1, 2));
    assert_eq!(report.suspects.len(), 1);
    assert_eq!(report.suspects[0].chain.len(), 2);
}

/// A wait that is shorter than `--after` is a link of the chain all the same, and its rank waits because of the last.
#[test]
fn who_waits_longest_does_not_decide_whom_a_chain_ends_with() {
    for (in_a, in_b) in [(20, 30), (20, 2), (2, 20)] {
        let a = vec![(0, rank(0, vec![open(in_a)])), (1, rank(1, Vec::new())), (2, rank(2, Vec::new()))];
        let b = vec![(0, rank(1, vec![open(in_b)])), (1, rank(2, Vec::new()))];
        let report = judge(&job(3, vec![comm("A", 3, a), comm("B", 2, b)]));
        let (reason, _, _, blocked) = suspect(&report);
        let all: Vec<Option<u32>> = report.suspects.iter().map(|one| one.job_rank).collect();
        let wanted = if in_a < 10 { 1 } else { 2 };
        assert_eq!((reason, blocked, all), ("not-called", wanted, vec![Some(2)]), "{in_a} {in_b}: {report:#?}");
    }
}

/// Launchers kill one process after the other: that one is gone when others still wait does not undo its wait.
#[test]
fn who_was_killed_first_had_waited_as_well() {
    let a = vec![(0, rank(0, vec![open(24)])), (1, rank(1, Vec::new())), (2, rank(2, Vec::new()))];
    let b = vec![(0, rank(1, vec![open(26)])), (1, rank(2, Vec::new()))];
    let mut job = job(3, vec![comm("A", 3, a), comm("B", 2, b)]);
    for (process, before_s) in job.processes.iter_mut().zip([6, 3, 0]) {
        process.state = ProcessState::Gone;
        process.until_ns = NOW_NS - before_s * SECOND_NS;
    }
    let report = judge(&job);
    let (reason, _, _, blocked) = suspect(&report);
    assert_eq!((reason, report.suspects[0].job_rank, blocked), ("not-called", Some(2), 2), "{report:#?}");
}

/// Four ranks; 2 and 3 are also ranks 0 and 1 of `tp`, where 3 is missing. 1 waits for 2 in `pp`.
fn in_groups() -> Job {
    let world = (0..4).map(|number| (number, rank(number as usize, vec![done(60)])));
    let tp = vec![(0, rank(2, vec![open(30)])), (1, rank(3, Vec::new()))];
    let pp = vec![(0, rank(1, vec![open(20)])), (1, rank(2, Vec::new()))];
    job(4, vec![comm("world", 4, world.collect()), comm("tp", 2, tp), comm("pp", 2, pp)])
}

#[test]
fn ranks_have_the_numbers_of_the_job() {
    let report = judge(&in_groups());
    assert_eq!(suspect(&report), ("not-called", "tp", 1, 2));
    assert_eq!(report.suspects[0].job_rank, Some(3));
    let text = &report.verdict.text;
    assert!(text.starts_with("HANG: rank 3 (1 in tp) [node:103] has not called"), "{text}");
    let chain = report.suspects[0].chain.join("\n");
    for part in
        ["rank 1 (0 in pp) [node:101] waits", "rank 2 (1 in pp) [node:102] has not", "rank 2 (0 in tp) [node:102]"]
    {
        assert!(chain.contains(part), "{part} in {chain}");
    }
    let page = crate::hang::report::text::text(&report, false);
    let page = page.as_str();
    for part in ["not entered       3 (1 in tp)\n", "entered           1 (0 in pp)\n"] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn without_a_communicator_of_all_ranks_the_launcher_says_their_numbers() {
    let mut job = in_groups();
    job.comms.remove(0);
    for (process, rank) in job.processes.iter_mut().zip(4..) {
        process.launcher_rank = Some(rank);
    }
    job.number();
    let text = judge(&job).verdict.text;
    assert!(text.starts_with("HANG: rank 7 (1 in tp) [node:103]"), "{text}");
    // Nobody says it.
    job.processes.iter_mut().for_each(|process| process.launcher_rank = None);
    job.number();
    let report = judge(&job);
    assert!(report.verdict.text.starts_with("HANG: rank 1 of tp [node:103]"), "{}", report.verdict.text);
    assert_eq!(report.suspects[0].job_rank, None);
}

#[test]
fn ranks_that_wait_for_each_other_are_a_deadlock() {
    let a = vec![(0, rank(0, vec![open(20)])), (1, rank(1, Vec::new()))];
    let b = vec![(0, rank(0, Vec::new())), (1, rank(1, vec![open(20)]))];
    let report = judge(&job(2, vec![comm("A", 2, a), comm("B", 2, b)]));
    assert_eq!(suspect(&report).0, "deadlock");
    assert_eq!(report.suspects.len(), 1, "a deadlock is listed once");
    assert!(report.verdict.text.contains("deadlock"));
}

#[test]
fn different_calls_at_one_position_are_the_cause() {
    let reduce = |ago| call("ReduceScatter", 8, ago, Stage::Running);
    let most = || vec![done(40), open(20), reduce(20)];
    let report = judge(&calls([most(), most(), vec![done(40), reduce(20)]]));
    assert_eq!(suspect(&report), ("mismatch", "world", 2, 3));
    let text = &report.verdict.text;
    for part in ["different functions in collective 2", "left out a call"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let mut other = open(20);
    other.what.count = 9;
    other.what.datatype = "ncclInt8".into();
    other.what.root = Some(1);
    let text = judge(&calls([vec![open(20)], vec![other]])).verdict.text;
    let expected = "different counts and data types and roots in collective 1";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_mismatch_that_did_not_hang_is_found_all_the_same() {
    let mut other = done(20);
    other.what.count = 9;
    let report = judge(&calls([vec![done(20)], vec![other]]));
    assert_eq!(report.verdict.kind, Kind::Mismatch);
    assert!(report.verdict.found);
}

#[test]
fn counts_from_below_the_api_are_not_compared_with_the_programs() {
    let mut below = open(20);
    below.from_api = false;
    below.what.count = 32;
    let report = judge(&calls([vec![open(20)], vec![below]]));
    assert_eq!(suspect(&report).0, "unknown");
}

#[test]
fn a_process_that_is_gone_is_the_suspect_at_once() {
    let mut job = calls([vec![done(9), open(3)], vec![done(9), open(4)]]);
    job.processes[1].state = ProcessState::Gone;
    job.processes[1].until_ns = NOW_NS - 3 * SECOND_NS;
    assert_eq!(suspect(&judge(&job)), ("gone", "world", 1, 1));
}

#[test]
fn transfers_that_ended_because_the_peer_died_are_not_taken_for_complete() {
    // Rank 1 was killed at the end of the first; the transfers of the second failed.
    let second = call("AllReduce", 8, 20, Stage::Transferred);
    let mut job = calls([vec![done(22), second], vec![open(21)]]);
    job.processes[1].state = ProcessState::Gone;
    job.processes[1].until_ns = NOW_NS - 20 * SECOND_NS;
    let report = judge(&job);
    assert_eq!(suspect(&report), ("gone", "world", 1, 1));
    let sequence = &report.communicators[0].sequences[0];
    let first = sequence.first_incomplete.as_ref().expect("the second");
    assert_eq!(first.position, 2);
    let row = &sequence.ranks[0];
    assert!(row.text.contains("they failed"), "{}", row.text);
    // Killed in the same one: whether the transfers of the others ended or failed is not known.
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
    let dead = |until: [u64; 2]| {
        let mut job = calls([vec![done(30), open(25)], vec![done(30)]]);
        for (process, ago) in job.processes.iter_mut().zip(until) {
            process.state = ProcessState::Gone;
            process.until_ns = NOW_NS - ago * SECOND_NS;
        }
        judge(&job)
    };
    assert_eq!(suspect(&dead([1, 20])).0, "gone");
    // Killed together: one of them had not called. The wait ends with the last record.
    let together = dead([1, 1]);
    assert_eq!(suspect(&together).0, "not-called");
    assert!(together.verdict.text.contains("24.000 s"));
    // Killed before --after: who is behind is said, and why that is no proof.
    let mut early = calls([vec![done(9), open(5)], vec![done(9)]]);
    early.processes.iter_mut().for_each(|process| process.state = ProcessState::Gone);
    let report = judge(&early);
    assert_eq!((report.verdict.kind, suspect(&report).0), (Kind::Unknown, "not-called"));
    let text = &report.verdict.text;
    for part in ["CANNOT TELL: when the recording ended, rank 1 [node:101] had not", "less than 10.000 s (--after)"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let moment = |job: &Job| super::report("dir", job, 0).verdict.text;
    assert!(!moment(&early).contains("in so short a wait"), "{}", moment(&early));
    early.processes.iter_mut().for_each(|process| process.until_ns -= 5 * SECOND_NS - 42_000);
    assert!(moment(&early).contains("a job that works can be killed in so short a wait"), "{}", moment(&early));
}

#[test]
fn a_stopped_process_and_one_in_a_call_are_told_from_idle_ones() {
    let waiting = || calls([vec![open(20)], Vec::new()]);
    let mut stopped = waiting();
    stopped.processes[1].state = ProcessState::Stopped;
    assert_eq!(suspect(&judge(&stopped)).0, "stopped");

    // It is in the operation, with another.
    let mut inside = calls([vec![open(20)], vec![open(20)]]);
    inside.processes[1].state = ProcessState::Stopped;
    let report = judge(&inside);
    assert_eq!(suspect(&report), ("stopped", "world", 1, 1));
    assert!(report.verdict.text.contains("rank 1 [node:101] is in ncclAllReduce"), "{}", report.verdict.text);
    assert!(report.verdict.text.contains("; 1 rank waits for "), "{}", report.verdict.text);
    assert_eq!(report.suspects[0].advice.as_deref(), Some("kill -CONT 101 lets it go on"));
    // All are.
    inside.processes[0].state = ProcessState::Stopped;
    assert_eq!(judge(&inside).suspects.len(), 2);
    // It waits elsewhere, too: what it waits for is not all that holds up the others.
    let mut chain = in_groups();
    chain.processes[2].state = ProcessState::Stopped;
    let report = judge(&chain);
    let reasons: Vec<(&str, Option<u32>)> = report.suspects.iter().map(|one| (&*one.reason, one.job_rank)).collect();
    assert_eq!(reasons, [("stopped", Some(2)), ("not-called", Some(3))]);

    let mut calling = waiting();
    let rank = calling.comms[0].ranks.get_mut(&1).expect("there");
    rank.open_calls.push(OpenCall {
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
    let with_third = |calls_of_each: fn() -> Vec<Call>| {
        let mut job = calls([calls_of_each(), calls_of_each()]);
        job.comms[0].size = 3;
        judge(&job)
    };
    let report = with_third(|| vec![open(20)]);
    assert_eq!(suspect(&report), ("never-came", "world", 2, 2));
    assert_eq!(report.communicators[0].ranks_missing, [2]);
    // One was complete: so rank 2 took part in it.
    let report = with_third(|| vec![done(40), open(20)]);
    assert_eq!(suspect(&report).0, "unrecorded");
}

#[test]
fn a_rank_with_damaged_records_is_not_accused_of_what_it_may_have_done() {
    let damaged = |stage, second: Vec<Call>| {
        let first = vec![done(40), call("AllReduce", 8, 20, stage)];
        let mut job = calls([first, second]);
        job.processes[1].is_whole = false;
        judge(&job)
    };
    let report = damaged(Stage::Running, vec![done(40)]);
    assert_eq!(suspect(&report).0, "unrecorded");
    // Not even that anybody waits is known.
    assert!(!damaged(Stage::Launched, vec![done(40)]).verdict.found);
    // Nor is it a mismatch, where positions are not known.
    let other = call("ReduceScatter", 8, 40, Stage::Done);
    let report = damaged(Stage::Running, vec![other]);
    assert_eq!(suspect(&report).0, "unrecorded");
}

#[test]
fn a_rank_that_ended_the_communicator_will_not_come() {
    let waiting = || rank(0, vec![done(40), open(20)]);
    let mut ended = rank(1, vec![done(40)]);
    ended.finalized = true;
    assert_eq!(suspect(&judge(&world(vec![waiting(), ended]))).0, "ended");

    // Its journal is removed: how many collectives it had is known from its part.
    let mut written = rank(1, Vec::new());
    written.calls.before = 1;
    let mut job = world(vec![waiting(), written]);
    job.processes[1].state = ProcessState::Ended;
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
    assert_eq!(suspect(&report), ("gpu", "world", 1, 3));
    let row = &report.communicators[0].sequences[0].ranks[0];
    let expected = "channel 0 receive from rank 2 in RecvWait, step 1 of 4 for 20.000 s";
    assert!(row.text.contains(expected), "{}", row.text);
}

#[test]
fn without_steps_nobody_inside_an_operation_is_accused() {
    let with = || {
        let mut transfer = wait(0, WaitState::Unknown);
        transfer.step = None;
        waiting_for(vec![transfer])
    };
    let mut job = calls([with(), with()]);
    for process in &mut job.processes {
        process.event_mask = Some(0xffff & !(1 << 4));
    }
    let report = judge(&job);
    assert_eq!(suspect(&report).0, "unknown");
    let says = |word: &str| report.unknown.iter().any(|line| line.contains(word));
    assert!(says("standard,ProxyStep"), "{:?}", report.unknown);
}

#[test]
fn a_receive_without_its_send_waits_for_the_peer() {
    let with_sends = |sends: u64| {
        let mut receiver = rank(0, Vec::new());
        receiver.messages.push(message(1, false, Stage::Launched));
        receiver.message_counts.insert((1, false), 1);
        let mut sender = rank(1, Vec::new());
        sender.message_counts.insert((0, true), sends);
        judge(&world(vec![receiver, sender]))
    };
    let report = with_sends(0);
    assert_eq!(suspect(&report), ("not-called", "world", 1, 1));
    assert!(report.verdict.text.contains("ncclSend"));
    // It was sent: whether it has arrived is not recorded.
    let verdict = with_sends(1).verdict;
    assert!(!verdict.found, "{}", verdict.text);
}

#[test]
fn a_small_send_may_be_complete_without_its_receive() {
    let found = |stage| {
        let mut sender = rank(0, Vec::new());
        sender.messages.push(message(1, true, stage));
        judge(&world(vec![sender, rank(1, Vec::new())])).verdict.found
    };
    assert!(!found(Stage::Launched));
    assert!(found(Stage::Running));
}

#[test]
fn launches_of_graphs_are_compared_on_ranks_that_report_them() {
    let with = |process: usize, replays: Vec<Call>| {
        let mut rank = rank(process, Vec::new());
        rank.replays.list = replays;
        rank
    };
    let report = judge(&world(vec![with(0, vec![done(40), open(20)]), with(1, vec![done(40)]), with(2, Vec::new())]));
    assert_eq!(suspect(&report), ("not-called", "world", 1, 1));
    assert!(report.verdict.text.contains("CUDA graphs"));
}

/// The work must not grow with the square of the ranks without records: each of them is a suspect.
#[test]
fn a_large_communicator_of_which_little_is_recorded_is_judged() {
    let size = 60_000;
    let report = judge(&job(1, vec![comm("world", size, vec![(0, rank(0, vec![done(30), open(25)]))])]));
    assert_eq!(report.suspects.len(), size as usize - 1);
    assert!(report.suspects[0].chain[0].contains("1-59999"), "{}", report.suspects[0].chain[0]);
}
