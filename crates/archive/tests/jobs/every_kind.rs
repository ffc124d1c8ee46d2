//! One event of every kind, and everything written for it: location, region, region group, attributes and their values.
//! The table is in `docs/MAPPING.md` §5.

use nccl_events::{Body, Kind, Name, NetData, StateArgs, event};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::job::{KEEP, new_job, unified};
use crate::read::{attributes, events, print, text};
use archive::write_part;
use journal::testing::{NO_PROCESS, Process, ProcessIdentity, start, state};
use nccl_events::ids::EventId;
use otf2::{Definitions, Event, EventKind, GroupType, LocationRef};

/// A rank that does everything once; its transfers have this peer and size.
pub(crate) fn record(out: &Path, peer: i32, size: u64) -> std::path::PathBuf {
    let who = ProcessIdentity { rank: 0, ranks: 2, in_environment: true };
    let mut process = Process::begin(out, who);
    let coll = calls(&mut process);
    copy_engine(&mut process);
    transfers(&mut process, coll, peer, size);
    kernel(&mut process, coll);
    proxy_thread(&mut process);
    process.end()
}

/// A group of a broadcast and a send, launched as one plan; returns the broadcast.
fn calls(process: &mut Process) -> EventId {
    let context = process.context;
    let main = &mut process.main;
    let event = |parent: u64, body| start(context, parent, 0, body);
    let none = StateArgs::None;
    let group = main.start(&event(0, Body::GroupApi(event::GroupApi { graph_captured: true, depth: 2 })));
    main.state(&state(group, nccl_events::state::GROUP_START_API_STOP, none));
    let broadcast = main.start(&event(
        group.get(),
        Body::CollApi(event::CollApi {
            func: Name::from_cstr(c"Broadcast"),
            count: 10,
            datatype: Name::from_cstr(c"ncclFloat32"),
            root: 1,
            stream: 0x5000,
            user_tag: 7,
            ..event::CollApi::default()
        }),
    ));
    main.stop(broadcast.get());
    let send = main.start(&event(
        group.get(),
        Body::P2pApi(event::P2pApi {
            func: Name::from_cstr(c"Send"),
            count: 20,
            datatype: Name::from_cstr(c"ncclInt8"),
            stream: 0x5000,
            user_tag: 8,
            ..event::P2pApi::default()
        }),
    ));
    main.stop(send.get());
    main.state(&state(group, nccl_events::state::GROUP_END_API_START, none));
    let launch = main.start(&event(group.get(), Body::KernelLaunch(event::KernelLaunch { stream: 0x5000 })));
    main.stop(launch.get());
    let plan = main.start(&event(0, Body::Group(event::Group {})));
    let coll = main.start(&event(
        broadcast.get(),
        Body::Coll(event::Coll {
            sequence: 3,
            func: Name::from_cstr(c"Broadcast"),
            send_buffer: 1,
            recv_buffer: 2,
            count: 10,
            root: 1,
            datatype: Name::from_cstr(c"ncclFloat32"),
            channels: 2,
            warps: 8,
            algorithm: Name::from_cstr(c"RING"),
            protocol: Name::from_cstr(c"LL128"),
            parent_group: plan.get(),
            comm_hash: 0,
            kernel_variant: Name::from_cstr(c"variant"),
            is_symmetric: true,
            user_tag: 7,
        }),
    ));
    let p2p = main.start(&event(
        send.get(),
        Body::P2p(event::P2p {
            func: Name::from_cstr(c"Send"),
            buffer: 3,
            datatype: Name::from_cstr(c"ncclInt8"),
            count: 20,
            peer: 1,
            channels: 1,
            parent_group: plan.get(),
            comm_hash: 0,
            user_tag: 8,
        }),
    ));
    for event in [coll, p2p, plan, group] {
        main.stop(event.get());
    }
    coll
}

/// A copy-engine collective with its parts.
fn copy_engine(process: &mut Process) {
    let context = process.context;
    let main = &mut process.main;
    let coll = main.start(&start(
        context,
        0,
        0,
        Body::CeColl(event::CeColl {
            sequence: 4,
            func: Name::from_cstr(c"AllGather"),
            send_buffer: 1,
            recv_buffer: 2,
            count: 30,
            datatype: Name::from_cstr(c"ncclInt8"),
            sync_strategy: Name::from_cstr(c"MC"),
            stream: 0x6000,
            user_tag: 9,
            ..event::CeColl::default()
        }),
    ));
    for body in [
        Body::CeSync(event::CeSync { complete: true, ranks: 2 }),
        Body::CeBatch(event::CeBatch { operations: 5, bytes: 600, intra_sync: true }),
    ] {
        let part = main.start(&start(context, coll.get(), 0, body));
        main.stop(part.get());
    }
    main.stop(coll.get());
}

/// A step sent and a step received, with the reports of network plugins.
fn transfers(process: &mut Process, coll: EventId, peer: i32, size: u64) {
    let context = process.context;
    let proxy = &mut process.proxy;
    let plugins = |is_send| {
        if is_send {
            vec![
                (
                    0x20001,
                    NetData::IbQueuePair { device: 3, work_request: 0xabc, opcode: 1, queue_pair: 77, bytes: 4096 },
                ),
                (0x990_001, NetData::Opaque),
            ]
        } else {
            vec![(0x30001, NetData::Socket { descriptor: 12, operation: 2, bytes: 4097 })]
        }
    };
    for is_send in [true, false] {
        let body = Body::ProxyOp(event::ProxyOp {
            pid: i32::try_from(NO_PROCESS).expect("it fits"),
            channel: 1,
            peer,
            steps: 4,
            chunk_bytes: 512,
            is_send,
        });
        let operation = proxy.start(&start(context, coll.get(), 0, body));
        let in_progress = nccl_events::state::PROXY_OP_IN_PROGRESS;
        proxy.state(&state(operation, in_progress, StateArgs::None));
        let body = Body::ProxyStep(event::ProxyStep { step: 10 });
        let step = proxy.start(&start(context, operation.get(), 0, body));
        let states = if is_send {
            [
                nccl_events::state::PROXY_STEP_SEND_GPU_WAIT,
                nccl_events::state::PROXY_STEP_SEND_PEER_WAIT,
                nccl_events::state::PROXY_STEP_SEND_WAIT,
            ]
        } else {
            [
                nccl_events::state::PROXY_STEP_RECV_WAIT,
                nccl_events::state::PROXY_STEP_RECV_FLUSH_WAIT,
                nccl_events::state::PROXY_STEP_RECV_GPU_WAIT,
            ]
        };
        for told in states {
            let has_size = matches!(
                told,
                nccl_events::state::PROXY_STEP_SEND_WAIT | nccl_events::state::PROXY_STEP_RECV_FLUSH_WAIT
            );
            let bytes = if has_size { size } else { 0 };
            proxy.state(&state(step, told, StateArgs::ProxyStep { bytes }));
        }
        for (id, data) in plugins(is_send) {
            let body = Body::NetPlugin(event::NetPlugin { id, data });
            let plugin = proxy.start(&start(context, step.get(), 0, body));
            proxy.stop(plugin.get());
        }
        proxy.stop(step.get());
        proxy.stop(operation.get());
    }
}

/// A kernel's channel with a phase, on the GPU's timer. It ends well after the copies began, which moves their start.
fn kernel(process: &mut Process, coll: EventId) {
    let context = process.context;
    let proxy = &mut process.proxy;
    std::thread::sleep(Duration::from_millis(5));
    let now = || journal::clock::monotonic_ns() - 1000;
    let body = Body::KernelCh(event::KernelCh { channel: 1, gpu_ns: now() });
    let channel = proxy.start(&start(context, coll.get(), 0, body));
    let body = Body::KernelPhase(event::KernelPhase {
        channel: 1,
        phase: 1,
        name: Name::from_cstr(c"compute"),
        gpu_ns: now(),
    });
    let phase = proxy.start(&start(context, channel.get(), 0, body));
    for (event, stop) in [(phase, nccl_events::state::KERNEL_PHASE_STOP), (channel, nccl_events::state::KERNEL_CH_STOP)]
    {
        let gpu_ns = now();
        proxy.state(&state(event, stop, StateArgs::GpuTime { gpu_ns }));
        proxy.stop(event.get());
    }
}

/// The proxy thread runs out of work, sleeps, wakes up, and takes three operations.
fn proxy_thread(process: &mut Process) {
    let context = process.context;
    let proxy = &mut process.proxy;
    let told: [&[(u32, i32)]; 4] = [
        &[(nccl_events::state::PROXY_CTRL_IDLE, 0)],
        &[(nccl_events::state::PROXY_CTRL_ACTIVE, 0)],
        &[(nccl_events::state::PROXY_CTRL_SLEEP, 0), (nccl_events::state::PROXY_CTRL_WAKEUP, 0)],
        &[(nccl_events::state::PROXY_CTRL_APPEND, 0), (nccl_events::state::PROXY_CTRL_APPEND_END, 3)],
    ];
    for states in told {
        let control = proxy.start(&start(context, 0, 0, Body::ProxyCtrl(event::ProxyCtrl {})));
        for &(told, appended) in states {
            proxy.state(&state(control, told, StateArgs::ProxyCtrl { appended }));
        }
        proxy.stop(control.get());
    }
}

/// Location, region group, region, attributes on ENTER, attributes on LEAVE; or location, `record`, parameter,
/// attributes, number. Values from a clock are `…`.
type Row = [String; 5];

pub(crate) fn carried(definitions: &Definitions, event: &Event) -> String {
    let mut all: Vec<String> = Vec::new();
    for (name, value) in attributes(definitions, event) {
        let name = name.trim_start_matches("nccl.");
        match name {
            // Ids differ from run to run.
            "event" => assert!(value != "0"),
            "parent" | "group" => {}
            "launch" | "queued_ns" | "start_moved_ns" | "duration_ns" | "wait_gpu_ns" | "wait_peer_ns"
            | "wait_net_ns" | "flush_ns" | "cut_ns" => all.push(format!("{name}=…")),
            _ => all.push(format!("{name}={value}")),
        }
    }
    all.sort();
    all.join(" ")
}

pub(crate) fn group_of(definitions: &Definitions, region: u64) -> String {
    let mut groups = definitions
        .groups
        .values()
        .filter(|group| group.group_type == GroupType::Regions && group.members.contains(&region));
    let group = groups.next().expect("it is in one");
    assert!(groups.next().is_none(), "it is in one only");
    text(definitions, group.name).to_owned()
}

fn rows(definitions: &Definitions, events: &BTreeMap<LocationRef, Vec<Event>>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (location, events) in events {
        let location = text(definitions, definitions.locations[location].name).to_owned();
        let thread = ["API thread", "proxy thread"].into_iter().find(|thread| location.starts_with(thread));
        let location = thread.map_or_else(|| location.clone(), str::to_owned);
        let mut open: Vec<String> = Vec::new();
        for event in events {
            match event.kind {
                EventKind::Enter(_) => open.push(carried(definitions, event)),
                EventKind::Leave(region) => {
                    let name = text(definitions, definitions.regions[&region].name).to_owned();
                    rows.push([
                        location.clone(),
                        group_of(definitions, region.get().into()),
                        name,
                        open.pop().expect("entered"),
                        carried(definitions, event),
                    ]);
                }
                EventKind::ParameterUnsignedInt { parameter, value } => {
                    let name = text(definitions, definitions.parameters[&parameter].name).to_owned();
                    rows.push([
                        location.clone(),
                        "record".to_owned(),
                        name,
                        carried(definitions, event),
                        value.to_string(),
                    ]);
                }
                _ => {}
            }
        }
    }
    rows.sort();
    rows
}

fn expected() -> Vec<Row> {
    let table = include_str!("every_kind.tsv").lines();
    let rows = table.map(|line| {
        let columns: Vec<String> = line.split('\t').map(str::to_owned).collect();
        columns.try_into().expect("five columns")
    });
    rows.collect()
}

#[test]
fn every_kind_of_event_is_written_with_all_that_nccl_told() {
    let out: &Path = &new_job();
    let part = record(out, 1, 4000);
    let summary = write_part(&part, &KEEP, &()).expect("written");
    for kind in Kind::ALL {
        let counts = summary.counts.kinds.get(kind);
        let is_known = kind != Kind::Unknown;
        assert_eq!(counts.seen > 0, is_known, "{kind:?}");
        assert_eq!(counts.written, counts.seen, "{kind:?}");
    }
    let archive = unified(out);
    let definitions = archive.definitions().expect("definitions");
    let rows = rows(&definitions, &events(&archive));
    let shown: Vec<String> = rows.iter().map(|row| row.join("\t")).collect();
    assert!(rows == expected(), "{}", shown.join("\n"));
    print(out);
}
