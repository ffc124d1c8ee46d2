//! Rules on communication: collectives, messages, ranks.

use otf2::CollectiveOp;

use super::{Case, end, set, spoiled, stated, without_broadcast};
use crate::tool::fixture::{RECEIVE, Step};

/// One archive for each rule.
pub(super) const CASES: &[Case] = &[
    spoiled("C01", |fixture| {
        fixture.ranks[0].retain(|step| !matches!(step, Step::Begin(300)));
    }),
    spoiled("C02", |fixture| {
        for rank in 0..2 {
            end(fixture, rank, 200, (CollectiveOp::Gatherv, None, 8192, 8192));
        }
    }),
    spoiled("C03", |fixture| {
        fixture.ranks[0].retain(|step| !matches!(step, Step::IsendComplete(..)));
    }),
    spoiled("C04", |fixture| {
        set(fixture, 0, |step| matches!(step, Step::Isend(..)), Step::Isend(400, 2, 1));
    })
    .with(&["C08"]),
    spoiled("C05", |fixture| {
        end(fixture, 1, 350, (CollectiveOp::Bcast, Some(1), 0, 64));
    }),
    spoiled("C06", |fixture| {
        end(fixture, 1, 350, (CollectiveOp::Bcast, Some(0), 0, 32));
    }),
    spoiled("C07", without_broadcast),
    spoiled("C08", |fixture| {
        fixture.ranks[1].retain(|step| !matches!(step, Step::IrecvRequest(..) | Step::Irecv(..)));
    }),
    spoiled("C09", |fixture| {
        set(fixture, 1, |step| matches!(step, Step::Irecv(..)), Step::IrecvBytes(455, 0, 7, 999));
    }),
    spoiled("C10", |fixture| {
        fixture.ranks[0].retain(|step| !matches!(step, Step::PutComplete(..)));
    }),
    spoiled("C11", |fixture| {
        fixture.property("NCCL::COUNT::COLL::LOST", "2");
        without_broadcast(fixture);
    })
    .with(&["A05"]),
    spoiled("C12", |fixture| {
        fixture.ranks[1].clear();
        fixture.property("NCCL::RANKS_MISSING", "1");
    }),
    stated("C13", &[("NCCL::RANKS_MISSING", "1")]),
    spoiled("C14", |fixture| {
        end(fixture, 1, 350, (CollectiveOp::Bcast, Some(1), 0, 64));
        fixture.property("NCCL::MISMATCH::FUNCTION", "1");
        let list = "world: collective 2: rank 0 Broadcast of 64 bytes root 0; rank 1 Reduce of 64 bytes root 0";
        fixture.property("NCCL::MISMATCH::FUNCTION::LIST", list);
    })
    .with(&["C11"]),
    spoiled("C15", |fixture| {
        end(fixture, 1, 350, (CollectiveOp::Bcast, Some(0), 0, 32));
        fixture.property("NCCL::MISMATCH::COUNT", "1");
        let list = "world: collective 2: rank 0 Broadcast of 64 bytes root 0; rank 1 Broadcast of 32 bytes root 0";
        fixture.property("NCCL::MISMATCH::COUNT::LIST", list);
    })
    .with(&["C11"]),
    stated("C16", &[("NCCL::MISMATCH::DATATYPE", "1"), ("NCCL::MISMATCH::DATATYPE::LIST", "world: collective 1: …")]),
    stated("C17", &[("NCCL::MISMATCH::ROOT", "1"), ("NCCL::MISMATCH::ROOT::LIST", "world: collective 2: …")]),
    stated("C18", &[("NCCL::MISMATCH::ORDER", "2"), ("NCCL::MISMATCH::ORDER::LIST", "world: collective 1: …")])
        // Two are counted and one is listed.
        .with(&["A03"]),
    spoiled("C19", |fixture| {
        without_broadcast(fixture);
        fixture.property("NCCL::RANKS_BEHIND", "1");
        let list = "world: rank 1 had called 1 of 2 collectives when the recording ended";
        fixture.property("NCCL::RANKS_BEHIND::LIST", list);
    })
    .with(&["C11"]),
    stated(
        "C20",
        &[("NCCL::MATCHING_UNKNOWN", "1"), ("NCCL::MATCHING_UNKNOWN::LIST", "another: rank 0: records were lost")],
    ),
];

/// Other ways to break some rules.
pub(super) const OTHER_CASES: &[Case] = &[
    // A collective that rank 1 lacks.
    spoiled("C13", |fixture| {
        fixture.property("NCCL::COUNT::COLL::LOST", "2");
        without_broadcast(fixture);
        fixture.property("NCCL::COLLECTIVES_UNMATCHED", "0");
    })
    .with(&["A05", "C11"]),
    stated("C13", &[("NCCL::COLLECTIVES_UNMATCHED", "1")]),
    // A receive that completes without a request, and one that is requested twice.
    spoiled("C03", |fixture| {
        fixture.ranks[1].retain(|step| !matches!(step, Step::IrecvRequest(..)));
    }),
    spoiled("C03", |fixture| fixture.ranks[1].insert(0, Step::IrecvRequest(101, 7))),
    // Different operations, and different sizes in a collective without a root.
    spoiled("C05", |fixture| {
        end(fixture, 1, 200, (CollectiveOp::Allgather, None, 8192, 8192));
    }),
    spoiled("C06", |fixture| {
        end(fixture, 1, 200, (CollectiveOp::Allreduce, None, 0, 8192));
    }),
    // A message that is received twice.
    spoiled("C08", |fixture| {
        fixture.ranks[1].extend([
            Step::Enter(455, RECEIVE, 1000),
            Step::IrecvRequest(455, 8),
            Step::Irecv(455, 0, 8),
            Step::Leave(455, RECEIVE),
        ]);
    }),
];
