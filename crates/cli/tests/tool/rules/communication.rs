//! Rules on communication: collectives, messages, ranks.

use otf2::CollectiveOp;

use super::{Case, set, spoiled};
use crate::tool::fixture::{RECEIVE, Step};

/// One archive for each rule.
pub(super) const CASES: &[Case] = &[
    spoiled("C01", |fixture| {
        fixture.ranks[0].retain(|step| !matches!(step, Step::Begin(300)));
    }),
    spoiled("C02", |fixture| {
        for rank in 0..2 {
            let wrong = Step::End(200, CollectiveOp::Gatherv, None, 8192, 8192);
            set(fixture, rank, |step| matches!(step, Step::End(200, ..)), wrong);
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
        let wrong = Step::End(350, CollectiveOp::Bcast, Some(1), 0, 64);
        set(fixture, 1, |step| matches!(step, Step::End(350, ..)), wrong);
    }),
    spoiled("C06", |fixture| {
        let wrong = Step::End(350, CollectiveOp::Bcast, Some(0), 0, 32);
        set(fixture, 1, |step| matches!(step, Step::End(350, ..)), wrong);
    }),
    spoiled("C07", |fixture| {
        fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
    }),
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
        fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
    })
    .with(&["A05"]),
    spoiled("C12", |fixture| {
        fixture.ranks[1].clear();
        fixture.property("NCCL::RANKS_MISSING", "1");
    }),
    spoiled("C13", |fixture| fixture.property("NCCL::RANKS_MISSING", "1")),
    spoiled("C14", |fixture| {
        let wrong = Step::End(350, CollectiveOp::Bcast, Some(1), 0, 64);
        set(fixture, 1, |step| matches!(step, Step::End(350, ..)), wrong);
        fixture.property("NCCL::MISMATCH::FUNCTION", "1");
        let said = "world: collective 2: rank 0 Broadcast of 64 bytes root 0; rank 1 Reduce of 64 bytes root 0";
        fixture.property("NCCL::MISMATCH::FUNCTION::LIST", said);
    })
    .with(&["C11"]),
    spoiled("C15", |fixture| {
        let wrong = Step::End(350, CollectiveOp::Bcast, Some(0), 0, 32);
        set(fixture, 1, |step| matches!(step, Step::End(350, ..)), wrong);
        fixture.property("NCCL::MISMATCH::COUNT", "1");
        let said = "world: collective 2: rank 0 Broadcast of 64 bytes root 0; rank 1 Broadcast of 32 bytes root 0";
        fixture.property("NCCL::MISMATCH::COUNT::LIST", said);
    })
    .with(&["C11"]),
    spoiled("C16", |fixture| {
        fixture.property("NCCL::MISMATCH::DATATYPE", "1");
        fixture.property("NCCL::MISMATCH::DATATYPE::LIST", "world: collective 1: …");
    }),
    spoiled("C17", |fixture| {
        fixture.property("NCCL::MISMATCH::ROOT", "1");
        fixture.property("NCCL::MISMATCH::ROOT::LIST", "world: collective 2: …");
    }),
    spoiled("C18", |fixture| {
        fixture.property("NCCL::MISMATCH::ORDER", "2");
        fixture.property("NCCL::MISMATCH::ORDER::LIST", "world: collective 1: …");
    })
    // Two are counted and one is listed.
    .with(&["A03"]),
    spoiled("C19", |fixture| {
        fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
        fixture.property("NCCL::RANKS_BEHIND", "1");
        let said = "world: rank 1 had called 1 of 2 collectives when the recording ended";
        fixture.property("NCCL::RANKS_BEHIND::LIST", said);
    })
    .with(&["C11"]),
    spoiled("C20", |fixture| {
        fixture.property("NCCL::MATCHING_UNKNOWN", "1");
        let said = "another: rank 0: records were lost";
        fixture.property("NCCL::MATCHING_UNKNOWN::LIST", said);
    }),
];

/// Rules that can be broken in another way as well.
pub(super) const OTHER_CASES: &[Case] = &[
    // There is one that rank 1 does not have.
    spoiled("C13", |fixture| {
        fixture.property("NCCL::COUNT::COLL::LOST", "2");
        fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
        fixture.property("NCCL::COLLECTIVES_UNMATCHED", "0");
    })
    .with(&["A05", "C11"]),
    spoiled("C13", |fixture| {
        fixture.property("NCCL::COLLECTIVES_UNMATCHED", "1");
    }),
    // A receive that completes and was not asked for, and one that is asked for twice.
    spoiled("C03", |fixture| {
        fixture.ranks[1].retain(|step| !matches!(step, Step::IrecvRequest(..)));
    }),
    spoiled("C03", |fixture| fixture.ranks[1].insert(0, Step::IrecvRequest(101, 7))),
    // Different operations, and different bytes where none is special.
    spoiled("C05", |fixture| {
        let wrong = Step::End(200, CollectiveOp::Allgather, None, 8192, 8192);
        set(fixture, 1, |step| matches!(step, Step::End(200, ..)), wrong);
    }),
    spoiled("C06", |fixture| {
        let wrong = Step::End(200, CollectiveOp::Allreduce, None, 0, 8192);
        set(fixture, 1, |step| matches!(step, Step::End(200, ..)), wrong);
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
