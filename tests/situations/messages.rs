//! Sends and receives: who waits for whom.

use serde_json::Value;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic;

use super::script::Script;
use super::slow;
use super::table::{Expected, MS, Situation, case, late};

fn stats(script: &Script) -> Value {
    slow::stats(&script.job, &script.ranks, &[])
}

fn only_cause(report: &Value) -> (u64, &str) {
    let causes = report["causes"].as_array().expect("causes");
    assert_eq!(causes.len(), 1, "{causes:#?}");
    (causes[0]["rank"].as_u64().expect("a rank"), causes[0]["kind"].as_str().expect("a kind"))
}

fn has_no_cause(report: &Value) {
    assert_eq!(report["causes"], Value::Array(Vec::new()), "{}", report["verdict"]["line"]);
}

fn is_near(found: f64, truth: f64) {
    assert!((found - truth).abs() <= 0.1 * truth, "{found}, not {truth}");
}

fn budget(report: &Value, part: &str) -> f64 {
    report["budget"][part].as_f64().expect("a number")
}

/// Four stages; every one receives, computes 1 ms and sends. Stage 1 computes longer.
fn pipeline(more_ns: u64, seed: u64) -> Script {
    pipeline_of([0, more_ns, 0, 0], seed)
}

/// The same, where any stage may compute longer.
fn pipeline_of<const STAGES: usize>(more_ns: [u64; STAGES], seed: u64) -> Script {
    let mut script = Script::new(STAGES as u32, seed);
    for _ in 0..100 {
        for (stage, more_ns) in (0..).zip(more_ns) {
            script.work(stage, MS + more_ns, 5_000.0);
            if stage + 1 < STAGES as u32 {
                script.send(stage, stage + 1, MS / 10);
            }
        }
    }
    script
}

#[test]
fn a_late_stage_of_a_pipeline_is_the_one_that_all_others_wait_for() {
    let report = stats(&pipeline(MS / 2, 1));
    assert_eq!(only_cause(&report), (1, "late-rank"), "{}", report["verdict"]["line"]);
    let sentence = report["verdict"]["line"].as_str().expect("a sentence");
    assert!(sentence.starts_with("Rank 1 is late: 6"), "{sentence}");
    assert_eq!(budget(&report, "not_compared_ns"), 0.0);
    // The neighbours wait for the stage itself.
    let messages = report["messages"].as_array().expect("pairs");
    let of = |from: u64| messages.iter().find(|pair| pair["from"] == from).expect("a pair");
    is_near(of(1)["late_sender_ns"].as_f64().expect("a number"), 50e6);
    // Stage 0 receives nothing, which takes stage 1 a tenth of a millisecond more.
    is_near(of(0)["late_receiver_ns"].as_f64().expect("a number"), 60e6);
}

/// The slowest stage sets the pace: without it the others would wait for the other slow one less than half as long.
#[test]
fn the_slower_of_two_slow_stages_of_a_pipeline_comes_first() {
    for (more_ns, slowest) in [([MS, MS * 2 / 5], 1), ([MS * 2 / 5, MS], 2)] {
        let [first, second] = more_ns;
        let report = stats(&pipeline_of([0, first, second, 0, 0, 0, 0, 0], 7));
        let causes = report["causes"].as_array().expect("causes");
        assert_eq!(causes[0]["rank"], slowest, "{causes:#?}");
        let lost_ns: Vec<u64> = causes.iter().filter_map(|cause| cause["lost_ns"].as_u64()).collect();
        assert!(lost_ns.is_sorted_by(|a, b| a >= b), "{lost_ns:?}");
    }
}

/// What others lose by a rank includes messages.
#[test]
fn the_rank_that_others_waited_for_in_messages_comes_first() {
    let (scratch, script) = (Scratch::new(), pipeline(MS / 2, 1));
    let _anchor = synthetic::write(&scratch.out(), &script.job, &script.ranks);
    let sorted = ["stats", "--by", "ranks", "--sort", "lost", "--csv"];
    let said = run(scratch.tool(&sorted).arg(scratch.out())).with_code(0).stdout;
    let mut rows = said.lines().map(|line| line.split(',').collect::<Vec<&str>>());
    let lost = rows.next().and_then(|names| names.iter().position(|name| *name == "lost")).expect("a column");
    let first = rows.next().expect("a rank");
    assert_eq!(first.first(), Some(&"rank 1"), "{said}");
    is_near(first[lost].parse().expect("a time"), 150e6);
}

/// In each round any rank of a ring is late, or one of them somewhat more often.
#[test]
fn whom_others_wait_for_by_chance_is_not_accused() {
    for among in [4, 6] {
        let mut script = Script::new(4, 30);
        for _ in 0..40 {
            script.compute(2 * MS, 5_000.0);
            let rank = script.any(among).min(3);
            script.late(rank, 4 * MS);
            script.buffered_ring(MS / 5);
        }
        let report = stats(&script);
        has_no_cause(&report);
        let basis = report["verdict"]["basis"].to_string();
        assert!(!basis.contains("0 of 0"), "{basis}");
    }
}

/// All-to-alls as groups of sends and receives, of which one rank is late.
fn all_to_all() -> Script {
    let mut script = Script::new(8, 2);
    for _ in 0..40 {
        script.compute(2 * MS, 2_000.0);
        script.late(5, MS);
        script.grouped(0, 3 * MS);
    }
    script
}

/// Large messages of pairs of ranks; rank 3 receives late.
fn late_receiver() -> Script {
    let mut script = Script::new(4, 3);
    for _ in 0..100 {
        for (from, to) in [(0, 1), (2, 3)] {
            script.work(from, MS, 2_000.0);
            script.work(to, if to == 3 { 2 * MS } else { MS }, 2_000.0);
            script.send(from, to, MS);
        }
    }
    script
}

/// Each of four ranks sends to the next, and waits for what the one before sends. The last one is late.
fn ring(late_ns: u64, seed: u64) -> Script {
    let mut script = Script::new(4, seed);
    for _ in 0..100 {
        script.compute(2 * MS, 5_000.0);
        script.late(3, late_ns);
        script.buffered_ring(MS / 5);
    }
    script
}

/// The same without buffers: each send ends when it is received. Rank 3 is late to receive.
fn ring_without_buffers(late_ns: u64) -> Script {
    let mut script = Script::new(4, 20);
    for _ in 0..100 {
        script.compute(MS, 2_000.0);
        script.late(3, late_ns);
        for (from, to) in [(0, 1), (2, 3), (1, 2), (3, 0)] {
            script.send(from, to, MS / 5);
        }
    }
    script
}

pub(crate) const ALL: [Situation; 8] = [
    ("a late stage of a pipeline of sends", || {
        // Three others wait half a millisecond each time.
        case(pipeline(MS / 2, 1), late(1), Some(3 * 100 * MS / 2))
    }),
    ("a pipeline of equal stages", || case(pipeline(0, 1), Expected::Healthy, None)),
    ("a rank late to all-to-alls of sends and receives", || case(all_to_all(), late(5), Some(7 * 40 * MS))),
    ("a late rank of a ring", || case(ring(MS, 21), late(3), Some(3 * 100 * MS))),
    ("a late receiver of a ring", || case(ring_without_buffers(MS), late(3), Some(3 * 100 * MS))),
    ("a ring", || case(ring(0, 23), Expected::Healthy, None)),
    ("a ring without buffers", || case(ring_without_buffers(0), Expected::Healthy, None)),
    ("a late receiver of large messages", || case(late_receiver(), late(3), Some(100 * MS))),
];

/// Whatever each of two slow ranks of a chain adds to the waits of those behind it is its own.
#[test]
fn two_slow_ranks_of_a_chain_share_what_the_others_lose() {
    for (first_ns, second_ns) in [(MS, 2 * MS), (2 * MS, MS)] {
        let mut script = Script::new(5, 30);
        for _ in 0..60 {
            script.compute(2 * MS, 2_000.0);
            script.collective("ncclAllReduce", 0, MS / 5);
            for rank in 0..4 {
                script.work(rank, [0, first_ns, 0, second_ns][rank as usize], 2_000.0);
                script.send(rank, rank + 1, MS / 20);
            }
        }
        let report = stats(&script);
        let lost_ns = |rank: usize| report["ranks"][rank]["lost_ns"].as_f64().expect("a time");
        // The three others wait for both, in messages or in the next all-reduce.
        is_near(lost_ns(1), (3 * 60 * first_ns) as f64);
        is_near(lost_ns(3), (3 * 60 * second_ns) as f64);
    }
}

#[test]
fn a_send_into_a_buffer_waits_for_nobody() {
    let mut script = Script::new(2, 4);
    script.late(1, 50 * MS);
    for _ in 0..100 {
        script.work(0, MS, 2_000.0);
        script.buffered_send(0, 1, MS / 20);
        script.work(1, MS, 2_000.0);
    }
    let report = stats(&script);
    has_no_cause(&report);
    assert_eq!((budget(&report, "waiting_ns"), budget(&report, "unclear_ns")), (0.0, 0.0));
}

/// The sender is on one host, the receiver on another one.
#[test]
fn nothing_is_claimed_of_messages_below_the_clocks_error() {
    for (error_ns, is_known) in [(Some(1_000), true), (Some(2 * MS), false), (None, false)] {
        let mut script = Script::new(2, 5);
        script.job.error_ns = Some(error_ns);
        for _ in 0..100 {
            script.work(0, 2 * MS, 2_000.0);
            script.work(1, MS, 2_000.0);
            script.send(0, 1, MS);
        }
        let report = stats(&script);
        if is_known {
            assert_eq!(only_cause(&report).0, 0);
            is_near(budget(&report, "waiting_ns"), 100e6);
        } else {
            has_no_cause(&report);
            assert_eq!(budget(&report, "waiting_ns"), 0.0);
            assert!(budget(&report, "unclear_ns") > 99e6, "{}", report["budget"]);
        }
    }
}

/// What has no other end in the archive, or one that was not measured, is not compared with anything.
#[test]
fn what_has_no_known_other_end_is_unclear() {
    let mut script = pipeline(MS / 2, 6);
    script.ranks[1].retain(|operation| operation.function == "ncclSend");
    let report = stats(&script);
    let from_0 = report["messages"].as_array().expect("pairs").iter().find(|pair| pair["from"] == 0).expect("a pair");
    assert_eq!((&from_0["late_sender_ns"], &from_0["late_receiver_ns"]), (&0.into(), &0.into()));
    assert!(budget(&report, "unclear_ns") > 50e6, "{}", report["budget"]);
    let mut script = pipeline(MS / 2, 6);
    script.job.timing = "enqueue";
    let report = stats(&script);
    has_no_cause(&report);
    assert_eq!(budget(&report, "operations_ns"), 0.0);
}
