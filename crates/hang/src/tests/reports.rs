//! The report, apart from suspects.

use super::*;

#[test]
fn a_short_wait_and_what_began_after_the_moment_of_looking_are_no_hang() {
    let verdict = judge(&calls([vec![open(3)], Vec::new()])).verdict;
    assert_eq!((verdict.found, verdict.kind), (false, Kind::Waiting));
    assert!(verdict.line.starts_with("Not yet a hang: "), "{}", verdict.line);
    let later = Call { entered_ns: NOW_NS + SECOND_NS, ..open(0) };
    assert_eq!(report("dir", &calls([vec![later], Vec::new()]), 0).verdict.kind, Kind::Nothing);
}

#[test]
fn what_all_called_is_complete_as_far_as_is_known() {
    let launched = || vec![call("AllReduce", 8, 20, Stage::Launched)];
    let report = judge(&calls([launched(), launched()]));
    let sequence = &report.communicators[0].sequences[0];
    assert!(!report.verdict.found && sequence.first_incomplete.is_none());
    let last = sequence.last_complete.as_ref().expect("one");
    assert_eq!((last.position, last.is_sure), (1, false));
}

/// Nobody waits; NCCL last called the plugin 40 and 30 s ago.
fn quiet() -> Job {
    let mut job = calls([vec![done(60)], vec![done(60)]]);
    job.processes[0].last_event_ns = NOW_NS - 40 * SECOND_NS;
    job.processes[1].last_event_ns = NOW_NS - 30 * SECOND_NS;
    job
}

#[test]
fn a_job_is_quiet_only_while_a_process_can_be_expected_to_call_nccl() {
    let kind = |change: &dyn Fn(&mut Job)| {
        let mut job = quiet();
        change(&mut job);
        judge(&job).verdict.kind
    };
    assert_eq!(kind(&|job| job.processes[1].last_event_ns = NOW_NS - 5 * SECOND_NS), Kind::Nothing);
    assert_eq!(kind(&|job| job.processes.iter_mut().for_each(|one| one.state = RecordingState::Ended)), Kind::Nothing);
    assert_eq!(kind(&|job| job.comms[0].ranks.values_mut().for_each(|rank| rank.finalized = true)), Kind::Nothing);
    assert_eq!(kind(&|job| job.processes[1].state = RecordingState::Ended), Kind::Quiet);
}

#[test]
fn a_job_that_was_killed_while_quiet_is_no_all_clear() {
    let killed = |last_record_ns: u64, state: RecordingState| {
        let mut job = quiet();
        job.is_archive = state == RecordingState::Unknown;
        // Judged an hour later.
        job.now_ns += 3_600 * SECOND_NS;
        for process in &mut job.processes {
            (process.state, process.until_ns) = (state, last_record_ns);
        }
        judge(&job)
    };
    let report = killed(NOW_NS, RecordingState::Gone);
    assert_eq!((report.verdict.found, report.verdict.kind), (true, Kind::Quiet));
    let text = "QUIET: NCCL had reported nothing for 30.000 s in any of 2 processes when the recording ended";
    assert_eq!(report.verdict.line, text);
    assert_says(&report.verdict.evidence[0], &["they were killed, crashed, or ended without telling NCCL"]);
    let quiet = report.quiet.expect("a report");
    assert_eq!(quiet.ranks.iter().map(|row| row.quiet_ns / SECOND_NS).collect::<Vec<_>>(), [40, 30]);
    assert!(!quiet.advice.iter().any(|advice| advice.contains("--pid")), "{:?}", quiet.advice);
    assert_eq!(killed(NOW_NS - 25 * SECOND_NS, RecordingState::Gone).verdict.kind, Kind::Nothing);
    // An archive does not record how its processes ended.
    let archive = killed(NOW_NS, RecordingState::Unknown).verdict;
    assert_eq!((archive.found, archive.kind), (false, Kind::Unknown));
    assert!(archive.line.starts_with("CANNOT TELL: NCCL had reported nothing for 30.000 s in any of 2 processes"));
}

/// Rank 0 was killed right after its call; how long it would have waited, its recording does not say.
#[test]
fn a_wait_that_the_end_of_its_recording_cuts_short_is_no_all_clear() {
    let killed = |first_ago: u64| {
        let mut job = calls([vec![done(60), open(first_ago)], vec![done(60)]]);
        job.processes.iter_mut().for_each(|process| process.state = RecordingState::Gone);
        job.processes[0].until_ns = NOW_NS - first_ago * SECOND_NS + 6_800;
        judge(&job).verdict
    };
    let verdict = killed(30);
    let line = "CANNOT TELL: the records of rank 0 end 30.0 s before the others', in ncclAllReduce #2 of world";
    assert_eq!((verdict.kind, &*verdict.line, verdict.found), (Kind::Unknown, line, false));
    assert_eq!(verdict.evidence[0], "rank 1 had not called ncclAllReduce #2 of world");
    // Launchers kill ranks one after the other.
    let verdict = killed(1);
    let line = "No hang: rank 0 waited in ncclAllReduce #2 of world for 6.8 µs";
    assert_eq!((verdict.kind, &*verdict.line), (Kind::Waiting, line));
}

#[test]
fn transfers_that_report_no_end_do_not_make_ended_operations_doubtful() {
    let archive = |stage| {
        let mut job = calls([vec![call("AllReduce", 8, 1, stage)], vec![done(1)]]);
        job.is_archive = true;
        job.processes.iter_mut().for_each(|process| process.state = RecordingState::Unknown);
        job.open_below = Some("2 events had not ended when recording did".to_owned());
        judge(&job).verdict
    };
    assert_eq!(archive(Stage::Done).kind, Kind::Nothing);
    assert_eq!(archive(Stage::Launched).kind, Kind::Unknown);
}

/// A report that was kept is about the parts in which something is recorded.
#[test]
fn an_empty_directory_among_the_parts_does_not_hide_the_kept_report() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(directory.path().join("parts/empty")).expect("made");
    let mut report = judge(&calls([vec![done(1)], vec![done(1)]]));
    crate::keep(directory.path(), &mut report, Some(3)).expect("written");
    let saved = |events| crate::saved(directory.path(), || Some(events)).expect("readable").is_some();
    assert!(saved(3) && !saved(4));
}
