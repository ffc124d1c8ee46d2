//! Jobs that do not come to their end: killed in the middle, hanging, half dead, ended without a word to NCCL. What
//! they recorded up to then is in the archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use whole_plugin::machine::{nccl_library, python};
use whole_plugin::process::{run, start};
use whole_plugin::scratch::Scratch;
use whole_plugin::{archive::Contents, built};

const NCCL: &str = "2.28.9";
const LIMIT: Duration = Duration::from_secs(60);

/// A job of NCCL's that logs to `log` in the scratch directory.
fn job(scratch: &Scratch, library: &Path, arguments: &[&str]) -> Command {
    let mut job = scratch.command(built::nccl_host());
    job.arg("--lib").arg(library);
    job.arg(format!("--fake-gpu={}", built::fake_gpu().display()));
    job.args(["--exact", "--log", "log"]).args(arguments);
    job.env("NCCL_PROFILER_PLUGIN", built::plugin());
    job
}

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
    let Some(library) = nccl_library(NCCL) else {
        return;
    };
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let arguments = ["--procs", "2", "--threads", "2", "--rounds", "0", "--ops", "one", "--kill-after", "0.7"];
    let ended = run(&mut job(&scratch, &library, &arguments)).with_code(3);
    assert!(!scratch.out().join("traces.otf2").exists(), "nobody lived to make an archive\n{ended}");

    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    let report = archive.check();
    assert_eq!((&report["faults"], &report["processes"]), (&0.into(), &2.into()), "{report}");
    archive.validate();
    let contents = archive.contents(&python);
    let logged = logged_calls(&scratch);
    assert_eq!(logged.len(), 4);
    // Not before the call: the last logged one may not have been made yet.
    let all: u64 = logged.values().sum();
    let calls = contents.calls["ncclAllReduce"];
    assert!(calls <= all && calls + 4 >= all, "{calls} calls of {all}");
    for (rank, records) in recorded_collectives(&contents) {
        let calls = logged[&rank];
        assert!(calls > 2, "killed too early to tell anything: {logged:?}");
        assert!(records <= calls && records + 2 > calls, "rank {rank}: {records} records of {calls} calls");
    }
    for kind in ["GROUPAPI", "COLLAPI", "COLL", "PROXYOP"] {
        assert_eq!(archive.count(&format!("{kind}::LOST")), 0, "{kind}");
    }
}

#[test]
fn a_job_that_hangs_in_its_last_operation() {
    let Some(library) = nccl_library(NCCL) else {
        return;
    };
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    // Rank 1 never calls the third all-reduce.
    let arguments =
        ["--procs", "2", "--threads", "1", "--rounds", "3", "--ops", "one", "--skip-last", "1", "--kill-after", "1"];
    let _killed = run(&mut job(&scratch, &library, &arguments)).with_code(3);

    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    archive.validate();
    let report = archive.check();
    assert_eq!(report["faults"], 0, "{report}");
    assert!(report["rules"]["A06"]["count"].as_u64() >= Some(1), "{report}");
    let contents = archive.contents(&python);
    let expected = BTreeMap::from([(0, 3), (1, 2)]);
    assert_eq!(logged_calls(&scratch), expected);
    assert_eq!(recorded_collectives(&contents), expected);
    // The collective itself and both ends of its ring, on rank 0.
    let unfinished: Vec<(&str, u64)> = contents.unfinished.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(unfinished, [("ncclAllReduce", 1), ("netRecv", 1), ("netSend", 1)]);
    assert_eq!(archive.count("PROXYOP::UNFINISHED"), 2);
    assert_eq!(archive.properties()["NCCL::COLLECTIVES_UNMATCHED"], "1");
}

/// Process ids of the parts, once there are two.
fn recording(out: &Path) -> Option<Vec<u64>> {
    let parts = std::fs::read_dir(out.join("parts")).ok()?;
    let pid = |part: PathBuf| -> Option<u64> {
        let info = std::fs::read(part.join("process.json")).ok()?;
        serde_json::from_slice::<Value>(&info).ok()?["pid"].as_u64()
    };
    let pids: Vec<u64> = parts.filter_map(|part| pid(part.ok()?.path())).collect();
    (pids.len() == 2).then_some(pids)
}

#[test]
fn one_process_killed_while_the_other_lives() {
    let Some(library) = nccl_library(NCCL) else {
        return;
    };
    let scratch = Scratch::new();
    let arguments = [
        "--procs",
        "2",
        "--threads",
        "1",
        "--rounds",
        "0",
        "--ops",
        "one",
        "--kill-after",
        "0.3",
        "--kill-rank",
        "1",
        "--timeout",
        "6",
    ];
    let running = start(&mut job(&scratch, &library, &arguments));
    let began = Instant::now();
    let alive = |pid: &u64| Path::new(&format!("/proc/{pid}")).exists();
    while recording(&scratch.out()).is_none_or(|pids| pids.iter().filter(|pid| alive(pid)).count() != 1) {
        assert!(began.elapsed() < Duration::from_secs(5), "the job does not do what this test is about");
        std::thread::sleep(Duration::from_millis(20));
    }

    let half = scratch.finalize().with_code(1);
    assert!(half.stdout.contains("still running, left alone"), "{half}");
    let report = scratch.archive().check();
    assert_eq!((&report["faults"], &report["processes"]), (&0.into(), &1.into()), "{report}");
    scratch.archive().validate();

    let _killed = running.wait(LIMIT).with_code(3);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    archive.validate();
    let report = archive.check();
    assert_eq!((&report["faults"], &report["processes"]), (&0.into(), &2.into()), "{report}");
    assert_eq!(archive.count("COLL::WRITTEN"), archive.count("COLL::SEEN"));
    let calls: u64 = logged_calls(&scratch).values().sum();
    let seen = archive.count("COLL::SEEN");
    assert!(seen <= calls && seen + 2 >= calls, "{seen} collectives of {calls} calls");
}

#[test]
fn an_exit_without_finalize_writes_the_archive() {
    let Some(library) = nccl_library(NCCL) else {
        return;
    };
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let arguments = ["--procs", "2", "--threads", "2", "--rounds", "2", "--ops", "allreduce", "--end", "exit"];
    let _exited = run(&mut job(&scratch, &library, &arguments)).with_code(0);

    let archive = scratch.archive();
    archive.validate();
    let report = archive.check();
    assert_eq!((&report["faults"], &report["processes"]), (&0.into(), &2.into()), "{report}");
    // A network thread may have been about to say that it was done when the process exited.
    assert_eq!(report["rules"]["C11"], Value::Null, "{report}");
    assert_eq!(recorded_collectives(&archive.contents(&python)), logged_calls(&scratch));
}
