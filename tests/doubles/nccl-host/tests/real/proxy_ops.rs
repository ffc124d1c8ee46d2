//! The number of proxy operations in the log against those that a profiler plugin is told of.

use crate::rig::{Run, of_kind};
use serde_json::Value;
use std::collections::HashSet;
use whole_plugin::built::profile_folder;
use whole_plugin::machine::nccl_library;

fn seen(run: &Run, pid: u64, rank: usize) -> u64 {
    let text = std::fs::read_to_string(run.file(&format!("echo.{pid}"))).expect("the plugin was called");
    // ncclProfileProxyOp is 8.
    let (start, rank) = (" start 0x8 ", format!(" rank={rank} "));
    text.lines().filter(|line| line.contains(start) && line.contains(&rank)).count() as u64
}

/// Proxy operations that the plugin is told of, of those that the calls cause.
///
/// Since 2.29: none of broadcasts. In 2.27: of the messages of a rank that go in one direction in one group, only
/// the first (they share a channel, and NCCL makes one operation with several parts of them).
fn reported<'a>(release: &str, calls: impl Iterator<Item = &'a Value>) -> u64 {
    let mut first_in_group = HashSet::new();
    calls
        .map(|call| {
            let proxy_ops = call["proxy_ops"].as_u64().expect("--exact gives a number");
            let direction = call["op"].as_str().expect("the name of a function");
            let of_group = (call["rank"].as_u64(), call["group"].as_u64(), direction);
            let is_message = matches!(direction, "ncclSend" | "ncclRecv");
            match release {
                "2.32.3" if direction == "ncclBroadcast" => 0,
                "2.27.7" if is_message && proxy_ops > 0 && !first_in_group.insert(of_group) => 0,
                _ => proxy_ops,
            }
        })
        .sum()
}

/// Operations of the first communicator, in which a rank has the number that it has in the run.
const OPS: &str = "allreduce,broadcast,reduce,allgather,reducescatter,sendrecv,alltoall,group,graph,bcasts";

#[test]
fn the_log_has_the_proxy_operations_of_each_rank() {
    // One of the releases that report alike.
    for (release, further) in [("2.26.5", ""), ("2.27.7", ""), ("2.28.9", ",calls28"), ("2.32.3", ",calls28")] {
        let Some(nccl) = nccl_library(release) else {
            return;
        };
        let options = ["--procs", "2", "--threads", "2", "--exact", "--count", "1000", "--ops"];
        let mut run = Run::new(&nccl, &options);
        run.args(&[&format!("{OPS}{further}")]);
        run.env("NCCL_PROFILER_PLUGIN", profile_folder().join("libnccl_profiler_echo.so"));
        // ProxyOp and its parents. With kernel channels some of the operations hang 2.29 and 2.30.
        run.env("ECHO_MASK", "8");
        run.env("ECHO_OUT", run.file("echo.%p"));
        let ended = run.ends_with(0);
        assert!(ended.stdout.contains(" 0 wrong"), "{ended}");
        for process in 0..2 {
            let log = run.log(process);
            let start = &log[0];
            assert_eq!((&start["kind"], &start["nccl_version"]), (&"start".into(), &release.into()));
            let calls: Vec<&Value> = of_kind(&log, "call").collect();
            let asked = calls.iter().filter_map(|call| call["proxy_ops"].as_u64());
            let end = log.last().expect("a last line");
            assert_eq!((&end["kind"], &end["ok"]), (&"end".into(), &true.into()));
            assert_eq!(end["calls"].as_u64(), Some(calls.len() as u64));
            assert_eq!(end["proxy_ops"].as_u64(), Some(asked.sum()));
            let pid = start["pid"].as_u64().expect("a pid");
            for rank in [2 * process, 2 * process + 1] {
                let of_rank = calls.iter().copied().filter(|call| call["rank"] == rank);
                let expected = reported(release, of_rank);
                assert!(expected > 0);
                assert_eq!(seen(&run, pid, rank), expected, "NCCL {release}, rank {rank}");
            }
        }
    }
}
