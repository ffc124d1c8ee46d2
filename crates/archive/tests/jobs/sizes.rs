//! Communicators of unknown size: up to version 3 of the interface `init` does not describe the communicator, and each
//! process knows only its own ranks and their peers. The bytes that the members of a collective state must fit together
//! all the same.

use std::collections::BTreeMap;

use std::path::Path;

use crate::job::{new_job, unified, write};
use crate::read::events;
use journal::clock;
use journal::testing::{Process, ProcessIdentity, start};
use nccl_events::ids::{ContextId, ProcessTag};
use nccl_events::{Body, CommInit, Name, event};
use otf2::{CollectiveOp, EventKind};

const RANKS: u32 = 3;
const ROOT: i32 = 1;

/// A process of one rank, which does not see the others.
fn record(out: &Path, rank: u32) {
    let who = ProcessIdentity { rank, ranks: RANKS, in_environment: true };
    let mut process = Process::begin(out, who);
    let tag = ProcessTag::new(u16::try_from(0x100 + rank).expect("few ranks"));
    let context = ContextId::new(tag, 2);
    let nothing = CommInit {
        table: nccl_events::Table::V2,
        comm_id: 0,
        name: Name::NONE,
        nodes: 0,
        ranks: 0,
        rank: -1,
        nccl_version: 22403,
    };
    process.main.comm_init(context.get(), clock::ticks(), 0, &nothing);
    for (sequence, func) in (0..).zip([c"AllReduce", c"Broadcast", c"Reduce", c"AllGather"]) {
        let coll = Body::Coll(event::Coll {
            sequence,
            func: Name::from_cstr(func),
            count: 1000,
            root: ROOT,
            datatype: Name::from_cstr(c"ncclFloat32"),
            channels: 1,
            comm_hash: 0xbeef,
            ..event::Coll::default()
        });
        let rank = i32::try_from(rank).expect("few ranks");
        let event = process.main.start(&start(context, 0, rank, coll));
        process.main.stop(event.get());
    }
    process.main.comm_finalize(context.get(), clock::ticks());
    write(&process.end());
}

#[test]
fn ranks_that_do_not_know_each_other_agree_on_bytes() {
    let out: &Path = &new_job();
    for rank in 0..RANKS {
        record(out, rank);
    }
    let archive = unified(out);
    let mut bytes: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events(&archive).values().flatten() {
        if let EventKind::MpiCollectiveEnd(collective) = event.kind {
            let of = bytes.entry(format!("{:?}", collective.op)).or_default();
            of.push((collective.bytes_sent, collective.bytes_received));
        }
    }
    // By rank; the expected bytes are those of N = 1 for communicators of known size.
    let expected = [
        (CollectiveOp::Allgather, [(4000, 4000); 3]),
        (CollectiveOp::Allreduce, [(4000, 4000); 3]),
        (CollectiveOp::Bcast, [(0, 4000), (4000, 4000), (0, 4000)]),
        (CollectiveOp::Reduce, [(4000, 0), (4000, 4000), (4000, 0)]),
    ];
    assert_eq!(bytes, expected.map(|(op, of)| (format!("{op:?}"), of.to_vec())).into());
    assert_eq!(archive.property("NCCL::COUNT::SIZES_UNKNOWN"), Some("12"));
    // The checker of bytes reads these archives, too.
    whole_plugin::archive::Archive::open(out).sound();
}
