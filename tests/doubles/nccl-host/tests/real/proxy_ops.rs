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

/// Proxy operations that the plugin saw of a rank.
fn seen(run: &Run, pid: u64, rank: usize) -> u64 {
    let path = run.dir().join(format!("probe.{pid}"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rank = format!(" rank={rank} ");
    text.lines().filter(|line| line.contains(" start ProxyOp#") && line.contains(&rank)).count() as u64
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
                22700..22800 if is_message && proxy_ops > 0 && !first_in_group.insert(of_group) => 0,
                _ => proxy_ops,
            }
        })
        .sum()
}

/// Operations of the first communicator, in which a rank has the number that it has in the run.
const OPS: &str = "allreduce,broadcast,reduce,allgather,reducescatter,sendrecv,alltoall,group,graph,bcasts";

fn run(release: &Release) -> Run {
    let options = ["--procs", "2", "--threads", "2", "--exact", "--count", "1000", "--ops"];
    let mut run = Run::new(release, &options);
    let further = if release.code < 22800 { "" } else { ",calls28" };
    run.args(&[&format!("{OPS}{further}")]);
    build_probe(run.dir());
    run.env("NCCL_PROFILER_PLUGIN", "libnccl-profiler-probe.so");
    // ProxyOp and its parents. With kernel channels some of the operations hang 2.29 and 2.30.
    run.env("PROBE_MASK", "8");
    let plugins = run.dir().to_path_buf();
    run.env("PROBE_OUT", plugins.join("probe"));
    run.env("LD_LIBRARY_PATH", plugins);
    let text = run.expect_status(0);
    assert!(text.contains(" 0 wrong"), "{text}");
    run
}

/// The newest of the releases that report alike.
fn one_of_each() -> Vec<Release> {
    let alike = |release: &Release| [22700, 22800, 22900].map(|from| release.code < from);
    let mut all = releases();
    all.reverse();
    all.dedup_by_key(|release| alike(release));
    all
}

#[test]
fn the_log_has_the_proxy_operations_of_each_rank() {
    for release in one_of_each() {
        let run = run(&release);
        for process in 0..2 {
            let log = run.log(process);
            let start = &log[0];
            assert_eq!(start["kind"], "start");
            assert_eq!(start["nccl_version"], release.name.as_str());
            let calls: Vec<&Value> = of_kind(&log, "call").collect();
            let asked = calls.iter().filter_map(|call| call["proxy_ops"].as_u64());
            let end = log.last().expect("a last line");
            assert_eq!((&end["kind"], &end["ok"]), (&"end".into(), &true.into()));
            assert_eq!(end["calls"].as_u64(), Some(calls.len() as u64));
            assert_eq!(end["proxy_ops"].as_u64(), Some(asked.sum()));
            let pid = start["pid"].as_u64().expect("a pid");
            for rank in [2 * process, 2 * process + 1] {
                let of_rank = calls.iter().copied().filter(|call| call["rank"] == rank);
                let expected = reported(&release, of_rank);
                assert!(expected > 0);
                assert_eq!(seen(&run, pid, rank), expected, "NCCL {}, rank {rank}", release.name);
            }
        }
    }
}
