//! Ranks and sizes that no communicator has: they are in the archive as NCCL stated them, and count for nothing.

use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// A communicator `c<number>` with a collective and a message, both with the same rank.
fn communicator(number: usize, rank: i32, ranks: i32, peer: i32) -> String {
    format!(
        "init c{number} id={id:#x} ranks={ranks} rank={rank}
         start g GroupApi
         start a CollApi parent=g func=Broadcast count=8 datatype=ncclInt8 root={rank}
         start b P2pApi parent=g func=Send count=8 datatype=ncclInt8
         stop a
         stop b
         stop g
         start co Coll ctx=c{number} parent=a rank={rank} func=Broadcast count=8 datatype=ncclInt8 root={rank}
         start o ProxyOp ctx=c{number} parent=co rank={rank} peer={peer} is_send=1
         start s ProxyStep ctx=c{number} parent=o rank={rank} step=0
         state s ProxyStepSendWait bytes=8
         stop s
         stop o
         stop co
         start p P2p ctx=c{number} parent=b rank={rank} peer={peer} func=Send count=8 datatype=ncclInt8
         stop p
         finalize c{number}\n",
        id = number + 1
    )
}

fn record(ranks: &[(i32, i32, i32)]) -> Scratch {
    let scratch = Scratch::new();
    let script: String =
        (0..).zip(ranks).map(|(number, &(rank, ranks, peer))| communicator(number, rank, ranks, peer)).collect();
    let _recorded = run(&mut scratch.script(&script)).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    scratch
}

#[test]
fn ranks_that_cannot_be_are_stated_and_count_for_nothing() {
    let ranks = [
        (0, 0, 0),
        (-1, 2, 1),
        (-1, -1, -1),
        (5, 2, 1),
        (0, i32::MAX, i32::MAX - 1),
        (i32::MAX, 2, 1),
        (i32::MAX - 1, i32::MAX, 0),
        (i32::MIN, i32::MIN, i32::MIN),
    ];
    let scratch = record(&ranks);
    let archive = scratch.sound_archive();
    let properties = archive.properties();
    assert_eq!(properties["NCCL::RANKS_IMPOSSIBLE"], "8");
    for (rank, ranks, _) in ranks {
        let stated = format!(": rank {rank} of {ranks}");
        let list = &properties["NCCL::RANKS_IMPOSSIBLE::LIST"];
        assert!(list.lines().any(|line| line.ends_with(&stated)), "{stated}: {list}");
    }
    assert!(!properties.contains_key("NCCL::RANKS_MISSING"), "{properties:#?}");
    let info = run(scratch.tool(&["info"]).arg(scratch.out())).with_code(0);
    assert!(info.stdout.contains("communicators with an impossible rank or size: 8"), "{info}");
    let stats = run(scratch.tool(&["stats"]).arg(scratch.out())).with_code(0);
    assert!(stats.stdout.contains("For 8 communicators, NCCL stated an impossible rank or size"), "{stats}");
}

/// A part of a large job: one location stands for the ranks that were not recorded, and a peer can be one of them.
#[test]
fn one_recorded_rank_of_very_many_keeps_its_number_and_its_operations() {
    let size = 100_000;
    for rank in [0, size - 1] {
        let scratch = record(&[(rank, size, size - 1)]);
        let archive = scratch.sound_archive();
        let properties = archive.properties();
        assert_eq!(properties["NCCL::RANKS_MISSING"], "99999", "rank {rank}");
        assert!(!properties.contains_key("NCCL::RANKS_UNLOCATED"), "{properties:#?}");
        let tool = |arguments: &[&str]| run(scratch.tool(arguments).arg(scratch.out())).with_code(0).stdout;
        let info = tool(&["info"]);
        assert!(info.contains("world (100000)  0x1  100 000         1            1         1"), "{info}");
        let stats: serde_json::Value = serde_json::from_str(&tool(&["stats", "--json"])).expect("JSON");
        assert_eq!(stats["run"]["operations"], 2, "rank {rank}");
        let check = tool(&["check"]);
        let others = if rank == 0 { "ranks 1-99999" } else { "ranks 0-99998" };
        assert!(check.contains(others) && check.len() < 10_000, "{check}");
    }
}

/// The largest communicator that is believed has a definition of megabytes.
#[test]
fn the_largest_communicator_has_all_its_ranks() {
    let most = nccl_events::MOST_RANKS.cast_signed();
    let scratch = record(&[(most - 1, most, 0)]);
    assert_eq!(scratch.sound_archive().properties()["NCCL::RANKS_MISSING"], "4194303");
}

/// Peers and roots that no rank has, in a communicator that is as it should be.
#[test]
fn peers_and_roots_that_cannot_be_are_no_ranks() {
    for other in [-1, 2, i32::MIN, i32::MAX] {
        let scratch = Scratch::new();
        let script = communicator(0, 0, 2, other).replace("root=0", &format!("root={other}"));
        let _recorded = run(&mut scratch.script(&script)).with_code(0);
        let _finalized = scratch.finalize().with_code(0);
        let properties = scratch.sound_archive().properties();
        assert_eq!(properties["NCCL::RANKS_MISSING"], "1");
        assert!(!properties.contains_key("NCCL::RANKS_IMPOSSIBLE"), "{properties:#?}");
    }
}
