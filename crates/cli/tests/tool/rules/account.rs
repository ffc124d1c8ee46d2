//! Rules on the archive's account of itself.

use super::{Case, set, spoiled, timed_by_kernel};
use crate::tool::fixture::{BROADCAST, Fixture, Said, Step};

/// One archive for each rule.
pub(super) const CASES: &[Case] = &[
    spoiled("A01", |fixture| {
        fixture.property("NCCL::COUNT::COLL::SEEN", "5");
    }),
    spoiled("A02", |fixture| {
        fixture.property("NCCL::COUNT::COLL::SEEN", "5");
        fixture.property("NCCL::COUNT::COLL::WRITTEN", "5");
    }),
    spoiled("A03", |fixture| {
        fixture.property("NCCL::RANKS_CLAIMED_TWICE", "some");
    }),
    spoiled("A04", |fixture| {
        let wrong = Step::EnterUnfinished(300, BROADCAST);
        set(fixture, 0, |step| matches!(step, Step::Enter(300, ..)), wrong);
    }),
    spoiled("A05", |fixture| {
        fixture.property("NCCL::COUNT::COMMUNICATORS_LOST", "1");
    }),
    spoiled("A06", |fixture| {
        fixture.property("NCCL::COUNT::COLL::UNFINISHED", "1");
    }),
    spoiled("A07", |fixture| {
        fixture.property("NCCL::PROBLEMS", "1");
        fixture.property("NCCL::PROBLEM_LIST", "0.0 at byte 4096: torn");
    }),
    spoiled("A08", |fixture| {
        fixture.property("NCCL::PARTS_LEFT_OUT", "host.77: no journal");
    }),
    spoiled("A09", |fixture| {
        fixture.property("NCCL::RANKS_CLAIMED_TWICE", "1");
    }),
    // Far fewer are seen, and none is said to be lost.
    spoiled("A10", |fixture| {
        fixture.property("NCCL::COUNT::STARTED", "99");
    }),
    spoiled("A11", |fixture| {
        fixture.property("NCCL::COUNT::STOPS_LOST", "3");
        fixture.property("NCCL::COUNT::COLL::STOPS_LOST", "2");
    })
    .with(&["A05"]),
    // One that is not in the archive.
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
    spoiled("A14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.property("NCCL::CLOCK::ALIGNMENT::HOSTS", "3");
    }),
    spoiled("A15", |fixture| {
        fixture.property("NCCL::JOB", "77.0\n78.0");
    }),
];

/// Rules that can be broken in another way as well.
pub(super) const OTHER_CASES: &[Case] = &[
    // Its launch is another one.
    spoiled("A12", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        let is_launch = |step: &Step| matches!(step, Step::EnterLaunch(..));
        set(fixture, 1, is_launch, Step::EnterLaunch(455, 78));
    }),
    spoiled("A13", |fixture| {
        fixture.property("NCCL::GPU::DROPPED_BY_CUPTI", "3");
    }),
    // Each violation is one of two hosts.
    spoiled("A14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.property("NCCL::CLOCK::ALIGNMENT::VIOLATIONS", "1");
        fixture.say(1, "NCCL::CLOCK::VIOLATIONS", Said::Unsigned(1));
    })
    .with(&["T10"]),
    // The archive says nothing of what its processes do.
    spoiled("A14", |fixture| {
        *fixture = Fixture::aligned();
        let is_kept = |name: &str| !name.starts_with("NCCL::CLOCK::ALIGNMENT");
        fixture.properties.retain(|(name, _)| is_kept(name));
    }),
    spoiled("A14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.property("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", "14");
    }),
    // Two processes of one host, of which different things are said.
    spoiled("A14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.boots = [Some("the boot of both"); 2];
        fixture.offsets[1] = vec![(100, 0), (456, 0)];
        fixture.deviation = 0.0;
        fixture.said[1] = fixture.said[0].clone();
        fixture.say(1, "NCCL::CLOCK::WORST_VIOLATION_NS", Said::Unsigned(7));
        fixture.property("NCCL::CLOCK::ALIGNMENT::HOSTS", "1");
        fixture.property("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", "5");
    }),
    spoiled("A14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.property("NCCL::CLOCK::ALIGNMENT::WORST_VIOLATION_NS", "7");
    }),
    spoiled("A14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.say(1, "NCCL::CLOCK::RELATION", Said::Text("system"));
    }),
];
