//! Archives are written anew with other options, and metrics are read by others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::job::{KEEP, contents, new_job, open, record_two_ranks};
use crate::read::{events, print};
use journal::part::metrics::MetricSet;
use journal::part::options::{ArchiveOptions, ArchiveWishes, CollectiveRecords, CommLocations, Level};
use journal::part::process::ProcessInfo;
use nccl_events::Kind;
use otf2::{Archive, EventKind, LocationType, MetricValue};
use trace::{ANCHOR, FinalizeOptions, FinalizeSummary, PartState, WriteOptions, finalize, unify, write_part};

/// A sample: time and value, by name of the location and of the metric.
type Samples = BTreeMap<(String, String), Vec<(u64, u64)>>;

fn wanted(out: &Path, wishes: ArchiveWishes) -> FinalizeSummary {
    let options = FinalizeOptions { wishes, ..FinalizeOptions::default() };
    finalize(out, &options, &()).expect("finalized")
}

fn level(level: Level) -> ArchiveWishes {
    ArchiveWishes { level: Some(level), ..ArchiveWishes::default() }
}

/// Two parts, written with their own options, with their journals.
fn kept(out: &Path, options: [ArchiveOptions; 2]) -> Vec<PathBuf> {
    let parts = record_two_ranks(out);
    for (part, archive) in parts.iter().zip(options) {
        let archive = Some(archive);
        write_part(part, &WriteOptions { archive, ..KEEP }, &()).expect("written");
    }
    unify(out, &()).expect("unified");
    parts
}

fn written_now(summary: &FinalizeSummary) -> usize {
    summary.parts.iter().filter(|part| matches!(part.state, PartState::Written(_))).count()
}

fn locations(archive: &Archive) -> BTreeMap<String, LocationType> {
    let definitions = archive.definitions().expect("definitions");
    let locations = definitions.locations.values();
    locations
        .map(|location| {
            let name = definitions.string(location.name).expect("a name");
            (name.to_owned(), location.location_type)
        })
        .collect()
}

/// What metrics say, by their names in the definitions.
fn samples(archive: &Archive) -> Samples {
    let definitions = archive.definitions().expect("definitions");
    let text = |string| definitions.string(string).expect("defined").to_owned();
    let mut samples = Samples::new();
    for (location, events) in events(archive) {
        for event in events {
            let EventKind::Metric { metric, values } = event.kind else {
                continue;
            };
            let [MetricValue::U64(value)] = values[..] else {
                panic!("one unsigned value: {values:?}");
            };
            let member = definitions.metric_classes[&metric].members[0];
            let key = (text(definitions.locations[&location].name), text(definitions.metric_members[&member].name));
            samples.entry(key).or_default().push((event.time, value));
        }
    }
    samples
}

#[test]
fn an_archive_is_written_anew_while_journals_are_kept() {
    let out: &Path = &new_job();
    let parts = kept(out, [ArchiveOptions::default(); 2]);
    let before: Vec<_> = parts.iter().map(|part| contents(part)).collect();
    assert_eq!(open(out).property("NCCL::LEVEL"), Some("full"));

    let summary =
        wanted(out, ArchiveWishes { collectives: Some(CollectiveRecords::Nonblocking), ..level(Level::Light) });
    assert_eq!((written_now(&summary), summary.complete), (2, true));
    let counts = summary.archive.expect("a new archive").counts;
    let steps = counts.kinds.get(Kind::ProxyStep);
    assert_eq!((steps.seen, steps.written, steps.left_out), (6, 0, 6));
    let archive = open(out);
    for (name, value) in [
        ("NCCL::LEVEL", Some("light")),
        ("NCCL::METRICS", Some("none")),
        ("NCCL::COLLECTIVES", Some("nonblocking")),
        ("NCCL::COUNT::PROXYSTEP::LEFT_OUT", Some("6")),
        ("NCCL::PROBLEM_LIST", None),
    ] {
        assert_eq!(archive.property(name), value, "{name}");
    }
    assert!(!locations(&archive).keys().any(|name| name.starts_with("net") || name.contains(" ch0")));
    let printed = print(out);
    if !printed.is_empty() {
        assert_eq!(printed.matches("NON_BLOCKING_COLLECTIVE_COMPLETE").count(), 6);
        assert_eq!(printed.matches("MPI_COLLECTIVE_END").count(), 0);
    }

    let again = wanted(out, level(Level::Light));
    assert_eq!((written_now(&again), again.archive), (0, None));
    let back = wanted(out, ArchiveWishes { collectives: Some(CollectiveRecords::Blocking), ..level(Level::Full) });
    assert_eq!(written_now(&back), 2);
    let after: Vec<_> = parts.iter().map(|part| contents(part)).collect();
    assert!(before == after, "nothing of the detour stays");
    assert!(parts.iter().all(|part| part.join("journal").exists()));
}

#[test]
fn nothing_is_changed_where_one_journal_is_gone() {
    let out: &Path = &new_job();
    let parts = kept(out, [ArchiveOptions::default(); 2]);
    std::fs::remove_dir_all(parts[1].join("journal")).expect("removed");
    let everything = || {
        let anchor = std::fs::read(out.join(ANCHOR)).expect("there");
        (anchor, contents(&parts[0]), contents(&parts[1]))
    };
    let before = everything();
    let options = FinalizeOptions { wishes: level(Level::Light), ..FinalizeOptions::default() };
    let error = finalize(out, &options, &()).expect_err("refused").to_string();
    assert!(error.starts_with("1 of the parts"), "{error}");
    for way_out in ["NCCL_OTF2_KEEP_JOURNAL=1", "--keep-journal", "host0-"] {
        assert!(error.contains(way_out), "{error}");
    }
    assert!(before == everything(), "nothing is changed");
}

#[test]
fn rows_of_communicators_become_threads_without_journals() {
    let out: &Path = &new_job();
    let parts = record_two_ranks(out);
    // One rank is missing: its stub is like the others.
    std::fs::remove_dir_all(&parts[1]).expect("removed");
    finalize(out, &FinalizeOptions::default(), &()).expect("finalized");
    let traces = |part: &Path| {
        let files = contents(part);
        files[1..].to_vec()
    };
    let events_before = traces(&parts[0]);
    for (comm_locations, expected) in
        [(CommLocations::Cpu, LocationType::CpuThread), (CommLocations::Stream, LocationType::AcceleratorStream)]
    {
        let wishes = ArchiveWishes { comm_locations: Some(comm_locations), ..ArchiveWishes::default() };
        assert!(wanted(out, wishes).archive.is_some(), "there is a new archive");
        let locations = locations(&open(out));
        let ranks: Vec<LocationType> =
            locations.iter().filter(|(name, _)| name.contains(" rank ")).map(|(_, location)| *location).collect();
        assert_eq!(ranks, [expected; 2], "{locations:?}");
        let channels = locations.iter().find(|(name, _)| name.contains(" r0 ch0"));
        assert_eq!(channels.map(|(_, location)| *location), Some(LocationType::AcceleratorStream));
        print(out);
    }
    assert!(events_before == traces(&parts[0]));
}

#[test]
fn parts_that_are_written_otherwise_are_left_out_or_written_again() {
    let out: &Path = &new_job();
    let light = ArchiveOptions { level: Level::Light, ..ArchiveOptions::default() };
    let parts = kept(out, [light, ArchiveOptions::default()]);
    let left_out = || {
        let archive = open(out);
        archive.property("NCCL::PARTS_LEFT_OUT").map(str::to_owned)
    };
    let said = left_out().expect("it is said");
    let name = |part: &Path| part.file_name().expect("one").to_string_lossy().into_owned();
    assert!(said.starts_with(&name(&parts[1])) && said.contains("LEVEL full"), "{said}");
    let summary = wanted(out, ArchiveWishes::default());
    assert_eq!((written_now(&summary), summary.complete), (1, true));
    assert_eq!(left_out(), None);

    // Without its journal a part stays as it is.
    wanted(out, level(Level::Full));
    write_part(&parts[1], &WriteOptions { archive: Some(light), ..WriteOptions::default() }, &()).expect("written");
    std::fs::remove_dir_all(parts[0].join("journal")).expect("removed");
    let summary = wanted(out, ArchiveWishes::default());
    assert!(!summary.complete, "{:?}", summary.parts);
    let PartState::Failed(reason) = &summary.parts[1].state else {
        panic!("{:?}", summary.parts);
    };
    assert!(reason.contains("LEVEL light"), "{reason}");
    assert_eq!(open(out).property("NCCL::LEVEL"), Some("full"));
    assert_eq!(wanted(out, ArchiveWishes::default()).archive, None, "nothing is to do");
}

#[test]
fn what_a_part_is_written_with_is_told_by_others_then_by_the_process() {
    let out: &Path = &new_job();
    let parts = record_two_ranks(out);
    let path = parts[0].join("process.json");
    let json = std::fs::read(&path).expect("there");
    let mut process: ProcessInfo = serde_json::from_slice(&json).expect("it is ours");
    process.archive.level = Level::Standard;
    let json = serde_json::to_vec(&process).expect("plain data");
    std::fs::write(&path, json).expect("written");
    let options = WriteOptions::default();
    write_part(&parts[0], &options, &()).expect("written");
    let summary = wanted(out, ArchiveWishes::default());
    assert_eq!(written_now(&summary), 1);
    assert_eq!(open(out).property("NCCL::LEVEL"), Some("standard"));
}

#[test]
fn shards_write_anew_and_the_archive_follows() {
    let out: &Path = &new_job();
    kept(out, [ArchiveOptions::default(); 2]);
    for shard in 0..2 {
        let options =
            FinalizeOptions { shard: Some((shard, 2)), wishes: level(Level::Light), ..FinalizeOptions::default() };
        let summary = finalize(out, &options, &()).expect("a shard");
        assert_eq!(written_now(&summary), 1);
    }
    assert!(wanted(out, ArchiveWishes::default()).archive.is_some());
    assert_eq!(open(out).property("NCCL::LEVEL"), Some("light"));
}

#[test]
fn a_journal_that_was_half_removed_replaces_nothing() {
    let out: &Path = &new_job();
    let parts = kept(out, [ArchiveOptions::default(); 2]);
    let files = std::fs::read_dir(parts[0].join("journal")).expect("there");
    let mut segments: Vec<PathBuf> = files.map(|file| file.expect("readable").path()).collect();
    segments.sort();
    std::fs::remove_file(segments.last().expect("some")).expect("removed");
    let before = contents(&parts[0]);
    let summary = wanted(out, level(Level::Light));
    let PartState::Failed(reason) = &summary.parts[0].state else {
        panic!("{:?}", summary.parts);
    };
    assert!(reason.contains("were written from it before"), "{reason}");
    assert!(before == contents(&parts[0]));
    // The archive of both parts stays.
    assert_eq!(open(out).property("NCCL::LEVEL"), Some("full"));
}

#[test]
fn metrics_are_what_regions_say() {
    let out: &Path = &new_job();
    kept(out, [ArchiveOptions { metrics: MetricSet::all(), ..ArchiveOptions::default() }; 2]);
    let archive = open(out);
    let samples = samples(&archive);
    for rank in 0..2 {
        let of_location = |metric: &str| {
            let found = samples
                .iter()
                .find(|((location, name), _)| location.ends_with(&format!("rank {rank}/2")) && name == metric);
            found.map_or(&[][..], |(_, samples)| samples.as_slice())
        };
        let operations = operations(&archive, rank);
        let mut flight = Vec::new();
        let mut bandwidth = Vec::new();
        for (enter, leave) in operations {
            flight.extend([(enter, 4000), (leave, 0)]);
            bandwidth.extend([(enter, 4000 * 1_000_000_000 / (leave - enter)), (leave, 0)]);
        }
        // The sends and receives after them were never seen to run: they have bytes, and no bandwidth.
        assert_eq!(of_location("nccl.bandwidth"), bandwidth, "rank {rank}");
        let there = of_location("nccl.bytes_in_flight");
        assert_eq!(there[..6], flight);
        assert_eq!(there.last().map(|sample| sample.1), Some(0));
    }
    let mut network =
        samples.keys().filter(|(location, name)| location.starts_with("net ") && name == "nccl.network_bandwidth");
    // What was received is not told.
    assert!(network.all(|(location, _)| location.contains("send")));
    assert_eq!(samples.len(), 6, "{:?}", samples.keys());
    print(out);
}

/// From when to when the collectives of a rank ran, by their regions.
fn operations(archive: &Archive, rank: u32) -> Vec<(u64, u64)> {
    let definitions = archive.definitions().expect("definitions");
    let text = |string| definitions.string(string).expect("defined");
    let (_, events) = events(archive)
        .into_iter()
        .find(|(location, _)| text(definitions.locations[location].name).ends_with(&format!("rank {rank}/2")))
        .expect("the rank has a location");
    let times = events.iter().filter_map(|event| match event.kind {
        EventKind::Enter(region) | EventKind::Leave(region) => {
            let name = text(definitions.regions[&region].name);
            (name == "ncclAllReduce").then_some(event.time)
        }
        _ => None,
    });
    let times: Vec<u64> = times.collect();
    let spans: Vec<(u64, u64)> = times.chunks(2).map(|two| (two[0], two[1])).collect();
    assert_eq!(spans.len(), 3);
    spans
}
