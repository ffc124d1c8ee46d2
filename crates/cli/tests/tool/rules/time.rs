//! Rules on time: clocks, and the order of events.

use super::{Case, misaligned, set, spoiled, stated, timed_by_kernel};
use crate::tool::fixture::{CHANNEL, RECEIVE, StatedValue, Step};

/// One archive for each rule.
pub(super) const CASES: &[Case] = &[
    spoiled("T01", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 400), (300, -200), (500, -200)];
        fixture.span = (0, 10_000);
    })
    .with(&["T13"]),
    spoiled("T02", |fixture| fixture.span = (100, 454)),
    // The residual is 5 ns, and 1 ns for the length of a record.
    spoiled("T03", |fixture| {
        fixture.channel = vec![Step::EnterChannel(105, 100), Step::Leave(207, CHANNEL)];
    }),
    spoiled("T04", |fixture| {
        fixture.channel = vec![Step::EnterChannel(105, 100), Step::Leave(200, CHANNEL)];
        let properties = &mut fixture.properties;
        properties.retain(|(name, _)| !name.starts_with("NCCL::GPU_CLOCK"));
    }),
    stated("T05", &[("NCCL::CLOCK::CALIBRATION", "measured\nassumed")]),
    stated("T06", &[("NCCL::GPU_CLOCK::INCONSISTENT::RANKS", "1")]),
    stated("T07", &[("NCCL::COUNT::GPU_TIMES_SUSPICIOUS", "1")]),
    // By rank 1's clock, the message is received at 385 but sent at 400.
    spoiled("T08", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, -45), (456, -45)];
        fixture.span = (50, 700);
        let is_received = |step: &Step| matches!(step, Step::Irecv(..));
        set(fixture, 1, is_received, Step::Irecv(430, 0, 7));
        let is_left = |step: &Step| matches!(step, Step::Leave(455, _));
        set(fixture, 1, is_left, Step::Leave(430, RECEIVE));
    }),
    // Rank 1 enters the all-reduce after rank 0 has left it.
    spoiled("T09", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 150), (456, 150)];
        fixture.span = (100, 700);
    }),
    // The same, but the archive states it.
    misaligned("T10", |fixture| {
        fixture.offsets[1] = vec![(100, 150), (456, 150)];
        fixture.span = (100, 700);
        fixture.set_statement(1, "NCCL::CLOCK::CORRECTION_NS", StatedValue::Signed(200));
        fixture.property("NCCL::CLOCK::ALIGNMENT::VIOLATIONS", "1");
        for process in 0..2 {
            fixture.set_statement(process, "NCCL::CLOCK::VIOLATIONS", StatedValue::Unsigned(1));
        }
    }),
    spoiled("T11", |fixture| timed_by_kernel(fixture, 310, 351)),
    stated("T12", &[("NCCL::GPU::NOT_PLACED", "2")]),
    // A single clock offset has no effect.
    spoiled("T13", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 5)];
    }),
    misaligned("T14", |fixture| {
        fixture.offsets[1] = vec![(100, 0), (454, 0)];
    }),
    // The kernel's channel belongs to the process of rank 0.
    misaligned("T15", |fixture| {
        fixture.offsets[2] = vec![(100, 1), (456, 1)];
    }),
    misaligned("T16", |fixture| {
        fixture.offsets[1] = vec![(100, 0), (1_000_000_100, 1_300_000)];
        fixture.set_statement(1, "NCCL::CLOCK::DRIFT_PPB", StatedValue::Signed(1_300_000));
    }),
    misaligned("T17", |fixture| {
        fixture.set_statement(1, "NCCL::CLOCK::CORRECTION_NS", StatedValue::Signed(49));
    }),
];

/// Other ways to break some rules.
pub(super) const OTHER_CASES: &[Case] = &[
    stated(
        "T12",
        &[(
            "NCCL::GPU::CLOCKS::LIST",
            "part: cupti: 4 samples, residual 0 ns, uncertainty 5 ns, pace +0 ppb, set 1 times",
        )],
    ),
    // The operation is on a thread of the process, its channel on the GPU.
    spoiled("T03", |fixture| {
        fixture.cpu_lanes = true;
        fixture.channel = vec![Step::EnterChannel(105, 100), Step::Leave(207, CHANNEL)];
    }),
    // Time runs backwards where there is no event.
    spoiled("T13", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 50), (360, 50), (400, 0), (460, 0)];
    }),
    // The first event is not corrected.
    misaligned("T14", |fixture| {
        fixture.offsets[1] = vec![(121, 0), (1_000_000_121, 20_000)];
    }),
    // Two hosts by name, but one machine.
    spoiled("T15", |fixture| {
        fixture.two_hosts = true;
        fixture.boots = [Some("the boot of both"); 2];
        fixture.offsets = [0, 10, 0].map(|offset| vec![(100, offset), (456, offset)]);
        fixture.span = (100, 465);
    }),
    misaligned("T17", |fixture| {
        fixture.set_statement(1, "NCCL::CLOCK::DRIFT_PPB", StatedValue::Signed(-20_000));
    }),
    misaligned("T17", |fixture| {
        fixture.set_statement(1, "NCCL::CLOCK::UNCERTAINTY_NS", StatedValue::Unsigned(8));
        fixture.property("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", "8");
    }),
    misaligned("T17", |fixture| {
        fixture.deviation = 0.0;
    }),
    // The stated reference has no clock.
    misaligned("T17", |fixture| {
        fixture.offsets[0].clear();
        fixture.offsets[2].clear();
    }),
    // A drift is corrected, but no statement mentions it.
    spoiled("T17", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 0), (1_000_000_100, 20_000)];
    }),
];
