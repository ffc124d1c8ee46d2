//! What the recording side writes is what the reading side gets, record by record, and a torn journal is
//! read up to the tear.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use nccl_profiler_otf2::clock::{self, ClockPair};
use nccl_profiler_otf2::event::{
    Body, CeColl, Coll, CommInit, Kind, Name, NetData, P2p, Start, State, StateArgs,
};
use nccl_profiler_otf2::id::ProcessTag;
use nccl_profiler_otf2::journal::layout::{HEADER_WORDS, SEGMENT_BYTES};
use nccl_profiler_otf2::journal::reader::{Journal, Outcome};
use nccl_profiler_otf2::journal::record::{Fields, Record, RecordBody, Symbol};
use nccl_profiler_otf2::journal::writer::{Registry, RegistryOptions, Stop};

fn registry(directory: &Path, limit_bytes: u64) -> Arc<Registry> {
    Registry::new(RegistryOptions {
        directory: directory.to_owned(),
        tag: ProcessTag::new(0x4e4f),
        process_id: std::process::id(),
        tick_source: clock::select(),
        session_start_realtime_ns: 42,
        limit_bytes,
    })
}

fn read(directory: &Path) -> (Vec<Record>, Outcome) {
    let mut records = Vec::new();
    let journal = Journal::open(directory).unwrap();
    assert_eq!(
        (journal.process_tag, journal.session_start_realtime_ns),
        (0x4e4f, 42)
    );
    assert_eq!(journal.process_id, std::process::id());
    let outcome = journal.read(&mut |record| records.push(record));
    (records, outcome)
}

/// One start of every kind, each field with a value of its own.
fn bodies<'a>(name: &dyn Fn(&str) -> Name<'a>) -> Vec<Body<'a>> {
    vec![
        Body::Group,
        Body::Coll(Coll {
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
        Body::P2p(P2p {
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
        Body::ProxyOp {
            pid: 16,
            channel: 127,
            peer: 17,
            steps: 18,
            chunk_bytes: 19,
            is_send: true,
        },
        Body::ProxyStep { step: 20 },
        Body::ProxyCtrl,
        Body::KernelCh {
            channel: 255,
            gpu_ns: u64::MAX,
        },
        Body::NetPlugin {
            id: -1,
            data: NetData::IbQueuePair {
                device: 21,
                work_request: 22,
                opcode: 23,
                queue_pair: 24,
                bytes: 25,
            },
        },
        Body::GroupApi {
            graph_captured: true,
            depth: 2,
        },
        Body::CollApi {
            func: name("Broadcast"),
            count: 26,
            datatype: name("ncclFloat16"),
            root: 27,
            stream: 28,
            graph_captured: true,
            user_tag: 29,
        },
        Body::P2pApi {
            func: name("Recv"),
            count: 30,
            datatype: name("ncclInt32"),
            stream: 31,
            graph_captured: false,
            user_tag: 32,
        },
        Body::KernelLaunch { stream: 33 },
        Body::CeColl(CeColl {
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
        Body::CeSync {
            complete: true,
            ranks: 44,
        },
        Body::CeBatch {
            operations: 45,
            bytes: 46,
            intra_sync: true,
        },
        Body::KernelPhase {
            channel: 47,
            phase: 2,
            name: name("final_sync"),
            gpu_ns: 48,
        },
        Body::Unknown {
            event_type: 1 << 20,
        },
    ]
}

/// The event model as it should come back, by its debug text without the symbols' numbers.
fn expected(body: &Body<'_>) -> String {
    let text = format!("{body:?}");
    let flat = ["Coll(Coll", "P2p(P2p", "CeColl(CeColl"]
        .iter()
        .find_map(|open| {
            let (kind, _) = open.split_once('(')?;
            Some(format!(
                "{kind}{}",
                text.strip_prefix(open)?.strip_suffix(')')?
            ))
        });
    flat.unwrap_or(text)
}

fn found(fields: &Fields, outcome: &Outcome) -> String {
    let mut text = format!("{fields:?}");
    for number in (1..100).rev() {
        let symbol = Symbol(number);
        text = text.replace(
            &format!("{symbol:?}"),
            &format!("{:?}", outcome.symbols.text(symbol)),
        );
    }
    text.replace("Symbol(0)", "\"\"")
}

#[test]
fn every_kind_comes_back_as_it_went_in() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), u64::MAX);
    let mut cursor = registry.register("tester").unwrap();
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
        ids.push(cursor.start(&Start {
            context: 0xc0,
            parent: 0xa0,
            rank: -3,
            body: *body,
        }));
    }
    let all_args = [
        StateArgs::None,
        StateArgs::ProxyOp {
            bytes: 1,
            steps: -2,
        },
        StateArgs::ProxyStep { bytes: 3 },
        StateArgs::ProxyCtrl { appended: 4 },
        StateArgs::GpuTime { gpu_ns: 5 },
        StateArgs::NetPlugin {
            data: NetData::Socket {
                descriptor: 6,
                operation: 7,
                bytes: 8,
            },
        },
        StateArgs::NetPlugin {
            data: NetData::Opaque,
        },
    ];
    for (number, args) in all_args.iter().enumerate() {
        cursor.state(&State {
            event: 0xe0,
            state: u32::try_from(number).unwrap(),
            args: *args,
        });
    }
    cursor.stop(ids[0].get());
    let comm = CommInit {
        table: 7,
        comm_id: 1 << 63,
        name: name("world"),
        nodes: 2,
        ranks: 8,
        rank: 5,
        nccl_version: 23203,
    };
    cursor.comm_init(0xc0, 77, 3, &comm);
    cursor.comm_finalize(0xc0, 88);
    let clocks = ClockPair::read();
    cursor.clock_pair(&clocks);

    let (records, outcome) = read(directory.path());
    assert_eq!(outcome.problems, []);
    assert_eq!(outcome.losses.total(), 0);
    let starts: Vec<&Record> = records
        .iter()
        .filter(|record| matches!(record.body, RecordBody::Start(_)))
        .collect();
    assert_eq!(starts.len(), bodies.len());
    for ((record, body), id) in starts.iter().zip(&bodies).zip(&ids) {
        let RecordBody::Start(start) = &record.body else {
            unreachable!()
        };
        assert_eq!(
            (start.context, start.parent, start.rank, record.id),
            (0xc0, 0xa0, -3, id.get())
        );
        assert_eq!(found(&start.fields, &outcome), expected(body));
    }
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
    assert_eq!(
        (*ticks, read.comm_id, read.ranks, read.rank, read.nodes),
        (77, 1 << 63, 8, 5, 2)
    );
    assert_eq!(
        (read.table, read.nccl_version, read.repetition),
        (7, 23203, 3)
    );
    assert_eq!(outcome.symbols.text(read.name), "world");
    assert!(
        matches!(rest.last(), Some(RecordBody::ClockPair { monotonic_ns, .. }) if *monotonic_ns == clocks.monotonic_ns)
    );
}

#[test]
fn segments_and_files_follow_one_another() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), u64::MAX);
    let mut cursor = registry.register("filler").unwrap();
    // More than a file of 64 segments: 48 bytes a start.
    let count = 64 * SEGMENT_BYTES / 48 + 1000;
    for step in 0..count {
        let step = i32::try_from(step).unwrap();
        let _id = cursor.start(&Start {
            context: 1,
            parent: 2,
            rank: 0,
            body: Body::ProxyStep { step },
        });
    }
    let mut next = 0;
    let outcome = Journal::open(directory.path())
        .unwrap()
        .read(&mut |record| {
            if let RecordBody::Start(start) = record.body {
                assert_eq!(start.fields, Fields::ProxyStep { step: next });
                next += 1;
            }
        });
    assert_eq!(usize::try_from(next).unwrap(), count);
    assert_eq!(outcome.problems, []);
    assert!(
        outcome.losses.stalls > 60,
        "without a keeper every segment is a stall"
    );
    assert!(directory.path().join("0.1").exists());
}

/// The keeper looks at slots at any moment, also while a thread goes from one file to the next.
#[test]
fn the_keeper_never_touches_what_is_not_reserved() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), u64::MAX);
    let mut cursor = registry.register("filler").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                registry.keep();
            }
        });
        // Four files.
        for step in 0..4 * 64 * SEGMENT_BYTES / 48 {
            let step = i32::try_from(step).unwrap();
            let _id = cursor.start(&Start {
                context: 1,
                parent: 2,
                rank: 0,
                body: Body::ProxyStep { step },
            });
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let (records, outcome) = read(directory.path());
    assert_eq!(records.len(), 1 + 4 * 64 * SEGMENT_BYTES / 48);
    assert_eq!(outcome.problems, []);
}

#[test]
fn the_limit_stops_recording_and_every_loss_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), 2 * SEGMENT_BYTES as u64);
    let mut cursor = registry.register("filler").unwrap();
    let count = 100_000;
    for step in 0..count {
        let id = cursor.start(&Start {
            context: 1,
            parent: 2,
            rank: 0,
            body: Body::ProxyStep { step },
        });
        cursor.stop(id.get());
    }
    assert_eq!(registry.stop_reason(), Some(Stop::Limit));
    assert!(registry.register("another").is_err());
    let (records, outcome) = read(directory.path());
    let starts = records
        .iter()
        .filter(|record| matches!(record.body, RecordBody::Start(_)))
        .count() as u64;
    let stops = records
        .iter()
        .filter(|record| record.body == RecordBody::Stop)
        .count() as u64;
    assert_eq!(
        starts + outcome.losses.starts[Kind::ProxyStep as usize],
        100_000
    );
    assert_eq!(stops + outcome.losses.stops, 100_000);
    assert!(outcome.losses.stops > 0);
}

#[test]
fn a_bad_record_ends_its_segment_and_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), u64::MAX);
    let mut cursor = registry.register("tester").unwrap();
    for step in 0..10 {
        let _id = cursor.start(&Start {
            context: 1,
            parent: 2,
            rank: 0,
            body: Body::ProxyStep { step },
        });
    }
    let path = directory.path().join("0.0");
    let mut bytes = std::fs::read(&path).unwrap();
    // The thread's begin has 6 words, a step's start 6: break the sixth start.
    let at = 8 * (HEADER_WORDS + 6 + 5 * 6);
    bytes[at + 4] ^= 0x10;
    std::fs::write(&path, &bytes).unwrap();
    let (records, outcome) = read(directory.path());
    let starts = records
        .iter()
        .filter(|record| matches!(record.body, RecordBody::Start(_)))
        .count();
    assert_eq!(starts, 5);
    assert_eq!(outcome.problems.len(), 1);
    assert_eq!(
        (outcome.problems[0].offset, outcome.problems[0].lost_bytes),
        (at as u64, 5 * 48)
    );
}

#[test]
fn a_slot_goes_on_with_the_next_thread() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), u64::MAX);
    let first = registry.register("one").unwrap();
    registry.retire(first);
    let mut second = registry.register("two").unwrap();
    let _id = second.start(&Start {
        context: 1,
        parent: 2,
        rank: 0,
        body: Body::Group,
    });
    let (records, _) = read(directory.path());
    let threads: Vec<String> = records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::ThreadBegin { name, .. } => Some(format!("{}:{name}", record.slot)),
            RecordBody::ThreadEnd => Some("end".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(threads, ["0:one", "end", "0:two"]);
}

fn control() -> Start<'static> {
    Start {
        context: 1,
        parent: 0,
        rank: 0,
        body: Body::ProxyCtrl,
    }
}

/// What is recorded, one word each.
fn words(records: &[Record]) -> Vec<String> {
    let word = |record: &Record| match &record.body {
        RecordBody::Start(start) => format!("{:?}", start.fields.kind()),
        RecordBody::State { state, .. } => format!("{state}"),
        RecordBody::Stop => "stop".to_owned(),
        _ => String::new(),
    };
    let words = records.iter().map(word);
    words.filter(|word| !word.is_empty()).collect()
}

#[test]
fn empty_turns_of_the_proxy_are_a_number() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), u64::MAX);
    let mut cursor = registry.register("proxy").unwrap();
    let idle = |cursor: &mut nccl_profiler_otf2::journal::writer::Cursor, state: Option<u32>| {
        let id = cursor.start(&control()).get();
        if let Some(state) = state {
            cursor.state(&State {
                event: id,
                state,
                args: StateArgs::None,
            });
        }
        cursor.stop(id);
    };
    for _ in 0..100_000 {
        idle(&mut cursor, None);
    }
    idle(&mut cursor, Some(13));
    // One that is open when something else happens is not empty.
    let open = cursor.start(&control());
    let _group = cursor.start(&Start {
        body: Body::Group,
        ..control()
    });
    cursor.stop(open.get());
    let _held = cursor.start(&control());
    let (records, outcome) = read(directory.path());
    let expected = ["ProxyCtrl", "13", "stop", "ProxyCtrl", "Group", "stop"];
    assert_eq!(words(&records), expected);
    assert_eq!(outcome.losses.empty_controls, 100_001);
    assert!(records.is_sorted_by_key(|record| record.ticks));
}

#[test]
fn a_wait_is_recorded_once_for_each_step() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), u64::MAX);
    let mut cursor = registry.register("proxy").unwrap();
    let step = |step| Start {
        context: 1,
        parent: 2,
        rank: 0,
        body: Body::ProxyStep { step },
    };
    let (one, other) = (cursor.start(&step(0)).get(), cursor.start(&step(1)).get());
    for _ in 0..5_000 {
        for event in [one, other] {
            let args = StateArgs::ProxyStep { bytes: 0 };
            cursor.state(&State {
                event,
                state: 20,
                args,
            });
        }
    }
    for steps in [0, 0, 0, 1, 1, 2] {
        let args = StateArgs::ProxyOp { bytes: 7, steps };
        cursor.state(&State {
            event: one,
            state: 1,
            args,
        });
    }
    let (records, outcome) = read(directory.path());
    let expected = ["ProxyStep", "ProxyStep", "20", "20", "1", "1", "1"];
    assert_eq!(words(&records), expected);
    assert_eq!(outcome.losses.repeated_waits, 10_000 - 2 + 3);
}

/// What a thread without a slot loses is counted in the mapping, so a killed process says it too.
#[test]
fn losses_without_a_slot_survive_the_process() {
    use nccl_profiler_otf2::journal::writer::Lost;
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), SEGMENT_BYTES as u64);
    let _keeper = registry.register("keeper").unwrap();
    assert!(registry.register("another").is_err());
    registry.lose(Lost::Start(Kind::Coll));
    registry.lose(Lost::Start(Kind::Coll));
    registry.lose(Lost::Stop);
    registry.lose(Lost::Communicator);
    let (_, outcome) = read(directory.path());
    let losses = outcome.losses;
    assert_eq!(losses.starts[Kind::Coll as usize], 2);
    assert_eq!(
        (
            losses.stops,
            losses.states,
            losses.communicators,
            losses.total()
        ),
        (1, 0, 1, 4)
    );
    let (one, other) = (registry.slotless_id(), registry.slotless_id());
    assert!(!one.is_none() && one != other);
}
