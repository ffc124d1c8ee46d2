//! `export --format scalasca`: what Scalasca's analyser demands of an archive, one by one, on a job with a straggler.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::process::Command;

use otf2::{
    Archive, CollectiveOp, Definitions, Event, EventKind, GroupType, LocationGroupType, LocationRef, LocationType,
    Paradigm, RegionRef,
};
use serde_json::Value;

use super::made_up::{Moment, SECOND, process_id};
use super::nccl::Nccl;
use super::support::{Scratch, text};

const MILLISECOND: Moment = 1_000_000;
/// How late rank 1 is in each of ten all-reduces.
const LATE: Moment = 5 * MILLISECOND;

/// Ten all-reduces 20 ms apart, each 2 ms long once all are there; rank 1 comes 5 ms late. Between them a message goes
/// from rank 0 to rank 1, and its answer.
fn straggler() -> Nccl {
    let begin = |number: Moment| SECOND + number * 20 * MILLISECOND;
    let calls = (0..10).map(|number| {
        let begin = begin(number);
        ([begin, begin + LATE, begin], begin + LATE + 2 * MILLISECOND)
    });
    let messages = (0..9).flat_map(|number| {
        let begin = begin(number) + 10 * MILLISECOND;
        [(0, 1, begin, begin + MILLISECOND), (1, 0, begin, begin + 2 * MILLISECOND)]
    });
    // All on one clock: what is late by 5 ms is late by 5 ms.
    Nccl { calls: calls.collect(), messages: messages.collect(), has_devices: true, one_clock: true, ..Nccl::new() }
}

struct Exported {
    scratch: Scratch,
    said: Value,
    code: Option<i32>,
}

impl Exported {
    fn of(nccl: &Nccl) -> Self {
        let scratch = Scratch::new();
        nccl.write(&scratch.join("trace"));
        let ended = scratch.ends(["export", "--format", "scalasca", "trace", "-o", "out", "--json"]);
        assert_eq!(ended.stderr, "");
        Self { said: ended.json(), code: ended.code, scratch }
    }

    fn archive(&self) -> Archive {
        let path = self.said["communicators"][0]["archive"].as_str().expect("an archive");
        assert_eq!(path, "out/0-world/traces.otf2");
        Archive::open(&self.scratch.join(path)).expect("an archive")
    }
}

fn events(archive: &Archive, definitions: &Definitions) -> BTreeMap<u64, Vec<Event>> {
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let mut events: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    archive
        .for_each_event(&locations, |location, event| {
            events.entry(location.get()).or_default().push(event);
            ControlFlow::Continue(())
        })
        .expect("events");
    events
}

/// The region by what Scalasca goes by.
fn canonical<'a>(definitions: &'a Definitions, region: &RegionRef) -> &'a str {
    let name = definitions.regions[region].canonical_name;
    definitions.string(name).expect("a name")
}

/// Enters and leaves of a rank, by canonical name: how often.
fn entered<'a>(definitions: &'a Definitions, events: &[Event]) -> BTreeMap<&'a str, usize> {
    let mut entered = BTreeMap::new();
    for event in events {
        if let EventKind::Enter(region) = &event.kind {
            *entered.entry(canonical(definitions, region)).or_insert(0) += 1;
        }
    }
    entered
}

#[test]
fn what_the_analyser_demands_of_definitions_is_met() {
    let exported = Exported::of(&straggler());
    assert_eq!(exported.code, Some(0), "{}", exported.said);
    let definitions = exported.archive().definitions().expect("definitions");

    // 1. Only threads: neither GPUs nor metrics.
    assert!(definitions.locations.values().all(|it| it.location_type == LocationType::CpuThread));
    assert!(definitions.metric_classes.is_empty());

    // 2. One process for each rank, its group's number is the rank, and there are no others.
    let groups = &definitions.location_groups;
    assert_eq!(groups.keys().map(|group| group.get()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(groups.values().all(|it| it.group_type == LocationGroupType::Process));
    // A process is on a "node" of a "machine".
    for group in groups.values() {
        let node = &definitions.system_tree_nodes[&group.system_tree_parent];
        let machine = &definitions.system_tree_nodes[&node.parent];
        let class = |name| definitions.string(name).expect("a class");
        assert_eq!((class(node.class_name), class(machine.class_name)), ("node", "machine"));
    }
    // Two hosts stay two, though their GPUs have one address; a rank says which process it is.
    let named = groups.values().map(|group| {
        let node = &definitions.system_tree_nodes[&group.system_tree_parent];
        [group.name, node.name].map(|name| definitions.string(name).expect("a name"))
    });
    let named: Vec<[&str; 2]> = named.collect();
    assert_eq!(named.iter().map(|[_, host]| *host).collect::<Vec<_>>(), ["alpha", "alpha", "beta"]);
    assert_eq!(named[0][0], format!("NCCL rank 0: rank 0 [alpha:{}]", process_id(0)));

    // 3. Everything is on the first location of its process, which has no other.
    let places: Vec<_> = definitions.locations.iter().map(|(id, it)| (id.get(), it.group.get())).collect();
    assert_eq!(places, [(0, 0), (1, 1), (2, 2)]);

    // 4. The list of communicating locations defines the ranks; there is one, before the communicator's group.
    let lists = definitions.groups.iter();
    let lists: Vec<_> = lists.map(|(id, it)| (id.get(), it.group_type, it.paradigm, it.members.clone())).collect();
    assert_eq!(
        lists,
        [
            (0, GroupType::CommLocations, Paradigm::Mpi, vec![0, 1, 2]),
            (1, GroupType::CommGroup, Paradigm::Mpi, vec![0, 1, 2]),
        ]
    );

    // 5. Regions are known by canonical name and file; people see NCCL's names.
    for region in definitions.regions.values() {
        let text = |name| definitions.string(name);
        let canonical = text(region.canonical_name).expect("a name");
        let is_mpi = canonical.starts_with("MPI_");
        assert_eq!(text(region.source_file) == Some("MPI"), is_mpi, "{canonical}");
        if canonical == "MPI_Allreduce" {
            assert_eq!(text(region.name), Some("ncclAllReduce"));
        }
    }
}

#[test]
fn what_the_analyser_demands_of_events_is_met() {
    let exported = Exported::of(&straggler());
    let archive = exported.archive();
    let definitions = archive.definitions().expect("definitions");
    let events = events(&archive, &definitions);
    for (rank, events) in &events {
        // 6. Every rank is initialised and finalised.
        let entered = entered(&definitions, events);
        assert_eq!((entered["MPI_Init"], entered["MPI_Finalize"]), (1, 1));
        // 7. Within one region around everything.
        let (first, last) = (events.first().expect("events"), events.last().expect("events"));
        assert!(matches!(&first.kind, EventKind::Enter(region) if canonical(&definitions, region) == "main"));
        assert!(matches!(&last.kind, EventKind::Leave(region) if canonical(&definitions, region) == "main"));
        let mut open = Vec::new();
        for event in events {
            match &event.kind {
                EventKind::Enter(region) => open.push(*region),
                EventKind::Leave(region) => assert_eq!(open.pop(), Some(*region), "rank {rank}"),
                _ => assert!(open.len() >= 2, "rank {rank}: {event:?} is in a call"),
            }
        }
        assert!(open.is_empty());
    }

    // 8. Every collective on every member, in one order; every message is sent and received.
    let collectives = |rank: u64| -> Vec<_> {
        let ends = events[&rank].iter().filter_map(|event| match event.kind {
            EventKind::MpiCollectiveEnd(it) => Some((it.op, it.root, it.comm)),
            _ => None,
        });
        ends.collect()
    };
    assert_eq!(collectives(0).len(), 10);
    assert!(collectives(0).iter().all(|(op, root, _)| (*op, *root) == (CollectiveOp::Allreduce, None)));
    assert_eq!(collectives(0), collectives(1));
    assert_eq!(collectives(0), collectives(2));
    assert_eq!(messages(&events), (18, 18));

    // 9. Complete, and nothing of it empty.
    assert_eq!(archive.property("OTF2::MPI_COMMUNICATION_COMPLETE"), Some("true"));
    let clock = definitions.clock.expect("a clock");
    let span = clock.global_offset..=clock.global_offset + clock.trace_length;
    for event in events.values().flatten() {
        // Times before the beginning would be huge: they are subtracted without a sign.
        assert!(span.contains(&event.time));
        if let EventKind::MpiCollectiveEnd(it) = event.kind {
            assert!(it.bytes_sent > 0 && it.bytes_received > 0);
        }
    }
}

/// Messages that are sent and received, by both ends; each request is completed.
fn messages(events: &BTreeMap<u64, Vec<Event>>) -> (usize, usize) {
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for (rank, events) in events {
        let mut requests = BTreeSet::new();
        for event in events {
            match event.kind {
                EventKind::MpiIsend { message, request } => {
                    sent.push((*rank, u64::from(message.peer)));
                    assert!(requests.insert(request), "made once");
                }
                EventKind::MpiIrecvRequest { request } => assert!(requests.insert(request)),
                EventKind::MpiIrecv { message, request } => {
                    received.push((u64::from(message.peer), *rank));
                    assert!(requests.remove(&request), "completed once");
                }
                EventKind::MpiIsendComplete { request } => assert!(requests.remove(&request)),
                _ => {}
            }
        }
        assert!(requests.is_empty(), "rank {rank}");
    }
    sent.sort_unstable();
    received.sort_unstable();
    assert_eq!(sent, received);
    (sent.len(), received.len())
}

/// What the analyser computes from it: how long ranks wait in collectives for the last one to enter.
#[test]
fn waiting_for_the_straggler_is_there() {
    let exported = Exported::of(&straggler());
    let archive = exported.archive();
    let definitions = archive.definitions().expect("definitions");
    let events = events(&archive, &definitions);
    let enters = |rank: u64| -> Vec<u64> {
        let mut last = 0;
        let mut enters = Vec::new();
        for event in &events[&rank] {
            match &event.kind {
                EventKind::Enter(_) => last = event.time,
                EventKind::MpiCollectiveEnd(_) => enters.push(last),
                _ => {}
            }
        }
        enters
    };
    let all = [enters(0), enters(1), enters(2)];
    let mut waited = [0; 3];
    for call in 0..10 {
        let last = all.iter().map(|enters| enters[call]).max().expect("ranks");
        for (waited, enters) in waited.iter_mut().zip(&all) {
            *waited += last - enters[call];
        }
    }
    // Two ranks wait 5 ms in each of ten: 0.1 s together, and none by the one who is late.
    assert_eq!(waited, [50_000_000, 0, 50_000_000]);
    // Sending takes 1 ms and receiving 2 ms: the receive has all its waiting.
    let mut waits: BTreeMap<&str, u64> = BTreeMap::new();
    for pair in events[&0].windows(2) {
        let EventKind::Enter(region) = &pair[0].kind else { continue };
        if canonical(&definitions, region) == "MPI_Wait" {
            let name = definitions.string(definitions.regions[region].name).expect("a name");
            *waits.entry(name).or_default() += pair[1].time - pair[0].time;
        }
    }
    // Events that share a time are some ns apart here.
    assert!(waits["ncclSend"] < 100 && waits["ncclRecv"].abs_diff(18_000_000) < 100, "{waits:?}");
}

#[test]
fn readers_take_it() {
    let exported = Exported::of(&straggler());
    let directory = exported.scratch.join("out/0-world");
    exported.scratch.ends(["check", "out/0-world"]).with_code(0);
    if let Ok(printed) = Command::new("otf2-print").arg("-Werror").arg("-A").arg(directory.join("traces.otf2")).output()
    {
        assert!(printed.status.success() && printed.stderr.is_empty(), "{}", text(&printed.stderr));
    }
}

#[test]
fn only_what_all_ranks_have_is_exported() {
    let exported = Exported::of(&Nccl { cut: 3, ..straggler() });
    assert_eq!(exported.code, Some(0), "{}", exported.said);
    let said = &exported.said["communicators"][0];
    assert_eq!(said["collectives"], 7);
    assert_eq!(said["collectives_left_out"], 6);
    // Those before the eighth collective of ranks 0 and 1: the seventh pair is the last.
    assert_eq!((&said["messages"], &said["messages_left_out"]), (&14.into(), &8.into()));
    let reason = "after collective 7, the last that is the same on all ranks";
    assert_eq!(said["left_out"], serde_json::json!([{ "collectives": 6, "messages": 8, "reason": reason }]));
    let archive = exported.archive();
    let definitions = archive.definitions().expect("definitions");
    assert_eq!(messages(&events(&archive, &definitions)), (14, 14));
}

#[test]
fn what_is_not_complete_is_left_out() {
    for (name, value, reason) in [
        ("NCCL::COUNT::COLL::LOST", "2", "2 callbacks were not recorded"),
        ("NCCL::FLIGHT::PROCESSES", "1", "only the end of the recording was kept"),
        ("NCCL::MEASUREMENT::LIST", "x", "recording was switched"),
        ("NCCL::PARTS_LEFT_OUT", "x", "parts were left out"),
        ("NCCL::COLLECTIVES", "none", "--collectives none"),
    ] {
        let exported = Exported::of(&Nccl { properties: vec![(name, value)], ..straggler() });
        assert_eq!(exported.code, Some(2), "{name}: {}", exported.said);
        let said = &exported.said["communicators"][0];
        assert_eq!(said["archive"], Value::Null);
        assert!(said["reason"].as_str().expect("a reason").contains(reason), "{said}");
        assert!(!exported.scratch.join("out").exists());
    }
}

#[test]
fn what_is_there_is_not_written_over() {
    let exported = Exported::of(&straggler());
    let again = |directory: &str, out: &str, said: &str| {
        exported.scratch.ends(["export", "--format", "scalasca", directory, "-o", out]).with_code(2).says(said);
    };
    again("trace", "out", "out exists already");
    again("out/0-world", "out2", "is not an archive of NCCL's");
    assert!(!exported.scratch.join("out2").exists());
}
