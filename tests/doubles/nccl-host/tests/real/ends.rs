//! How runs end, and what their log is worth then. One release will do.

use crate::rig::{Run, of_kind};
use std::path::Path;
use whole_plugin::machine::nccl_library;

const RELEASE: &str = "2.32.3";

#[test]
fn a_wrong_result_is_seen() {
    let Some(nccl) = nccl_library(RELEASE) else {
        return;
    };
    let mut run = Run::new(&nccl, &["--ops", "allreduce"]);
    run.env("FAKEGPU_FAULT", "1");
    let ended = run.ends_with(1);
    assert!(ended.stderr.contains("WRONG allreduce f32 sum"), "{ended}");
    assert_eq!(run.log(0).last().expect("a last line")["ok"], false);
}

#[test]
fn a_killed_run_leaves_whole_lines_and_no_end() {
    let Some(nccl) = nccl_library(RELEASE) else {
        return;
    };
    let options = ["--procs", "2", "--threads", "1", "--rounds", "0", "--ops", "allreduce", "--kill-after", "0.5"];
    let mut run = Run::new(&nccl, &options);
    let _killed = run.ends_with(3);
    for process in 0..2 {
        let log = run.log(process);
        assert!(of_kind(&log, "call").count() > 0);
        assert_eq!(of_kind(&log, "end").count(), 0);
    }
}

#[test]
fn a_missing_rank_makes_the_others_wait() {
    let Some(nccl) = nccl_library(RELEASE) else {
        return;
    };
    let options = ["--procs", "2", "--threads", "1", "--ops", "allreduce,reduce", "--skip-last", "1", "--timeout", "5"];
    let mut run = Run::new(&nccl, &options);
    let ended = run.ends_with(124);
    assert!(ended.stderr.contains("is not done after 5 s"), "{ended}");
    let (waiting, missing) = (run.log(0), run.log(1));
    let reduces = |log: &[serde_json::Value]| of_kind(log, "call").filter(|call| call["op"] == "ncclReduce").count();
    assert_eq!((reduces(&waiting), reduces(&missing)), (1, 0));
    assert_eq!(of_kind(&missing, "skipped").next().expect("a line that says so")["op"], "reduce");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let ended = Run::new(Path::new("/nonexistent/libnccl.so.2"), &[]).ends_with(2);
    assert!(ended.stderr.contains("--lib: cannot load /nonexistent/libnccl.so.2"), "{ended}");
}

/// Each of them brings calls on communicators of its own into the log, and results that were checked.
#[test]
fn several_communicators_blocking_and_not() {
    let Some(nccl) = nccl_library(RELEASE) else {
        return;
    };
    let jobs: [&[&str]; 4] = [
        &["--ops", "several"],
        &["--ops", "threads"],
        &["--ops", "several,split", "--nonblocking"],
        &["--ops", "one", "--end", "order"],
    ];
    for job in jobs {
        let mut run = Run::new(&nccl, &["--threads", "4", "--count", "1000"]);
        let ended = run.args(job).ends_with(0);
        assert!(ended.stdout.contains(" 0 wrong"), "{ended}");
        let log = run.log(0);
        for comm in ["world", "twin.0.0", "half.0.0", "half.0.1"] {
            let calls = of_kind(&log, "call").filter(|call| call["comm"] == comm);
            assert!(calls.count() > 0, "{job:?}: nothing on {comm}");
        }
        let checked = log.last().expect("a last line")["results_checked"].clone();
        assert!(checked.as_u64() >= Some(12), "{job:?}: {checked}");
    }
}
