//! A job that is killed in the middle: what it recorded so far is in the archive.

use std::collections::BTreeMap;

use serde_json::Value;
use whole_plugin::archive::Contents;
use whole_plugin::machine::{RELEASE, python};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// How many calls each rank logged: each line is written just before its call.
fn logged_calls(scratch: &Scratch) -> BTreeMap<u64, u64> {
    let mut calls = BTreeMap::new();
    for process in 0.. {
        let path = scratch.path().join(format!("log.{process}.jsonl"));
        let Ok(text) = std::fs::read_to_string(path) else {
            break;
        };
        let lines = text.lines();
        // The last line of a killed process can be torn.
        for line in lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if line["kind"] == "call" {
                *calls.entry(line["rank"].as_u64().expect("a rank")).or_default() += 1;
            }
        }
    }
    assert!(!calls.is_empty(), "the job logged nothing");
    calls
}

/// Collective records of each rank of the only communicator.
fn recorded_collectives(contents: &Contents) -> BTreeMap<u64, u64> {
    let [(comm, members)] = contents.comms.as_slice() else { panic!("one communicator: {:?}", contents.comms) };
    let records = &contents.collectives[&format!("ALLREDUCE {comm}")];
    let ranks = (0..).zip(members);
    ranks.map(|(rank, member)| (rank, records.get(member).copied().unwrap_or(0))).collect()
}

#[test]
fn all_processes_killed_in_the_middle() {
    // So late that a busy machine has come to some calls.
    let arguments = ["--procs", "2", "--threads", "2", "--rounds", "0", "--ops", "one", "--kill-after", "2"];
    let scratch = Scratch::new();
    let job = scratch.nccl(RELEASE, &[&["--exact", "--log", "log"], &arguments[..]].concat());
    let (Some(python), Some(mut job)) = (python(), job) else { return };
    let _ended = run(&mut job).with_code(3);
    assert!(!scratch.out().join("traces.otf2").exists(), "nobody lived to make an archive");

    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    assert_eq!(archive.sound()["processes"], 2);
    let contents = archive.contents(&python);
    let logged = logged_calls(&scratch);
    assert_eq!(logged.len(), 4);
    // Not before the call: the last logged one may not have been made yet.
    let all: u64 = logged.values().sum();
    let calls = contents.calls["ncclAllReduce"];
    assert!(calls <= all && calls + 4 >= all, "{calls} calls of {all}");
    for (rank, records) in recorded_collectives(&contents) {
        let calls = logged[&rank];
        assert!(calls > 2, "killed too early to show anything: {logged:?}");
        assert!(records <= calls && records + 2 > calls, "rank {rank}: {records} records of {calls} calls");
    }
    for kind in ["GROUPAPI", "COLLAPI", "COLL", "PROXYOP"] {
        assert_eq!(archive.count(&format!("{kind}::LOST")), 0, "{kind}");
    }
}
