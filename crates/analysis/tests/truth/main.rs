//! Synthetic jobs with known properties: checks every derived number, and the cause that the verdict names.

mod compare;

use std::collections::BTreeMap;

use analysis::results::{CauseKind, Finding, Report};
use analysis::{Filter, Trace, analyse};
use otf2::Archive;
use whole_plugin::synthetic::{self, BYTE_NS, Delayed, Disturbance, Job, LATENCY_NS, Operation, play};

/// A synthetic job, and the report derived from its archive.
struct AnalyzedJob {
    ranks: Vec<Vec<Operation>>,
    report: Report,
}

fn analyze(job: &Job) -> AnalyzedJob {
    analyze_filtered(job, &Filter::default())
}

fn analyze_filtered(job: &Job, filter: &Filter) -> AnalyzedJob {
    let ranks = play(job);
    let report = with_archive(job, &ranks, |trace| analyse(trace, filter, &()).expect("events").report);
    AnalyzedJob { ranks, report }
}

/// Calls `use_it` with the archive of a job.
fn with_archive<T>(job: &Job, ranks: &[Vec<Operation>], use_it: impl FnOnce(&Trace) -> T) -> T {
    let directory = tempfile::tempdir().expect("a directory");
    let anchor = synthetic::write(&directory.path().join("job"), job, ranks);
    let archive = Archive::open(&anchor).expect("an archive");
    use_it(&Trace::read(anchor, archive).expect("definitions"))
}

fn collectives(ranks: &[Vec<Operation>]) -> impl Iterator<Item = Vec<&Operation>> {
    (0..ranks[0].len()).map(|at| ranks.iter().map(|operations| &operations[at]).collect())
}

fn is_near(found: f64, truth: f64, tolerance: f64) -> bool {
    (found - truth).abs() <= tolerance * truth.abs()
}

#[test]
fn waiting_and_transfer_are_exact() {
    let AnalyzedJob { ranks, report } = analyze(&Job::healthy(1));
    let (mut waiting, mut transfer) = (vec![0; 8], vec![0; 8]);
    let mut skews = BTreeMap::<u64, Vec<u64>>::new();
    let mut warm_up_ns = 0;
    for (number, operations) in collectives(&ranks).enumerate() {
        let last_ns = operations.iter().map(|operation| operation.start_ns).max().unwrap();
        let first_ns = operations.iter().map(|operation| operation.start_ns).min().unwrap();
        skews.entry(operations[0].bytes).or_default().push(last_ns - first_ns);
        for (rank, operation) in operations.iter().enumerate() {
            // The first collective is warm-up.
            if number == 0 {
                warm_up_ns += operation.stop_ns - operation.start_ns;
                continue;
            }
            waiting[rank] += last_ns - operation.start_ns;
            transfer[rank] += operation.stop_ns - last_ns;
        }
    }
    assert_eq!(report.warm_up.operations_ns, warm_up_ns);
    for (rank, found) in report.ranks.iter().enumerate() {
        assert_eq!(found.name, format!("rank {rank}"));
        assert_eq!((found.budget.waiting_ns, found.budget.transfer_ns), (waiting[rank], transfer[rank]), "{rank}");
        assert_eq!(found.budget.unclear_ns, 0);
    }
    assert_eq!(report.budget.waiting_ns - report.warm_up.waiting_ns, waiting.iter().sum::<u64>());
    assert_eq!(report.operations.len(), 3, "one class for each size");
    for class in &report.operations {
        let mut skews = skews[&class.bytes_min].clone();
        skews.sort_unstable();
        let found = class.skew_ns.expect("comparable");
        assert_eq!((found.min, found.max), (skews[0] as f64, skews[skews.len() - 1] as f64));
        assert_eq!(class.count, 800);
        let busbw = class.busbw.expect("bandwidths").median / class.algbw.expect("bandwidths").median;
        assert!(is_near(busbw, 2.0 * 7.0 / 8.0, 1e-12), "{busbw}");
        assert!(class.transfer_busbw.expect("bandwidths").median > class.busbw.expect("bandwidths").median);
    }
}

#[test]
fn a_late_rank_is_named_with_its_beginning() {
    let late_ns = 150_000;
    let job = Job { wrong: Disturbance::LateRank { rank: 5, from: 150, ns: late_ns }, ..Job::healthy(2) };
    let AnalyzedJob { ranks, report } = analyze(&job);
    assert!(report.verdict.line.starts_with("Rank 5 was late from "), "{}", report.verdict.line);
    assert!(report.verdict.line.chars().count() <= 110);
    let cause = &report.causes[0];
    assert_eq!((cause.kind, cause.rank, report.causes.len()), (CauseKind::LateRank, Some(5), 1));
    let since_ns = cause.since_ns.expect("half-way");
    let at = |sequence: usize| ranks[5][sequence].start_ns;
    assert!((at(148)..=at(156)).contains(&since_ns), "{since_ns} is not near {}", at(150));
    let change = report.ranks[5].change.expect("half-way");
    assert!(is_near(change.after - change.before, late_ns as f64, 0.05), "{change:?}");
    // Computed by hand: how long the others waited where rank 5 was last.
    let caused = collectives(&ranks).map(|operations| {
        let last_ns = operations.iter().map(|operation| operation.start_ns).max().unwrap();
        let is_last = operations[5].start_ns == last_ns;
        if is_last { operations.iter().map(|operation| last_ns - operation.start_ns).sum::<u64>() } else { 0 }
    });
    assert_eq!(report.ranks[5].caused_ns, caused.sum::<u64>());
    assert!(report.ranks[5].last >= 150);
    assert!(report.ranks[5].p_value < Some(1e-9));
}

/// What the program did is known from its ranges: the rank is late because it loads for longer, once or always.
#[test]
fn a_late_rank_is_in_the_range_where_it_lost_the_time() {
    for wrong in [
        Disturbance::LateRank { rank: 5, from: 0, ns: 150_000 },
        Disturbance::LateRank { rank: 5, from: 200, ns: 400_000 },
    ] {
        let report = analyze(&Job { wrong, has_ranges: true, ..Job::healthy(2) }).report;
        let cause = &report.causes[0];
        assert_eq!((cause.kind, cause.rank), (CauseKind::LateRank, Some(5)), "{wrong:?}");
        let phase = cause.phase.as_ref().unwrap_or_else(|| panic!("no range: {wrong:?} {}", cause.sentence));
        assert_eq!(phase.path, ["step #", "load"], "{wrong:?}");
        assert!(phase.share > 0.9, "{wrong:?} {phase:?}");
        assert!(
            report.verdict.line.ends_with(" of communication time lost, in `step # > load`"),
            "{}",
            report.verdict.line
        );
        let report = analyze(&Job { wrong, ..Job::healthy(2) }).report;
        assert!(report.causes[0].phase.is_none());
    }
}

/// With three pairs, none stands out as a pair, but one stands out on each channel.
#[test]
fn a_slow_pair_of_three_ranks_is_one_cause() {
    let wrong = Disturbance::SlowPair { from: 1, latency: 3.0, time: 3.0 };
    let report = analyze(&Job { ranks: 3, wrong, ..Job::healthy(8) }).report;
    let slow = report.causes.iter().filter(|cause| cause.link.is_some());
    let slow: Vec<_> = slow.map(|cause| (cause.kind, cause.link.and_then(|link| link.from))).collect();
    assert_eq!(slow, [(CauseKind::SlowPair, Some(1))], "{:#?}", report.causes);
}

#[test]
fn a_slow_pair_has_its_latency_and_rate() {
    let job = Job { wrong: Disturbance::SlowPair { from: 3, latency: 3.0, time: 2.0 }, ..Job::healthy(3) };
    let report = analyze(&job).report;
    let cause = &report.causes[0];
    let link = cause.link.expect("a link");
    assert_eq!((cause.kind, link.from, link.to), (CauseKind::SlowPair, Some(3), Some(4)), "{}", cause.sentence);
    assert_eq!(report.causes.len(), 1, "{:#?}", report.causes);
    assert!(report.verdict.line.starts_with("The link from rank 3 to 4 is slow: "), "{}", report.verdict.line);
    for pair in &report.pairs {
        let (latency, time) = if pair.key.from == Some(3) { (3.0, 2.0) } else { (1.0, 1.0) };
        // Noise is one-sided: minimum times are near the truth, all points lie a mean noise above it.
        let least = pair.least.expect("steps");
        assert!(is_near(least.latency_ns.expect("sizes"), LATENCY_NS * latency, 0.02), "{least:?}");
        assert!(is_near(least.rate.expect("sizes"), 1e9 / (BYTE_NS * time), 0.02), "{least:?}");
        let all = pair.all.expect("steps");
        assert!(is_near(all.latency_ns.expect("sizes"), LATENCY_NS * latency * (1.0 + job.noise), 0.05), "{all:?}");
        assert!(is_near(all.rate.expect("sizes"), 1e9 / (BYTE_NS * time * (1.0 + job.noise)), 0.05), "{all:?}");
        assert_eq!((all.points, least.points), (300 * 4 * 4, 3));
        assert!(all.r_squared.expect("sizes") > 0.9, "{all:?}");
        assert_eq!(pair.change, None, "{pair:?}");
    }
}

#[test]
fn a_channel_that_slows_down_is_named_with_its_beginning() {
    let job = Job { wrong: Disturbance::SlowChannel { channel: 2, from: 150, factor: 2.5 }, ..Job::healthy(5) };
    let AnalyzedJob { ranks, report } = analyze(&job);
    let cause = &report.causes[0];
    let link = cause.link.expect("a link");
    assert_eq!((cause.kind, link.channel), (CauseKind::SlowChannel, Some(2)), "{}", cause.sentence);
    assert_eq!(report.causes.len(), 1, "{:#?}", report.causes);
    let since_ns = cause.since_ns.expect("half-way");
    let at = |sequence: usize| ranks[0][sequence].start_ns;
    assert!((at(147)..=at(153)).contains(&since_ns), "{since_ns} is not near {}", at(150));
    let change = report.channels[2].change.expect("half-way");
    assert!(is_near(change.after / change.before, 2.5, 0.1), "{change:?}");
}

#[test]
fn clocks_do_not_matter_for_who_is_late_but_for_waiting() {
    let late = Disturbance::LateRank { rank: 5, from: 0, ns: 30_000 };
    let known = |error_ns| analyze(&Job { wrong: late, error_ns: Some(error_ns), ..Job::healthy(6) }).report;
    let report = known(Some(1_000));
    assert_eq!((report.causes.len(), report.causes[0].rank), (1, Some(5)));
    assert_eq!(report.clocks.uncertainty_ns, Some(2_000));
    // The error of two clocks exceeds the rank's lateness.
    let report = known(Some(60_000));
    assert_eq!((report.causes.len(), report.causes[0].rank), (1, Some(5)), "own times need no clocks");
    let other_host = &report.ranks[0].budget;
    assert!(other_host.unclear_ns > other_host.waiting_ns, "{other_host:?}");
    let report = known(None);
    assert_eq!((report.verdict.finding, report.causes[0].rank), (Finding::Causes, Some(5)));
    assert_eq!((report.budget.waiting_ns, report.run.comparable), (0, 0));
}

/// A rank that starts half a minute after the others delays the first collective, which is in no share.
#[test]
fn warm_up_hides_no_late_rank() {
    let job = Job { wrong: Disturbance::LateRank { rank: 5, from: 0, ns: 400_000 }, ..Job::healthy(2) };
    let truth = analyze(&job).report;
    let mut ranks = play(&job);
    let start_up_ns = 30_000_000_000;
    for (rank, operations) in ranks.iter_mut().enumerate() {
        for (number, operation) in operations.iter_mut().enumerate() {
            operation.start_ns += if number > 0 || rank == 2 { start_up_ns } else { 0 };
            operation.stop_ns += start_up_ns;
            operation.sends.iter_mut().flatten().for_each(|step| step.sent_ns += start_up_ns);
        }
    }
    let report = with_archive(&job, &ranks, |trace| analyse(trace, &Filter::default(), &()).expect("events").report);
    assert_eq!(report.verdict.line, truth.verdict.line);
    assert_eq!((report.ranks[3].budget, report.causes[0].lost_ns), (truth.ranks[3].budget, truth.causes[0].lost_ns));
    assert!(report.warm_up.waiting_ns > 7 * start_up_ns - 1_000_000_000);
}

/// One answer for few operations, however late a rank is; of some more, only what chance does not explain is said.
#[test]
fn of_few_operations_nothing_is_said() {
    let late = |ns| Job { wrong: Disturbance::LateRank { rank: 5, from: 0, ns }, ..Job::healthy(2) };
    let line = |rest: &str| format!("Cannot tell who is late: too few operations were recorded, at most {rest}");
    let few = |number: u32| match number {
        1 => line("1 on a rank"),
        _ => line(&format!("{} on a rank after warm-up", number - 1)),
    };
    for (number, ns) in [(1, 4_000_000), (2, 4_000_000), (3, 4_000_000), (4, 4_000_000), (5, 0), (8, 0)] {
        let report = analyze(&Job { instances: number, ..late(ns) }).report;
        assert_eq!((report.verdict.line, report.verdict.finding), (few(number), Finding::Unclear));
        assert!(report.causes.is_empty() && report.ranks.iter().all(|rank| rank.p_value.is_none()), "{number}");
    }
    for number in 7..12 {
        let report = analyze(&Job { instances: number, ..late(4_000_000) }).report;
        assert!(report.verdict.line.starts_with("Rank 5 is late: 9"), "{:?}", report.verdict);
        assert!(report.causes[0].share < Some(1.0), "{:?}", report.causes);
    }
    let to_ns = Some(play(&late(0))[0][3].start_ns);
    let report = analyze_filtered(&late(0), &Filter { to_ns, ..Filter::default() }).report;
    let line = &report.verdict.line;
    assert!(line.ends_with("too few operations are selected, at most 3 on a rank after warm-up"), "{line}");
}

/// Timers of some GPUs are too coarse for short operations.
#[test]
fn operations_without_length_are_no_fault() {
    let job = Job { wrong: Disturbance::LateRank { rank: 5, from: 0, ns: 400_000 }, ..Job::healthy(2) };
    let mut ranks = play(&job);
    ranks.iter_mut().for_each(|operations| operations[20].start_ns = operations[20].stop_ns);
    let report = with_archive(&job, &ranks, |trace| analyse(trace, &Filter::default(), &()).expect("events").report);
    assert_eq!((report.causes.len(), report.causes[0].rank), (1, Some(5)));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let report = analyze(&Job { timing: "enqueue", ..Job::healthy(7) }).report;
    assert_eq!(report.verdict.finding, Finding::Unclear);
    assert!(report.verdict.line.contains("only the enqueueing is known"), "{}", report.verdict.line);
    // A rank that was aborted half-way: only collectives it took part in can be compared.
    let report = analyze(&Job { last_rank_has: Some(200), ..Job::healthy(8) }).report;
    assert_eq!((report.run.instances, report.run.comparable), (300, 200));
    let report = analyze(&Job { instances: 0, ..Job::healthy(10) }).report;
    assert_eq!(report.verdict.finding, Finding::Nothing);
    assert_eq!(report.operations.len(), 0);
}

/// A rank of which operations are lost is not longer for what it did in these.
#[test]
fn a_rank_whose_operations_are_lost_is_not_late() {
    for every in [3, 20] {
        let job = Job::healthy(9);
        let mut ranks = play(&job);
        ranks[3].retain(|operation| operation.sequence % every != 1);
        let report =
            with_archive(&job, &ranks, |trace| analyse(trace, &Filter::default(), &()).expect("events").report);
        let sentence = &report.verdict.line;
        assert!(report.causes.is_empty(), "{sentence}");
        assert!(report.ranks[3].p_value.is_none_or(|p_value| p_value > 0.05), "{every}: {:?}", report.ranks[3]);
        let expected = if every == 3 { Finding::Unclear } else { Finding::Healthy };
        assert_eq!(report.verdict.finding, expected, "{sentence}");
    }
}

#[test]
fn times_in_which_recording_was_off_are_not_compared() {
    let job = Job { calls: Some(Delayed::Call), is_switched: true, ..Job::healthy(9) };
    let mut ranks = play(&job);
    for operations in &mut ranks {
        operations.retain(|operation| operation.sequence % 5 < 3);
    }
    let judge = |job: &Job| with_archive(job, &ranks, |trace| analyse(trace, &Filter::default(), &()).expect("events"));
    let verdict = judge(&job).report.verdict;
    assert_eq!(verdict.finding, Finding::Unclear, "{}", verdict.line);
    assert!(verdict.line.ends_with(" of the work between operations was not recorded"), "{}", verdict.line);
    let verdict = judge(&Job { is_switched: false, ..job }).report.verdict;
    assert_eq!(verdict.finding, Finding::Healthy, "{}", verdict.line);
}

#[test]
fn filters_leave_the_rest_out() {
    let job = Job::healthy(11);
    let middle_ns = analyze(&job).ranks[0][150].start_ns;
    let from = Filter { from_ns: Some(middle_ns), ..Filter::default() };
    let report = analyze_filtered(&job, &from).report;
    assert_eq!((report.run.instances, report.operations.iter().map(|class| class.count).sum::<u64>()), (150, 1200));
    let rank = Filter { ranks: vec![3], ..Filter::default() };
    assert_eq!(analyze_filtered(&job, &rank).report.operations.iter().map(|class| class.count).sum::<u64>(), 300);
    for (name, count) in [("allreduce", 300), ("ncclAllReduce", 300), ("Broadcast", 0)] {
        let function = Filter { functions: vec![name.to_owned()], ..Filter::default() };
        assert_eq!(analyze_filtered(&job, &function).report.run.instances, count, "{name}");
    }
}

#[test]
fn a_stall_is_found_with_its_reason_and_place() {
    let job = Job { wrong: Disturbance::LateOnce { rank: 2, at: 77, ns: 20_000_000 }, ..Job::healthy(12) };
    let AnalyzedJob { ranks, report } = analyze(&job);
    let anomaly = &report.anomalies[0];
    assert_eq!((anomaly.kind, anomaly.rank, anomaly.sequence), (CauseKind::LateRank, Some(2), Some(77)));
    let first_ns = ranks.iter().map(|operations| operations[77].start_ns).min().unwrap();
    assert_eq!((anomaly.start_ns, anomaly.end_ns), (first_ns, ranks[2][77].stop_ns));
    assert!(anomaly.lost_ns > 7 * 19_000_000 && anomaly.event.is_some(), "{anomaly:?}");
    let sentence = &report.verdict.line;
    assert_eq!(report.verdict.finding, Finding::Pauses, "{sentence}");
    assert!(sentence.ends_with("lost in 1 of 299 collectives, all waiting for rank 2"), "{sentence}");

    let wrong = Disturbance::SlowOnce { from: 6, channel: 1, at: 30, ns: 5_000_000 };
    let report = analyze(&Job { wrong, ..Job::healthy(13) }).report;
    let anomaly = &report.anomalies[0];
    let link = anomaly.link.expect("a link");
    assert_eq!((anomaly.kind, anomaly.sequence), (CauseKind::SlowConnection, Some(30)), "{}", anomaly.sentence);
    assert_eq!((link.from, link.to, link.channel), (Some(6), Some(7), Some(1)));
    let sentence = &report.verdict.line;
    assert!(sentence.starts_with("The link from rank 6 to 7 on channel 1 stalled in 1 collective: "), "{sentence}");
}

#[test]
fn overlap_and_exposed_communication_are_exact() {
    let AnalyzedJob { ranks, report } = analyze(&Job { has_kernels: true, ..Job::healthy(14) });
    for (found, operations) in report.overlap.expect("other kernels").iter().zip(&ranks) {
        let sum = |ns: fn(&Operation) -> u64| operations.iter().map(ns).sum::<u64>();
        assert_eq!(found.communication_ns, sum(|operation| operation.stop_ns - operation.start_ns));
        assert_eq!(found.computation_ns, sum(|operation| operation.computation().1 - operation.computation().0));
        assert_eq!(found.overlap_ns, sum(|operation| operation.computation().1 - operation.start_ns));
        assert_eq!(found.exposed_ns, found.communication_ns - found.overlap_ns);
    }
    assert!(analyze(&Job::healthy(14)).report.overlap.is_none(), "only where other kernels were recorded");
}
