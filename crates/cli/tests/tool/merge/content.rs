//! Score-P's trace is unchanged, and contains NCCL's events at the times when they happened.

use std::path::Path;
use std::process::Command;

use otf2::records::Group;
use otf2::verbatim::Definition;
use otf2::{Archive, AttributeValue, ChunkBytes, Event, EventKind, GroupType, LocationRef, Paradigm};
use whole_plugin::machine::skip;

use super::{Job, checked, events, happened, open, ours};
use crate::tool::made_up::{Moment, RANKS, SECOND, Timer, host};
use crate::tool::nccl::{NCCL, Nccl, operation_id};
use crate::tool::score_p::{ALLREDUCE, MPI, ScoreP};
use crate::tool::support::{Scratch, text};

#[test]
fn everything_is_where_and_when_it_happened() {
    // An error of 2 ns, in the anchors and in Score-P's offsets each, is five ticks; one of a microsecond is one tick.
    for (timer, most) in [(Timer::Counter, 8), (Timer::MonotonicRaw, 4), (Timer::Realtime, 2)] {
        let scorep = ScoreP::new(timer);
        let job = Job::new(&scorep, &Nccl::new());
        let merged = job.merged();
        checked(&job.scratch, &merged);
        let events = events(&open(&merged));
        for rank in 0..RANKS {
            let of = |location: LocationRef, wanted: fn(&EventKind) -> bool| -> Vec<&Event> {
                events[&location].iter().filter(|event| wanted(&event.kind)).collect()
            };
            let mpi = of(LocationRef::new(rank), |kind| {
                matches!(kind, EventKind::Enter(ALLREDUCE) | EventKind::Leave(ALLREDUCE))
            });
            let nccl = of(ours(rank), |kind| matches!(kind, EventKind::Enter(_) | EventKind::Leave(_)));
            let there = [mpi[0], mpi[1], nccl[0], nccl[1], mpi[2], mpi[3]];
            happened(&there, &[MPI[0].0, MPI[0].1, NCCL.0, NCCL.1, MPI[1].0, MPI[1].1], &scorep, most);
            // NCCL is called 2 µs after MPI on each rank, and the events show it.
            assert!(there.is_sorted_by_key(|event| event.time), "{timer:?} rank {rank}: {there:?}");
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
        assert_eq!(there.remove(location).as_ref(), Some(events), "{location:?}");
        for file in [Archive::event_file, Archive::definition_file] {
            let bytes = |archive| std::fs::read(file(archive, *location)).expect("a file");
            assert_eq!(bytes(&before), bytes(&after), "byte for byte");
        }
    }
    assert_eq!(there.keys().copied().collect::<Vec<_>>(), [ours(0), ours(1), ours(2)]);
    let all = after.verbatim_definitions().expect("definitions");
    let mut all = all.iter();
    for definition in before.verbatim_definitions().expect("definitions") {
        let is_there = match &definition {
            Definition::ClockProperties { .. } => continue,
            // NCCL's locations are appended to MPI's list.
            Definition::Group { this, members, group_type: 4, .. } => all.any(|other| match other {
                Definition::Group { this: same, members: more, .. } => {
                    this == same && more.starts_with(members) && more.len() == members.len() + 3
                }
                _ => false,
            }),
            definition => all.any(|other| other == definition),
        };
        assert!(is_there, "not there, or not in this order: {definition:?}");
    }
    assert_eq!(after.creator(), concat!("Score-P 8.4, nccl-profiler-otf2 ", env!("CARGO_PKG_VERSION")));
    assert_eq!(after.property("OTF2::MPI_COMMUNICATION_COMPLETE"), Some("true"));
    assert_eq!(after.property("NCCL::VERSION"), Some("2.28.9"));
    assert_eq!(after.property("NCCL::MERGED::CLOCK"), Some("anchors"));
}

/// Readers use a single chunk size: the anchor's.
#[test]
fn local_definitions_keep_their_chunks() {
    let small = ScoreP::new(Timer::Counter);
    let of_chunks = |definitions| ScoreP {
        has_large_tables: true,
        chunks: ChunkBytes { definitions, ..small.chunks },
        ..ScoreP::new(Timer::Counter)
    };
    // Several chunks need their size; one chunk can be read with any size that holds it.
    let (several, one) = (of_chunks(256 << 10), of_chunks(4 << 20));
    for (scorep, chunk_bytes) in [(&small, 256 << 10), (&several, 256 << 10), (&one, 1 << 20)] {
        let job = Job::new(scorep, &Nccl::new());
        let file = open(&job.scorep).definition_file(LocationRef::new(1));
        let length = std::fs::metadata(file).expect("a file").len();
        assert_eq!(length > 256 << 10, scorep.has_large_tables);
        let merged = job.merged();
        checked(&job.scratch, &merged);
        let merged = open(&merged);
        assert_eq!(merged.definitions_chunk_bytes(), chunk_bytes);
        let after = events(&merged);
        for (location, events) in &events(&open(&job.scorep)) {
            assert_eq!(after.get(location), Some(events), "{location:?}");
        }
    }
}

/// NCCL's event files are linked where they have one chunk, and else get chunks of Score-P's size.
#[test]
fn event_files_of_several_chunks_get_score_ps() {
    let call = |number: Moment| ([NCCL.0 + 100 * number; 3], NCCL.0 + 100 * number + 50);
    let nccl = Nccl { calls: (0..20_000).map(call).collect(), ..Nccl::new() };
    for chunk_bytes in [256 << 10, 1 << 20, 4 << 20] {
        let mut scorep = ScoreP::new(Timer::Counter);
        scorep.chunks.events = chunk_bytes;
        let job = Job::new(&scorep, &nccl);
        let own = open(&job.nccl);
        assert_eq!(own.event_chunk_bytes(), 256 << 10);
        assert!(own.event_file(LocationRef::new(0)).metadata().expect("a file").len() > 512 << 10);
        let merged = job.merged();
        checked(&job.scratch, &merged);
        let merged = open(&merged);
        assert_eq!(merged.event_chunk_bytes(), chunk_bytes);
        let after = events(&merged);
        for rank in 0..RANKS {
            assert_eq!(after[&ours(rank)].len(), 80_000, "chunks of {chunk_bytes} bytes");
        }
    }
}

/// Score-P does not state the date; NCCL's archive has the wall clock.
#[test]
fn the_merged_trace_has_a_date() {
    let job = Job::new(&ScoreP::new(Timer::Counter), &Nccl::new());
    let merged = job.merged();
    let definitions = open(&merged).definitions().expect("definitions");
    let clock = definitions.clock.expect("a clock");
    let first = ScoreP::new(Timer::Counter).time(SECOND);
    let later_ns = i128::from(first.abs_diff(clock.global_offset)) * SECOND / i128::from(clock.timer_resolution);
    let began = i128::from(clock.realtime_timestamp);
    let truth = host(0).realtime(SECOND);
    assert!((began + later_ns - truth).abs() < 100_000, "{began} and {later_ns} for {truth}");
    // The first tick of Score-P's timer is not a time since 1970.
    let [stats, info] = ["stats", "info"].map(|verb| job.scratch.ends([verb, "out", "--json"]).with_code(0).json());
    let start = clock.realtime_timestamp.into();
    assert_eq!((&stats["run"]["start_ns"], &info["start_ns"]), (&start, &start));
    assert_eq!((&stats["run"]["operations"], &stats["run"]["instances"]), (&3.into(), &1.into()));
}

#[test]
fn what_nccl_did_belongs_to_score_ps_processes() {
    let job = Job::new(&ScoreP::new(Timer::Counter), &Nccl::new());
    let archive = open(&job.merged());
    let definitions = archive.definitions().expect("definitions");
    let text = |name| definitions.string(name).expect("a text");
    let events = events(&archive);
    for rank in 0..RANKS {
        let gpu = &definitions.location_groups[&definitions.locations[&ours(rank)].group];
        let process = &definitions.location_groups[&gpu.creator];
        assert_eq!(text(gpu.name), format!("GPU of rank {rank}"));
        assert_eq!(text(process.name), format!("MPI Rank {rank}"));
        assert_eq!(gpu.system_tree_parent, process.system_tree_parent);
        assert!(process.properties.iter().any(|(name, _)| text(*name) == "NCCL::PROCESS_ID"));
        let [enter, _, end, _] = &events[&ours(rank)][..] else { panic!("four events") };
        let EventKind::Enter(region) = enter.kind else { panic!("{enter:?}") };
        assert_eq!(text(definitions.regions[&region].name), "ncclAllReduce");
        let [(timing, AttributeValue::String(value)), (id, AttributeValue::U64(event))] = enter.attributes[..] else {
            panic!("{enter:?}");
        };
        let attribute = |reference| text(definitions.attributes[&reference].name);
        assert_eq!((attribute(timing), text(value)), ("nccl.timing", "shown by"));
        assert_eq!((attribute(id), event), ("nccl.event", operation_id(1, rank)));
        let EventKind::MpiCollectiveEnd(collective) = &end.kind else { panic!("{end:?}") };
        let comm = &definitions.comms[&collective.comm];
        assert_eq!((text(comm.name), &*definitions.groups[&comm.group].members), ("world", &[3, 4, 5][..]));
    }
    let is_mpi = |group: &&Group| group.group_type == GroupType::CommLocations && group.paradigm == Paradigm::Mpi;
    let lists: Vec<_> = definitions.groups.values().filter(is_mpi).collect();
    assert_eq!(lists.len(), 1);
    assert_eq!(lists[0].members[3..], [0, 1, 2].map(|rank| ours(rank).get()));
    // Three nodes of hosts instead of five: NCCL's are unified with Score-P's.
    assert_eq!(definitions.system_tree_nodes.len(), 3);
    assert_eq!(definitions.paradigms.len(), 1);
}

#[test]
fn a_real_trace_of_score_ps_is_unchanged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/scorep-mpi-sample");
    let scratch = Scratch::new();
    let nccl = Nccl { other_processes: 50_000, ..Nccl::new() };
    nccl.write(&scratch.join("nccl"));
    let merge = |options: &[&str]| {
        let mut tool = scratch.tool();
        tool.arg("merge").arg(&folder).arg("nccl").args(options);
        tool.output().expect("the tool runs")
    };
    // The trace is from another machine: nothing relates the two clocks.
    let output = merge(&["-o", "out"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--align-start"), "{}", text(&output.stderr));
    let output = merge(&["-o", "out", "--align-start", "0.1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    checked(&scratch, &scratch.join("out"));
    let printed = |anchor: &Path| Command::new("otf2-print").arg("-Werror").arg(anchor).output();
    let Ok(before) = printed(&folder.join("traces.otf2")) else {
        return skip("otf2-print is not installed");
    };
    let after = printed(&scratch.join("out/traces.otf2")).expect("otf2-print runs");
    assert!(after.status.success() && after.stderr.is_empty(), "{}", text(&after.stderr));
    let (before, after) = (text(&before.stdout), text(&after.stdout));
    assert_eq!(before.lines().count(), 437);
    let mut lines = after.lines();
    for line in before.lines() {
        assert!(lines.any(|other| other == line), "not there, or not in this order: {line}");
    }
    // Four events on each of three ranks, and the attribute of the first event of each.
    assert_eq!(after.lines().count(), 437 + 3 * 5);
}
