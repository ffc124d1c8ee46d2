//! Jobs of real NCCL that hang after the beginnings of their recordings were removed, a different amount for each rank:
//! `nccl-otf2 hang` finds by NCCL's numbers which of their calls are the same.

use serde_json::{Value, json};
use whole_plugin::machine::tested;

use crate::job::{Hanging, suspect};

/// The even ranks have recorded more, and so have lost another part of the common calls.
const RANKS: [&str; 4] = ["--procs", "2", "--threads", "2"];

/// Starts a job of four ranks that keeps a second, and of each thread a mebibyte, with more variables.
fn fly(version: &str, more: &[(&str, &str)], arguments: &[&str]) -> Option<Hanging> {
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
    let is_cut = |process: &Value| process["problems"].to_string().contains("from its beginning not kept");
    report["processes"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(is_cut))
}

/// In NCCL 2.23, which has no API events, collectives are known from below.
#[test]
fn a_rank_never_calls() {
    for (version, rounds) in tested([("2.23.4", 6000), ("2.32.3", 2500)], |case| case.0) {
        one_rank_never_calls(version, rounds);
    }
}

/// Rank 1 never calls the last all-reduce.
fn one_rank_never_calls(version: &str, iterations: u64) {
    let count = iterations.to_string();
    let arguments = ["--ops", "uneven,repeat,late", "--iterations", &count, "--count", "8", "--skip-last", "1"];
    // Through shared memory thousands of collectives take half the time.
    let Some(job) = fly(version, &[("NCCL_SHM_DISABLE", "0")], &arguments) else {
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
        let [last, first] = ["last_complete", "first_incomplete"].map(|one| &sequence[one]);
        assert_eq!((&last["sequence"], &first["sequence"]), (&json!(iterations + 63), &json!(iterations + 64)));
        let position = |one: &Value| one["position"].as_u64().expect("a number");
        assert_eq!(position(first), position(last) + 1, "{report:#}");
        assert!(position(first) < iterations, "{report:#}");
    };
    // What is kept is a second at least: a fast machine hangs before anything is removed.
    let all_wait = |report: &Value| suspect(report) == ("not-called", 1, 3) && is_cut(report);
    check(&job.until("0.5", all_wait));
    let text = job.look(&["--after", "0.5"]).with_code(1).stdout;
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("HANG: rank 1 has not called "), "{text}");
    let number = format!("ncclAllReduce (sequence {})", iterations + 64);
    assert!(first.contains(&number), "{text}");
    assert!(text.contains(" of those kept: ncclAllReduce"), "{text}");
    check(&job.kill().report("0.1"));
}
