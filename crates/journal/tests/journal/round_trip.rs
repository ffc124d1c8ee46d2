//! One record of every kind against what comes back.

use nccl_events::event;
use std::ffi::CString;

use journal::clock::ClockPair;
use journal::format::record::{Record, RecordBody, Symbol};
use journal::reader::Outcome;
use nccl_events::control::Span;
use nccl_events::control::{Cause, Switch, Turn, Wanted};
use nccl_events::{Body, CommInit, Kind, Name, NetData, Start, State, StateArgs};

use super::{read, writer};

/// One start of every kind, each field with a value of its own.
fn bodies<'a>(name: &dyn Fn(&str) -> Name<'a>) -> Vec<Body<Name<'a>>> {
    vec![
        Body::Group(event::Group {}),
        Body::Coll(event::Coll {
            sequence: 1,
            func: name("AllReduce"),
            send_buffer: 2,
            recv_buffer: 3,
            count: 1 << 40,
            root: -5,
            datatype: name("ncclFloat32"),
            channels: 24,
            warps: 16,
            algorithm: name("RING"),
            protocol: name("LL128"),
            parent_group: 6,
            comm_hash: 7,
            kernel_variant: name("AGxLL_R"),
            is_symmetric: true,
            user_tag: 8,
        }),
        Body::P2p(event::P2p {
            func: name("Send"),
            buffer: 9,
            datatype: name("ncclInt8"),
            count: 10,
            peer: 11,
            channels: 12,
            parent_group: 13,
            comm_hash: 14,
            user_tag: 15,
        }),
        Body::ProxyOp(event::ProxyOp { pid: 16, channel: 127, peer: 17, steps: 18, chunk_bytes: 19, is_send: true }),
        Body::ProxyStep(event::ProxyStep { step: 20 }),
        Body::ProxyCtrl(event::ProxyCtrl {}),
        Body::KernelCh(event::KernelCh { channel: 255, gpu_ns: u64::MAX }),
        Body::NetPlugin(event::NetPlugin {
            id: -1,
            data: NetData::IbQueuePair { device: 21, work_request: 22, opcode: 23, queue_pair: 24, bytes: 25 },
        }),
        Body::GroupApi(event::GroupApi { graph_captured: true, depth: 2 }),
        Body::CollApi(event::CollApi {
            func: name("Broadcast"),
            count: 26,
            datatype: name("ncclFloat16"),
            root: 27,
            stream: 28,
            graph_captured: true,
            user_tag: 29,
        }),
        Body::P2pApi(event::P2pApi {
            func: name("Recv"),
            count: 30,
            datatype: name("ncclInt32"),
            stream: 31,
            graph_captured: false,
            user_tag: 32,
        }),
        Body::KernelLaunch(event::KernelLaunch { stream: 33 }),
        Body::CeColl(event::CeColl {
            sequence: 34,
            func: name("AllGather"),
            send_buffer: 35,
            recv_buffer: 36,
            count: 37,
            root: 38,
            datatype: name("ncclUint8"),
            sync_strategy: name("MC"),
            intra_batch_sync: true,
            batch_size: 39,
            batches: 40,
            ce_sequence: 41,
            stream: 42,
            user_tag: 43,
        }),
        Body::CeSync(event::CeSync { complete: true, ranks: 44 }),
        Body::CeBatch(event::CeBatch { operations: 45, bytes: 46, intra_sync: true }),
        Body::KernelPhase(event::KernelPhase { channel: 47, phase: 2, name: name("final_sync"), gpu_ns: 48 }),
        Body::Unknown(event::Unknown { event_type: 1 << 20 }),
    ]
}

/// By its debug text, without the numbers of symbols.
fn found(fields: &Body<Symbol>, outcome: &Outcome) -> String {
    let mut text = format!("{fields:?}");
    for number in (1..100).rev() {
        let symbol = Symbol(number);
        text = text.replace(&format!("{symbol:?}"), &format!("{:?}", outcome.symbols.text(symbol)));
    }
    text.replace("Symbol(0)", "\"\"")
}

#[test]
fn every_kind_comes_back_as_it_went_in() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("tester").unwrap();
    let strings: std::cell::RefCell<Vec<&'static CString>> = std::cell::RefCell::default();
    let name = |text: &str| {
        let string: &'static CString = Box::leak(Box::new(CString::new(text).unwrap()));
        strings.borrow_mut().push(string);
        Name::from_cstr(string)
    };
    let bodies = bodies(&name);
    assert_eq!(bodies.iter().map(Body::kind).collect::<Vec<_>>(), Kind::ALL);
    let mut ids = Vec::new();
    for body in &bodies {
        ids.push(slot_writer.start(&Start { context: 0xc0, parent: 0xa0, rank: -3, body: *body }));
    }
    let all_args = [
        StateArgs::None,
        StateArgs::ProxyOp { bytes: 1, steps: -2 },
        StateArgs::ProxyStep { bytes: 3 },
        StateArgs::ProxyCtrl { appended: 4 },
        StateArgs::GpuTime { gpu_ns: 5 },
        StateArgs::NetPlugin { data: NetData::Socket { descriptor: 6, operation: 7, bytes: 8 } },
        StateArgs::NetPlugin { data: NetData::Opaque },
    ];
    for (number, args) in all_args.iter().enumerate() {
        slot_writer.state(&State { event: 0xe0, state: u32::try_from(number).unwrap(), args: *args });
    }
    slot_writer.stop(ids[0].get());
    let comm =
        CommInit { table: 7, comm_id: 1 << 63, name: name("world"), nodes: 2, ranks: 8, rank: 5, nccl_version: 23203 };
    slot_writer.comm_init(0xc0, 77, 3, &comm);
    slot_writer.comm_finalize(0xc0, 88);
    let switch = Switch {
        cause: Cause::Signal,
        before: Wanted { is_on: true, events: 0xffff },
        after: Wanted { is_on: false, events: 0x80e },
    };
    slot_writer.switch(99, 0, &switch);
    let turn = Switch {
        cause: Cause::Steps(Turn { range: Some(Span { first: 100, last: u32::MAX }), started: 99, is_exact: true }),
        ..switch
    };
    slot_writer.switch(101, 0xc0, &turn);
    let not_selected = std::array::from_fn(|kind| 1000 + kind as u64);
    slot_writer.not_selected(not_selected);
    let clocks = ClockPair::read();
    slot_writer.clock_pair(&clocks);

    let (records, outcome) = read(directory.path());
    assert_eq!(outcome.problems, []);
    assert_eq!(outcome.losses.total(), 0);
    let starts: Vec<&Record> = records.iter().filter(|record| matches!(record.body, RecordBody::Start(_))).collect();
    assert_eq!(starts.len(), bodies.len());
    for ((record, body), id) in starts.iter().zip(&bodies).zip(&ids) {
        let RecordBody::Start(start) = &record.body else { unreachable!() };
        assert_eq!((start.context, start.parent, start.rank, record.id), (0xc0, 0xa0, -3, id.get()));
        assert_eq!(found(&start.body, &outcome), format!("{body:?}"));
    }
    let switched = |record: &&Record| record.body == RecordBody::Switch(switch);
    let switched = records.iter().find(switched).expect("the switch");
    assert_eq!(switched.ticks, 99);
    let turned = |record: &&Record| record.body == RecordBody::Switch(turn);
    let turned = records.iter().find(turned).expect("the window");
    assert_eq!((turned.ticks, turned.id), (101, 0xc0));
    let counted = |record: &Record| record.body == RecordBody::NotSelected(not_selected);
    assert!(records.iter().any(counted));
    let states: Vec<StateArgs> = records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::State { args, .. } => Some(*args),
            _ => None,
        })
        .collect();
    assert_eq!(states, all_args);
    let rest: Vec<&RecordBody> = records.iter().map(|record| &record.body).collect();
    assert!(matches!(rest[0], RecordBody::ThreadBegin { name, .. } if name == "tester"));
    assert!(rest.contains(&&RecordBody::Stop));
    let comms: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::CommInit(comm) => Some((record.ticks, comm.clone())),
            _ => None,
        })
        .collect();
    let (ticks, read) = &comms[0];
    assert_eq!((*ticks, read.comm_id, read.ranks, read.rank, read.nodes), (77, 1 << 63, 8, 5, 2));
    assert_eq!((read.table, read.nccl_version, read.repetition), (7, 23203, 3));
    assert_eq!(outcome.symbols.text(read.name), "world");
    assert!(
        matches!(rest.last(), Some(RecordBody::ClockPair { monotonic_ns, .. }) if *monotonic_ns == clocks.monotonic_ns)
    );
}
