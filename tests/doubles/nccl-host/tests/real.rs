//! Runs real NCCL on the GPU stand-in: how runs end, and what their log is worth then. `cargo xtask test` fetches NCCL
//! and builds what the tests use. That the log has what NCCL did is held against archives by `cargo xtask matrix`.

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use whole_plugin::built;
use whole_plugin::machine::nccl_library;
use whole_plugin::process::{Ended, run};
use whole_plugin::scratch::Scratch;

struct Run {
    scratch: Scratch,
    command: Command,
}

impl Run {
    fn new(nccl: &Path, options: &[&str]) -> Run {
        let scratch = Scratch::new();
        let mut command = scratch.plain(built::nccl_host());
        command.arg(format!("--fake-gpu={}", built::fake_gpu().display())).arg("--lib").arg(nccl);
        command.args(["--log", "calls"]).args(options);
        Run { scratch, command }
    }

    fn ends_with(&mut self, code: i32) -> Ended {
        run(&mut self.command).with_code(code)
    }

    fn log(&self, process: usize) -> Vec<Value> {
        let path = self.scratch.path().join(format!("calls.{process}.jsonl"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(text.ends_with('\n'), "the last line of {} is not whole", path.display());
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
    }
}

fn of_kind<'a>(log: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |line| line["kind"] == kind)
}

const RELEASE: &str = "2.32.3";

#[test]
fn a_wrong_result_is_seen() {
    let Some(nccl) = nccl_library(RELEASE) else {
        return;
    };
    let mut run = Run::new(&nccl, &["--ops", "allreduce"]);
    run.command.env("FAKEGPU_FAULT", "1");
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
    let reduces = |log: &[Value]| of_kind(log, "call").filter(|call| call["op"] == "ncclReduce").count();
    assert_eq!((reduces(&waiting), reduces(&missing)), (1, 0));
    assert_eq!(of_kind(&missing, "skipped").next().expect("a line that says so")["op"], "reduce");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let ended = Run::new(Path::new("/nonexistent/libnccl.so.2"), &[]).ends_with(2);
    assert!(ended.stderr.contains("--lib: cannot load /nonexistent/libnccl.so.2"), "{ended}");
}
