//! Jobs of real NCCL that hang after they have recorded for so long that the beginnings are gone, of each rank another
//! amount: `nccl-otf2 hang` finds by NCCL's numbers which of their calls are the same.

use std::process::Command;

use serde_json::{Value, json};
use whole_plugin::process::run;

use crate::job::{Hanging, has_reason, suspect};

/// The even ranks have recorded more, and so have lost another part of the common calls.
const RANKS: [&str; 4] = ["--procs", "2", "--threads", "2"];

/// Starts a job of four ranks that keeps a second, and of each thread a mebibyte.
fn fly(version: &str, arguments: &[&str]) -> Option<Hanging> {
    fly_with(version, &[], arguments)
}

/// The same with more variables.
fn fly_with(version: &str, more: &[(&str, &str)], arguments: &[&str]) -> Option<Hanging> {
    let variables = [("NCCL_OTF2_MODE", "flight"), ("NCCL_OTF2_FLIGHT_SECONDS", "1")];
    Hanging::start(version, &[&variables, more].concat(), &[&RANKS, arguments].concat())
}

/// The communicator of all ranks.
fn world(report: &Value) -> &Value {
    let comms = report["communicators"].as_array().expect("a list");
    let world = comms.iter().find(|comm| comm["ranks"] == 4);
    world.unwrap_or_else(|| panic!("no world: {report:#}"))
}

/// Whether something is gone of both processes.
fn is_cut(report: &Value) -> bool {
    let processes = report["processes"].as_array();
    processes.is_some_and(|all| {
        all.len() == 2
            && all.iter().all(|process| {
                let problems = process["problems"].to_string();
                problems.contains("from its beginning not kept")
            })
    })
}

/// The number of the process that a rank of all is in.
fn host_of(report: &Value, rank: u64) -> String {
    let ranks = world(report)["sequences"][0]["ranks"].as_array();
    let mut rows = ranks.into_iter().flatten();
    let row = rows.find(|row| row["rank"] == rank).expect("recorded");
    let place = row["process"].as_str().expect("a place");
    place.rsplit(':').next().expect("a number").to_owned()
}

fn kill(process: &str) {
    let mut kill = Command::new("kill");
    let _sent = run(kill.args(["-9", process])).with_code(0);
}

/// Rank 1 never calls the last all-reduce.
fn a_rank_never_calls(version: &str, iterations: u64) {
    let count = iterations.to_string();
    let arguments = ["--ops", "uneven,repeat,late", "--iterations", &count, "--count", "8", "--skip-last", "1"];
    // Through shared memory thousands of collectives take half the time.
    let Some(job) = fly_with(version, &[("NCCL_SHM_DISABLE", "0")], &arguments) else {
        return;
    };
    let check = |report: &Value| {
        assert!(is_cut(report), "{report:#}");
        assert_eq!(suspect(report), ("not-called", 1, 3), "{report:#}");
        let sequence = &world(report)["sequences"][0];
        assert_eq!(sequence["from_beginning"], false, "{report:#}");
        assert_eq!(sequence["entered"], json!([0, 2, 3]), "{report:#}");
        assert_eq!(sequence["not_entered"], json!([1]), "{report:#}");
        assert_eq!(sequence["position_unknown"], json!([]), "{report:#}");
        // `repeat` makes a batch of 64 before it counts.
        let first = &sequence["first_incomplete"];
        assert_eq!(first["sequence"], iterations + 64, "{report:#}");
        let last = &sequence["last_complete"];
        assert_eq!(last["sequence"], iterations + 63, "{report:#}");
        let position = |one: &Value| one["position"].as_u64().expect("a number");
        assert_eq!(position(first), position(last) + 1, "{report:#}");
        assert!(position(first) < iterations, "{report:#}");
    };
    // What is kept is a second at least: a fast machine hangs before anything is removed.
    let all_wait = |report: &Value| suspect(report) == ("not-called", 1, 3) && is_cut(report);
    check(&job.until("0.5", all_wait));
    let text = job.look(&["--after", "0.5"]).with_code(1).stdout;
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("HANG: rank 1 ["), "{text}");
    let number = format!("ncclAllReduce (sequence {})", iterations + 64);
    assert!(first.contains(&number), "{text}");
    assert!(text.contains(" of those kept: ncclAllReduce"), "{text}");
    check(&job.kill().report("0.1"));
}

#[test]
fn a_rank_never_calls_2_32() {
    a_rank_never_calls("2.32.3", 2500);
}

/// No API events: collectives are known from below.
#[test]
fn a_rank_never_calls_2_23() {
    a_rank_never_calls("2.23.4", 6000);
}

#[test]
fn different_counts_are_the_cause() {
    let arguments = ["--ops", "uneven,repeat,mismatch", "--iterations", "2500", "--count", "200"];
    let Some(job) = fly("2.28.9", &arguments) else {
        return;
    };
    let check = |report: &Value| {
        assert!(is_cut(report), "{report:#}");
        assert_eq!(suspect(report).0, "mismatch", "{report:#}");
        assert_eq!(suspect(report).1, 3, "{report:#}");
        let calls = &world(report)["sequences"][0]["mismatch"]["calls"];
        assert_eq!(calls[0]["ranks"], json!([0, 1, 2]), "{report:#}");
        assert_eq!(calls[0]["count"], 200, "{report:#}");
        assert_eq!(calls[1]["ranks"], json!([3]), "{report:#}");
        assert_eq!(calls[1]["count"], 8, "{report:#}");
    };
    let all_called = |report: &Value| {
        let calls = &report["communicators"];
        let calls = calls.as_array().into_iter().flatten();
        let mut found = calls.map(|comm| &comm["sequences"][0]["mismatch"]["calls"]);
        is_cut(report) && suspect(report).0 == "mismatch" && found.any(|calls| calls[0]["ranks"] == json!([0, 1, 2]))
    };
    check(&job.until("3000", all_called));
    check(&job.kill().report("3000"));
}

/// One process is killed when both have lost their beginnings; what the others wait in is known.
#[test]
fn a_rank_killed_in_the_middle_is_found() {
    let arguments = ["--ops", "uneven,repeat", "--iterations", "100000000", "--count", "8"];
    let Some(job) = fly("2.32.3", &arguments) else {
        return;
    };
    let cut = job.until("3000", is_cut);
    kill(&host_of(&cut, 3));
    let report = job.until("3000", has_reason("gone"));
    assert!(is_cut(&report), "{report:#}");
    assert!(matches!(suspect(&report).1, 2 | 3), "{report:#}");
    let sequence = &world(&report)["sequences"][0];
    assert_eq!(sequence["from_beginning"], false, "{report:#}");
    assert_eq!(sequence["position_unknown"], json!([]), "{report:#}");
    let first = &sequence["first_incomplete"];
    let number = first["sequence"].as_u64().expect("a number");
    let position = first["position"].as_u64().expect("a number");
    assert!(number > position, "{report:#}");
    let _dead = job.kill();
}

/// NCCL 2.30 tells of broadcasts the call and nothing else: no number, and no transfers.
#[test]
fn what_has_no_number_is_not_compared_and_that_is_said() {
    let arguments = ["--ops", "broadcast", "--rounds", "6000", "--count", "8", "--skip-last", "1"];
    let Some(job) = fly("2.30.7", &arguments) else {
        return;
    };
    let is_said = |report: &Value| {
        let unknown = report["unknown"].to_string();
        is_cut(report) && unknown.contains("came to with their collectives is not known")
    };
    let report = job.until("0", is_said);
    assert_eq!(report["suspects"], json!([]), "{report:#}");
    let sequence = &world(&report)["sequences"][0];
    assert_eq!(sequence["position_unknown"], json!([0, 1, 2, 3]), "{report:#}");
    assert_eq!(sequence["entered"], json!([]), "{report:#}");
    let _dead = job.kill();
}
