//! Calls that make communicators, which one rank does not come to. Only NVTX shows them.

use whole_plugin::built;
use whole_plugin::machine::tested;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::job::{Hanging, has_reason, suspect};

/// NCCL ends the recording within the last `ncclCommDestroy`, whose end is therefore not recorded.
#[test]
fn nobody_waits_in_the_last_call_of_a_job_that_has_ended() {
    let scratch = Scratch::new();
    let Some(mut job) = scratch.nccl("2.32.3", &["--exact", "--procs", "2", "--threads", "1"]) else {
        return;
    };
    let kept = job.env("NVTX_INJECTION64_PATH", built::plugin()).env("NCCL_OTF2_KEEP_JOURNAL", "1");
    let _ended = run(kept).with_code(0);
    let said = run(scratch.tool(&["hang", "--after", "0"]).arg(scratch.out().join("parts"))).with_code(0).stdout;
    assert!(said.contains(" of 2 processes, which have all ended"), "{said}");
}

#[test]
fn a_rank_that_does_not_come_to_a_split_or_to_an_init_is_the_suspect() {
    let injection = built::plugin();
    let variables = [("NVTX_INJECTION64_PATH", injection.to_str().expect("a path"))];
    let operations: [(&str, &[&str]); 2] =
        [("ncclCommSplit", &["--ops", "one,split", "--skip-last", "1"]), ("ncclCommInitRank", &["--ops", "init"])];
    for version in tested(["2.23.4", "2.28.9", "2.32.3"], |release| release) {
        for (call, arguments) in operations {
            let arguments = [&["--procs", "2", "--threads", "1"], arguments].concat();
            let Some(job) = Hanging::start(version, &variables, &arguments) else {
                return;
            };
            let report = job.until("2", has_reason("not-called"));
            assert_eq!(suspect(&report), ("not-called", 1, 1), "{report:#}");
            let text = report["verdict"]["line"].as_str().expect("a text");
            assert!(text.starts_with(&format!("HANG: rank 1 has not called {call}; rank 0 waits for ")), "{text}");
            let calls: Vec<_> =
                report["ranks"].as_array().into_iter().flatten().map(|row| &row["call"]["name"]).collect();
            assert_eq!(calls, [&serde_json::json!(call), &serde_json::Value::Null], "{report:#}");
            let text = job.look(&["--after", "2"]).with_code(1).stdout;
            assert!(text.contains("where ranks are"), "{text}");
            let dead = job.kill().report("0");
            let text = dead["verdict"]["line"].as_str().expect("a text");
            assert!(text.starts_with(&format!("HANG: rank 1 had not called {call}; rank 0 waited for ")), "{text}");
        }
    }
}
