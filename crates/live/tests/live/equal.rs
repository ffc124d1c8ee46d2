//! With recorded streams and real NCCL, counts, bytes, pairs, waits and times equal those of `stats`.

use std::time::Duration;

use journal::host::{ProcessStatus, life_here};
use live::{Live, Options, Snapshot};
use whole_plugin::machine::{RELEASE, four_gpu_stream, tested, two_process_streams};
use whole_plugin::process::{LIMIT, start};
use whole_plugin::scratch::Scratch;

use crate::rig::{Totals, counters, followed, kept, options, stats, to_the_end};

#[test]
fn recorded_streams_are_summed_up_as_stats_does() {
    let streams = [Some(two_process_streams().to_vec()), four_gpu_stream().map(|stream| vec![stream])];
    for streams in streams.into_iter().flatten() {
        let scratch = Scratch::new();
        kept(scratch.replay(&streams));
        let by_stats = Totals::by_stats(&stats(&scratch));
        let totals = Totals::by_snapshot(&followed(&scratch.out()));
        assert!(!totals.operations.is_empty());
        totals.assert_equal(&by_stats, false);
    }
}

/// Four ranks in two processes, every operation once; timed by NCCL alone, and by CUDA events.
#[test]
fn real_nccl_is_summed_up_as_stats_does() {
    for (release, gpu) in
        tested([("2.23.4", "off"), ("2.28.9", "events"), ("2.32.3", "off"), ("2.32.3", "events")], |case| case.0)
    {
        let scratch = Scratch::new();
        let arguments = ["--procs", "2", "--threads", "2", "--exact"];
        let Some(mut job) = scratch.nccl(release, &arguments) else { return };
        job.env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_GPU", gpu);
        kept(job);
        let snapshot = followed(&scratch.out());
        let totals = Totals::by_snapshot(&snapshot);
        let finalized = scratch.finalize();
        assert!(finalized.status.success(), "{finalized}");
        let by_stats = Totals::by_stats(&stats(&scratch));
        totals.assert_equal(&by_stats, true);
        // `stats` also compares collectives that NCCL makes of sends and receives, and fits clocks better, because it
        // uses later readings, too.
        assert!(totals.compared > 0 && totals.compared <= by_stats.compared, "{totals:?} {by_stats:?}");
        assert!(totals.last > 0 && totals.last <= by_stats.last + 3, "{totals:?} {by_stats:?}");
    }
}

/// The last rank pauses before a reduction, in which only the root waits, a group, whose kernel runs three collectives,
/// and graphs. Of 2.27.7 no launch is known, so the GPU's timer has no bound below: nothing can be compared.
#[test]
fn waiting_for_a_late_rank_is_summed_up_as_stats_does() {
    for (release, operations, paused_ms) in
        [("2.32.3", "pause,reduce,group", 600), ("2.32.3", "pause,graph", 400), ("2.27.7", "pause,group", 0)]
    {
        // A busy machine makes kernels of two communicators overlap, and then a running job counts more than `stats`.
        let is_equal = (0..4).any(|_| {
            let Some([found, by_stats]) = caused_s(release, operations) else { return true };
            // On a busy machine the ranks that wait come late themselves, and wait for less than the pause.
            let is_expected = if paused_ms > 0 { found * 2e3 >= f64::from(paused_ms) } else { found <= 0.0 };
            assert!(is_expected && found >= 0.95 * by_stats, "{operations}: {found:?} {by_stats:?}");
            found <= 1.05 * by_stats
        });
        assert!(is_equal, "{operations}: more than `stats` in each of four jobs");
    }
}

/// How long ranks waited for late ones in a job, as it is summed up while it runs, and by `stats`.
fn caused_s(release: &str, operations: &str) -> Option<[f64; 2]> {
    let scratch = Scratch::new();
    let arguments = ["--procs", "2", "--threads", "2", "--rounds", "5", "--pause", "40", "--ops", operations];
    let mut job = scratch.nccl(release, &arguments)?;
    job.env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_GPU", "off");
    kept(job);
    let found = Totals::by_snapshot(&followed(&scratch.out()));
    assert!(scratch.finalize().status.success());
    Some([found, Totals::by_stats(&stats(&scratch))].map(|totals| totals.caused_s))
}

/// A job of some seconds is followed while it runs; a follower that starts halfway gets the same sums.
#[test]
fn a_running_job_is_summed_up_as_stats_does() {
    ["off", "events"].into_iter().for_each(follow_running);
}

fn follow_running(gpu: &str) {
    let scratch = Scratch::new();
    let arguments = ["--procs", "2", "--threads", "2", "--rounds", "3"];
    let Some(mut job) = scratch.nccl(RELEASE, &arguments) else { return };
    job.env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_GPU", gpu).env("NCCL_OTF2_KEEP_JOURNAL", "1");
    let mut lives = vec![Live::new(&scratch.out(), options())];
    let job = start(&mut job);
    let mut seen = 0;
    while life_here(job.id(), None) != ProcessStatus::Gone {
        let snapshot = lives[0].snapshot();
        let count: u64 = snapshot.operations.iter().map(|series| series.count).sum();
        assert!(count >= seen, "{count} after {seen}");
        seen = count;
        if lives.len() == 1 && count > 40 {
            lives.push(Live::new(&scratch.out(), Options { poll_bytes: 20_000, ..options() }));
        }
        for live in &mut lives {
            live.poll();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ended = job.wait(LIMIT).with_code(0);
    assert!(seen > 40, "{seen} operations were seen while it ran");
    let snapshots: Vec<Snapshot> = lives.iter_mut().map(to_the_end).collect();
    let [first, second] = snapshots.as_slice() else { panic!("it ended before a second one followed it") };
    // To the ns: Prometheus takes a falling sum for a restart.
    let (first, second) = (counters(first), counters(second));
    let differ: Vec<&String> = first.symmetric_difference(&second).collect();
    assert!(differ.is_empty(), "{gpu}: {differ:#?}");
    let totals: Vec<Totals> = snapshots.iter().map(Totals::from_snapshot).collect();
    let finalized = scratch.finalize();
    assert!(finalized.status.success(), "{finalized}");
    let by_stats = Totals::by_stats(&stats(&scratch));
    totals.iter().for_each(|totals| totals.assert_counts(&by_stats));
}

/// Each poll reads little, and a follower that starts halfway gets the same sums.
#[test]
fn small_polls_and_a_restart_change_nothing() {
    let scratch = Scratch::new();
    kept(scratch.replay(&two_process_streams()));
    let whole = Totals::by_snapshot(&followed(&scratch.out()));
    let little = Options { poll_bytes: 100, ..options() };
    let mut live = Live::new(&scratch.out(), little);
    for _ in 0..3 {
        live.poll();
    }
    for mut live in [live, Live::new(&scratch.out(), little)] {
        let totals = Totals::by_snapshot(&to_the_end(&mut live));
        totals.assert_equal(&whole, false);
    }
}

/// A new follower reads much of one process before the next one, and still compares their arrivals.
#[test]
fn arrivals_are_compared_though_processes_are_read_one_after_the_other() {
    let scratch = Scratch::new();
    let Some(mut job) = scratch.nccl("2.32.3", &["--procs", "2", "--threads", "2", "--exact"]) else { return };
    job.env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_GPU", "off");
    kept(job);
    let whole = Totals::by_snapshot(&followed(&scratch.out()));
    assert!(whole.compared > 0, "{whole:?}");
    let little = Options { poll_bytes: 100_000, ..options() };
    let totals = Totals::by_snapshot(&to_the_end(&mut Live::new(&scratch.out(), little)));
    assert_eq!((totals.compared, totals.last), (whole.compared, whole.last));
}
