//! Flight recordings, whose beginnings are cut at a different time for each rank.

use super::*;
use crate::read::align::align;
use crate::read::part::leave_out_before_holes;

/// `AllReduce 40` …, all `seconds_ago`.
fn numbered(func: &str, sequence: u64, seconds_ago: u64, stage: Stage) -> Call {
    Call { sequence: Some(sequence), ..call(func, 8, seconds_ago, stage) }
}

fn reduced(sequences: std::ops::RangeInclusive<u64>) -> Vec<Call> {
    sequences.map(|sequence| numbered("AllReduce", sequence, 40, Stage::Done)).collect()
}

fn and(mut calls: Vec<Call>, more: Vec<Call>) -> Vec<Call> {
    calls.extend(more);
    calls
}

fn waiting(sequence: u64) -> Vec<Call> {
    vec![numbered("AllReduce", sequence, 20, Stage::Running)]
}

/// A rank with only these calls kept.
fn cut(process: usize, calls: Vec<Call>) -> Rank {
    let mut rank = rank(process, calls);
    rank.calls.positions = Positions::Unknown;
    rank.replays.positions = Positions::Unknown;
    rank
}

/// A job of one communicator, recorded in flight mode with a minute kept.
fn flight(ranks: Vec<Rank>) -> Job {
    let mut job = world(ranks);
    for process in &mut job.processes {
        process.kept_since_ns = Some(NOW_NS - 60 * SECOND_NS);
    }
    for comm in &mut job.comms {
        align(comm);
    }
    job
}

fn befores(job: &Job) -> Vec<(u64, Positions)> {
    job.comms[0].ranks.values().map(|rank| (rank.calls.before, rank.calls.positions)).collect()
}

#[test]
fn positions_come_from_numbers_that_ranks_have_in_common() {
    let broadcast = |sequence| numbered("Broadcast", sequence, 30, Stage::Done);
    // Launches of graphs do not always count: 40 occurs three times.
    let replay = || numbered("AllReduce", 40, 30, Stage::Done);
    let with = |calls: [Vec<Call>; 2]| {
        befores(&flight(calls.into_iter().enumerate().map(|(process, calls)| cut(process, calls)).collect()))
    };
    let aligned = |before| (before, Positions::Aligned);
    // Functions are numbered separately: the same numbers are at different positions.
    let functions = [and(and(reduced(5..=9), vec![broadcast(8), broadcast(9)]), waiting(10)), vec![broadcast(9)]];
    assert_eq!(with(functions), [aligned(0), aligned(6)]);
    let twice =
        [and(vec![replay(), replay()], and(reduced(40..=41), waiting(42))), and(vec![replay()], reduced(41..=41))];
    assert_eq!(with(twice), [aligned(0), aligned(2)]);
    let contradiction = [and(vec![broadcast(7), broadcast(8)], waiting(41)), and(vec![broadcast(9)], reduced(30..=30))];
    assert!(with(contradiction).iter().all(|(_, positions)| *positions == Positions::Unknown));
}

#[test]
fn one_number_in_common_says_where_all_are() {
    let job = flight(vec![
        cut(0, and(reduced(10..=40), waiting(41))),
        cut(1, and(reduced(30..=40), waiting(41))),
        cut(2, reduced(40..=40)),
    ]);
    let aligned = |before| (before, Positions::Aligned);
    assert_eq!(befores(&job), [aligned(0), aligned(20), aligned(30)]);
    let report = judge(&job);
    assert_eq!(suspect(&report), ("not-called", "world", 2, 2));
    assert_says(&report.verdict.line, &["rank 2 has not called ncclAllReduce (sequence 41) of world"]);
    let sequence = &report.communicators[0].sequences[0];
    assert!(!sequence.from_beginning);
    assert_eq!((&*sequence.entered, &*sequence.not_entered), (&[0, 1][..], &[2][..]));
    let last = sequence.last_complete.as_ref().expect("40");
    assert_eq!((last.position, last.sequence), (31, Some(40)));
    assert_eq!(last.place(sequence.from_beginning), "collective 31 of those kept");
}

#[test]
fn what_is_before_the_first_kept_of_all_is_not_claimed_to_be_complete() {
    let job = flight(vec![cut(0, waiting(41)), cut(1, waiting(41))]);
    let report = judge(&job);
    let sequence = &report.communicators[0].sequences[0];
    assert!(sequence.last_complete.is_none());
    assert_eq!(suspect(&report).0, "running");
}

#[test]
fn ranks_without_a_number_in_common_are_before_or_behind() {
    // The third is behind by at least two; the others have not kept the call it is in.
    let job = flight(vec![
        cut(0, and(reduced(40..=40), waiting(41))),
        cut(1, and(reduced(40..=40), waiting(41))),
        cut(2, reduced(30..=37)),
    ]);
    assert_eq!(befores(&job)[2].1, Positions::Ordered);
    let report = judge(&job);
    assert_eq!(suspect(&report), ("not-called", "world", 2, 2));
    let sequence = &report.communicators[0].sequences[0];
    assert_eq!(sequence.not_entered, [2]);
    let last = sequence.last_complete.as_ref().expect("what it called");
    assert_eq!((last.sequence, last.is_sure), (Some(37), false));
    let first = sequence.first_incomplete.as_ref().expect("one");
    assert_eq!(first.sequence, Some(40), "the first that anybody has kept");
    assert_says(&report.unknown.join("\n"), &["not by how many"]);

    // One is ahead of all others.
    let job = flight(vec![cut(0, reduced(30..=40)), cut(1, reduced(30..=40)), cut(2, waiting(41))]);
    let places = [(0, Positions::Aligned), (0, Positions::Aligned), (11, Positions::Ordered)];
    assert_eq!(befores(&job), places);
    let report = judge(&job);
    assert_eq!(suspect(&report), ("not-called", "world", 0, 1));
    let sequence = &report.communicators[0].sequences[0];
    assert_eq!(sequence.not_entered, [0, 1]);
}

#[test]
fn without_numbers_nobody_is_accused_and_that_is_said() {
    let open = || call("Broadcast", 8, 20, Stage::Running);
    let idle = || call("Broadcast", 8, 50, Stage::Launched);
    let job = flight(vec![cut(0, vec![idle(), open()]), cut(1, vec![idle(), idle(), open()]), cut(2, vec![idle()])]);
    let report = judge(&job);
    assert_eq!(suspect(&report), ("unrecorded", "world", 2, 2));
    assert_says(&report.verdict.line, &["whether rank 2 called ncclBroadcast of world is not recorded"]);
    let sequence = &report.communicators[0].sequences[0];
    assert_eq!(sequence.position_unknown, [0, 1, 2]);
    assert!(sequence.entered.is_empty() && sequence.first_incomplete.is_none());

    // All wait.
    let report = judge(&flight(vec![cut(0, vec![open()]), cut(1, vec![idle(), open()])]));
    assert_eq!(suspect(&report).0, "running");

    // If not even an open call is seen, the report says that a wait would not be visible.
    let report = judge(&flight(vec![cut(0, vec![idle()]), cut(1, vec![idle(), idle()])]));
    assert!(!report.verdict.found);
    assert_says(&report.unknown.join("\n"), &["how far ranks 0-1 got"]);
}

#[test]
fn a_rank_of_which_no_call_is_kept_may_have_called_or_not() {
    let ranks = || {
        vec![cut(0, and(reduced(40..=40), waiting(41))), cut(1, and(reduced(39..=40), waiting(41))), cut(2, Vec::new())]
    };
    let report = judge(&flight(ranks()));
    assert_eq!(suspect(&report), ("unrecorded", "world", 2, 2));
    assert_says(&report.verdict.line, &["whether rank 2 called ncclAllReduce (sequence 41) of world is not recorded"]);
    let sequence = &report.communicators[0].sequences[0];
    assert_eq!(sequence.position_unknown, [2]);
    assert!(sequence.not_entered.is_empty());

    // The rank waits elsewhere: the rank it waits for there is the suspect.
    let mut job = flight(ranks());
    job.comms.push(group("second", [(2, vec![open(30)]), (0, Vec::new())]));
    job.processes[0].kept_since_ns = None;
    let report = judge(&job);
    assert_eq!(report.suspects[0].reason, "unrecorded", "a circle, and not sure");
    let mut job = flight(ranks());
    job.processes.push(process(3));
    job.comms.push(group("second", [(2, vec![open(30)]), (3, Vec::new())]));
    let report = judge(&job);
    assert_eq!(suspect(&report), ("not-called", "second", 1, 3));
    assert_eq!(report.suspects.len(), 1);
}

#[test]
fn after_a_call_left_out_numbers_differ_and_what_was_before_counts() {
    // The second leaves out AllReduce 40: its AllReduce 40 is AllReduce 41 of the others.
    let then = |number: u64| {
        let later = |func, number| numbered(func, number, 20, Stage::Running);
        vec![later("ReduceScatter", 7), later("ReduceScatter", 8), later("AllReduce", number)]
    };
    let job = flight(vec![
        cut(0, and(reduced(30..=40), then(41))),
        cut(1, and(reduced(37..=39), then(40))),
        cut(2, and(reduced(35..=40), then(41))),
    ]);
    let aligned = |before| (before, Positions::Aligned);
    assert_eq!(befores(&job), [aligned(0), aligned(7), aligned(5)]);
    let report = judge(&job);
    assert_eq!(suspect(&report), ("mismatch", "world", 1, 3));
    assert_says(&report.verdict.line, &["collective 11 of those kept different functions: rank 1 differs"]);
    assert_says(
        &report.verdict.evidence.join("\n"),
        &["the following calls agree if rank 1 left out one call before \
        this one"],
    );
}

#[test]
fn with_a_rank_that_has_all_positions_are_from_the_beginning() {
    let mut job = flight(vec![rank(0, and(reduced(0..=40), waiting(41))), cut(1, reduced(30..=40))]);
    assert_eq!(befores(&job), [(0, Positions::Counted), (30, Positions::Aligned)]);
    let report = judge(&job);
    assert_says(&report.verdict.line, &["rank 1 has not called ncclAllReduce #42 of world"]);
    assert!(report.communicators[0].sequences[0].from_beginning);
    // A written part only gives the number, from the beginning: that does not help to place the others.
    let mut written = rank(0, Vec::new());
    written.calls.before = 50;
    job = flight(vec![written, cut(1, waiting(41))]);
    assert_eq!(befores(&job)[0].1, Positions::Unknown);
}

#[test]
fn what_is_before_a_hole_is_left_out() {
    let left = |mut calls: Vec<Call>, others: &[Call]| -> Vec<u64> {
        leave_out_before_holes(&mut calls, others);
        calls.iter().filter_map(|call| call.sequence).collect()
    };
    let with_hole = || and(reduced(3..=5), reduced(8..=9));
    assert_eq!(left(with_hole(), &[]), [8, 9]);
    // Numbers used by launched graphs leave no gap.
    assert_eq!(left(with_hole(), &reduced(6..=7)), [3, 4, 5, 8, 9]);
    // NCCL orders the calls of a group by size.
    let group = [5, 4, 3, 6].map(|sequence| numbered("AllReduce", sequence, 9, Stage::Done));
    assert_eq!(left(group.to_vec(), &[]), [5, 4, 3, 6]);
    // Copy-engine numbers have gaps.
    let copied =
        [2, 4, 6].map(|sequence| Call { by_copy_engine: true, ..numbered("AllGather", sequence, 9, Stage::Done) });
    assert_eq!(left(copied.to_vec(), &[]), [2, 4, 6]);
}
