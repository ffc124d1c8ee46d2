//! `export --format scalasca`: checks each requirement of Scalasca's analyser on a job with a straggler.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use otf2::{
    Archive, CollectiveOp, Definitions, Event, EventKind, GroupType, LocationGroupType, LocationRef, LocationType,
    Paradigm, RegionRef,
};
use serde_json::Value;

use super::made_up::{Moment, SECOND};
use super::nccl::Nccl;
use super::support::Scratch;

const MILLISECOND: Moment = 1_000_000;
/// How late rank 1 is in each of ten all-reduces.
const LATE: Moment = 5 * MILLISECOND;

/// Ten all-reduces 20 ms apart, each lasting 2 ms once all ranks are there; rank 1 comes 5 ms late. In between, rank 0
/// sends a message to rank 1, which answers.
fn straggler() -> Nccl {
    let begin = |number: Moment| SECOND + number * 20 * MILLISECOND;
    let calls = (0..10).map(begin).map(|begin| ([begin, begin + LATE, begin], begin + LATE + 2 * MILLISECOND));
    let messages = (0..9).flat_map(|number| {
        let begin = begin(number) + 10 * MILLISECOND;
        [(0, 1, begin, begin + MILLISECOND), (1, 0, begin, begin + 2 * MILLISECOND)]
    });
    // All on one clock, so a delay of 5 ms is measured as 5 ms.
    Nccl { calls: calls.collect(), messages: messages.collect(), has_devices: true, one_clock: true, ..Nccl::new() }
}

/// Exports the job; returns the tool's report and exit code.
fn export(nccl: &Nccl) -> (Scratch, Value, Option<i32>) {
    let scratch = Scratch::new();
    nccl.write(&scratch.join("trace"));
    let ended = scratch.ends(["export", "--format", "scalasca", "trace", "-o", "out", "--json"]);
    assert_eq!(ended.stderr, "");
    let said = ended.json()["communicators"][0].clone();
    (scratch, said, ended.code)
}

/// The exported archive of the job with a straggler.
fn exported() -> (Scratch, Archive) {
    let (scratch, said, code) = export(&straggler());
    assert_eq!((code, &said["archive"]), (Some(0), &"out/0-world/traces.otf2".into()), "{said}");
    scratch.ends(["check", "out/0-world"]).with_code(0);
    let archive = Archive::open(&scratch.join("out/0-world/traces.otf2")).expect("an archive");
    (scratch, archive)
}

/// The canonical name, by which Scalasca identifies regions.
fn canonical<'a>(definitions: &'a Definitions, region: &RegionRef) -> &'a str {
    definitions.string(definitions.regions[region].canonical_name).expect("a name")
}

#[test]
fn what_the_analyser_demands_of_definitions_is_met() {
    let (_scratch, archive) = exported();
    let definitions = archive.definitions().expect("definitions");
    let text = |name| definitions.string(name).expect("a text");

    // 1. Threads only: neither GPUs nor metrics.
    assert!(definitions.locations.values().all(|location| location.location_type == LocationType::CpuThread));
    assert!(definitions.metric_classes.is_empty());

    // 2. Exactly one process per rank; the number of its group is the rank. Each is on a "node" of a "machine". Two
    // hosts stay two, even if their GPUs have the same address.
    let processes = definitions.location_groups.iter().map(|(id, group)| {
        let node = &definitions.system_tree_nodes[&group.system_tree_parent];
        let machine = &definitions.system_tree_nodes[&node.parent];
        (id.get(), group.group_type, text(node.name), text(node.class_name), text(machine.class_name))
    });
    let process = |rank, host| (rank, LocationGroupType::Process, host, "node", "machine");
    let expected = [process(0, "alpha"), process(1, "alpha"), process(2, "beta")];
    assert_eq!(processes.collect::<Vec<_>>(), expected);

    // 3. All events are on the first and only location of their process.
    let places: Vec<_> = definitions.locations.iter().map(|(id, location)| (id.get(), location.group.get())).collect();
    assert_eq!(places, [(0, 0), (1, 1), (2, 2)]);

    // 4. The single list of communicating locations defines the ranks, and precedes the communicator's group.
    let lists =
        definitions.groups.iter().map(|(id, group)| (id.get(), group.group_type, group.paradigm, &group.members[..]));
    let list = |id, group_type| (id, group_type, Paradigm::Mpi, &[0, 1, 2][..]);
    assert_eq!(lists.collect::<Vec<_>>(), [list(0, GroupType::CommLocations), list(1, GroupType::CommGroup)]);

    // 5. Regions are identified by canonical name and file; people see NCCL's names.
    for (reference, region) in &definitions.regions {
        let canonical = canonical(&definitions, reference);
        assert_eq!(definitions.string(region.source_file) == Some("MPI"), canonical.starts_with("MPI_"), "{canonical}");
        assert!(canonical != "MPI_Allreduce" || text(region.name) == "ncclAllReduce");
    }
}

#[test]
fn what_the_analyser_demands_of_events_is_met() {
    let (_scratch, archive) = exported();
    let definitions = archive.definitions().expect("definitions");
    let mut events: [Vec<Event>; 3] = Default::default();
    let read = archive.for_each_event(&[0, 1, 2].map(LocationRef::new), |location, event| {
        events[usize::try_from(location.get()).expect("few")].push(event.clone());
        ControlFlow::Continue(())
    });
    read.expect("events");
    let clock = definitions.clock.expect("a clock");
    let span = clock.global_offset..=clock.global_offset + clock.trace_length;
    let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
    let mut collectives = Vec::new();
    for (rank, events) in (0_u32..).zip(&events) {
        let (mut open, mut entered, mut requests, mut rank_collectives) =
            (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
        for event in events {
            // 6. Times before the start would be huge: they are subtracted as unsigned numbers.
            assert!(span.contains(&event.time));
            match &event.kind {
                EventKind::Enter(region) => {
                    open.push((*region, event.time));
                    entered.push(canonical(&definitions, region));
                    continue;
                }
                EventKind::Leave(region) => {
                    assert_eq!(open.pop().map(|(open, _)| open), Some(*region), "rank {rank}");
                    continue;
                }
                EventKind::MpiIsend { message, request } => {
                    *sent.entry((rank, message.peer)).or_insert(0) += 1;
                    assert!(requests.insert(*request), "made once");
                }
                EventKind::MpiIrecvRequest { request } => assert!(requests.insert(*request)),
                EventKind::MpiIrecv { message, request } => {
                    *received.entry((message.peer, rank)).or_insert(0) += 1;
                    assert!(requests.remove(request), "completed once");
                }
                EventKind::MpiIsendComplete { request } => assert!(requests.remove(request)),
                EventKind::MpiCollectiveEnd(collective) => {
                    assert!(collective.bytes_sent > 0 && collective.bytes_received > 0);
                    rank_collectives
                        .push(((collective.op, collective.root, collective.comm), open.last().expect("a call").1));
                }
                _ => {}
            }
            assert!(open.len() >= 2, "rank {rank}: {event:?} is in a call");
        }
        // 7. Every rank is initialised and finalised, within one region around everything.
        let times = |name: &str| entered.iter().filter(|entered| **entered == name).count();
        assert_eq!((times("MPI_Init"), times("MPI_Finalize"), times("main"), entered[0]), (1, 1, 1, "main"));
        let last = events.last().map(|event| &event.kind);
        assert!(matches!(last, Some(EventKind::Leave(region)) if canonical(&definitions, region) == "main"));
        assert!(open.is_empty() && requests.is_empty(), "rank {rank}");
        collectives.push(rank_collectives);
    }
    // 8. Every collective is on every member, in the same order; every message is sent and received.
    assert_eq!((&sent, sent.values().sum()), (&received, 18));
    assert!(collectives.iter().all(|rank_collectives| rank_collectives.len() == 10));
    for ((rank_0, rank_1), rank_2) in collectives[0].iter().zip(&collectives[1]).zip(&collectives[2]) {
        let [(first, begin), (second, late), (third, other)] = [*rank_0, *rank_1, *rank_2];
        assert_eq!((first.0, first.1, first), (CollectiveOp::Allreduce, None, second));
        assert_eq!(first, third);
        // What the analyser computes: how long ranks wait in collectives for the last one to enter.
        assert_eq!((u128::from(late - begin), other), (LATE.unsigned_abs(), begin));
    }
    // 9. Complete.
    assert_eq!(archive.property("OTF2::MPI_COMMUNICATION_COMPLETE"), Some("true"));
    // Sending takes 1 ms and receiving 2 ms: the receive contains all the waiting.
    let mut waits: BTreeMap<&str, u64> = BTreeMap::new();
    for pair in events[0].windows(2) {
        if let EventKind::Enter(region) = &pair[0].kind
            && canonical(&definitions, region) == "MPI_Wait"
        {
            let name = definitions.string(definitions.regions[region].name).expect("a name");
            *waits.entry(name).or_default() += pair[1].time - pair[0].time;
        }
    }
    // Events that share a time are a few ns apart here.
    assert!(waits["ncclSend"] < 100 && waits["ncclRecv"].abs_diff(18_000_000) < 100, "{waits:?}");
}

#[test]
fn what_is_not_complete_is_left_out() {
    for (name, value, reason) in [
        ("NCCL::COUNT::COLL::LOST", "2", "2 callbacks were not recorded"),
        ("NCCL::FLIGHT::PROCESSES", "1", "only the end of the recording was kept"),
        ("NCCL::MEASUREMENT::LIST", "x", "recording was switched off or on"),
        ("NCCL::PARTS_LEFT_OUT", "x", "parts were left out"),
    ] {
        let (scratch, said, code) = export(&Nccl { properties: vec![(name, value)], ..straggler() });
        assert_eq!((code, &said["archive"]), (Some(2), &Value::Null), "{name}: {said}");
        assert!(said["reason"].as_str().expect("a reason").contains(reason), "{said}");
        assert!(!scratch.join("out").exists());
    }
}

#[test]
fn what_is_there_is_not_written_over() {
    let (scratch, _archive) = exported();
    let again = |directory: &str, out: &str, said: &str| {
        scratch.ends(["export", "--format", "scalasca", directory, "-o", out]).with_code(2).assert_prints(said);
    };
    again("trace", "out", "out exists already");
    again("out/0-world", "out2", "is not an archive of NCCL");
    assert!(!scratch.join("out2").exists());
}
