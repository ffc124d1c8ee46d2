//! What `nccl-otf2 hang` reports of jobs of real NCCL that hang: while they hang, and after everything was killed.

use std::process::Command;

use serde_json::{Value, json};
use whole_plugin::machine::tested;
use whole_plugin::process::run;

use crate::job::{Hanging, has_reason, suspect};

/// Starts a job that records these events.
fn start(release: &str, events: &str, arguments: &[&str]) -> Option<Hanging> {
    Hanging::start(release, &[("NCCL_OTF2_EVENTS", events)], arguments)
}

/// NCCL 2.23 has no API events, and no identity but the hash in its operations.
#[test]
fn a_rank_never_calls() {
    tested(["2.23.4", "2.32.3"], |release| release).for_each(one_rank_never_calls);
}

/// Rank 1 never calls the third all-reduce.
fn one_rank_never_calls(version: &str) {
    let arguments = ["--procs", "2", "--threads", "2", "--rounds", "3", "--ops", "one", "--skip-last", "1"];
    let Some(job) = start(version, "standard", &arguments) else {
        return;
    };
    let all_wait = |report: &Value| suspect(report) == ("not-called", 1, 3);
    let live = job.until("0.5", all_wait);
    let check = |report: &Value| {
        assert_eq!(suspect(report), ("not-called", 1, 3), "{report:#}");
        let comms = report["communicators"].as_array().expect("a list");
        assert_eq!(comms.len(), 1, "{report:#}");
        let sequence = &comms[0]["sequences"][0];
        let (last, first) = (&sequence["last_complete"], &sequence["first_incomplete"]);
        assert_eq!((&last["position"], &last["is_sure"]), (&2.into(), &true.into()), "{report:#}");
        let what = ["position", "function", "count", "sequence"].map(|field| first[field].clone());
        assert_eq!(what, [json!(3), json!("ncclAllReduce"), json!(100_000), json!(2)]);
        assert_eq!((&sequence["entered"], &sequence["not_entered"]), (&json!([0, 2, 3]), &json!([1])));
        assert!(sequence["mismatch"].is_null());
    };
    check(&live);
    assert_eq!(live["processes"][0]["process_state"], "running");
    let waited = |report: &Value| report["communicators"][0]["sequences"][0]["waited_ns"].as_u64();
    // Time passes while it hangs, by the host's clock.
    let later = job.until("0.5", |report| waited(report) >= waited(&live).map(|ns| ns + 1_000_000_000));
    check(&later);
    // Longer than anybody has waited: nothing hangs yet.
    let patient = job.until("3000", |report| report["verdict"]["kind"] == "waiting");
    assert_eq!(patient["verdict"]["found"], false);
    let text = job.look(&["--after", "0.5"]).with_code(1).stdout;
    let first = text.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("HANG: rank 1 has not called ncclAllReduce #3 of world (4); ranks 0, 2-3 wait for up to "),
        "{text}"
    );
    assert!(text.contains("py-spy dump --native --pid"), "{text}");

    let dead = job.kill();
    let report = dead.report("0.5");
    check(&report);
    assert_eq!(report["processes"][0]["process_state"], "gone");
    // The time of the dead stands still: their last record is that of their end, to a second. Each look reads the
    // clocks anew, and knows them by some nanoseconds otherwise.
    let [once, again] = [&report, &dead.report("0.5")].map(|report| waited(report).unwrap());
    assert!(once.abs_diff(again) < 1_000, "{once} ns, {again} ns");
    assert!(waited(&report) >= waited(&later).map(|ns| ns - 1_500_000_000), "{report:#}");
}

#[test]
fn what_the_proxy_waits_for_is_reported() {
    let arguments = ["--procs", "2", "--threads", "1", "--rounds", "2", "--ops", "one", "--skip-last", "1"];
    for version in tested(["2.28.9", "2.32.3"], |release| release) {
        let Some(job) = start(version, "standard,ProxyStep", &arguments) else {
            return;
        };
        let row_of = |report: &Value| {
            let ranks = report["communicators"][0]["sequences"][0]["ranks"].as_array()?;
            ranks.iter().find(|row| row["rank"] == 0).cloned()
        };
        let receives =
            |row: &Value| row["waits"].as_array()?.iter().find(|wait| wait["direction"] == "receive").cloned();
        // On a busy machine the proxy begins to wait long after the call.
        let waits_long = |report: &Value| {
            let wait = row_of(report).and_then(|row| receives(&row));
            has_reason("not-called")(report) && wait.is_some_and(|wait| wait["for_ns"].as_u64() >= Some(400_000_000))
        };
        let row = row_of(&job.until("0.5", waits_long)).expect("rank 0");
        assert_eq!(row["stage"], "running", "{row:#}");
        let wait = receives(&row).expect("a receive");
        assert_eq!((&wait["peer"], &wait["state"]), (&1.into(), &"RecvWait".into()), "{row:#}");
        assert_eq!((&wait["step"], &wait["channel"]), (&0.into(), &0.into()), "{row:#}");
        let _dead = job.kill();
    }
}

/// It is in the operation with the others, and does not wait for itself.
#[test]
fn a_stopped_process_waits_for_nobody() {
    let arguments = ["--procs", "2", "--threads", "2", "--rounds", "0", "--ops", "one", "--count", "4000000"];
    let Some(job) = start("2.32.3", "standard", &arguments) else {
        return;
    };
    let last = |report: &Value| report["communicators"][0]["sequences"][0]["last_complete"]["position"].as_u64();
    let begun = job.until("3000", |report| last(report) >= Some(2));
    let pid = begun["processes"][0]["pid"].as_u64().expect("a number").to_string();
    let _sent = run(Command::new("kill").args(["-STOP", &pid])).with_code(0);
    // Sockets do not take all that the other process has to send. The two ranks of the stopped process are never among
    // those that wait.
    let report = job.until("0.5", |report| has_reason("stopped")(report) && suspect(report).2 >= 1);
    assert!(suspect(&report).2 <= 2, "{report:#}");
    let top = job.top();
    let states = top["processes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|process| (process["pid"].to_string(), &process["state"]));
    let states: Vec<_> = states.filter(|(number, _)| *number == pid).map(|(_, state)| state).collect();
    assert_eq!(states, ["stopped"], "{top:#}");
    let _sent = run(Command::new("kill").args(["-CONT", &pid])).with_code(0);
    let _dead = job.kill();
}
