//! Jobs in calls that make or end communicators.

use super::*;
use crate::job::{NcclCall, OpenRange, ThreadActivity};
use nccl_events::range::{RangeField, RangeFields};

/// A call entered 20 s ago, in a range of the program.
fn within(call: &str, numbers: &[(RangeField, u64)]) -> ThreadActivity {
    let mut fields = RangeFields::default();
    numbers.iter().for_each(|(field, value)| fields.add(*field, *value));
    let call = NcclCall { name: call.to_owned(), since_ns: NOW_NS - 20 * SECOND_NS, fields };
    ThreadActivity { call: Some(call), ..within_range("build_groups") }
}

fn within_range(name: &str) -> ThreadActivity {
    let range = OpenRange { name: name.to_owned(), since_ns: NOW_NS - 30 * SECOND_NS, ..OpenRange::default() };
    ThreadActivity { ranges: vec![range], ..ThreadActivity::default() }
}

fn split() -> ThreadActivity {
    within("ncclCommSplit", &[])
}

/// The job, each of whose processes records ranges and is in these.
fn with_activities(mut job: Job, each: impl IntoIterator<Item = ThreadActivity>) -> Job {
    for (process, activity) in job.processes.iter_mut().zip(each) {
        process.shows_calls = true;
        process.activities.insert(0, activity);
    }
    let processes = &job.processes;
    for rank in job.comms.iter_mut().flat_map(|comm| comm.ranks.values_mut()) {
        rank.activity = processes[rank.actor.process].activities[&0].clone();
    }
    job.number();
    job
}

/// Ranks of one communicator, the last of which is not in the split that the others are in.
fn without_last(change: impl Fn(&mut Job)) -> Report {
    let mut job = with_activities(calls([vec![], vec![], vec![]]), [split(), split(), within_range("load_batch")]);
    change(&mut job);
    job.number();
    judge(&job)
}

#[test]
fn what_is_known_of_a_rank_that_is_not_in_a_split_decides_what_is_said_of_it() {
    let with = |state: RecordingState| {
        without_last(|job| {
            job.processes[2].state = state;
            job.processes[2].until_ns -= if state == RecordingState::Gone { 20 * SECOND_NS } else { 0 };
            job.processes[2].last_record_ns -= 15 * SECOND_NS;
        })
    };
    for (state, reason, parts) in [
        (
            RecordingState::Running,
            "not-called",
            ["rank 2 has not called ncclCommSplit: it is in `load_batch`", "; ranks 0-1 wait for up to 20.0 s"],
        ),
        (
            RecordingState::Stopped,
            "stopped",
            ["the process of rank 2 is stopped (by a signal or a debugger) and has not called ncclCommSplit", ""],
        ),
        (RecordingState::Gone, "gone", ["the process of rank 2 is gone; ranks 0-1 wait", ""]),
        (RecordingState::Silent, "silent", ["rank 2 has not called ncclCommSplit, according to its records", ""]),
    ] {
        let report = with(state);
        assert_eq!(suspect(&report), (reason, "world", 2, 2));
        assert_eq!(report.verdict.kind, Kind::Hang);
        assert_says(&report.verdict.line, &parts);
        assert_says(&report.verdict.evidence.join("\n"), &["rank 2 is in `load_batch`"]);
    }
    for unknown in
        [|job: &mut Job| job.processes[2].is_whole = false, |job: &mut Job| job.processes[2].shows_calls = false]
    {
        let report = without_last(unknown);
        assert_eq!(suspect(&report).0, "unrecorded");
        assert_says(&report.verdict.line, &["whether rank 2 called ncclCommSplit is not recorded"]);
    }
    // In the past tense, once the job was killed.
    let killed = without_last(|job| job.processes.iter_mut().for_each(|process| process.state = RecordingState::Gone));
    assert_says(&killed.verdict.line, &["had not called ncclCommSplit: it was in `load_batch`; ranks 0-1 waited"]);
}

#[test]
fn a_rank_that_waits_for_one_in_a_split_leads_to_the_one_that_is_not_in_it() {
    let tp = group("tp", [(0, vec![open(20)]), (1, Vec::new())]);
    let pp = group("pp", [(1, Vec::new()), (2, Vec::new()), (3, Vec::new())]);
    let job = with_activities(
        job(4, vec![tp, pp]),
        [ThreadActivity::default(), split(), split(), within_range("load_batch")],
    );
    let report = judge(&job);
    assert_eq!(suspect(&report), ("not-called", "pp", 2, 3));
    assert_eq!(report.suspects.len(), 1);
    assert_eq!(report.verdict.ranks, [] as [u32; 0], "none is known");
    let chain = &report.suspects[0].chain;
    assert_says(
        &chain.join("\n"),
        &["waits in ncclAllReduce #1 of tp for 20.0 s", "waits in ncclCommSplit for 20.0 s"],
    );
}

#[test]
fn a_communicator_that_is_not_known_is_not_named() {
    let two = |ranks: [usize; 2]| {
        let world = group("world", (0..3).map(|process| (process, Vec::new())));
        let other = group("other", ranks.map(|process| (process, Vec::new())));
        judge(&with_activities(job(3, vec![world, other]), [split(), split(), ThreadActivity::default()]))
    };
    // Two communicators have the ranks that are in the call; one of them has the third.
    let report = two([0, 1]);
    let is_likely = |report: &Report| {
        assert_says(&report.verdict.line, &["rank 2 has not called nccl"]);
        let is_said = report.verdict.evidence.iter().any(|line| line.contains("waits for rank 2 is not recorded"));
        assert_eq!(report.verdict.confidence.as_deref() == Some("likely"), is_said);
        is_said
    };
    assert!(is_likely(&report));
    let report = two([1, 2]);
    assert!(!is_likely(&report), "it is of all ranks");
    // A shrink leaves ranks out.
    let shrink = || within("ncclCommShrink", &[]);
    let report =
        judge(&with_activities(calls([vec![], vec![], vec![]]), [shrink(), shrink(), ThreadActivity::default()]));
    assert!(is_likely(&report));
}

#[test]
fn before_there_is_a_communicator_processes_are_named() {
    let init = |numbers: &[(RangeField, u64)]| within("ncclCommInitRank", numbers);
    let first = |change: &dyn Fn(&mut Job), numbers: &[(RangeField, u64)]| {
        let mut job = with_activities(job(3, Vec::new()), [init(numbers), init(numbers), within_range("load_batch")]);
        change(&mut job);
        job.number();
        judge(&job)
    };
    let report = first(&|_| {}, &[]);
    let line = "HANG: node:102 has not called ncclCommInitRank: it is in `load_batch`; 2 ranks wait for up to 20.0 s";
    assert_says(&report.verdict.line, &[line]);
    assert_says(&report.verdict.evidence.join("\n"), &["whether ncclCommInitRank waits for node:102 is not recorded"]);
    assert_eq!(report.suspects[0].communicator, "");
    let launched = |job: &mut Job| {
        for (rank, process) in (0..).zip(&mut job.processes) {
            (process.launcher_rank, process.launcher_size) = (Some(rank), Some(4));
        }
    };
    // The communicator has all ranks of the job.
    let report = first(&launched, &[(RangeField::Ranks, 4)]);
    let reasons: Vec<(&str, u32)> = report.suspects.iter().map(|one| (&*one.reason, one.rank)).collect();
    assert_eq!(reasons, [("never-came", 3), ("not-called", 2)]);
    assert_says(&report.verdict.line, &["HANG: rank 3 never reached ncclCommInitRank; ranks 0-1 wait"]);
    assert_says(&report.verdict.evidence.join("\n"), &["also: rank 2"]);
    // The others record nothing before they come, be they many.
    let alone = |job: &mut Job| {
        launched(job);
        job.processes.truncate(1);
    };
    let report = first(&alone, &[]);
    let reasons: Vec<(&str, u32)> = report.suspects.iter().map(|one| (&*one.reason, one.rank)).collect();
    assert_eq!(reasons, [("never-came", 1), ("never-came", 2), ("never-came", 3)]);
    assert_says(&report.verdict.line, &["HANG: ranks 1-3 never reached ncclCommInitRank; rank 0 waits"]);
    // It has the ranks that are in the call: NCCL may just be slow.
    let report = first(&launched, &[(RangeField::Ranks, 2)]);
    assert_eq!(report.verdict.kind, Kind::Waiting);
    assert_says(&report.verdict.evidence[0], &["NCCL may take a minute"]);
}

#[test]
fn a_quiet_job_whose_calls_are_all_recorded_hangs_outside_of_them() {
    let mut job = with_activities(calls([vec![done(60)]]), [within_range("load_batch")]);
    job.processes[0].last_event_ns = NOW_NS - 40 * SECOND_NS;
    let report = judge(&job);
    assert_eq!(report.verdict.kind, Kind::Quiet);
    assert_says(
        &report.verdict.evidence[0],
        &["the job hangs outside NCCL, or in a call of a nonblocking communicator, or it"],
    );
    assert_eq!(
        (report.quiet.map(|quiet| quiet.reports_all_calls), &*report.ranks[0].ranges[0].name),
        (Some(true), "load_batch")
    );
}
