//! The number of proxy operations in the log against those that a profiler plugin is told of.

use crate::rig::{Release, Run, compile, of_kind, releases};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Builds the plugin that writes down each callback.
fn build_probe(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fake-gpu/probe-plugin/probe.c");
    let plugin = dir.join("libnccl-profiler-probe.so");
    compile(&source, &plugin);
    plugin
}

/// Proxy operations that the plugin saw in a process, of one rank of the communicator or of all.
fn seen(run: &Run, pid: u64, rank: Option<usize>) -> u64 {
    let path = run.dir().join(format!("probe.{pid}"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let of_rank = |line: &&str| rank.is_none_or(|rank| line.contains(&format!(" rank={rank} ")));
    text.lines()
        .filter(|line| line.contains(" start ProxyOp#"))
        .filter(of_rank)
        .count() as u64
}

/// Proxy operations that the plugin is told of, of those that the calls cause.
///
/// Since 2.29: none of broadcasts. In 2.27: of the messages of a rank that go in one direction in one group, only
/// the first (they share a channel, and NCCL makes one operation with several parts of them).
fn reported<'a>(release: &Release, calls: impl Iterator<Item = &'a Value>) -> u64 {
    let mut first_in_group = HashSet::new();
    calls
        .map(|call| {
            let proxy_ops = call["proxy_ops"].as_u64().expect("--exact gives a number");
            let direction = call["op"].as_str().expect("the name of a function");
            let of_group = (call["rank"].as_u64(), call["group"].as_u64(), direction);
            let is_message = matches!(direction, "ncclSend" | "ncclRecv");
            match release.code {
                22900.. if direction == "ncclBroadcast" => 0,
                22700..22800 if is_message && proxy_ops > 0 && !first_in_group.insert(of_group) => {
                    0
                }
                _ => proxy_ops,
            }
        })
        .sum()
}

fn run(release: &Release, ops: &str) -> Run {
    let mut run = Run::new(
        release,
        &["--procs", "2", "--threads", "2", "--exact", "--ops", ops],
    );
    build_probe(run.dir());
    run.env("NCCL_PROFILER_PLUGIN", "libnccl-profiler-probe.so");
    let plugins = run.dir().to_path_buf();
    run.env("PROBE_OUT", plugins.join("probe"));
    run.env("LD_LIBRARY_PATH", plugins);
    let text = run.expect_status(0);
    assert!(text.contains(" 0 wrong"), "{text}");
    run
}

#[test]
fn all_operations_together() {
    for release in releases() {
        let run = run(&release, "all");
        for process in 0..2 {
            let log = run.log(process);
            assert_eq!(log[0]["kind"], "start");
            assert_eq!(log[0]["nccl_version"], release.name.as_str());
            let end = log.last().expect("a last line");
            assert_eq!((&end["kind"], &end["ok"]), (&"end".into(), &true.into()));
            let calls: Vec<&Value> = of_kind(&log, "call").collect();
            assert_eq!(end["calls"].as_u64(), Some(calls.len() as u64));
            let asked: u64 = calls
                .iter()
                .filter_map(|call| call["proxy_ops"].as_u64())
                .sum();
            assert_eq!(end["proxy_ops"].as_u64(), Some(asked));
            let expected = reported(&release, calls.iter().copied());
            let pid = log[0]["pid"].as_u64().expect("a pid");
            let seen = seen(&run, pid, None);
            assert_eq!(seen, expected, "NCCL {}, process {process}", release.name);
            println!(
                "NCCL {} process {process}: {asked} asked for, {seen} seen",
                release.name
            );
        }
    }
}

/// The chains of rooted operations: which rank has how many.
#[test]
fn rooted_operations_rank_by_rank() {
    for release in releases() {
        for ops in ["broadcast", "reduce", "calls28"] {
            if ops == "calls28" && release.code < 22800 {
                continue;
            }
            let run = run(&release, ops);
            for process in 0..2 {
                let log = run.log(process);
                let pid = log[0]["pid"].as_u64().expect("a pid");
                for rank in [2 * process, 2 * process + 1] {
                    let calls = of_kind(&log, "call").filter(|call| call["rank"] == rank);
                    let expected = reported(&release, calls);
                    let seen = seen(&run, pid, Some(rank));
                    assert_eq!(seen, expected, "NCCL {}, {ops}, rank {rank}", release.name);
                }
            }
        }
    }
}
