//! Slow links that were made, and links of which none is slow: what the verdict names.

use analysis::results::{Cause, CauseKind, Report};
use analysis::{Filter, Trace, analyse};
use otf2::Archive;
use whole_plugin::synthetic::{self, Disturbance, Job, LinkNoise, play};

fn report(job: &Job) -> Report {
    let directory = tempfile::tempdir().expect("a directory");
    let anchor = synthetic::write(&directory.path().join("job"), job, &play(job));
    let archive = Archive::open(&anchor).expect("an archive");
    let trace = Trace::read(anchor, archive).expect("definitions");
    analyse(&trace, &Filter::default(), &()).expect("events").report
}

/// A ring over hosts with one rank each.
fn ring(seed: u64, wrong: Disturbance) -> Job {
    Job { ranks: 8, channels: 2, instances: 60, hosts: 8, wrong, ..Job::healthy(seed) }
}

fn seeds() -> u64 {
    if std::env::var_os("NCCL_OTF2_TEST_ALL_SEEDS").is_some() { 100 } else { 4 }
}

fn links(report: &Report) -> Vec<&Cause> {
    report.causes.iter().filter(|cause| cause.kind != CauseKind::LateRank && !cause.is_stall).collect()
}

const NOISES: [(&str, LinkNoise); 7] = [
    ("little", LinkNoise::Nothing),
    ("lognormal", LinkNoise::LogNormal),
    ("heavy tails", LinkNoise::HeavyTails),
    ("links differ by 3 %", LinkNoise::Skewed),
    ("memory of 0.97", LinkNoise::Correlated),
    ("bursts", LinkNoise::Bursts),
    ("all slow at times", LinkNoise::Common),
];

#[test]
fn noise_accuses_no_link() {
    let seeds = seeds();
    let accused = |job: fn(u64, LinkNoise) -> Job, noise| {
        (0..seeds).filter(|seed| !links(&report(&job(*seed, noise))).is_empty()).count() as u64
    };
    let on_hosts = |seed, link_noise| Job { link_noise, ..ring(seed, Disturbance::Nothing) };
    let of_three = |seed, link_noise| Job { link_noise, ranks: 3, hosts: 3, ..ring(seed, Disturbance::Nothing) };
    let rows: Vec<_> = NOISES.map(|(name, noise)| (name, [accused(on_hosts, noise), accused(of_three, noise)])).into();
    if seeds == 100 {
        let head = "| noise of links | 8 hosts | 3 hosts |\n|---|---|---|\n".to_owned();
        let table = rows.iter().fold(head, |table, (name, [eight, three])| {
            table + &format!("| {name} | {eight} of {seeds} | {three} of {seeds} |\n")
        });
        whole_plugin::pages::compare("ANALYSIS.md", "noise of links", &table);
    }
    for (name, found) in rows {
        assert!(found.iter().all(|found| *found <= seeds / 100), "{name}: a link is named in {found:?} of {seeds}");
    }
}

/// A link that waits for a late sender or receiver is not slow.
#[test]
fn a_late_rank_is_no_slow_link() {
    for seed in 0..seeds() {
        let found = report(&ring(seed, Disturbance::LateRank { rank: 3, from: 0, ns: 300_000 }));
        assert!(links(&found).is_empty(), "{}", found.verdict.line);
        assert_eq!((found.causes.len(), found.causes[0].rank), (1, Some(3)), "{}", found.verdict.line);
    }
}

#[test]
fn a_slow_link_is_named_with_what_it_costs() {
    for seed in 0..seeds() {
        let slow = |time| Disturbance::SlowPair { from: 2, latency: time, time };
        let flaky = |share| Disturbance::FlakyPair { from: 2, share };
        for wrong in [slow(1.3), slow(1.5), slow(3.0), flaky(0.03), flaky(0.1)] {
            let job = Job { instances: 150, ..ring(seed, wrong) };
            let found = report(&job);
            let [cause] = links(&found)[..] else { panic!("{wrong:?} {:#?}", found.causes) };
            let link = cause.link.expect("a link");
            assert_eq!((link.from, link.to), (Some(2), Some(3)), "{wrong:?} {}", cause.sentence);
            if cause.kind == CauseKind::SlowConnection {
                // One of its two channels happened to have few slow steps.
                assert!(matches!(wrong, Disturbance::FlakyPair { share: ..0.05, .. }), "{wrong:?} {}", cause.sentence);
                continue;
            }
            // The truth: the same job without it.
            let time = |job: &Job| {
                let ranks = play(job);
                ranks.iter().flatten().map(|operation| operation.stop_ns - operation.start_ns).sum::<u64>() as f64
            };
            let truth = time(&job) - time(&Job { wrong: Disturbance::Nothing, ..job.clone() });
            let off = (cause.lost_ns as f64 - truth) / truth;
            assert!(off.abs() < 0.25, "{wrong:?}: {off:.2} of {truth}");
            let is_unsteady = matches!(wrong, Disturbance::FlakyPair { .. });
            let state = if is_unsteady { " is unsteady: " } else { " is slow: " };
            assert!(cause.sentence.starts_with(&format!("The link from rank 2 to 3{state}")), "{}", cause.sentence);
        }
    }
}

#[test]
fn the_interface_of_a_host_is_named_where_all_its_links_are_slow() {
    for seed in 0..seeds() {
        for (hosts, from) in [(3, 0), (4, 0), (5, 0), (8, 0), (8, 30), (8, 50)] {
            for per_host in [1, 2] {
                let wrong = Disturbance::SlowHost { host: 1, from, factor: 2.5 };
                let found = report(&Job { ranks: hosts * per_host, hosts, ..ring(seed, wrong) });
                let [cause] = links(&found)[..] else {
                    panic!("{hosts} hosts of {per_host} from {from} {:#?}", found.causes)
                };
                assert_eq!(cause.kind, CauseKind::SlowNic, "{hosts} hosts of {per_host}: {}", cause.sentence);
                assert!(cause.sentence.starts_with("The network interface of "), "{}", cause.sentence);
                assert_eq!(cause.host.as_deref(), Some("host1"), "{hosts} hosts of {per_host}: {}", cause.sentence);
            }
        }
    }
}

#[test]
fn links_between_racks_are_another_kind() {
    for seed in 0..seeds() {
        let found = report(&ring(seed, Disturbance::Racks { factor: 1.5 }));
        assert!(links(&found).is_empty(), "{}", found.verdict.line);
        let kind = found.verdict.basis.iter().find(|line| line.contains("a different kind of link"));
        assert!(kind.is_some_and(|line| line.starts_with("2 links")), "{:#?}", found.verdict.basis);
    }
}
