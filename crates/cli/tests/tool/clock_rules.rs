//! The rules on clock offsets can be broken in more ways than one.

use super::fixture::{Fixture, Said};
use super::rules::{Case, patch, spoiled};

pub(crate) const OTHER_CASES: &[Case] = &[
    // Times of offsets that do not increase: libotf2 gives none of the events. The second of rank 1 is put before the
    // first.
    Case {
        rule: "S10",
        also: &[],
        spoil: |fixture| *fixture = Fixture::aligned(),
        damage: |trace| {
            patch(
                &trace.join("traces/1.def"),
                &1_000_000_100_u32.to_le_bytes(),
                &50_u32.to_le_bytes(),
            );
        },
    },
    // Time goes back where there is no event.
    spoiled("T13", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 50), (360, 50), (400, 0), (460, 0)];
    }),
    // The first event is not corrected.
    spoiled("T14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.offsets[1] = vec![(121, 0), (1_000_000_121, 20_000)];
    }),
    // Two hosts by name, one machine.
    spoiled("T15", |fixture| {
        fixture.two_hosts = true;
        fixture.boots = [Some("the boot of both"); 2];
        fixture.offsets = [0, 10, 0].map(|offset| vec![(100, offset), (456, offset)]);
        fixture.span = (100, 465);
    }),
    spoiled("T17", |fixture| {
        *fixture = Fixture::aligned();
        fixture.say(1, "NCCL::CLOCK::DRIFT_PPB", Said::Signed(-20_000));
    }),
    spoiled("T17", |fixture| {
        *fixture = Fixture::aligned();
        fixture.say(1, "NCCL::CLOCK::UNCERTAINTY_NS", Said::Unsigned(8));
        fixture.property("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", "8");
    }),
    spoiled("T17", |fixture| {
        *fixture = Fixture::aligned();
        fixture.deviation = 0.0;
    }),
    // What is said to be the reference is on no clock.
    spoiled("T17", |fixture| {
        *fixture = Fixture::aligned();
        fixture.offsets[0].clear();
        fixture.offsets[2].clear();
    }),
    // A drift is corrected, and nothing says so.
    spoiled("T17", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 0), (1_000_000_100, 20_000)];
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
        fixture.say(1, "NCCL::CLOCK::RELATION", Said::Text("believed"));
    }),
];
