//! Rules on the archive's statements about itself.

use super::{Case, misaligned, set, spoiled, stated, timed_by_kernel};
use crate::tool::fixture::{BROADCAST, StatedValue, Step};

/// One archive for each rule.
pub(super) const CASES: &[Case] = &[
    stated("A01", &[("NCCL::COUNT::COLL::SEEN", "5")]),
    stated("A02", &[("NCCL::COUNT::COLL::SEEN", "5"), ("NCCL::COUNT::COLL::WRITTEN", "5")]),
    stated("A03", &[("NCCL::RANKS_CLAIMED_TWICE", "some")]),
    spoiled("A04", |fixture| {
        let wrong = Step::EnterUnfinished(300, BROADCAST);
        set(fixture, 0, |step| matches!(step, Step::Enter(300, ..)), wrong);
    }),
    stated("A05", &[("NCCL::COUNT::COMMUNICATORS_LOST", "1")]),
    stated("A06", &[("NCCL::COUNT::COLL::UNFINISHED", "1")]),
    stated("A07", &[("NCCL::PROBLEMS", "1"), ("NCCL::PROBLEM_LIST", "0.0 at byte 4096: torn")]),
    stated("A08", &[("NCCL::PARTS_LEFT_OUT", "host.77: no journal")]),
    stated("A09", &[("NCCL::RANKS_CLAIMED_TWICE", "1")]),
    // Far fewer are seen, but none is stated as lost.
    stated("A10", &[("NCCL::COUNT::STARTED", "99")]),
    stated("A11", &[("NCCL::COUNT::STOPS_LOST", "3"), ("NCCL::COUNT::COLL::STOPS_LOST", "2")]).with(&["A05"]),
    // A kernel that is not in the archive.
    spoiled("A12", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        fixture.property("NCCL::GPU::KERNELS_OTHER", "1");
    }),
    spoiled("A13", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        fixture.property("NCCL::GPU::LAUNCHES", "3");
        fixture.property("NCCL::GPU::CAPTURED", "1");
        fixture.property("NCCL::GPU::LAUNCHES_TIMED", "1");
    }),
    misaligned("A14", |fixture| {
        fixture.property("NCCL::CLOCK::ALIGNMENT::HOSTS", "3");
    }),
    stated("A15", &[("NCCL::JOB", "77.0\n78.0")]),
    stated("A16", &[("NCCL::COUNT::RANGES_USER", "1")]),
    stated("A17", &[("NCCL::TOPOLOGY::UNUSED", "1"), ("NCCL::TOPOLOGY::UNUSED::LIST", "a.xml: older than the job")]),
];

/// Other ways to break some rules.
pub(super) const OTHER_CASES: &[Case] = &[
    // Its launch has a different id.
    spoiled("A12", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        let is_launch = |step: &Step| matches!(step, Step::EnterLaunch(..));
        set(fixture, 1, is_launch, Step::EnterLaunch(455, 78));
    }),
    stated("A13", &[("NCCL::GPU::DROPPED_BY_CUPTI", "3")]),
    // Two hosts count each violation once.
    misaligned("A14", |fixture| {
        fixture.property("NCCL::CLOCK::ALIGNMENT::VIOLATIONS", "1");
        fixture.set_statement(1, "NCCL::CLOCK::VIOLATIONS", StatedValue::Unsigned(1));
    })
    .with(&["T10"]),
    // The archive lacks a total of what its processes state.
    misaligned("A14", |fixture| {
        let is_kept = |name: &str| !name.starts_with("NCCL::CLOCK::ALIGNMENT");
        fixture.properties.retain(|(name, _)| is_kept(name));
    }),
    misaligned("A14", |fixture| {
        fixture.property("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", "14");
    }),
    // Two processes of one host with different statements.
    misaligned("A14", |fixture| {
        fixture.boots = [Some("the boot of both"); 2];
        fixture.offsets[1] = vec![(100, 0), (456, 0)];
        fixture.deviation = 0.0;
        fixture.statements[1] = fixture.statements[0].clone();
        fixture.set_statement(1, "NCCL::CLOCK::WORST_VIOLATION_NS", StatedValue::Unsigned(7));
        fixture.property("NCCL::CLOCK::ALIGNMENT::HOSTS", "1");
        fixture.property("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", "5");
    }),
    misaligned("A14", |fixture| {
        fixture.property("NCCL::CLOCK::ALIGNMENT::WORST_VIOLATION_NS", "7");
    }),
    misaligned("A14", |fixture| {
        fixture.set_statement(1, "NCCL::CLOCK::RELATION", StatedValue::Text("system"));
    }),
];
