//! `nccl-otf2 export --format chakra`, read with Chakra's schema and held against the program's log.

use std::fs;

use serde_json::{Value, json};
use whole_plugin::built;
use whole_plugin::machine::{python_with, tested};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::{self, Job, play};

/// Records a job of four ranks, exports it; gives what Python counted, and what the tool said.
fn exported(release: &str, operations: &str, allgatherv: Option<&str>) -> Option<(Value, Value)> {
    let python = python_with("google.protobuf")?;
    let scratch = Scratch::new();
    let words = ["--procs", "2", "--threads", "2", "--rounds", "3", "--log", "calls", "--ops", operations];
    let mut job = scratch.run_nccl(release, &[], &words)?;
    job.envs(allgatherv.map(|value| ("NCCL_ALLGATHERV_ENABLE", value)));
    let _ran = run(&mut job).with_code(0);
    let mut tool = scratch.tool(&["export", "--format", "chakra", "out", "-o", "chakra", "--json"]);
    let said: Value = serde_json::from_str(&run(&mut tool).with_code(0).stdout).expect("JSON");
    if allgatherv.is_none() {
        return Some((Value::Null, said));
    }
    let mut reader = scratch.plain(python);
    reader.arg("-B").arg(built::root().join("tests/support/chakra.py")).args([
        "chakra",
        "calls.0.jsonl",
        "calls.1.jsonl",
    ]);
    Some((serde_json::from_str(&run(&mut reader).with_code(0).stdout).expect("JSON"), said))
}

#[test]
fn every_call_is_a_node_that_waits_for_those_before_it() {
    let operations = "allreduce,broadcast,reduce,allgather,reducescatter,sendrecv,alltoall,calls28,split";
    for release in tested(["2.28.9", "2.32.3"], |release| release) {
        let Some((counts, said)) = exported(release, operations, Some("0")) else { return };
        for kind in ["ALL_REDUCE", "BROADCAST", "REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL"] {
            assert!(counts[kind].as_u64() >= Some(12), "{release}: {kind} in {counts}");
        }
        assert!(counts["COMM_SEND"].as_u64() >= Some(12) && counts["COMP"].as_u64() > Some(0), "{release}: {counts}");
        assert_eq!(counts["COMM_SEND"], counts["COMM_RECV"], "{release}: {counts}");
        let left_out = said["left_out"].as_array().expect("a list");
        let is_expected = |entry: &Value| entry["reason"] == "messages of ranks to themselves";
        assert!(left_out.iter().all(is_expected), "{release}: {said}");
    }
}

/// Broadcasts that NCCL does not report are not lost in silence.
#[test]
fn calls_that_nccl_does_not_report_are_counted() {
    let Some((_, said)) = exported("2.32.3", "allreduce,broadcast", None) else { return };
    let left_out = said["left_out"].as_array().expect("a list");
    assert_eq!(left_out.len(), 1, "{said}");
    assert_eq!(left_out[0]["events"], json!(12), "{said}");
    assert!(left_out[0]["reason"].as_str().is_some_and(|reason| reason.contains("NCCL_ALLGATHERV_ENABLE=0")), "{said}");
}

/// Beside each operation runs a kernel that began before it and ended first: the next kernel waited for the operation.
#[test]
fn kernels_of_the_program_are_what_was_computed() {
    let Some(python) = python_with("google.protobuf") else { return };
    let scratch = Scratch::new();
    let job = Job { instances: 20, has_kernels: true, ..Job::healthy(1) };
    let ranks = play(&job);
    let _anchor = synthetic::write(&scratch.out(), &job, &ranks);
    let _exported = run(&mut scratch.tool(&["export", "--format", "chakra", "out", "-o", "chakra"])).with_code(0);
    let mut reader = scratch.plain(python);
    reader.arg("-B").arg(built::root().join("tests/support/chakra.py")).arg("chakra/trace.3.et");
    let found: Value = serde_json::from_str(&run(&mut reader).with_code(0).stdout).expect("JSON");
    let found = found.as_array().expect("a list");
    assert_eq!(found.len(), 3 * ranks[3].len());
    for ((nodes, original), id) in found.chunks(3).zip(&ranks[3]).zip((1_u64..).step_by(3)) {
        // The last nodes of the operation before: itself, and the kernel beside it.
        let [operation, kernel] = [2, 1].map(|before| id.saturating_sub(before));
        let is_first = id == 1;
        let wanted = [
            ("COMP", 150_000, if is_first { vec![] } else { vec![operation, kernel] }),
            ("COMM_COLL", original.stop_ns - original.start_ns, if is_first { vec![id] } else { vec![operation, id] }),
            ("COMP", (original.stop_ns - original.start_ns) / 2, vec![id]),
        ];
        for (node, (kind, ns, ids)) in nodes.iter().zip(wanted) {
            assert_eq!((&node[0], &node[2]), (&json!(kind), &json!(ids)), "{id}: {nodes:?}");
            let us = node[1].as_u64().expect("a number");
            assert!(us.abs_diff(ns / 1000) <= 1, "{id}: {ns} in {nodes:?}");
        }
    }
}

#[test]
fn a_rank_that_is_wanted_has_the_only_file() {
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(&whole_plugin::machine::two_process_streams())).with_code(0);
    let mut tool = scratch.tool(&["export", "--format", "chakra", "out", "-o", "chakra", "--rank", "1"]);
    let _exported = run(&mut tool).with_code(0);
    let groups = fs::read_to_string(scratch.path().join("chakra/comm_group.json")).expect("text");
    assert_eq!(serde_json::from_str::<Value>(&groups).expect("JSON"), json!({"1": [0, 1]}));
    assert!(scratch.path().join("chakra/trace.1.et").exists() && !scratch.path().join("chakra/trace.0.et").exists());
}
