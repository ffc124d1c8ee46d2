//! Real NCCL on emulated devices, with faults that the program makes.

use std::process::Command;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::tested;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// The report of `stats` on a job; `None` if this release of NCCL is not installed.
fn stats(release: &str, arguments: &str, has_plugins: bool) -> Option<Value> {
    let scratch = Scratch::new();
    let mut job = scratch.run_nccl(release, &[], &arguments.split(' ').collect::<Vec<_>>())?;
    if has_plugins {
        let mut plugins = Command::new("make");
        plugins.arg("-C").arg(built::root().join("tests/doubles/fake-gpu/nccl-plugins"));
        let _made = run(plugins.arg(format!("OUT={}", scratch.path().display()))).with_code(0);
        job.env("LD_LIBRARY_PATH", scratch.path()).env("NCCL_OTF2_EVENTS", "full");
    }
    let _ended = run(&mut job).with_code(0);
    let said = run(scratch.tool(&["stats", "--json"]).arg(scratch.out())).with_code(0).stdout;
    Some(serde_json::from_str(&said).expect("JSON"))
}

fn is_late(cause: &Value, rank: u64) -> bool {
    cause["kind"] == "late-rank" && cause["rank"] == rank && cause["is_stall"] == false
}

/// A machine that is busy with other things makes other ranks late, too: there what is slow has to be slower. Fails
/// unless the verdict is right for one of these numbers in the place of `N`.
fn is_right_for_one(arguments: &str, numbers: &[u64], has_plugins: bool, is_right: impl Fn(u64, &Value) -> bool) {
    let mut found = Vec::new();
    for number in numbers {
        let arguments = arguments.replace('N', &number.to_string());
        let Some(report) = stats("2.32.3", &arguments, has_plugins) else { return };
        if is_right(*number, &report) {
            return;
        }
        found.push((report["verdict"].clone(), report["causes"].clone()));
    }
    panic!("{found:#?}");
}

/// What the program makes others wait is the least; a busy machine wakes it later, and others come late as well.
fn is_near(lost_ns: &Value, truth_ns: u64) -> bool {
    (0.7..=1.5).contains(&(lost_ns.as_f64().unwrap_or_default() / truth_ns as f64))
}

fn late_last_rank(shape: &str, ranks: u64, rounds: u64) {
    is_right_for_one(shape, &[15, 150, 1500], false, |pause_ms, report| {
        // All the others wait for the last in every round but the first, which is warm-up.
        let truth_ns = (ranks - 1) * (rounds - 1) * pause_ms * 1_000_000;
        let (cause, lost_ns) = (&report["causes"][0], &report["causes"][0]["lost_ns"]);
        is_late(cause, ranks - 1) && is_near(lost_ns, truth_ns)
    });
}

#[test]
fn the_last_of_eight_ranks_sleeps_before_each_round() {
    late_last_rank("--procs 4 --threads 2 --ops pause,allreduce,alltoall --rounds 8 --pause N", 8, 8);
}

/// NCCL 2.29 and later report no operation of broadcasts, which may take any time.
#[test]
fn what_nccl_does_not_report_accuses_nobody() {
    let shape = "--procs 2 --threads 2 --ops pause,allreduce,broadcast --rounds 12 --pause N";
    is_right_for_one(shape, &[15, 150], false, |_, report| {
        let sentence = report["verdict"]["line"].as_str().expect("a sentence");
        report["causes"] == Value::Array(Vec::new())
            && sentence.starts_with("Cannot tell who is late: NCCL does not report ")
    });
}

/// The last rank sleeps before it calls, in `forward`. Up to 2.27 NCCL reports no calls, but NVTX does.
#[test]
fn the_calls_of_a_late_rank_are_named_with_their_range() {
    for release in tested(["2.32.3", "2.25.1"], |release| release) {
        let pauses = [30_u64, 200, 1000].into_iter();
        let reports = pauses.map(|pause_ms| {
            let shape = "--procs 4 --threads 1 --ranges --ops pause,one --rounds 15 --pause N";
            (pause_ms, stats(release, &shape.replace('N', &pause_ms.to_string()), false))
        });
        let mut said = Vec::new();
        let is_right = |(pause_ms, report): (u64, Option<Value>)| {
            let Some(report) = report else { return true };
            said.push(report["verdict"].clone());
            let (why, range) = (&report["causes"][0]["why"], serde_json::json!(["step #", "forward"]));
            let sentence = report["verdict"]["line"].as_str().expect("a sentence");
            let is_named = sentence.ends_with(", in `step # > forward`");
            // Of the path, the last rank's sleep: in every round but the first, whose operation is warm-up.
            let longest = &report["critical_path"]["parts"][0];
            let is_path = longest["kind"] == "computing" && longest["rank"] == 3 && longest["phase"]["path"] == range;
            let is_right = is_late(&report["causes"][0], 3) && why["reason"] == "call" && is_named && is_path;
            is_right
                && is_near(&why["later_ns"], pause_ms * 1_000_000)
                && is_near(&longest["ns"], 14 * pause_ms * 1_000_000)
        };
        assert!(reports.into_iter().any(is_right), "{release}: {said:#?}");
    }
}

/// Each round captures a graph and launches it three times: NCCL numbers the collectives of all graphs alike.
#[test]
fn the_last_rank_is_late_for_the_collectives_of_many_graphs() {
    let shape = "--procs 2 --threads 1 --ops pause,graph --rounds 15 --pause N";
    is_right_for_one(shape, &[30, 200, 1000], false, |_, report| {
        assert_eq!([&report["run"]["instances"], &report["run"]["comparable"]], [45, 45]);
        is_late(&report["causes"][0], 1)
    });
}

/// In a ring each rank waits for the one before, which waits itself.
#[test]
fn the_last_of_a_ring_sleeps_before_each_round() {
    let shape = "--procs 4 --threads 1 --ops pause,sendrecv --rounds 15 --pause N";
    is_right_for_one(shape, &[40, 400], false, |pause_ms, report| {
        let causes = report["causes"].as_array().expect("causes");
        let is_it = |cause: &Value| cause["kind"] == "late-rank" && cause["rank"] == 3;
        // Three others wait in each round but the first ones.
        causes.len() == 1 && is_it(&causes[0]) && is_near(&causes[0]["lost_ns"], 3 * 14 * pause_ms * 1_000_000)
    });
}

/// What rank 0 sends to rank 1 takes longer by this.
#[test]
fn a_slow_pair_is_found() {
    let shape = "--procs 4 --threads 1 --rounds 30 --count 50000 --ops one,sendrecv --slow-pair 0,1,N";
    is_right_for_one(shape, &[300, 2000], true, |_, report| {
        let is_it =
            |cause: &Value| cause["kind"] == "slow-pair" && cause["link"]["from"] == 0 && cause["link"]["to"] == 1;
        let on_path = |part: &Value| part["kind"] == "transfer" && part["link"]["from"] == 0 && part["link"]["to"] == 1;
        report["causes"].as_array().expect("causes").iter().any(is_it)
            && report["critical_path"]["parts"].as_array().expect("parts").iter().any(on_path)
    });
}

/// What rank 1 sends to rank 2 takes longer: rank 2 comes later to the next collective without having done more.
#[test]
fn a_rank_behind_a_slow_pair_is_not_late() {
    let shape = "--procs 4 --threads 1 --rounds 30 --ops one --slow-pair 1,2,N";
    is_right_for_one(shape, &[20_000, 100_000], true, |_, report| {
        // A busy machine may make it late as well, by less than that.
        let awaited_ns = report["ranks"][2]["awaited_ns"].as_u64().expect("a time");
        let lost_ns = |cause: &Value| cause["lost_ns"].as_u64().expect("a time");
        let mut late = report["causes"].as_array().expect("causes").iter().filter(|cause| is_late(cause, 2));
        awaited_ns > 100_000_000 && late.all(|cause| lost_ns(cause) < awaited_ns / 2)
    });
}

/// The time of a rank in operations is within the time of the job, however many operations share a kernel: with NCCL's
/// all-to-alls, and with those that are made of sends and receives.
#[test]
fn groups_count_once() {
    for release in tested(["2.32.3", "2.23.4"], |release| release) {
        let shape = "--procs 2 --threads 2 --ops allreduce,alltoall,sendrecv --rounds 6";
        let Some(report) = stats(release, shape, false) else { return };
        let duration_ns = report["run"]["duration_ns"].as_u64().expect("a time");
        let ranks = report["ranks"].as_array().expect("ranks").iter();
        let rank_times: Vec<u64> =
            ranks.map(|rank| rank["budget"]["operations_ns"].as_u64().expect("a time")).collect();
        assert_eq!(rank_times.len(), 4, "{report:#}");
        assert!(rank_times.iter().all(|ns| *ns > 0 && *ns <= duration_ns), "{rank_times:?} of {duration_ns}");
        let [all_ns, warm_up_ns] =
            ["budget", "warm_up"].map(|budget| report[budget]["operations_ns"].as_u64().expect("a time"));
        assert_eq!(all_ns, warm_up_ns + rank_times.iter().sum::<u64>());
    }
}
