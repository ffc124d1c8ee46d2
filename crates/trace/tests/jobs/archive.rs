//! Journals become parts, parts become an archive, and the archive says what happened: read back by our
//! reader and by otf2-print.

use std::collections::BTreeMap;
use std::path::Path;

use crate::job::{KEEP, contents, names, new_job, open, record_two_ranks, unified, write};
use crate::read::{events, print, text};
use journal::testing::{Process, Who};
use nccl_events::Kind;
use otf2::{Archive, AttributeValue, CollectiveOp, EventKind, GroupType, LocationGroupType, LocationRef};
use trace::{ANCHOR, FinalizeOptions, PartState, WriteOptions, finalize, write_part};

fn written(out: &Path) -> Archive {
    record_two_ranks(out).iter().for_each(|part| write(part));
    unified(out)
}

#[test]
fn two_parts_become_one_archive() {
    let out: &Path = &new_job();
    let archive = written(out);
    let definitions = archive.definitions().expect("definitions");
    let text = |string| text(&definitions, string).to_owned();

    let comms: Vec<_> = definitions.comms.values().collect();
    assert_eq!(comms.len(), 1);
    assert_eq!(text(comms[0].name), "0xabcdef0123456789");
    let group = &definitions.groups[&comms[0].group];
    assert_eq!(group.group_type, GroupType::CommGroup);
    let all =
        definitions.groups.values().find(|group| group.group_type == GroupType::CommLocations).expect("there is one");
    let members: Vec<String> = group
        .members
        .iter()
        .map(|&member| {
            let location = all.members[usize::try_from(member).expect("few")];
            text(definitions.locations[&LocationRef::new(location)].name)
        })
        .collect();
    assert_eq!(members, ["NCCL 0xabcdef0123456789 rank 0/2", "NCCL 0xabcdef0123456789 rank 1/2"]);

    // No CUDA ordinal is known: GPUs are called after ranks.
    let gpus: Vec<String> = definitions
        .location_groups
        .values()
        .filter(|group| group.group_type == LocationGroupType::Accelerator)
        .map(|group| text(group.name))
        .collect();
    let gpu = |rank: u32| format!("GPU of rank {rank} [host0:{}]", (1 << 30) + rank);
    assert_eq!(gpus, [gpu(0), gpu(1)]);
    let events = events(&archive);
    for &member in &all.members {
        let ends: Vec<_> = events[&LocationRef::new(member)]
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::MpiCollectiveEnd(collective) => Some(collective),
                _ => None,
            })
            .collect();
        assert_eq!(ends.len(), 3, "every collective on every rank");
        let begins = events[&LocationRef::new(member)].iter();
        assert_eq!(begins.filter(|event| event.kind == EventKind::MpiCollectiveBegin).count(), 3);
        for end in ends {
            assert_eq!(end.op, CollectiveOp::Allreduce);
            assert_eq!((end.bytes_sent, end.bytes_received), (8000, 8000));
            assert_eq!(end.root, None);
        }
    }
    let printed = print(out);
    if !printed.is_empty() {
        assert_eq!(printed.matches("MPI_COLLECTIVE_END").count(), 6);
        assert_eq!(printed.matches("MPI_ISEND ").count(), 2);
        assert_eq!(printed.matches("MPI_IRECV ").count(), 2);
    }
}

/// The clock of a GPU is stated with the locations that show its times, and with no others.
#[test]
fn locations_of_a_gpu_state_its_clock() {
    let out: &Path = &new_job();
    let archive = written(out);
    let definitions = archive.definitions().expect("definitions");
    let text = |string| text(&definitions, string).to_owned();
    let listed = archive.property("NCCL::GPU_CLOCK::LIST").expect("a list");
    let mut stated = 0;
    for location in definitions.locations.values() {
        let name = text(location.name);
        let properties: BTreeMap<String, AttributeValue> = location
            .properties
            .iter()
            .map(|(name, value)| (text(*name), *value))
            .filter(|(name, _)| name.starts_with("NCCL::GPU_CLOCK::"))
            .collect();
        if !name.starts_with("NCCL ") {
            assert_eq!(properties, BTreeMap::new(), "{name}");
            continue;
        }
        let number = |of: &str| match properties[&format!("NCCL::GPU_CLOCK::{of}")] {
            AttributeValue::U64(number) => i128::from(number),
            AttributeValue::I64(number) => i128::from(number),
            other => panic!("{of}: {other:?}"),
        };
        let AttributeValue::String(calibration) = properties["NCCL::GPU_CLOCK::CALIBRATION"] else {
            panic!("{name}: {properties:?}");
        };
        // Three operations on two channels: a launch, and two callbacks of each.
        let clock = format!(
            "{}, residual {} ns, drift {} ppb, bounds {} + {}",
            text(calibration),
            number("RESIDUAL_NS"),
            number("DRIFT_PPB"),
            number("BOUNDS_BELOW"),
            number("BOUNDS_ABOVE")
        );
        assert!(clock.starts_with("BOUNDED") && clock.ends_with("bounds 6 + 12"), "{clock}");
        assert_eq!(number("LINES"), 1);
        assert!(listed.contains(&clock), "no {clock} in {listed}");
        stated += 1;
    }
    // The communicator's location and two channels of each rank, and siblings.
    assert!(stated >= 6, "{stated}");
}

/// Two processes say that they are the same rank of the same communicator: a job that was started again into its own
/// directory, or ids that NCCL gave to several communicators. The records of the later one are in a communicator of
/// which it is a member, and the archive says that there was something.
#[test]
fn a_rank_that_was_claimed_before_has_a_communicator_of_its_own() {
    let out: &Path = &new_job();
    let mut parts = record_two_ranks(out);
    let again = Who { rank: 0, ranks: 2, in_environment: false };
    let mut process = Process::begin(out, again);
    process.all_reduce(0);
    parts.push(process.end());
    parts.iter().for_each(|part| write(part));
    let archive = unified(out);
    let definitions = archive.definitions().expect("definitions");
    let names: Vec<&str> =
        definitions.comms.values().map(|comm| definitions.string(comm.name).expect("defined")).collect();
    let part = parts[2].file_name().expect("a name").to_string_lossy();
    assert_eq!(names, ["0xabcdef0123456789", format!("{part} 0xabcdef0123456789").as_str()]);
    let archive = whole_plugin::archive::Archive::open(out);
    archive.sound();
    assert_eq!(archive.properties()["NCCL::RANKS_CLAIMED_TWICE"], "1");
}

#[test]
fn every_location_is_ordered_and_nested_on_the_wall_clock() {
    let out: &Path = &new_job();
    let clock = written(out).definitions().expect("definitions").clock.expect("a clock");
    let now = journal::clock::realtime_ns();
    assert!(now - clock.global_offset < 3_600_000_000_000, "it is wall clock time");
    whole_plugin::archive::Archive::open(out).sound();
}

#[test]
fn everything_seen_is_accounted_for() {
    let out: &Path = &new_job();
    let parts = record_two_ranks(out);
    let summary = write_part(&parts[0], &KEEP, &()).expect("written");
    let seen = |kind| summary.counts.kinds.get(kind).seen;
    assert_eq!(seen(Kind::Coll), 3);
    assert_eq!(seen(Kind::ProxyOp), 6);
    assert_eq!(seen(Kind::KernelCh), 6);
    assert_eq!(seen(Kind::ProxyStep), 3);
    assert_eq!(seen(Kind::P2p), 2);
    for (kind, counts) in summary.counts.kinds.iter() {
        assert!(counts.adds_up(), "{kind:?} {counts:?}");
        assert_eq!(counts.written, counts.seen, "{kind:?}");
        assert_eq!((counts.unfinished, counts.lost), (0, 0), "{kind:?}");
    }
    assert!(summary.problems.is_empty(), "{:?}", summary.problems);
    write_part(&parts[1], &KEEP, &()).expect("written");
    let archive = unified(out);
    let property = |name: &str| archive.property(name);
    assert_eq!(property("NCCL::COUNT::COLL::SEEN"), Some("6"));
    assert_eq!(property("NCCL::COUNT::PROXYSTEP::WRITTEN"), Some("6"));
    assert_eq!(property("NCCL::VERSION"), Some("2.30.7"));
    assert_eq!(property("NCCL::RANKS_MISSING"), None);
    assert_eq!(property("NCCL::COLLECTIVES_UNMATCHED"), None);
    assert_eq!(property("NCCL::GPU_CLOCK::BOUNDED::RANKS"), Some("2"));
    let clocks = property("NCCL::GPU_CLOCK::LIST").expect("two GPUs gave stamps");
    assert_eq!(clocks.lines().count(), 2, "{clocks}");
    for (rank, line) in clocks.lines().enumerate() {
        let rank = format!(" rank {rank}: BOUNDED, residual ");
        assert!(line.contains(&rank), "{clocks}");
    }
}

#[test]
fn writing_twice_gives_the_same_bytes() {
    let out: &Path = &new_job();
    let part = record_two_ranks(out).remove(0);
    write_part(&part, &KEEP, &()).expect("written");
    let first = contents(&part);
    write_part(&part, &WriteOptions::default(), &()).expect("written again");
    assert!(first == contents(&part), "the files differ");
    assert!(!part.join("journal").exists(), "the journal is removed");
    let left = names(&part);
    assert_eq!(left.len(), 5, "process.json, definitions, collectives, done, traces: {left:?}");
}

#[test]
fn a_deadline_leaves_the_part_as_it_was() {
    let out: &Path = &new_job();
    let part = record_two_ranks(out).remove(0);
    let options = WriteOptions { deadline: Some(std::time::Instant::now()), ..WriteOptions::default() };
    let error = write_part(&part, &options, &()).expect_err("no time");
    assert!(error.to_string().contains("nccl-otf2 finalize"), "{error}");
    let left = names(&part);
    assert_eq!(left.len(), 2, "process.json, journal: {left:?}");
}

#[test]
fn finalize_completes_what_is_there_and_then_changes_nothing() {
    let out: &Path = &new_job();
    let parts = record_two_ranks(out);
    write(&parts[0]);
    let archive = unified(out);
    assert_eq!(archive.property("NCCL::RANKS_MISSING"), Some("1"));
    print(out);

    let summary = finalize(out, &FinalizeOptions::default(), &()).expect("finalized");
    assert!(summary.complete);
    let states: Vec<&PartState> = summary.parts.iter().map(|part| &part.state).collect();
    assert!(matches!(states[..], [PartState::Done, PartState::Written(_)]));
    let size = summary.archive.expect("a new archive").size;
    assert_eq!((size.comms, size.ranks_missing, size.collectives_unmatched), (1, 0, 0));

    let anchor = std::fs::read(out.join(ANCHOR)).expect("readable");
    let again = finalize(out, &FinalizeOptions::default(), &()).expect("finalized");
    assert_eq!(again.archive, None);
    assert!(again.complete);
    assert!(anchor == std::fs::read(out.join(ANCHOR)).expect("readable"));
    let left = names(out);
    assert_eq!(left.len(), 4, "parts, traces, traces.def, traces.otf2: {left:?}");
}

#[test]
fn an_archive_that_lost_files_is_made_again() {
    let out: &Path = &new_job();
    record_two_ranks(out);
    let finalized = || finalize(out, &FinalizeOptions::default(), &()).expect("finalized");
    assert!(finalized().archive.is_some());
    assert!(finalized().archive.is_none());
    for lost in ["traces/0.evt", "traces/0.def", "traces.def", "traces", ANCHOR] {
        let path = out.join(lost);
        let removed = match path.is_dir() {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
        removed.expect("it was there");
        assert!(finalized().archive.is_some(), "{lost}");
        assert!(path.exists(), "{lost}");
        print(out);
    }
}

#[test]
fn a_killed_process_still_gives_its_part() {
    let out: &Path = &new_job();
    let who = Who { rank: 0, ranks: 2, in_environment: false };
    let mut process = Process::begin(out, who);
    process.all_reduce(0);
    let group = nccl_events::Body::GroupApi(nccl_events::event::GroupApi::default());
    let _hangs = process.main.start(&journal::testing::start(process.context, 0, 0, group));
    std::fs::remove_file(process.leave().join("process.json")).expect("it was there");
    let archive = finalize(out, &FinalizeOptions::default(), &()).expect("finalized").archive.expect("an archive");
    assert_eq!(archive.counts.kinds.get(Kind::GroupApi).unfinished, 1);
    assert_eq!(archive.size.ranks_missing, 1);
    let printed = print(out);
    if !printed.is_empty() {
        assert!(printed.contains("nccl.unfinished"), "the hanging call is marked");
    }
    let archive = open(out);
    let problems = archive.property("NCCL::PROBLEM_LIST").expect("it is said");
    assert!(problems.contains("process.json"), "{problems}");
}

#[test]
fn a_part_that_cannot_be_read_is_listed_and_the_others_written() {
    let out: &Path = &new_job();
    let parts = record_two_ranks(out);
    std::fs::remove_dir_all(parts[0].join("journal")).expect("it was there");
    std::fs::write(parts[0].join("journal"), b"not a directory").expect("writable");
    let summary = finalize(out, &FinalizeOptions::default(), &()).expect("finalized");
    assert!(!summary.complete);
    assert!(matches!(summary.parts[0].state, PartState::Failed(_)));
    assert!(matches!(summary.parts[1].state, PartState::Written(_)));
    print(out);
}

#[test]
fn what_was_written_of_a_running_process_is_written_again() {
    let out: &Path = &new_job();
    let who = Who { rank: 0, ranks: 1, in_environment: true };
    let mut process = Process::begin(out, who);
    process.all_reduce(0);
    let provisional = WriteOptions { provisional: true, ..WriteOptions::default() };
    let first = write_part(&process.part, &provisional, &()).expect("written while it runs");
    assert_eq!(first.counts.kinds.get(Kind::Coll).seen, 1);
    process.all_reduce(1);
    let _part = process.end();
    let summary = finalize(out, &FinalizeOptions::default(), &()).expect("finalized");
    let PartState::Written(part) = &summary.parts[0].state else {
        panic!("{:?}", summary.parts);
    };
    assert_eq!(part.counts.kinds.get(Kind::Coll).seen, 2);
}
