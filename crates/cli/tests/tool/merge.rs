//! `merge`: Score-P's trace is as it was, NCCL's events are in it, at the time when they happened.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use otf2::verbatim::Definition;
use otf2::{Archive, AttributeValue, Event, EventKind, GroupType, LocationRef, Paradigm};
use serde_json::Value;

use super::made_up::{self, RANKS, SECOND, Timer, process_id};
use super::nccl::{NCCL, Nccl};
use super::score_p::{ALLREDUCE, MPI, ScoreP};
use super::support::{Scratch, text};

pub(crate) fn open(directory: &Path) -> Archive {
    Archive::open(&directory.join("traces.otf2")).expect("an archive")
}

pub(crate) fn events(archive: &Archive) -> BTreeMap<LocationRef, Vec<Event>> {
    let definitions = archive.definitions().expect("definitions");
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let mut events: BTreeMap<LocationRef, Vec<Event>> = BTreeMap::new();
    let mut before = 0;
    archive
        .for_each_event(&locations, |location, event| {
            assert!(before <= event.time, "the order of time over all locations");
            before = event.time;
            events.entry(location).or_default().push(event);
            ControlFlow::Continue(())
        })
        .expect("events");
    events
}

/// Writes both archives and merges them.
struct Job {
    scratch: Scratch,
    scorep: PathBuf,
    nccl: PathBuf,
}

impl Job {
    fn new(scorep: &ScoreP, nccl: &Nccl) -> Self {
        let scratch = Scratch::new();
        Self {
            scorep: scorep.write(&scratch.join("scorep")),
            nccl: nccl.write(&scratch.join("nccl")),
            scratch,
        }
    }

    fn merge(&self, options: &[&str]) -> Output {
        let mut tool = self.scratch.tool();
        tool.arg("merge").args(options);
        tool.args([&self.scorep, &self.nccl]);
        tool.output().expect("the tool runs")
    }

    fn merged(&self) -> PathBuf {
        let output = self.merge(&["-o", "out"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "");
        self.scratch.join("out")
    }

    fn refused(&self, options: &[&str], reason: &str) {
        let output = self.merge(options);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        let said = text(&output.stderr);
        assert!(said.contains(reason), "{reason}: {said}");
    }

    fn json(&self, options: &[&str]) -> Value {
        let output = self.merge(&[&["--json"], options].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

pub(crate) fn checked(scratch: &Scratch, directory: &Path) {
    let output = scratch
        .tool()
        .arg("check")
        .arg("--strict")
        .arg(directory)
        .output();
    let output = output.expect("the tool runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

/// NCCL's location of a rank.
pub(crate) fn ours(rank: u64) -> LocationRef {
    LocationRef::new(0x8000_0000 << 32 | rank)
}

#[test]
fn everything_is_where_and_when_it_happened() {
    // Two nanoseconds of the anchors and of Score-P's offsets, each, are five ticks; a microsecond is one.
    for (timer, most) in [
        (Timer::Counter, 8),
        (Timer::MonotonicRaw, 4),
        (Timer::Realtime, 2),
    ] {
        let scorep = ScoreP::new(timer);
        let job = Job::new(&scorep, &Nccl::new());
        let merged = job.merged();
        checked(&job.scratch, &merged);
        let events = events(&open(&merged));
        for rank in 0..RANKS {
            let times = |location: LocationRef, wanted: fn(&EventKind) -> bool| -> Vec<u64> {
                let events = events.get(&location).into_iter().flatten();
                let events = events.filter(|event| wanted(&event.kind));
                events.map(|event| event.time).collect()
            };
            let mpi = times(LocationRef::new(rank), |kind| {
                matches!(
                    kind,
                    EventKind::Enter(ALLREDUCE) | EventKind::Leave(ALLREDUCE)
                )
            });
            let nccl = times(ours(rank), |kind| {
                matches!(kind, EventKind::Enter(_) | EventKind::Leave(_))
            });
            let truth = [MPI[0].0, MPI[0].1, NCCL.0, NCCL.1, MPI[1].0, MPI[1].1];
            let there = [mpi[0], mpi[1], nccl[0], nccl[1], mpi[2], mpi[3]];
            for (truth, there) in truth.into_iter().zip(there) {
                let truth = scorep.time(truth);
                assert!(
                    there.abs_diff(truth) <= most,
                    "{timer:?} rank {rank}: {there} for {truth}"
                );
            }
            // NCCL is called 2 µs after MPI on each rank, and that is what is seen.
            assert!(there.is_sorted(), "{timer:?} rank {rank}: {there:?}");
        }
    }
}

#[test]
fn the_trace_of_score_p_is_as_it_was() {
    let job = Job::new(&ScoreP::new(Timer::Counter), &Nccl::new());
    let merged = job.merged();
    let (before, after) = (open(&job.scorep), open(&merged));
    let mut there = events(&after);
    let events_before = events(&before);
    for (location, events) in &events_before {
        assert_eq!(
            there.remove(location).as_ref(),
            Some(events),
            "{location:?}"
        );
        for file in [Archive::event_file, Archive::definition_file] {
            let bytes = |archive| std::fs::read(file(archive, *location)).expect("a file");
            assert_eq!(bytes(&before), bytes(&after), "byte for byte");
        }
    }
    assert_eq!(
        there.keys().copied().collect::<Vec<_>>(),
        [ours(0), ours(1), ours(2)]
    );
    let all = after.verbatim_definitions().expect("definitions");
    let mut all = all.iter();
    for definition in before.verbatim_definitions().expect("definitions") {
        let is_there = match &definition {
            Definition::ClockProperties { .. } => continue,
            // MPI's list of locations goes on with NCCL's.
            Definition::Group {
                this,
                members,
                group_type: 4,
                ..
            } => all.any(|other| match other {
                Definition::Group {
                    this: same,
                    members: more,
                    ..
                } => this == same && more.starts_with(members) && more.len() == members.len() + 3,
                _ => false,
            }),
            definition => all.any(|other| other == definition),
        };
        assert!(is_there, "not there, or not in this order: {definition:?}");
    }
    assert_eq!(
        after.creator(),
        concat!(
            "Score-P 8.4, nccl-profiler-otf2 ",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert_eq!(
        after.property("OTF2::MPI_COMMUNICATION_COMPLETE"),
        Some("true")
    );
    assert_eq!(after.property("NCCL::VERSION"), Some("2.28.9"));
    assert_eq!(after.property("NCCL::MERGED::CLOCK"), Some("anchors"));
}

/// Readers take chunks of one size: that of the anchor.
#[test]
fn local_definitions_keep_their_chunks() {
    let small = ScoreP::new(Timer::Counter);
    let large = ScoreP {
        has_large_tables: true,
        ..ScoreP::new(Timer::Counter)
    };
    for (scorep, chunk_bytes) in [(small, otf2::DEFINITIONS_CHUNK_BYTES), (large, 256 << 10)] {
        let job = Job::new(&scorep, &Nccl::new());
        let file = open(&job.scorep).definition_file(LocationRef::new(1));
        let length = std::fs::metadata(file).expect("a file").len();
        assert_eq!(length > 256 << 10, scorep.has_large_tables);
        let merged = job.merged();
        checked(&job.scratch, &merged);
        let merged = open(&merged);
        assert_eq!(merged.definitions_chunk_bytes(), chunk_bytes);
        let before = events(&open(&job.scorep));
        let after = events(&merged);
        for (location, events) in &before {
            assert_eq!(after.get(location), Some(events), "{location:?}");
        }
    }
}

#[test]
fn what_nccl_did_belongs_to_score_ps_processes() {
    let job = Job::new(&ScoreP::new(Timer::Counter), &Nccl::new());
    let archive = open(&job.merged());
    let definitions = archive.definitions().expect("definitions");
    let events = events(&archive);
    for rank in 0..RANKS {
        let lane = &definitions.locations[&ours(rank)];
        let gpu = &definitions.location_groups[&lane.group];
        let process = &definitions.location_groups[&gpu.creator];
        assert_eq!(
            definitions.string(gpu.name),
            Some(&*format!("GPU of rank {rank}"))
        );
        assert_eq!(
            definitions.string(process.name),
            Some(&*format!("MPI Rank {rank}"))
        );
        assert_eq!(gpu.system_tree_parent, process.system_tree_parent);
        let said = process
            .properties
            .iter()
            .map(|(name, _)| definitions.string(*name));
        assert!(said.flatten().any(|name| name == "NCCL::PROCESS_ID"));
        let [enter, _, end, _] = &events[&ours(rank)][..] else {
            panic!("four events");
        };
        let EventKind::Enter(region) = enter.kind else {
            panic!("{enter:?}");
        };
        let region = &definitions.regions[&region];
        assert_eq!(definitions.string(region.name), Some("ncclAllReduce"));
        let [
            (attribute, AttributeValue::String(value)),
            (id, AttributeValue::U64(event)),
        ] = enter.attributes[..]
        else {
            panic!("{enter:?}");
        };
        let name = definitions.attributes[&id].name;
        assert_eq!(
            (definitions.string(name), event),
            (Some("nccl.event"), 100 + rank + 1)
        );
        let name = definitions.attributes[&attribute].name;
        assert_eq!(definitions.string(name), Some("nccl.timing"));
        assert_eq!(definitions.string(value), Some("shown by"));
        let EventKind::MpiCollectiveEnd(collective) = &end.kind else {
            panic!("{end:?}");
        };
        let comm = &definitions.comms[&collective.comm];
        assert_eq!(definitions.string(comm.name), Some("world"));
        let group = &definitions.groups[&comm.group];
        assert_eq!(group.members, [3, 4, 5]);
    }
    let lists = definitions.groups.values();
    let mut lists = lists.filter(|group| {
        group.group_type == GroupType::CommLocations && group.paradigm == Paradigm::Mpi
    });
    let members = [0, 1, 2].map(|rank| ours(rank).get());
    assert_eq!(
        lists.next().map(|list| &list.members[3..]),
        Some(&members[..])
    );
    assert!(lists.next().is_none(), "one list");
    // Three hosts' nodes, not five: NCCL's are Score-P's.
    assert_eq!(definitions.system_tree_nodes.len(), 3);
    assert_eq!(definitions.paradigms.len(), 1);
}

#[test]
fn readers_are_silent() {
    let job = Job::new(&ScoreP::new(Timer::Counter), &Nccl::new());
    let anchor = job.merged().join("traces.otf2");
    match Command::new("otf2-print")
        .arg("-Werror")
        .arg("-A")
        .arg(&anchor)
        .output()
    {
        Ok(printed) => {
            assert!(printed.status.success(), "{}", text(&printed.stderr));
            assert_eq!(text(&printed.stderr), "");
        }
        Err(_) => skip("otf2-print is not installed"),
    }
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let program = "import sys, otf2\n\
                   with otf2.reader.open(sys.argv[1]) as trace:\n    print(sum(1 for _ in trace.events))";
    let has_otf2 = Command::new(&python).args(["-c", "import otf2"]).output();
    if !has_otf2.is_ok_and(|output| output.status.success()) {
        return skip("Python's otf2 is not installed (cargo xtask setup)");
    }
    let read = Command::new(&python)
        .args(["-c", program])
        .arg(&anchor)
        .output();
    let read = read.expect("Python runs");
    assert_eq!(text(&read.stderr), "");
    assert_eq!(
        text(&read.stdout).trim(),
        (RANKS * (12 + 14 + 4)).to_string()
    );
}

#[test]
fn processes_are_found_and_named() {
    let pids = |json: &Value| -> Vec<(u64, u64, String)> {
        let pairs = json["pairs"].as_array().expect("pairs").iter();
        let pair = |pair: &Value| {
            (
                pair["process_id"].as_u64().expect("an id"),
                pair["scorep"]["rank"].as_u64().expect("a rank"),
                pair["by"].as_str().expect("a word").to_owned(),
            )
        };
        pairs.map(pair).collect()
    };
    let expected = |added: u64, ranks: [u64; 3], by: [&str; 3]| -> Vec<(u64, u64, String)> {
        let all = (0..).zip(ranks).zip(by);
        all.map(|((ours, theirs), by)| (process_id(ours) + added, theirs, by.to_owned()))
            .collect()
    };
    let scorep = ScoreP::new(Timer::Counter);
    let job = Job::new(&scorep, &Nccl::new());
    let found = job.json(&["--dry-run"]);
    assert_eq!(pids(&found), expected(0, [0, 1, 2], ["process"; 3]));
    assert_eq!(found["clock"], "anchors");
    assert_eq!(found["archive"], Value::Null);
    // Rank 0 begins 1.010002 s after the trace.
    let begins = found["pairs"][0]["begins_after_ns"]
        .as_i64()
        .expect("a time");
    assert!((begins - 1_010_002_000).abs() < 10, "{begins}");
    assert!(!job.scratch.join("out").exists(), "nothing is written");
    let swapped = job.json(&["--dry-run", "--map", "0=1", "--map", "alpha:1017=0"]);
    assert_eq!(
        pids(&swapped),
        expected(0, [1, 0, 2], ["map", "map", "process"])
    );
    let others = Nccl {
        other_processes: 500,
        ..Nccl::new()
    };
    let job = Job::new(&scorep, &others);
    let found = job.json(&["--dry-run"]);
    assert_eq!(pids(&found), expected(500, [0, 1, 2], ["rank"; 3]));
    let job = Job::new(
        &scorep,
        &Nccl {
            has_ranks: false,
            ..others
        },
    );
    let found = job.json(&["--dry-run"]);
    assert_eq!(pids(&found), expected(500, [0, 1, 2], ["communicator"; 3]));
    let map = ["--dry-run", "--map", "alpha:1500=7"];
    job.refused(&map, "there is no rank 7 in Score-P's trace");
    let silent = ScoreP {
        has_process_ids: false,
        ..scorep
    };
    let job = Job::new(&silent, &Nccl::new());
    let found = job.json(&["--dry-run"]);
    assert_eq!(pids(&found), expected(0, [0, 1, 2], ["rank"; 3]));
}

#[test]
fn what_does_not_fit_is_refused() {
    let out = ["-o", "out"];
    let scorep = ScoreP::new(Timer::Counter);
    let job = Job::new(
        &scorep,
        &Nccl {
            has_anchors: false,
            ..Nccl::new()
        },
    );
    job.refused(&out, "does not say what its clocks showed");
    assert!(!job.scratch.join("out").exists());
    // The hosts ran for an hour before the job began.
    let job = Job::new(
        &scorep,
        &Nccl {
            earlier: 3_600 * SECOND,
            ..Nccl::new()
        },
    );
    job.refused(&out, "begins 3601 s after Score-P's trace");
    let guess = job.json(&["--align-start", "0.5", "-o", "out"]);
    assert_eq!(guess["clock"], "guess");
    let first = open(&job.scratch.join("out"));
    assert_eq!(first.property("NCCL::MERGED::CLOCK"), Some("guess"));
    let begin = events(&first)[&ours(0)][0].time;
    let second = u64::try_from(made_up::HOSTS[0].ticks_per_second).expect("a rate");
    // Rank 2 is on the host whose wall clock is behind, and so the first.
    let behind = begin - scorep.time(SECOND) - second / 2;
    assert!(
        behind.abs_diff(second / 1000 * 8) < second / 1000,
        "{behind}"
    );
    job.refused(&out, "out exists already");
    job.refused(
        &["-o", "out2", "--align-start=-1"],
        "not a number of seconds",
    );
    let again = job
        .scratch
        .tool()
        .args(["merge", "out", "nccl", "-o", "out2"])
        .output();
    let said = text(&again.expect("the tool runs").stderr);
    assert!(said.contains("is merged already"), "{said}");
    let words = ["merge", "nccl", "nccl", "-o", "out2"];
    let none = job.scratch.tool().args(words).output();
    let said = text(&none.expect("the tool runs").stderr);
    assert!(said.contains("none is Score-P's"), "{said}");
    std::fs::write(job.scorep.join("scorep.cfg"), "SCOREP_TIMER='sundial'\n").expect("settings");
    job.refused(&["-o", "out2"], "SCOREP_TIMER='sundial'");
    std::fs::remove_file(job.scorep.join("traces.otf2")).expect("gone");
    job.refused(&["-o", "out2"], "with SCOREP_ENABLE_TRACING=true");
    let left: Vec<_> = std::fs::read_dir(job.scratch.path())
        .expect("a directory")
        .collect();
    // The plugin of all tests of the tool, both archives and the merged one.
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn a_damaged_archive_is_not_put_in_place() {
    let job = Job::new(&ScoreP::new(Timer::Counter), &Nccl::new());
    let file = open(&job.nccl).event_file(LocationRef::new(1));
    let bytes = std::fs::read(&file).expect("events");
    std::fs::write(&file, &bytes[..bytes.len() - 5]).expect("cut");
    job.refused(&["-o", "out"], "was cut short");
    std::fs::remove_file(&file).expect("gone");
    job.refused(&["-o", "out"], "not there, but it is said to have 4 events");
    assert!(!job.scratch.join("out").exists());
}

#[test]
fn a_real_trace_of_score_ps_is_unchanged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/scorep-mpi-sample");
    let scratch = Scratch::new();
    let nccl = Nccl {
        other_processes: 50_000,
        ..Nccl::new()
    };
    nccl.write(&scratch.join("nccl"));
    let merge = |options: &[&str]| {
        let mut tool = scratch.tool();
        tool.arg("merge").arg(&folder).arg("nccl").args(options);
        tool.output().expect("the tool runs")
    };
    // The trace is of another machine: there is no true way to lay one over the other.
    let output = merge(&["-o", "out"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--align-start"),
        "{}",
        text(&output.stderr)
    );
    let output = merge(&["-o", "out", "--align-start", "0.1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    checked(&scratch, &scratch.join("out"));
    let printed = |anchor: &Path| {
        Command::new("otf2-print")
            .arg("-Werror")
            .arg(anchor)
            .output()
    };
    let Ok(before) = printed(&folder.join("traces.otf2")) else {
        return skip("otf2-print is not installed");
    };
    let after = printed(&scratch.join("out/traces.otf2")).expect("otf2-print runs");
    assert!(
        after.status.success() && after.stderr.is_empty(),
        "{}",
        text(&after.stderr)
    );
    let (before, after) = (text(&before.stdout), text(&after.stdout));
    assert_eq!(before.lines().count(), 437);
    let mut lines = after.lines();
    for line in before.lines() {
        assert!(
            lines.any(|other| other == line),
            "not there, or not in this order: {line}"
        );
    }
    // The four events of each of three ranks, and the attribute of each first one.
    assert_eq!(after.lines().count(), 437 + 3 * 5);
}

/// Says that something is skipped, which is a failure in CI.
fn skip(reason: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "must not be skipped in CI: {reason}"
    );
    say(&format!("skipped: {reason}"));
}

/// Past the test harness, which keeps to itself what a test prints that passes.
fn say(text: &str) {
    let line = format!("{text}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("write to stderr");
}
