//! Rules on structure: definitions, files, events of one location.

use std::fs;

use otf2::records::ClockProperties;
use otf2::{ArchiveWriter, AttributeType, MetricValue, RegionRef};

use super::{Case, damaged, patch, patch_definitions, set, spoiled, timed_by_kernel};
use crate::tool::fixture::{ALL_REDUCE, BROADCAST, CALL, CALL_BY_RANGE, Fixture, LAUNCH, RANGE, Step};

/// One archive for each rule.
pub(super) const CASES: &[Case] = &[
    damaged("S01", |trace| {
        fs::remove_file(trace.join("traces.def")).expect("removed");
    }),
    damaged("S02", |trace| {
        patch(&trace.join("traces.otf2"), &[1, 1, 3, 0, 0, 0], &[1, 1, 4, 0, 0, 0]);
    }),
    // The resolution, 10⁹.
    damaged("S03", |trace| {
        patch_definitions(trace, &[4, 0, 0xca, 0x9a, 0x3b], &[4, 0, 0, 0, 0]);
    }),
    // The name of the second attribute.
    damaged("S04", |trace| {
        patch_definitions(trace, &[0x0b, 6, 1, 1, 1, 7], &[0x0b, 6, 1, 1, 1, 99]);
    }),
    // A string that nothing refers to.
    damaged("S05", |trace| {
        patch_definitions(trace, b"\x0a\x09\x01\x03unused", b"\x0a\x09\x01\x63unused");
    }),
    // A node of the system tree that is its own parent.
    damaged("S06", |trace| {
        patch_definitions(trace, &[0x0c, 6, 0, 1, 4, 1, 5, 0xff], &[0x0c, 6, 0, 1, 4, 1, 5, 0]);
    }),
    // A communicator that is its own parent.
    damaged("S07", |trace| {
        patch_definitions(trace, &[0x16, 7, 0, 1, 6, 1, 1, 0xff], &[0x16, 7, 0, 1, 6, 1, 1, 0]);
    }),
    damaged("S08", |trace| {
        let file = trace.join("traces/4294967296.evt");
        let bytes = fs::read(&file).expect("read");
        fs::write(&file, &bytes[..bytes.len() - 2]).expect("cut");
    }),
    spoiled("S09", |fixture| fixture.promised = Some(99)),
    // Local definitions that cannot be read.
    damaged("S10", |trace| {
        fs::write(trace.join("traces/4294967296.def"), [7; 20]).expect("written");
    })
    .with(&["S19"]),
    damaged("S11", |trace| {
        fs::copy(trace.join("traces/0.evt"), trace.join("traces/77.evt")).expect("copied");
    }),
    spoiled("S12", |fixture| {
        fixture.ranks[0].extend([
            Step::Enter(454, ALL_REDUCE, 1),
            Step::Enter(455, BROADCAST, 1),
            Step::Leave(455, ALL_REDUCE),
            Step::Leave(455, BROADCAST),
        ]);
    }),
    spoiled("S13", |fixture| {
        let region = RegionRef::new(77);
        fixture.ranks[0].extend([Step::Enter(454, region, 1), Step::Leave(455, region)]);
    }),
    spoiled("S13", |fixture| fixture.ranks[0].push(Step::UndefinedRecord(454))),
    spoiled("S14", |fixture| fixture.attribute_type = AttributeType::F64),
    spoiled("S15", |fixture| {
        let value = MetricValue::F64(1.0);
        set(fixture, 0, |step| matches!(step, Step::Metric(..)), Step::Metric(452, value));
    }),
    spoiled("S16", |fixture| {
        fixture.listed = vec![1, 0];
        fixture.members = vec![1, 0];
    }),
    spoiled("S17", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        fixture.two_gpus = true;
    }),
    // An archive that was created but never written to.
    damaged("S18", |trace| {
        fs::remove_dir_all(trace.join("traces")).expect("removed");
        let mut archive = ArchiveWriter::create(trace, "traces").expect("made");
        let clock = ClockProperties { timer_resolution: 1, global_offset: 0, trace_length: 1, realtime_timestamp: 0 };
        archive.definitions().and_then(|mut definitions| definitions.clock_properties(&clock)).expect("written");
        archive.close().expect("written");
    }),
    // A changed name.
    damaged("S19", |trace| patch(&trace.join("traces.def"), b"unused", b"unUsed")),
    // A call that names a range which is not open.
    spoiled("S20", |fixture| {
        fixture.ranks[0].extend([Step::EnterInRange(454, CALL_BY_RANGE, true), Step::Leave(455, CALL_BY_RANGE)]);
    }),
    spoiled("S21", |fixture| {
        let enter = |region| Step::EnterInRange(454, region, false);
        fixture.ranks[0].extend([enter(CALL_BY_RANGE), enter(CALL)]);
        fixture.ranks[0].extend([Step::Leave(455, CALL), Step::Leave(455, CALL_BY_RANGE)]);
        one_call(fixture);
    }),
    // Local definitions of a location that is not defined.
    damaged("S22", |trace| {
        fs::copy(trace.join("traces/0.def"), trace.join("traces/77.def")).expect("copied");
    }),
    // Of two launches that are named, one is not there.
    spoiled("S23", |fixture| {
        let is_broadcast = |step: &Step| matches!(step, Step::Enter(300, ..));
        set(fixture, 0, is_broadcast, Step::EnterLaunched(300, BROADCAST, 454));
        set(fixture, 1, is_broadcast, Step::EnterLaunched(300, BROADCAST, 455));
        fixture.ranks[1].extend([Step::EnterLaunch(455, 77), Step::Leave(455, LAUNCH)]);
    }),
    spoiled("S24", |fixture| fixture.rank_names = ["rank 0", "rank 0"]),
];

fn one_call(fixture: &mut Fixture) {
    fixture.property("NCCL::COUNT::COLLAPI::SEEN", "1");
    fixture.property("NCCL::COUNT::COLLAPI::WRITTEN", "1");
}

/// Other ways to break some rules.
pub(super) const OTHER_CASES: &[Case] = &[
    // A call that does not name the range around it.
    spoiled("S20", |fixture| {
        let enter = |region| Step::EnterInRange(454, region, false);
        fixture.ranks[0].extend([enter(RANGE), enter(CALL), Step::Leave(455, CALL), Step::Leave(455, RANGE)]);
        fixture.property("NCCL::COUNT::RANGES_USER", "1");
        one_call(fixture);
    }),
    // Missing files, including that of a location without events.
    damaged("S08", |trace| fs::remove_file(trace.join("traces/1.evt")).expect("removed")),
    damaged("S08", |trace| fs::remove_file(trace.join("traces/1.def")).expect("removed")).with(&["S19"]),
    // A region that is never left.
    spoiled("S12", |fixture| {
        fixture.ranks[0].retain(|step| !matches!(step, Step::Leave(350, _)));
        fixture.ranks[0].push(Step::Leave(455, BROADCAST));
        fixture.ranks[0].insert(0, Step::Enter(100, BROADCAST, 1));
    }),
    // Two ranks on one location.
    spoiled("S07", |fixture| fixture.members = vec![0, 0]).with(&["C04", "C07", "C08", "C13"]),
    // Times of clock offsets that do not increase, so that libotf2 returns no events: on rank 1, the second offset
    // precedes the first.
    Case {
        is_aligned: true,
        ..damaged("S10", |trace| {
            patch(&trace.join("traces/1.def"), &1_000_000_100_u32.to_le_bytes(), &50_u32.to_le_bytes());
        })
        .with(&["S19"])
    },
];
