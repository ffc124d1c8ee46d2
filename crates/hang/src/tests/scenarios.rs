//! The lines of planted faults, each as its users reported it.

use super::programs::{Simulation, line, parse};
use super::*;
use crate::job::{Step, StepsTaken, ThreadActivity, Tuning};

/// The report on programs, and its line.
#[track_caller]
fn says(programs: &[&str], expected: &str) -> Report {
    let report = line(programs);
    assert_eq!(report.verdict.line, expected, "{:#?}", report.verdict);
    assert!(report.verdict.line.chars().count() <= 110);
    report
}

#[test]
fn communicators_in_different_orders() {
    let report = says(
        &["A.ar B.ar sync A.ar B.ar sync", "A.ar B.ar sync B.ar A.ar sync"],
        "HANG: ranks 0-1 wait for each other: they use 2 communicators in different orders, for 60.0 s",
    );
    assert_eq!(report.verdict.confidence.as_deref(), Some("certain"));
    let evidence = [
        "rank 0 is in ncclAllReduce #2 of A; behind it: ncclAllReduce #2 of B",
        "rank 1 is in ncclAllReduce #2 of B; behind it: ncclAllReduce #2 of A",
    ];
    assert_eq!(report.verdict.evidence, evidence);
    // One of three is the odd one.
    let usual = "A.ar B.ar sync A.ar B.ar";
    says(
        &[usual, usual, "A.ar B.ar sync B.ar A.ar"],
        "HANG: rank 2 used communicators in a different order than ranks 0-1; ranks 0-2 wait, for 60.0 s",
    );
    // On streams of their own kernels run at the same time.
    let simulation = Simulation::new(["A.ar@1 B.ar@2", "B.ar@2 A.ar@1"].iter().map(|text| parse(text)).collect());
    let mut job = simulation.recorded(true);
    let report = judge(&job);
    assert_eq!(
        report.verdict.line,
        "UNSAFE: ranks 0-1 may wait for each other forever: they use communicators in different orders"
    );
    assert!(!report.verdict.found);
    job.processes[1].is_whole = false;
    assert_ne!(judge(&job).verdict.kind, Kind::Unsafe, "where calls may be missing, their order is not known");
}

/// NCCL's buffers let the sends end; nobody waits for the receive that is never called.
#[test]
fn a_message_that_is_never_received() {
    let ranks = ["A.ar sync A.s1 A.s1", "A.ar sync A.r0"];
    let mut job = Simulation::new(ranks.iter().map(|text| parse(text)).collect()).recorded(true);
    job.processes.iter_mut().for_each(|process| process.state = RecordingState::Ended);
    for rank in job.comms[0].ranks.values_mut() {
        rank.messages.iter_mut().for_each(|message| message.progress.stage = Stage::Done);
        rank.finalized = true;
    }
    let verdict = judge(&job).verdict;
    let line = "UNSAFE: rank 1 received 1 of the 2 messages that rank 0 sent to it in A";
    assert_eq!((verdict.line.as_str(), verdict.confidence.as_deref()), (line, Some("cannot-tell-whom")));
    assert!(!verdict.found);
    // A rank that was killed may have been about to receive it.
    job.comms[0].ranks.get_mut(&1).expect("there").finalized = false;
    job.processes[1].state = RecordingState::Gone;
    assert_ne!(judge(&job).verdict.kind, Kind::Unsafe);
}

#[test]
fn a_call_that_one_rank_leaves_out_of_several_communicators() {
    let step = "A.ar B.ar C.ar";
    let usual = [step, "sync", step, "sync", step, step].join(" ");
    let odd = [step, "sync", step, "sync", "A.ar C.ar", step].join(" ");
    let of = "one ncclAllReduce of B; now ranks";
    says(&[&usual, &usual, &odd], &format!("HANG: rank 2 left out {of} 0-2 wait for each other, for 60.0 s"));
    // Of two ranks, what they did before decides.
    let report = says(&[&usual, &odd], &format!("HANG: rank 1 left out {of} 0-1 wait for each other, for 60.0 s"));
    assert_eq!(report.verdict.confidence.as_deref(), Some("likely"));
    let twice = [step, "sync", step, "sync", "A.ar B.ar B.ar C.ar", step].join(" ");
    says(
        &[&twice, &usual],
        "HANG: rank 0 made one ncclAllReduce of B too many; now ranks 0-1 wait for each other, for 60.0 s",
    );
    // Nothing was done before.
    let report = says(
        &["A.ar B.ar B.ar C.ar A.ar", "A.ar B.ar C.ar A.ar"],
        "HANG: rank 1 and rank 0 differ by one ncclAllReduce of B; now ranks 0-1 wait for each other, for 60.0 s",
    );
    assert_eq!(report.verdict.confidence.as_deref(), Some("cannot-tell-whom"));
    assert_eq!(report.verdict.ranks, [0, 1]);
}

#[test]
fn messages_in_a_circle_and_beside_collectives() {
    says(
        &["A.ar sync A.s1 A.r1", "A.ar sync A.s0 A.r0"],
        "HANG: ranks 0-1 wait for each other: each sends before it receives, and no receive begins, for 60.0 s",
    );
    says(
        &["A.s1 A.r2", "A.s2 A.r0", "A.s0 A.r1"],
        "HANG: ranks 0-2 wait for each other: each sends before it receives, and no receive begins, for 60.0 s",
    );
    says(
        &["B.ar", "A.s1 B.ar", "B.ar sync A.r0"],
        "HANG: ranks 1-2 wait for each other: rank 2 in ncclAllReduce, rank 1 in ncclSend, for 60.0 s",
    );
}

/// That a message is not taken yet makes no receive wrong: the rank that has not sent may just be late.
#[test]
fn a_message_that_nobody_takes_accuses_only_if_the_peer_has_ended() {
    let late = line(&["A.ar sync", "A.ar sync A.s2", "A.ar sync A.r0 sync A.r1"]);
    let expected =
        "HANG: rank 0 has not called the ncclSend for rank 2's ncclRecv #1 of A; ranks 1-2 wait for up to 60.0 s";
    assert_eq!((late.verdict.line.as_str(), late.verdict.confidence.as_deref()), (expected, Some("likely")));
    // In a ring rank 1 receives from 2, not from 0.
    let ring = ["A.ar sync ( A.s1 A.r2 )", "A.ar sync ( A.s2 A.r2 )", "A.ar sync ( A.s0 A.r1 )"];
    let verdict = line(&ring).verdict;
    assert_eq!((verdict.reason.as_deref(), &*verdict.ranks), (Some("not-called"), &[2][..]), "{verdict:#?}");
    assert_says(
        &verdict.evidence.join("\n"),
        &["or rank 1 passed ncclRecv a wrong peer: a message from rank 0 to rank 1"],
    );
    let mut job = Simulation::new(ring.iter().map(|text| parse(text)).collect()).recorded(true);
    job.comms[0].ranks.get_mut(&2).expect("there").finalized = true;
    let verdict = judge(&job).verdict;
    assert!(verdict.line.starts_with("HANG: rank 1 receives from rank 2, which never sends to it:"), "{verdict:#?}");
    assert_eq!((verdict.reason.as_deref(), &*verdict.ranks), (Some("mismatch"), &[1][..]));
    assert_eq!(verdict.confidence.as_deref(), Some("likely"));
    // NCCL has buffered the message that nobody takes.
    let ended = Progress { stage: Stage::Done, ended_ns: Some(NOW_NS - 59 * SECOND_NS), ..Progress::default() };
    let of_rank_0 = &mut job.comms[0].ranks.get_mut(&0).expect("there").messages;
    of_rank_0.iter_mut().for_each(|message| message.progress = ended.clone());
    assert_eq!(judge(&job).verdict.ranks, [1]);
}

/// A difference that ended long ago is not why a rank stays away.
#[test]
fn a_difference_that_ended_is_not_the_cause() {
    let mut other = done(50);
    other.what.count = 9;
    let report =
        judge(&calls([vec![done(60), done(50), open(30)], vec![done(60), other, open(30)], vec![done(60), done(50)]]));
    let line = "HANG: rank 2 has not called ncclAllReduce #3 of world; ranks 0-1 wait for up to 30.0 s";
    assert_eq!(report.verdict.line, line);
    assert_says(&report.verdict.evidence.join("\n"), &["also: the ranks of world gave collective 2 different counts"]);
}

/// Each of two communicators has its own culprit.
#[test]
fn culprits_of_two_communicators_are_told_apart() {
    let report = line(&["A.ar sync A.ar", "A.ar sync", "B.bc sync B.bc", "B.bc sync"]);
    assert_eq!(report.verdict.line, "HANG: rank 1 has not called ncclAllReduce #2 of A; rank 0 waits for 60.0 s");
    assert_says(&report.verdict.evidence.join("\n"), &["also: rank 3 has not called ncclBroadcast #2 of B"]);
    assert_eq!(report.suspects.len(), 2);
}

/// Of two ranks, what both did after the same calls before says which one left out a call.
#[test]
fn one_of_two_ranks_leaves_out_a_call_of_a_communicator() {
    let usual = "A.ar A.ag A.bc ".repeat(4);
    let report = line(&[&usual, "A.ar A.ag A.bc A.ar A.ag A.bc A.ag A.bc A.ar A.ag A.bc"]);
    let crate::Verdict { line: text, evidence, confidence, ranks, .. } = report.verdict;
    let line = "HANG: the ranks of A gave collective 7 different functions: rank 1 differs from rank 0; waiting 60.0 s";
    assert_eq!((text.as_str(), confidence.as_deref(), &*ranks), (line, Some("likely"), &[1][..]));
    assert_says(&evidence.join("\n"), &["the following calls agree if rank 1 left out one call before this one"]);
}

/// Of two ranks that differ, and did nothing like it before, neither is singled out.
#[test]
fn two_ranks_that_differ_are_both_named() {
    let gather = call("AllGather", 8, 20, Stage::Running);
    let report = judge(&calls([vec![done(40), open(20)], vec![done(40), gather]]));
    let Some(ends) = report.verdict.line.split(" different functions: ").nth(1) else {
        panic!("{:#?}", report.verdict)
    };
    assert!(ends.starts_with("ranks 0-1 differ") || ends.starts_with("rank 1 differs from rank 0"), "{ends}");
    assert_eq!((report.verdict.confidence.as_deref(), &*report.verdict.ranks), (Some("cannot-tell-whom"), &[0, 1][..]));
}

/// What three ranks called of one collective; the last differs.
fn differs(change: impl Fn(&mut Call)) -> Report {
    let ranks = (0..3).map(|rank| {
        let mut one = open(20);
        one.what.bytes = Some(32);
        one.what.reduction = Some("sum".into());
        one.what.tuning = Some(Tuning { algorithm: "RING".into(), protocol: "SIMPLE".into(), channels: 2 });
        if rank == 2 {
            change(&mut one);
        }
        vec![done(40), one]
    });
    judge(&calls(ranks))
}

type Change = fn(&mut Call);

#[test]
fn arguments_are_compared_in_order() {
    let cases: [(&str, Change); 7] = [
        ("functions", |call| call.what.func = "AllGather".into()),
        ("data types", |call| call.what.datatype = "ncclInt8".into()),
        ("counts", |call| call.what.count = 9),
        ("reduction operations", |call| call.what.reduction = Some("prod".into())),
        ("algorithms", |call| tuning(call).algorithm = "TREE".into()),
        ("protocols", |call| tuning(call).protocol = "LL".into()),
        ("numbers of channels", |call| tuning(call).channels = 3),
    ];
    for (what, change) in cases {
        let report = differs(change);
        let line = format!("HANG: the ranks of world gave collective 2 different {what}: rank 2 differs");
        assert!(report.verdict.line.starts_with(&line), "{:#?}", report.verdict);
        assert_eq!((suspect(&report).0, &*report.verdict.ranks), ("mismatch", &[2][..]));
        let is_of_nccl = report.verdict.next.as_deref().is_some_and(|next| next.contains("NCCL_ALGO"));
        assert_eq!(is_of_nccl, matches!(what, "algorithms" | "protocols" | "numbers of channels"));
    }
}

fn tuning(call: &mut Call) -> &mut Tuning {
    call.what.tuning.as_mut().expect("made with one")
}

#[test]
fn messages_of_two_sizes() {
    let mut job = Simulation::new(["A.s1", "A.r0"].iter().map(|text| parse(text)).collect()).recorded(false);
    for rank in job.comms[0].ranks.values_mut() {
        rank.messages[0].progress = Progress { stage: Stage::Running, shows_end: true, ..Progress::default() };
    }
    job.comms[0].ranks.get_mut(&1).expect("there").messages[0].bytes = Some(64);
    let report = judge(&job);
    let line = "HANG: the ranks of A gave message 1 different sizes: rank 1 differs from rank 0; waiting 60.0 s";
    assert_eq!(report.verdict.line, line);
    assert_eq!(report.verdict.confidence.as_deref(), Some("cannot-tell-whom"));
}

#[test]
fn a_group_that_is_not_ended_is_not_started() {
    let mut job = calls([vec![done(40), open(20)], vec![done(40), call("AllReduce", 8, 19, Stage::Calling)]]);
    let rank = job.comms[0].ranks.get_mut(&1).expect("there");
    rank.calls.list[1].place.is_group_open = true;
    let report = judge(&job);
    let line =
        "HANG: rank 1 opened a group and has not ended it, so ncclAllReduce #2 of world is not started; rank 0 waits";
    assert_eq!((suspect(&report).0, &*report.verdict.ranks), ("group-open", &[1][..]));
    assert!(report.verdict.line.starts_with(&line[..90]), "{}", report.verdict.line);
}

#[test]
fn a_hang_that_was_aborted_is_past() {
    let aborted_ns = NOW_NS - 15 * SECOND_NS;
    let mut job = calls([vec![done(60), open(30)], vec![done(60)], vec![done(60), open(30)]]);
    for rank in job.comms[0].ranks.values_mut() {
        (rank.ended, rank.finalized) = (Some((aborted_ns, true)), true);
        // What NCCL reports once a communicator is aborted.
        for call in rank.calls.list.iter_mut().skip(1) {
            call.progress = Progress { stage: Stage::Done, ended_ns: Some(aborted_ns + 1), ..Progress::default() };
        }
    }
    job.comms.push(group("next", (0..3).map(|process| (process, vec![done(9)]))));
    job.number();
    let report = judge(&job);
    assert_eq!(report.verdict.kind, Kind::PastHang);
    let line = "PAST HANG: rank 1 had not called ncclAllReduce #2 of world; ranks 0-2 aborted world";
    assert_eq!(report.verdict.line, line);
    assert!(!report.verdict.found);
}

#[test]
fn a_nonblocking_communicator_that_is_not_made() {
    let mut job = job(2, Vec::new());
    for (rank, process) in (0..).zip(&mut job.processes) {
        (process.launcher_rank, process.launcher_size) = (Some(rank), Some(3));
        process.unmade_since_ns = vec![NOW_NS - 20 * SECOND_NS];
    }
    job.number();
    let line = "HANG: rank 2 never came: ranks 0-1 asked for a communicator 20.0 s ago (nonblocking)";
    assert_eq!(judge(&job).verdict.line, line);
    job.processes.iter_mut().for_each(|process| process.aborts_ns = vec![NOW_NS - 16 * SECOND_NS]);
    let line = "PAST HANG: rank 2 never came: a communicator was not made within 4.0 s, and was aborted";
    assert_eq!(judge(&job).verdict.line, line);
}

#[test]
fn ranks_that_use_different_releases_do_not_make_a_communicator() {
    let activity = || {
        let call = crate::job::NcclCall {
            name: "ncclCommInitRank".to_owned(),
            since_ns: NOW_NS - 70 * SECOND_NS,
            ..Default::default()
        };
        ThreadActivity {
            call: Some(call),
            taken: [(Step::Init, StepsTaken::default())].into(),
            ..ThreadActivity::default()
        }
    };
    let mut job = job(3, Vec::new());
    for (rank, process) in (0..).zip(&mut job.processes) {
        (process.launcher_rank, process.launcher_size, process.shows_calls) = (Some(rank), Some(3), true);
        process.release = if rank == 1 { "2.28.9" } else { "2.32.3" }.to_owned();
        process.activities.insert(0, activity());
    }
    job.number();
    let report = judge(&job);
    let line = "HANG: ranks 0-2 are in ncclCommInitRank for 70.0 s, and the ranks use different NCCL releases";
    assert_eq!(report.verdict.line, line);
    assert_says(&report.verdict.evidence.join("\n"), &["rank 1 2.28.9; ranks 0, 2 2.32.3"]);
}

/// Names and lists of any length leave room for who and what.
#[test]
fn a_line_has_at_most_110_characters() {
    for name in ["w", "a name of forty characters for the ranks", "größe größe größe größe größe"] {
        for size in [2_u32, 9, 300] {
            let ranks: Vec<(u32, Rank)> = (0..size)
                .map(|number| {
                    (number, rank(number as usize, if number % 2 == 0 { vec![open(345)] } else { Vec::new() }))
                })
                .collect();
            let report = judge(&job(size as usize, vec![comm(name, size, ranks)]));
            let text = &report.verdict.line;
            assert!(text.chars().count() <= 110 && text.contains("not called ncclAllReduce #1 of "), "{text}");
        }
    }
}
