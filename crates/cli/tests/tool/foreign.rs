//! Archives of other writers: without a creator, under another name, with intercommunicators and metric instances.

use std::fs;
use std::path::{Path, PathBuf};

use otf2::verbatim::Definition;
use otf2::{
    ArchiveWriter, Attributes, Collective, CollectiveOp, CommRef, GroupRef, LocationRef, Message, MetricMemberRef,
    MetricRef, MetricValue, RegionRef,
};

use super::made_up::{Definitions, Timer};
use super::nccl::Nccl;
use super::score_p::ScoreP;
use super::support::{Scratch, ToolOutput};

const MAIN: RegionRef = RegionRef::new(0);
const INTER: CommRef = CommRef::new(1);
/// A metric class, and an instance of it.
const CLASS: MetricRef = MetricRef::new(0);
const INSTANCE: MetricRef = MetricRef::new(1);
/// OTF2_COLLECTIVE_ROOT_SELF: the root of a collective in an intercommunicator, on itself.
const SELF: u32 = u32::MAX - 1;

/// Three processes, the first of which sends to the second of the others, and then to all of them. Rank 1 of the other
/// group is location 2.
fn write(directory: &Path, name: &str, receiver: u32) -> PathBuf {
    fs::create_dir_all(directory).expect("a directory");
    let mut archive = ArchiveWriter::create(directory, name).expect("an archive");
    let none = Attributes::NONE;
    let mut events = Vec::new();
    for id in 0..3 {
        let location = LocationRef::new(id);
        let mut to = archive.event_writer(location).expect("a writer");
        to.enter(10, MAIN, none).expect("an event");
        let message = |peer| Message { peer, comm: INTER, tag: 7, bytes: 100 };
        match id {
            0 => {
                to.mpi_isend(20, &message(receiver), 1, none).expect("an event");
                to.mpi_isend_complete(25, 1, none).expect("an event");
                to.metric(26, CLASS, &[MetricValue::U64(4)], none).expect("an event");
                to.metric(27, INSTANCE, &[MetricValue::U64(5)], none).expect("an event");
            }
            2 => {
                to.mpi_irecv_request(20, 1, none).expect("an event");
                to.mpi_irecv(28, &message(0), 1, none).expect("an event");
            }
            _ => {}
        }
        to.mpi_collective_begin(30, none).expect("an event");
        let root = Some(if id == 0 { SELF } else { 0 });
        let bcast = Collective { op: CollectiveOp::Bcast, comm: INTER, root, bytes_sent: 8, bytes_received: 8 };
        to.mpi_collective_end(35, &bcast, none).expect("an event");
        to.leave(40, MAIN, none).expect("an event");
        events.push((location, to.close().expect("events")));
        archive.local_definitions(location).expect("a writer").close().expect("local definitions");
    }
    define(&mut archive, &events);
    archive.close().expect("an archive");
    directory.to_owned()
}

fn define(archive: &mut ArchiveWriter, events: &[(LocationRef, u64)]) {
    let mut to = Definitions::default();
    to.node(0, "machine", "machine", None);
    to.node(1, "host", "node", Some(0));
    for ((location, events), group) in events.iter().zip(0..) {
        to.location_group(group, &format!("rank {group}"), 1, 1, None);
        to.location(*location, "main thread", 1, *events, group);
    }
    to.region(MAIN, ["main", "main"], None, 1, 1);
    to.group(0, "", 4, vec![0, 1, 2]);
    to.group(1, "", 5, vec![0, 1, 2]);
    to.group(2, "", 5, vec![0]);
    to.group(3, "", 5, vec![1, 2]);
    to.comm(0, "MPI_COMM_WORLD", 1);
    let name = to.text("client and servers");
    let (group_a, group_b) = (GroupRef::new(2), GroupRef::new(3));
    to.push(Definition::InterComm { this: INTER, name, group_a, group_b, common: CommRef::new(0), flags: 0 });
    let (member, name, unit) = (MetricMemberRef::new(0), to.text("memory"), to.text("bytes"));
    let [metric_type, mode, base] = [0, 1, 1];
    to.push(Definition::MetricMember {
        this: member,
        name,
        description: name,
        metric_type,
        mode,
        value_type: 4,
        base,
        exponent: 0,
        unit,
    });
    to.push(Definition::MetricClass { this: CLASS, members: vec![member], occurrence: 1, recorder_kind: 1 });
    let recorder = LocationRef::new(0);
    to.push(Definition::MetricInstance { this: INSTANCE, class: CLASS, recorder, scope_kind: 1, scope: 1 });
    to.write(archive, [1_000_000_000, 10, 31, u64::MAX]);
}

#[test]
fn intercommunicators_are_communicators() {
    let scratch = Scratch::new();
    write(&scratch.join("sound"), "traces", 1);
    scratch
        .ends(["check", "--strict", "sound"])
        .with_code(0)
        .assert_prints("no faults (3 processes, 3 locations, 18 events)");
    scratch.ends(["info", "sound"]).with_code(0).assert_prints("client and servers");
    // Its other group has two ranks only.
    write(&scratch.join("wrong"), "traces", 2);
    let wrong = scratch.ends(["check", "wrong"]).with_code(1);
    wrong.assert_prints("fault C04: ");
    wrong.assert_prints("rank 2 is not in the other group of CommRef(1), of 2 ranks");
}

#[test]
fn an_archive_may_have_any_name() {
    let scratch = Scratch::new();
    let directory = write(&scratch.join("other"), "epik", 1);
    for verb in ["check", "info", "print"] {
        scratch.ends([verb, "other"]).with_code(0).assert_prints("3");
    }
    for verb in ["stats", "report"] {
        scratch.ends([verb, "other"]).with_code(0).assert_prints(", without NCCL operations\n");
    }
    write(&scratch.join("second"), "b", 1);
    fs::copy(scratch.join("second/b.otf2"), directory.join("b.otf2")).expect("copied");
    let several = scratch.ends(["info", "other"]).with_code(2);
    several.assert_prints("several archives here, from other/b.otf2 to other/epik.otf2: name one of them");
    scratch.ends(["info", "other/epik.otf2"]).with_code(0);
    fs::create_dir(scratch.join("empty")).expect("made");
    scratch
        .ends(["info", "empty"])
        .with_code(2)
        .assert_prints("no archive here: neither traces.otf2, nor another *.otf2");
}

#[test]
fn exports_say_what_they_leave_out() {
    let scratch = Scratch::new();
    write(&scratch.join("trace"), "traces", 1);
    let export = |format: &str| {
        ToolOutput::run(scratch.tool().args(["export", "--format", format, "trace", "-o", "out.xplane.pb"]))
    };
    let regions = "3 regions on locations that are not NCCL's";
    let metrics = "2 records of metrics: the format has no place for them";
    let others = "10 other records on locations that are not NCCL's (messages, collectives, threads, files)";
    for format in ["kineto", "parquet"] {
        let ended = export(format).with_code(2);
        ended.assert_prints("no event to export in this format");
        [regions, metrics, others].iter().for_each(|what| ended.assert_prints(what));
        assert!(!ended.printed().contains("proxy threads"), "{ended:?}");
        assert!(!scratch.join("out.xplane.pb").exists(), "{format}");
    }
    for (format, metrics) in [("xplane", metrics), ("perfetto", "1 records of metric instances")] {
        let ended = export(format).with_code(0);
        [metrics, others].iter().for_each(|what| ended.assert_prints(&format!("left out: {what}")));
        assert!(!ended.printed().contains(regions), "{ended:?}");
        fs::remove_file(scratch.join("out.xplane.pb")).expect("an export");
    }
}

#[test]
fn a_merged_archive_is_known_where_the_other_writer_has_no_name() {
    let scratch = Scratch::new();
    for (name, creator) in [("unnamed", ""), ("blank", " ")] {
        let scorep = ScoreP { creator, ..ScoreP::new(Timer::Counter) }.write(&scratch.join(&format!("scorep-{name}")));
        let nccl = Nccl::new().write(&scratch.join(&format!("nccl-{name}")));
        ToolOutput::run(scratch.tool().args(["merge", "-o", name]).args([scorep, nccl])).with_code(0);
        scratch.ends(["check", "--strict", name]).with_code(0).assert_prints("no faults");
        scratch
            .ends(["merge", "-o", "again", name, &format!("nccl-{name}")])
            .with_code(2)
            .assert_prints("is merged already");
    }
}

#[test]
fn what_definitions_promise_is_no_fact() {
    let scratch = Scratch::new();
    let mut fixture = super::fixture::Fixture::sound();
    fixture.promised = Some(99);
    fixture.write(scratch.path());
    let said = scratch.ends(["info", "trace"]).with_code(0);
    said.assert_prints("3 locations, 29 events");
    said.assert_prints("events but has 29: see");
    let report = scratch.ends(["info", "trace", "--json"]).with_code(0).json();
    assert_eq!((&report["events"], &report["processes"][0]["events"]), (&29.into(), &29.into()), "{report:#}");
}

/// Score-P leaves files of locations that it did not need.
#[test]
fn files_without_events_may_be_of_no_location() {
    let scratch = Scratch::new();
    let trace = write(&scratch.join("trace"), "traces", 1);
    let unused = write(&scratch.join("unused"), "traces", 1);
    fs::write(trace.join("traces/9.evt"), "").expect("written");
    fs::copy(unused.join("traces/0.def"), trace.join("traces/9.def")).expect("copied");
    let remarks = scratch.ends(["check", "trace"]).with_code(0);
    remarks.assert_prints("remark S22: ");
    assert!(!remarks.printed().contains("S11"), "{remarks:?}");
    fs::copy(unused.join("traces/0.evt"), trace.join("traces/9.evt")).expect("copied");
    scratch.ends(["check", "trace"]).with_code(1).assert_prints("with 8 events, belongs to no location");
}
