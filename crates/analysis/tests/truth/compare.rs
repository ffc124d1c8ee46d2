//! Pairs of runs whose difference is known.

use analysis::results::{Comparison, Difference, Finding, Outcome};
use analysis::{Filter, RunSamples, analyse, compare};
use whole_plugin::synthetic::{Disturbance, Job, Operation, SIZES, play};

use super::{collectives, is_near, with_archive};

fn observe(job: &Job, ranks: &[Vec<Operation>]) -> RunSamples {
    with_archive(job, ranks, |trace| {
        let filter = Filter::default();
        let analysis = analyse(trace, &filter, &()).expect("events");
        RunSamples::new(trace, &analysis.tables, &analysis.instances, &analysis.report, &filter)
    })
}

fn compared(a: &Job, b: &Job) -> Comparison {
    compare(&observe(a, &play(a)), &observe(b, &play(b)))
}

/// The median over the collectives of one size of the mean over ranks.
fn median(ranks: &[Vec<Operation>], bytes: u64, of: impl Fn(&Operation, u64) -> u64) -> f64 {
    let collectives_of_size = collectives(ranks).filter(|operations| operations[0].bytes == bytes);
    let mut means: Vec<f64> = collectives_of_size
        .map(|operations| {
            let last_ns = operations.iter().map(|operation| operation.start_ns).max().unwrap();
            operations.iter().map(|operation| of(operation, last_ns) as f64).sum::<f64>() / operations.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    (means[(means.len() - 1) / 2] + means[means.len() / 2]) / 2.0
}

/// Every step computes longer in B, which no operation shows.
#[test]
fn a_range_of_the_program_that_takes_longer_is_found() {
    let a = Job { has_ranges: true, ..Job::healthy(30) };
    let (ranks_a, mut ranks_b) = (play(&a), play(&Job { seed: 31, ..a.clone() }));
    for operations in &mut ranks_b {
        for (later_ns, operation) in (1..).map(|at| at * 50_000).zip(operations) {
            operation.start_ns += later_ns;
            operation.stop_ns += later_ns;
            operation.sends.iter_mut().flatten().for_each(|step| step.sent_ns += later_ns);
        }
    }
    let found = compare(&observe(&a, &ranks_a), &observe(&a, &ranks_b));
    assert_eq!(found.outcome, Outcome::NoDifference, "{}", found.sentence);
    let named: Vec<_> = found.ranges.iter().map(|change| (change.path.join(" "), change.median.outcome)).collect();
    assert!(named.contains(&("step # load".to_owned(), Outcome::Slower)), "{named:?}");
    let load =
        found.ranges.iter().find(|change| change.path.last().is_some_and(|name| name == "load")).expect("both have it");
    assert!((load.median.difference_ns - 50_000.0).abs() < 2_000.0, "{load:?}");
    let backward =
        found.ranges.iter().find(|change| change.path.last().is_some_and(|name| name == "backward")).expect("as well");
    assert_eq!(backward.median.outcome, Outcome::NoDifference, "{backward:?}");
    let said = found
        .basis
        .iter()
        .any(|line| line.starts_with("The range `step #") && line.contains(" changed: the median is "));
    assert!(said, "{:?}", found.basis);
}

#[test]
fn one_size_class_is_slower_by_a_known_share() {
    let a = Job { noise: 0.02, ..Job::healthy(20) };
    let b = Job { wrong: Disturbance::SlowSize { bytes: SIZES[1], factor: 1.1 }, seed: 21, ..a.clone() };
    let (ranks_a, ranks_b) = (play(&a), play(&b));
    let found = compare(&observe(&a, &ranks_a), &observe(&b, &ranks_b));
    assert_eq!((found.outcome, found.groups.len()), (Outcome::Slower, 3), "{}", found.sentence);
    let wanted = "B is slower in 1 of 3 groups: ncclAllReduce of 1 MiB on 8 ranks, +";
    assert!(found.sentence.starts_with(wanted) && found.sentence.ends_with(", in transfer."), "{}", found.sentence);
    let outcomes: Vec<Outcome> = found.groups.iter().map(|group| group.outcome).collect();
    assert_eq!(outcomes, [Outcome::Slower, Outcome::NoDifference, Outcome::NoDifference]);
    for group in &found.groups {
        let check = |difference: Option<Difference>, of: fn(&Operation, u64) -> u64| {
            let difference = difference.expect("a median");
            let truth = [&ranks_a, &ranks_b].map(|ranks| median(ranks, group.a.bytes_min, of));
            assert!(
                is_near(difference.a_ns, truth[0], 1e-9) && is_near(difference.b_ns, truth[1], 1e-9),
                "{difference:?} {truth:?}"
            );
            difference
        };
        check(group.median, |operation, _| operation.stop_ns - operation.start_ns);
        check(group.transfer, |operation, last_ns| operation.stop_ns - last_ns);
        assert_eq!(
            check(group.waiting, |operation, last_ns| last_ns - operation.start_ns).outcome,
            Outcome::NoDifference
        );
        let p99 = group.p99.expect("a quantile");
        assert_eq!((p99.interval_ns, p99.outcome), (None, Outcome::Unclear), "100 collectives have no interval of p99");
    }
    let slow = &found.groups[0];
    let transfer = slow.transfer.expect("a median");
    // 4 steps; the 100 ns between steps and the 1 µs before them do not change.
    let steps_ns = transfer.a_ns - 1_300.0;
    let [low, high] = transfer.interval_ns.expect("an interval");
    assert!((low..=high).contains(&(steps_ns * 0.1)), "{transfer:?}");
    assert!(is_near(slow.slower_by().expect("slower"), slow.median.unwrap().share.unwrap(), 1e-12));
    // In the other direction.
    assert_eq!(compare(&observe(&b, &ranks_b), &observe(&a, &ranks_a)).outcome, Outcome::Faster);
}

#[test]
fn nothing_is_claimed_of_equal_jobs() {
    let noisy = |seed| Job { channels: 1, jitter_ns: 20_000.0, noise: 0.3, ..Job::healthy(seed) };
    for seed in 0..10 {
        let found = compared(&noisy(200 + seed), &noisy(300 + seed));
        assert_eq!(found.outcome, Outcome::NoDifference, "seed {seed}: {}", found.sentence);
        assert!(found.runs.iter().all(|run| run.verdict.finding == Finding::Healthy), "seed {seed}: {:#?}", found.runs);
        let parts = found.groups.iter().flat_map(|group| [group.median, group.waiting, group.transfer]);
        assert!(
            parts.flatten().all(|difference| difference.outcome == Outcome::NoDifference),
            "seed {seed}: {:#?}",
            found.groups
        );
    }
}

#[test]
fn a_long_run_has_an_interval_of_p99() {
    let long = |seed| Job { ranks: 2, channels: 1, instances: 9_000, ..Job::healthy(seed) };
    let found = compared(&long(30), &Job { noise: 0.3, ..long(31) });
    let [p99, median] = [found.groups[0].p99, found.groups[0].median].map(|difference| difference.expect("a quantile"));
    assert_eq!((p99.outcome, median.outcome), (Outcome::Slower, Outcome::Slower));
    assert!(p99.share > median.share, "noise has a tail: {p99:?} {median:?}");
}

#[test]
fn what_does_not_compare_is_said() {
    let job = Job::healthy(40);
    let found = compared(&job, &Job { ranks: 4, ..Job::healthy(41) });
    assert_eq!((found.outcome, found.groups.len()), (Outcome::Unclear, 0));
    assert!(found.sentence.starts_with("No operations can be compared"), "{}", found.sentence);
    assert_eq!((found.only_a.len(), found.only_b.len()), (3, 3));
    assert_eq!((found.only_a[0].ranks, found.only_b[0].ranks), (8, 4));
    assert!(found.basis.iter().any(|line| line.ends_with("8 ranks.")), "{:#?}", found.basis);
    // Different clocks cannot be compared.
    assert_eq!(compared(&job, &Job { timing: "event", ..Job::healthy(41) }).groups.len(), 0);
    let found = compared(&Job { timing: "enqueue", ..job.clone() }, &Job { timing: "enqueue", ..Job::healthy(41) });
    assert!(found.sentence.contains("enqueue does not time the operation itself"), "{}", found.sentence);
    let found = compared(&Job { instances: 30, ..job.clone() }, &job);
    assert!(found.sentence.contains("50 operations are needed, A has 10 and B 100"), "{}", found.sentence);
    assert!(found.basis.iter().any(|line| line.contains("ran 10 times in A and 100 times in B")), "{:#?}", found.basis);
}

#[test]
fn waiting_is_not_claimed_below_the_clocks_error() {
    let outcome = |error_ns: u64| {
        let a = Job { error_ns: Some(Some(error_ns)), ..Job::healthy(50) };
        let late = Disturbance::LateRank { rank: 5, from: 0, ns: 30_000 };
        let found = compared(&a, &Job { wrong: late, seed: 51, ..a.clone() });
        assert_eq!((found.groups[0].a.hosts, found.outcome), (2, Outcome::Slower), "{}", found.sentence);
        found.groups.iter().map(|group| group.waiting.expect("a median").outcome).collect::<Vec<Outcome>>()
    };
    assert_eq!(outcome(1_000), [Outcome::Slower; 3]);
    assert_eq!(outcome(10_000), [Outcome::NoDifference; 3]);
}
