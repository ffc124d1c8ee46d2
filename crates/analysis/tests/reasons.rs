//! Made-up jobs of which it is known what delays a rank, and which way the critical path goes.
#![expect(clippy::cast_precision_loss, reason = "made-up jobs are small")]

use analysis::reasons::why::add_reasons_and_path;
use analysis::results::{CauseKind, CriticalPath, Delay, PathKind, Report, Verdict, Why};
use analysis::{Filter, Trace, analyse};
use otf2::Archive;
use whole_plugin::synthetic::{self, CALL_NS, Delayed, Disturbance, Job, Operation, play};

const LATE_NS: u64 = 150_000;
const MS: u64 = 1_000_000;

fn analyze(job: &Job, ranks: &[Vec<Operation>]) -> Report {
    see_some(job, ranks, &Filter::default())
}

fn see_some(job: &Job, ranks: &[Vec<Operation>], filter: &Filter) -> Report {
    let directory = tempfile::tempdir().expect("a directory");
    let anchor = synthetic::write(&directory.path().join("job"), job, ranks);
    let archive = Archive::open(&anchor).expect("an archive");
    let trace = Trace::read(anchor, archive).expect("definitions");
    let mut analysis = analyse(&trace, filter, &()).expect("events");
    add_reasons_and_path(&trace, &mut analysis, filter).expect("events");
    analysis.report
}

fn why(report: &Report, rank: u32) -> &Why {
    let cause = &report.causes[0];
    assert_eq!((cause.kind, cause.rank), (CauseKind::LateRank, Some(rank)), "{}", cause.sentence);
    cause.why.as_ref().unwrap_or_else(|| panic!("no reason: {}", cause.sentence))
}

#[test]
fn the_stage_that_delays_a_rank_is_named() {
    let wrong = Disturbance::LateRank { rank: 5, from: 0, ns: LATE_NS };
    for (delayed, reason, ends, evidence) in [
        (Delayed::Call, Delay::Call, ", in `step # > load`", "Rank 5 calls "),
        (Delayed::Launch, Delay::Launch, ", between call and launch", "Rank 5 calls NCCL in time, but launches "),
        (Delayed::Gpu, Delay::Gpu, ", behind other GPU work", "Rank 5 launches in time, but its GPU begins "),
    ] {
        for is_by_callback in [false, true] {
            let job = Job { wrong, calls: Some(delayed), is_by_callback, has_ranges: true, ..Job::healthy(2) };
            let report = analyze(&job, &play(&job));
            let why = why(&report, 5);
            let later_ns = why.later_ns.expect("a time");
            assert_eq!(why.reason, Some(reason), "{why:?}");
            assert!(later_ns.abs_diff(LATE_NS) < LATE_NS / 20, "{later_ns}");
            assert_eq!(report.ranks[5].why.as_ref(), Some(why));
            assert!(report.ranks.iter().enumerate().all(|(rank, row)| rank == 5 || row.why.is_none()));
            let Verdict { line: sentence, basis, .. } = &report.verdict;
            assert!(sentence.ends_with(ends) && sentence.starts_with("Rank 5 is late: "), "{sentence}");
            assert!(basis.iter().any(|line| line.starts_with(evidence)), "{basis:?}");
        }
    }
}

/// All ranks are in `backward` for longest before a call; the late rank is in `load` for longer than the others.
#[test]
fn the_range_next_to_the_call_is_not_blamed_if_all_ranks_are_in_it() {
    let wrong = Disturbance::LateRank { rank: 5, from: 0, ns: LATE_NS };
    let job = Job { wrong, calls: Some(Delayed::Call), has_ranges: true, backward_ns: 195_000, ..Job::healthy(2) };
    let report = analyze(&job, &play(&job));
    let phase = why(&report, 5).phase.as_ref().expect("a range");
    assert_eq!(phase.path, ["step #", "load"], "{}", report.verdict.line);
}

/// What the archive lacks is said, and the verdict is as without an explanation.
#[test]
fn without_calls_no_reason_is_named() {
    let wrong = Disturbance::LateRank { rank: 5, from: 0, ns: LATE_NS };
    let job = Job { wrong, ..Job::healthy(2) };
    let report = analyze(&job, &play(&job));
    let why = why(&report, 5);
    assert_eq!((why.reason, why.later_ns, why.call_ns), (None, None, 0));
    assert!(
        why.missing.as_ref().is_some_and(|reason| reason.starts_with("its calls are not in the archive")),
        "{why:?}"
    );
    assert!(report.verdict.line.ends_with(" of communication time lost"), "{}", report.verdict.line);
}

/// Four ranks whose operations begin and end at these times.
fn operations(collectives: &[([u64; 4], u64)]) -> Vec<Vec<Operation>> {
    let operations_of_rank = |rank: usize| {
        let made = (0..).zip(collectives).map(|(sequence, (starts, stop_ns))| Operation {
            communicator: 0,
            function: "ncclAllReduce",
            partner: None,
            start_ns: starts[rank],
            stop_ns: *stop_ns,
            bytes: 1 << 20,
            sequence,
            sends: Vec::new(),
        });
        made.collect()
    };
    (0..4).map(operations_of_rank).collect()
}

/// The parts of a path: kind, rank, time.
fn parts(path: &CriticalPath) -> Vec<(PathKind, Option<u32>, u64)> {
    assert_eq!(path.parts.iter().map(|part| part.ns).sum::<u64>(), path.to_ns - path.from_ns);
    assert!((path.parts.iter().map(|part| part.share).sum::<f64>() - 1.0).abs() < 1e-9);
    path.parts.iter().map(|part| (part.kind, part.rank, part.ns)).collect()
}

fn four_ranks() -> Job {
    Job { ranks: 4, channels: 0, ..Job::healthy(1) }
}

/// Rank 1 computes for 5 ms, then rank 2 for 7 ms.
#[test]
fn the_path_goes_through_the_ranks_that_others_waited_for() {
    let [a, b] = [7 * MS, 15 * MS];
    let ranks = operations(&[
        ([MS; 4], 2 * MS),
        ([3 * MS, a, 3 * MS, 4 * MS], 8 * MS),
        ([9 * MS, 10 * MS, b, 9 * MS], 18 * MS),
    ]);
    let path = analyze(&four_ranks(), &ranks).critical_path.expect("a path");
    assert_eq!((path.from_ns, path.to_ns, path.operations), (MS, 18 * MS, 3));
    let transfer = (PathKind::Transfer, None, 4 * MS);
    let [second, first] = [(2, 7 * MS), (1, 5 * MS)].map(|(rank, ns)| (PathKind::Computing, Some(rank), ns));
    assert_eq!(parts(&path), [second, first, transfer, (PathKind::WarmUp, Some(1), MS)]);
    assert!(path.sentence.starts_with("The critical path takes 17.00 ms through 3 operations: 70.6 % computing"));
    // From the middle of rank 1's computing to that of the last transfer.
    let filter = Filter { from_ns: Some(4 * MS), to_ns: Some(16 * MS), ranks: [0].into(), ..Filter::default() };
    let path = see_some(&four_ranks(), &ranks, &filter).critical_path.expect("a path");
    assert_eq!((path.from_ns, path.to_ns, path.operations), (4 * MS, 16 * MS, 2));
    assert_eq!(parts(&path), [second, (PathKind::Computing, Some(1), 3 * MS), (PathKind::Transfer, None, 2 * MS)]);
    assert!(path.sentence.starts_with("The critical path of all ranks takes 12.00 ms"), "{}", path.sentence);
    let job = Job { calls: Some(Delayed::Call), ..four_ranks() };
    let path = analyze(&job, &ranks).critical_path.expect("a path");
    assert_eq!((path.launching_ns, path.computing_ns), (2 * 2 * CALL_NS, 12 * MS - 2 * 2 * CALL_NS));
}

/// Rank 1 computes, and sends to rank 2, which has waited for it and ends last.
#[test]
fn the_path_goes_through_messages() {
    let mut ranks = operations(&[([MS; 4], 2 * MS), ([3 * MS; 4], 4 * MS)]);
    for (rank, function, partner, start_ns) in
        [(1, "ncclSend", 2, 5), (2, "ncclRecv", 1, 5), (1, "ncclSend", 2, 12), (2, "ncclRecv", 1, 7)]
    {
        let like = Operation { function, partner: Some(partner), start_ns: start_ns * MS, ..ranks[0][0].clone() };
        let stop_ns = if start_ns == 5 { 6 * MS } else { 15 * MS };
        ranks[rank].push(Operation { stop_ns, ..like });
    }
    let path = analyze(&four_ranks(), &ranks).critical_path.expect("a path");
    let link = path.parts.iter().find(|part| part.function.as_deref().is_some_and(|function| function == "ncclRecv"));
    let link = link.and_then(|part| Some((part.link?.from, part.link?.to, part.ns)));
    assert_eq!(link, Some((Some(1), Some(2), 3 * MS)), "{path:#?}");
    assert!(parts(&path).contains(&(PathKind::Computing, Some(1), 6 * MS + MS + MS)), "{path:#?}");
}

#[test]
fn what_the_clocks_do_not_show_is_unclear() {
    let ranks = operations(&[([MS; 4], 2 * MS), ([3 * MS, 7 * MS, 3 * MS, 4 * MS], 9 * MS)]);
    let job = |error_ns| Job { error_ns: Some(error_ns), ..four_ranks() };
    let path = analyze(&job(Some(3 * MS)), &ranks).critical_path.expect("a path");
    assert!(path.unclear_ns > 0 && path.unclear_ns + path.computing_ns == 5 * MS, "{path:#?}");
    let path = analyze(&job(None), &ranks).critical_path.expect("a path");
    assert_eq!(path.transfer_ns, 0, "{path:#?}");
}

/// Of a job with a slow connection, the transfer on the path is that of the connection.
#[test]
fn transfer_names_the_slow_link() {
    let job = Job { wrong: Disturbance::SlowPair { from: 3, latency: 3.0, time: 2.0 }, ..Job::healthy(3) };
    let path = analyze(&job, &play(&job)).critical_path.expect("a path");
    let part = path.parts.iter().find(|part| part.kind == PathKind::Transfer).expect("transfer");
    let ends = part.link.map(|link| (link.from, link.to));
    assert_eq!(ends, Some((Some(3), Some(4))), "{part:?}");
    assert!(part.times > 290 && part.share > 0.3, "{part:?}");
    // The others' computing takes 200 µs each time.
    assert!((path.computing_ns as f64 / 299.0 - 205_000.0).abs() < 15_000.0, "{path:?}");
}
