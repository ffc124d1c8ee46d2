//! Whatever records come, in whatever state: every location is ordered and nested, nothing is lost on the
//! way, and nothing panics. Missing stops, stops twice, unknown parents, equal times, foreign contexts.

use crate::emit::definitions::Definitions;
use crate::timeline::build;
use crate::timeline::events::Role;
use crate::timeline::events::{EventBody, TimelineEvent};
use crate::timeline::instance::InstanceKind::{
    self, Call, CommFinalize, CommInit, Derived, DerivedCall, Enqueue, GroupEnd, GroupStart, Operation,
};
use crate::timeline::instance::RegionInstance;
use crate::timeline::location::LocationKey;
use crate::timeline::model::ProcessModel;
use journal::format::record::{CommRecord, Record, RecordBody, Records, Symbol};
use journal::part::options::ArchiveOptions;
use journal::reader::{Losses, Removed, Symbols};
use nccl_events::Body;
use nccl_events::Start;
use nccl_events::event;
use nccl_events::{Kind, NetData, StateArgs};
use std::collections::BTreeSet;
use tables::builder::TableBuilder;

use proptest::prelude::*;

/// What is on the locations of threads, and on no others.
const ON_THREADS: [InstanceKind; 6] = [CommInit, CommFinalize, Call, GroupStart, GroupEnd, Enqueue];
/// What is not an event of its own, or is shown beside the event's enqueueing.
const BESIDE: [InstanceKind; 5] = [CommInit, CommFinalize, Operation, Derived, DerivedCall];

const TAG: u64 = 7 << 48;
const CONTEXT: u64 = TAG | 0xfff << 36;

/// One of few ids, so that they meet; also none, and one of another process.
fn id() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (1_u64..24).prop_map(|id| TAG | id),
        1 => Just(0),
        1 => Just(9 << 48 | 3),
    ]
}

fn context() -> impl Strategy<Value = u64> {
    prop_oneof![8 => (1_u64..4).prop_map(|id| CONTEXT | id), 1 => Just(0), 1 => Just(42)]
}

fn fields(symbols: [Symbol; 3]) -> impl Strategy<Value = Body<Symbol>> {
    let [all_reduce, send, datatype] = symbols;
    prop_oneof![
        Just(Body::Group(event::Group {})),
        any::<bool>().prop_map(|graph_captured| Body::GroupApi(event::GroupApi { graph_captured, depth: 1 })),
        any::<bool>().prop_map(move |graph_captured| Body::CollApi(event::CollApi {
            func: all_reduce,
            count: 3,
            datatype,
            stream: 1,
            graph_captured,
            ..event::CollApi::default()
        })),
        Just(Body::KernelLaunch(event::KernelLaunch { stream: 1 })),
        (id(), 0_u64..9).prop_map(move |(parent_group, sequence)| Body::Coll(event::Coll {
            sequence,
            func: all_reduce,
            count: u64::MAX,
            root: -1,
            datatype,
            channels: 1,
            warps: 1,
            parent_group,
            comm_hash: sequence,
            ..event::Coll::default()
        })),
        (id(), -1_i32..4).prop_map(move |(parent_group, peer)| Body::P2p(event::P2p {
            func: send,
            datatype,
            count: 1,
            peer,
            channels: 200,
            parent_group,
            ..event::P2p::default()
        })),
        (any::<bool>(), -1_i32..3).prop_map(|(is_send, peer)| Body::ProxyOp(event::ProxyOp {
            pid: 1,
            channel: 0,
            peer,
            steps: 1,
            chunk_bytes: 1,
            is_send,
        })),
        prop_oneof![Just(0), Just(1), Just(8)].prop_map(|step| Body::ProxyStep(event::ProxyStep { step })),
        Just(Body::ProxyCtrl(event::ProxyCtrl {})),
        prop_oneof![Just(0_u64), 0_u64..80, Just(u64::MAX)]
            .prop_map(|gpu_ns| Body::KernelCh(event::KernelCh { channel: 1, gpu_ns })),
        (0_u64..80).prop_map(move |gpu_ns| Body::KernelPhase(event::KernelPhase {
            channel: 1,
            phase: 0,
            name: send,
            gpu_ns,
        })),
        Just(Body::CeColl(event::CeColl { func: all_reduce, count: 1, datatype, ..event::CeColl::default() })),
        prop_oneof![Just(NetData::Opaque), Just(NetData::Socket { descriptor: 1, operation: 1, bytes: 1 })]
            .prop_map(|data| Body::NetPlugin(event::NetPlugin { id: 7, data })),
        Just(Body::CeSync(event::CeSync { complete: true, ranks: 2 })),
        Just(Body::CeBatch(event::CeBatch { operations: 1, bytes: 1, intra_sync: false })),
        Just(Body::Unknown(event::Unknown { event_type: 1 << 40 })),
    ]
}

fn body(symbols: [Symbol; 3]) -> impl Strategy<Value = (u64, RecordBody)> {
    let start = (id(), id(), context(), -1_i32..4, fields(symbols)).prop_map(|(id, parent, context, rank, fields)| {
        let start = Start { parent, context, rank, body: fields };
        (id, RecordBody::Start(start))
    });
    let args = prop_oneof![
        Just(StateArgs::None),
        (0_u64..80).prop_map(|gpu_ns| StateArgs::GpuTime { gpu_ns }),
        any::<u64>().prop_map(|bytes| StateArgs::ProxyStep { bytes: bytes >> 8 }),
    ];
    let states = proptest::sample::select(vec![19_u32, 20, 22, 31, 23, 24, 8, 9, 12, 77]);
    let state = (id(), states, args);
    let comm = (context(), 0_u64..2, -1_i32..3, 0_i32..3, 0_u64..50);
    let comm = comm.prop_map(|(id, comm_id, rank, ranks, end_ticks)| {
        let comm = CommRecord {
            end_ticks,
            comm_id,
            name: Symbol::NONE,
            nodes: 1,
            ranks,
            rank,
            table: 6,
            nccl_version: 23007,
            repetition: 0,
        };
        (id, RecordBody::CommInit(comm))
    });
    prop_oneof![
        8 => start,
        6 => id().prop_map(|id| (id, RecordBody::Stop)),
        4 => state.prop_map(|(id, state, args)| (id, RecordBody::State { state, args })),
        1 => comm,
        1 => (context(), 0_u64..60)
            .prop_map(|(id, end_ticks)| (id, RecordBody::CommFinalize { end_ticks })),
        1 => (0_u32..3).prop_map(|thread_id| {
            (0, RecordBody::ThreadBegin { thread_id, name: "thread".to_owned() })
        }),
        1 => Just((0, RecordBody::ThreadEnd)),
    ]
}

/// Records of three slots; within a slot time goes on, in small steps so that times are often equal.
fn records(symbols: [Symbol; 3]) -> impl Strategy<Value = Vec<Record>> {
    let record = (0_u16..3, 0_u64..4, body(symbols));
    proptest::collection::vec(record, 0..120).prop_map(|parts| {
        let mut clock = [10_u64; 3];
        let mut records: Vec<Record> = Vec::new();
        for (slot, advance, (id, body)) in parts {
            let now = &mut clock[usize::from(slot)];
            *now += advance;
            records.push(Record { slot, ticks: *now, id, body });
        }
        records.sort_by_key(|record| record.slot);
        records
    })
}

fn symbols() -> (Symbols, [Symbol; 3]) {
    let mut symbols = Symbols::default();
    let all = ["AllReduce", "Send", "ncclFloat32"].map(|text| symbols.intern(text));
    (symbols, all)
}

fn check_location(events: &[TimelineEvent]) -> Result<Vec<RegionInstance>, TestCaseError> {
    let mut open: Vec<RegionInstance> = Vec::new();
    let mut entered = Vec::new();
    let mut in_collective = false;
    prop_assert!(events.is_sorted_by_key(|event| event.time));
    for event in events {
        match event.body {
            EventBody::Enter(instance) => {
                open.push(instance);
                entered.push(instance);
            }
            EventBody::Leave(instance) => prop_assert_eq!(open.pop(), Some(instance)),
            EventBody::Sample(..) | EventBody::Measurement(_) => {}
            EventBody::Message(message) => match message.role {
                Role::CollectiveBegin => {
                    prop_assert!(!in_collective, "collectives follow each other");
                    in_collective = true;
                }
                Role::CollectiveEnd => {
                    prop_assert!(in_collective);
                    in_collective = false;
                }
                _ => {}
            },
        }
    }
    prop_assert!(open.is_empty() && !in_collective);
    Ok(entered)
}

proptest! {
    #[test]
    fn locations_are_sound_and_counts_add_up(records in records(symbols().1)) {
        let (symbols, _) = symbols();
        let starts = records
            .iter()
            .filter(|record| matches!(record.body, RecordBody::Start(_)))
            .count();
        let mut builder = TableBuilder::default();
        records.into_iter().for_each(|record| builder.record(record));
        let tables = builder.finish(&Losses::default(), &Removed::default(), 0);
        let model = ProcessModel::of(&tables, &symbols, &[], ArchiveOptions::default());
        let (timeline, mut counts) = build(&model);
        counts.add(&tables.counts);

        let mut sum = 0;
        for (kind, numbers) in counts.kinds.iter() {
            prop_assert!(numbers.adds_up(), "{:?} {:?}", kind, numbers);
            sum += numbers.seen;
        }
        prop_assert_eq!(sum, starts as u64);

        let definitions = Definitions::of(&tables, &model.links, &timeline.regions, &symbols);
        let mut instances = BTreeSet::new();
        let mut built = BTreeSet::new();
        for mut location in timeline.locations {
            let key = location.key;
            location.sort();
            let mut cut = 0;
            let events: Vec<TimelineEvent> = location.events(location.instances.iter(), &mut cut).collect();
            for instance in check_location(&events)? {
                prop_assert!(definitions.region(instance.region).is_defined());
                prop_assert!(instances.insert((instance.source, instance.kind)), "built twice: {instance:?}");
                if !BESIDE.contains(&instance.kind) {
                    built.insert(instance.source);
                }
                let of_thread = ON_THREADS.contains(&instance.kind);
                prop_assert_eq!(matches!(key, LocationKey::Thread(_)), of_thread);
            }
        }
        let written: u64 = Kind::ALL
            .iter()
            .map(|&kind| counts.kinds.get(kind).written)
            .sum();
        prop_assert_eq!(built.len() as u64, written, "what is written is built");
    }
}
