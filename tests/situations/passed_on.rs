//! Ranks that wait for a rank that waits itself, in other communicators or in messages, and several that are late.

use serde_json::Value;

use super::script::{Script, time_ns};
use super::slow;
use super::table::{Expected, MS, Situation, case, late};

const ROUNDS: u64 = 60;

/// Four stages compute one after the other, then all reduce. Stage 1 needs longer.
fn pipeline(more_ns: u64) -> Script {
    let mut script = Script::new(4, 40);
    for _ in 0..ROUNDS {
        for stage in 0..4 {
            script.work(stage, MS + if stage == 1 { more_ns } else { 0 }, 5_000.0);
            if stage < 3 {
                script.send(stage, stage + 1, MS / 10);
            }
        }
        script.collective("ncclAllReduce", 0, MS);
    }
    script
}

/// The ranks of a host reduce, then those with the same place on all hosts. One rank needs longer.
fn two_dimensions() -> Script {
    let (hosts, ranks_per_host) = (4, 8);
    let mut script = Script::new(hosts * ranks_per_host, 41);
    let inside = (0..hosts).map(|host| (0..ranks_per_host).map(|index| host * ranks_per_host + index).collect());
    let across = (0..ranks_per_host).map(|index| (0..hosts).map(|host| host * ranks_per_host + index).collect());
    let all: Vec<Vec<u32>> = inside.chain(across).collect();
    let communicators: Vec<u32> = all.iter().map(|ranks| script.communicator(ranks)).collect();
    for _ in 0..ROUNDS {
        script.compute(2 * MS, 10_000.0);
        script.late(13, 2 * MS);
        communicators.iter().for_each(|communicator| script.collective("ncclAllReduce", *communicator, MS / 4));
    }
    script
}

/// All send around a ring, then reduce. Rank 3 is late to the ring.
fn ring_and_reduce() -> Script {
    let mut script = Script::new(8, 42);
    for _ in 0..ROUNDS {
        script.compute(2 * MS, 5_000.0);
        script.late(3, 2 * MS);
        script.buffered_ring(MS / 5);
        script.collective("ncclAllReduce", 0, MS / 2);
    }
    script
}

/// Forward through four stages, then backward, each micro-batch after the one before. Stage 2 needs longer.
fn forward_and_backward() -> Script {
    let mut script = Script::new(4, 43);
    let work = |script: &mut Script, stage| script.work(stage, MS + if stage == 2 { MS / 2 } else { 0 }, 5_000.0);
    for _ in 0..ROUNDS {
        for stage in 0..4 {
            work(&mut script, stage);
            if stage < 3 {
                script.send(stage, stage + 1, MS / 10);
            }
        }
        for stage in (0..4).rev() {
            work(&mut script, stage);
            if stage > 0 {
                script.send(stage, stage - 1, MS / 10);
            }
        }
    }
    script
}

pub(crate) const ALL: [Situation; 5] = [
    ("a pipeline of equal stages before an all-reduce", || case(pipeline(0), Expected::Healthy, None)),
    ("a slow stage of a pipeline before an all-reduce", || case(pipeline(MS), late(1), Some(ROUNDS * 3 * MS))),
    ("a late rank, of four hosts of eight, of which the group is late to another communicator", || {
        case(two_dimensions(), late(13), Some(59 * 31 * 2 * MS))
    }),
    ("a rank late to a ring of sends before an all-reduce", || case(ring_and_reduce(), late(3), Some(59 * 7 * 2 * MS))),
    ("a slow stage of a pipeline that goes forward and backward", || {
        case(forward_and_backward(), late(2), Some(ROUNDS * 3 * MS))
    }),
];

fn causes(script: &Script) -> (Vec<(u64, f64)>, Value) {
    let report = slow::stats(&script.job, &script.ranks, &[]);
    let causes = report["causes"].as_array().expect("causes");
    let found =
        causes.iter().map(|cause| (cause["rank"].as_u64().expect("a rank"), cause["share"].as_f64().expect("a share")));
    (found.collect(), report)
}

/// These ranks are the causes, each with its part of what the ranks that are not late lose.
fn are_late(script: &Script, late: [(u64, u64); 2]) {
    let all_ns = time_ns(&script.ranks) as f64;
    let (found, report) = causes(script);
    assert_eq!(found.len(), late.len(), "{report:#}");
    for ((rank, share), (late, ns)) in found.iter().zip(late) {
        let truth = ns as f64 / all_ns;
        assert!(*rank == late && (share - truth).abs() <= 0.1 * truth, "{rank}: {share}, not {truth}");
    }
}

/// Mending one of both gains 1 ms or nothing, so that what both cost is divided by what each adds: 18 to 12.
#[test]
fn two_ranks_that_are_late_to_the_same_collectives_are_both_named() {
    let mut script = Script::new(8, 44);
    for _ in 0..ROUNDS {
        script.compute(2 * MS, 5_000.0);
        script.late(3, 3 * MS);
        script.late(6, 2 * MS);
        script.collective("ncclAllReduce", 0, MS / 2);
    }
    are_late(&script, [(3, 59 * 6 * 3 * MS * 3 / 5), (6, 59 * 6 * 3 * MS * 2 / 5)]);
}

#[test]
fn ranks_that_are_late_one_after_the_other_are_both_named() {
    let mut script = Script::new(8, 45);
    for round in 0..2 * ROUNDS {
        script.compute(2 * MS, 5_000.0);
        script.late(if round < ROUNDS { 3 } else { 5 }, if round < ROUNDS { 2 * MS } else { MS });
        script.collective("ncclAllReduce", 0, MS / 2);
    }
    are_late(&script, [(3, 59 * 6 * 2 * MS), (5, 60 * 6 * MS)]);
}

/// A slow host, a slow half of the GPUs: none of them is slower than the others of its kind.
#[test]
fn half_of_the_ranks_can_be_late() {
    for ranks in [8_u32, 16, 32] {
        let mut script = Script::new(ranks, 46);
        for _ in 0..ROUNDS {
            script.compute(2 * MS, 20_000.0);
            (ranks / 2..ranks).for_each(|rank| script.late(rank, 3 * MS));
            script.collective("ncclAllReduce", 0, MS / 2);
        }
        let all_ns = time_ns(&script.ranks) as f64;
        let (found, report) = causes(&script);
        let sum: f64 = found.iter().map(|(_, share)| share).sum();
        let truth = (59 * u64::from(ranks / 2) * 3 * MS) as f64 / all_ns;
        assert!(found.iter().all(|(rank, _)| *rank >= u64::from(ranks / 2)), "{found:?}");
        assert!((sum - truth).abs() <= 0.15 * truth, "{sum}, not {truth}");
        let sentence = report["verdict"]["line"].as_str().expect("a sentence");
        let begins = if ranks == 8 { "Ranks 4, 5, 6 and 7 are late: " } else { &format!("{} ranks (", ranks / 2) };
        assert!(sentence.starts_with(begins), "{sentence}");
    }
}
