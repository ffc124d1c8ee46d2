//! `merge` of several Score-P traces, one per process.

use otf2::{EventKind, LocationRef};

use super::{checked, events, open, ours};
use crate::tool::made_up::{self, RANKS, SECOND, Timer};
use crate::tool::nccl::{NCCL, Nccl};
use crate::tool::score_p::{MPI, ScoreP};
use crate::tool::support::Scratch;

/// Like jobs of torchrun: every process has its own trace, on the clock of its host.
#[test]
fn traces_of_single_processes_become_one() {
    for (timer, most) in [(Timer::Counter, 12), (Timer::MonotonicRaw, 6), (Timer::Realtime, 3)] {
        let scratch = Scratch::new();
        Nccl::new().write(&scratch.join("nccl"));
        let single = |rank| ScoreP { only: Some(rank), ..ScoreP::new(timer) };
        // Not in the order of ranks.
        for rank in [1, 2, 0] {
            single(rank).write(&scratch.join(&format!("s{}", 9 - rank)));
        }
        scratch.ends(["merge", "nccl", "s7", "s8", "s9", "-o", "out"]).with_code(0);
        let merged = scratch.join("out");
        checked(&scratch, &merged);
        let archive = open(&merged);
        let definitions = archive.definitions().expect("definitions");
        let name_of = |name| definitions.string(name).expect("a name");
        let events = events(&archive);
        for rank in 0..RANKS {
            let master = &definitions.locations[&LocationRef::new(rank)];
            let process = &definitions.location_groups[&master.group];
            let node = &definitions.system_tree_nodes[&process.system_tree_parent];
            assert_eq!(name_of(process.name), format!("rank {rank}: Process"));
            let host = if rank == 2 { "beta.cluster.example" } else { "alpha.cluster.example" };
            assert_eq!(name_of(node.name), host);
            let gpu = &definitions.location_groups[&definitions.locations[&ours(rank)].group];
            assert_eq!(gpu.creator, master.group);
            let names = |location: LocationRef| -> Vec<(&str, u64)> {
                let enters = events[&location].iter().filter_map(|event| match &event.kind {
                    EventKind::Enter(region) => Some((name_of(definitions.regions[region].name), event.time)),
                    _ => None,
                });
                enters.collect()
            };
            let all = [names(LocationRef::new(rank)), names(ours(rank))].concat();
            let truth = [
                ("main", SECOND + i128::from(rank) * 1_000_000 + 1000),
                ("MPI_Allreduce", MPI[0].0),
                ("MPI_Allreduce", MPI[1].0),
                ("ncclAllReduce", NCCL.0),
            ];
            // Between hosts, NCCL's archive relates the clocks: by their wall clocks, which differ by 8 ms.
            let wrong = |at| match rank {
                2 => made_up::wall_clocks_differ(timer, at),
                _ => 0,
            };
            for ((name, at), (truth_name, truth)) in all.into_iter().zip(truth) {
                let expected = i128::from(single(0).time(truth)) + wrong(truth);
                assert_eq!(name, truth_name);
                let off = i128::from(at) - expected;
                assert!(off.abs() <= most, "{timer:?} rank {rank} {name}: off by {off}");
            }
        }
        // Definitions common to all traces appear once, except for lists of the processes' own members.
        let mains = definitions.regions.values().filter(|region| name_of(region.name) == "main").count();
        let ids = definitions.attributes.values().filter(|attribute| name_of(attribute.name) == "ProcessId").count();
        assert_eq!((mains, ids, definitions.system_tree_nodes.len()), (1, 1, 3));
    }
}

#[test]
fn several_traces_are_of_single_processes() {
    let scratch = Scratch::new();
    Nccl::new().write(&scratch.join("nccl"));
    ScoreP::new(Timer::Counter).write(&scratch.join("all"));
    let only = ScoreP { only: Some(0), ..ScoreP::new(Timer::Counter) };
    only.write(&scratch.join("one"));
    let refused = |words: &[&str], reason: &str| {
        scratch.ends([&["merge"], words].concat()).with_code(2).assert_prints(reason);
    };
    refused(&["all", "one", "nccl", "-o", "out"], "several Score-P traces can be merged only if each is of one");
    refused(&["one", "all", "-o", "out"], "none of these is an NCCL archive");
    refused(&["one", "nccl", "-o", "out"], "no Score-P process for");
    refused(&["one", "one", "nccl", "--map", "0=0", "-o", "out"], "several processes are rank 0");
}
