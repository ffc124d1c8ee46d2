//! Writes one record of every kind and compares what is read.

use std::collections::BTreeSet;
use std::ffi::CString;

use journal::clock::ClockPair;
use journal::format::{Record, RecordBody, Symbol};
use journal::reader::Outcome;
use journal::writer::SlotWriter;
use nccl_events::gpu::{ALL_DEVICES, Backend, ClockSample, Copy, Device, GpuClock, GpuRecord, Kernel, LaunchTime};
use nccl_events::{Body, CommInit, Kind, Name, NetData, Start, State, StateArgs, event};
use nccl_events::{Cause, EventSelection, Span, StepSwitch, Switch};

use super::{Recording, text};

/// One start of every kind. Field values are distinct: no two bytes of a record are equal.
fn bodies() -> Vec<Body<Name<'static>>> {
    let bytes: Vec<u8> = (1..=8 * 15).collect();
    let words = bytes.as_chunks().0;
    let name = |number: u16| Some(leaked(&format!("a name {number}")));
    let body = |kind: &Kind| match kind {
        Kind::NetPlugin => {
            let data = NetData::IbQueuePair { device: 21, work_request: 22, opcode: 23, queue_pair: 24, bytes: 25 };
            Body::NetPlugin(event::NetPlugin { id: -1, data })
        }
        kind => Start::decode(*kind, true, words, name).expect("enough words").body,
    };
    Kind::ALL.iter().map(body).collect()
}

/// A name as NCCL passes it: a C string that is never freed.
fn leaked(text: &str) -> Name<'static> {
    Name::from_cstr(Box::leak(Box::new(CString::new(text).unwrap())))
}

/// Reads back what `write` writes; checks that there are no problems or losses.
fn recorded(write: impl FnOnce(&mut SlotWriter)) -> (Vec<Record>, Outcome) {
    let mut recording = Recording::new(u64::MAX);
    write(&mut recording.slot);
    let (records, outcome) = recording.read();
    assert_eq!((outcome.problems.len(), outcome.losses.total()), (0, 0));
    (records, outcome)
}

#[test]
fn every_kind_comes_back_as_it_went_in() {
    let bodies = bodies();
    for body in &bodies {
        let text = format!("{body:?}");
        let numbers: Vec<&str> =
            text.split(|character: char| !character.is_ascii_digit()).filter(|digits| digits.len() > 1).collect();
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "{text}");
    }
    let mut ids = Vec::new();
    let (records, outcome) = recorded(|to| {
        for body in &bodies {
            ids.push(to.start(&Start { context: 0xc0, parent: 0xa0, rank: -3, body: *body }));
        }
        to.stop(ids[0].get());
    });
    let starts = records.iter().filter_map(|record| match &record.body {
        RecordBody::Start(start) => Some((record.id, start)),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    assert_eq!(starts.len(), bodies.len());
    for (((id, start), body), given) in starts.iter().zip(&bodies).zip(&ids) {
        assert_eq!((start.context, start.parent, start.rank, *id), (0xc0, 0xa0, -3, given.get()));
        assert_eq!(text(&start.body, &outcome.symbols), format!("{body:?}"));
    }
    assert!(matches!(&records[0].body, RecordBody::ThreadBegin { name, .. } if name == "tester"));
    let stops = records.iter().filter(|record| record.body == RecordBody::Stop && record.id == ids[0].get());
    assert_eq!(stops.count(), 1);
}

#[test]
fn arguments_of_every_state_come_back() {
    let all_args = [
        StateArgs::None,
        StateArgs::ProxyOp { bytes: 1, steps: -2 },
        StateArgs::ProxyStep { bytes: 3 },
        StateArgs::ProxyCtrl { appended: 4 },
        StateArgs::GpuTime { gpu_ns: 5 },
        StateArgs::NetPlugin { data: NetData::Socket { descriptor: 6, operation: 7, bytes: 8 } },
        StateArgs::NetPlugin { data: NetData::Opaque },
    ];
    let (records, _) = recorded(|to| {
        for (state, args) in (0..).zip(all_args) {
            to.state(&State { event: 0xe0, state, args });
        }
    });
    let states = records.iter().filter_map(|record| match &record.body {
        RecordBody::State { args, .. } => Some(*args),
        _ => None,
    });
    assert_eq!(states.collect::<Vec<_>>(), all_args);
}

#[test]
fn communicators_and_clocks_come_back() {
    let name = leaked("world");
    let comm = CommInit {
        table: nccl_events::Table::V7,
        comm_id: 1 << 63,
        name,
        nodes: 2,
        ranks: 8,
        rank: 5,
        nccl_version: 23203,
    };
    let clocks = ClockPair::read();
    let (records, outcome) = recorded(|to| {
        to.comm_init(0xc0, 77, 3, &comm);
        to.comm_finalize(0xc0, 88);
        to.clock_pair(&clocks);
    });
    let comms = records.iter().filter_map(|record| match &record.body {
        RecordBody::CommInit(comm) => Some((record.ticks, comm)),
        _ => None,
    });
    let comms: Vec<_> = comms.collect();
    let [(ticks, read)] = comms[..] else { panic!("{comms:?}") };
    assert_eq!((ticks, read.comm_id, read.ranks, read.rank, read.nodes), (77, 1 << 63, 8, 5, 2));
    assert_eq!((read.table, read.nccl_version, read.repetition), (7, 23203, 3));
    assert_eq!(outcome.symbols.text(read.name), "world");
    let last = records.last().map(|record| &record.body);
    assert!(matches!(last, Some(RecordBody::ClockPair { monotonic_ns, .. }) if *monotonic_ns == clocks.monotonic_ns));
}

#[test]
fn switches_come_back() {
    let switch = Switch {
        cause: Cause::Signal,
        before: EventSelection { is_on: true, events: 0xffff },
        after: EventSelection { is_on: false, events: 0x80e },
    };
    let range = Some(Span { first: 100, last: u32::MAX });
    let step_switch =
        Switch { cause: Cause::Steps(StepSwitch { range, started: 99, is_exact: true, is_named: true }), ..switch };
    let not_selected = std::array::from_fn(|kind| 1000 + kind as u64);
    let (records, _) = recorded(|to| {
        to.switch(99, 0, &switch);
        to.switch(101, 0xc0, &step_switch);
        to.not_selected(not_selected);
    });
    let found = |body: RecordBody| records.iter().find(|record| record.body == body).expect("the record");
    assert_eq!(found(RecordBody::Switch(switch)).ticks, 99);
    let found_of_steps = found(RecordBody::Switch(step_switch));
    assert_eq!((found_of_steps.ticks, found_of_steps.id), (101, 0xc0));
    let _counts = found(RecordBody::NotSelected(not_selected));
}

/// One record of every kind about GPUs, with distinct field values. Names are the journal's first three.
fn gpu_records<N>(names: [N; 3]) -> [GpuRecord<N>; 8] {
    let [device, kernel, text] = names;
    [
        GpuRecord::Device(Device {
            ordinal: 3,
            is_mig: true,
            uuid: *b"0123456789abcdef",
            pci_domain: 0x1_0000,
            pci_bus: 0x41,
            pci_device: 0x1f,
            driver_version: 13_020,
            compute_capability: [9, 1],
            multiprocessors: 132,
            name: device,
        }),
        GpuRecord::DeviceOfCommunicator { ordinal: 7 },
        GpuRecord::Clock(ClockSample {
            clock: GpuClock::Events,
            ordinal: ALL_DEVICES,
            gpu_ns: u64::MAX - 1,
            uncertainty_ticks: 99,
        }),
        GpuRecord::Kernel(Kernel {
            correlation: 1,
            device: 2,
            context: 3,
            stream: 4,
            start_ns: 5 << 40,
            end_ns: 6 << 40,
            grid: [7, 8, 9],
            block: [10, 11, 12],
            static_shared_bytes: 13,
            dynamic_shared_bytes: 14,
            registers_per_thread: 0xffff,
            graph: 15,
            graph_node: 16 << 40,
            source_graph_node: 17 << 40,
            name: kernel,
        }),
        GpuRecord::Copy(Copy {
            correlation: 1,
            device: 2,
            context: 3,
            stream: 4,
            start_ns: 5 << 40,
            end_ns: 6 << 40,
            bytes: 1 << 50,
            kind: 8,
            source_kind: 3,
            destination_kind: 255,
            count: 16,
            graph_node: 17 << 40,
            source_device: 18,
            destination_device: 19,
        }),
        GpuRecord::LaunchTime(LaunchTime {
            ordinal: 1,
            uncertainty_ns: 500,
            stream: 0x7fff_0000_1234,
            start_ns: 2 << 40,
            end_ns: 3 << 40,
        }),
        GpuRecord::Notice { backend: Backend::Events, text },
        GpuRecord::Counts(std::array::from_fn(|count| 100 + count as u64)),
    ]
}

#[test]
fn records_about_gpus_come_back() {
    let names = [c"NVIDIA H100", c"_Z23ncclDevKernel_AllReducev", c"events: torch is there"];
    let (records, outcome) = recorded(|to| {
        for (ticks, record) in (1000..).zip(gpu_records(names.map(Name::from_cstr))) {
            assert!(to.gpu(ticks, ticks + 1, &record));
        }
    });
    let symbols = [1, 2, 3].map(Symbol);
    let wanted = (1000..).zip(gpu_records(symbols)).map(|(ticks, record)| (ticks, ticks + 1, RecordBody::Gpu(record)));
    assert!(records.into_iter().skip(1).map(|record| (record.ticks, record.id, record.body)).eq(wanted));
    assert_eq!(symbols.map(|symbol| outcome.symbols.text(symbol)), names.map(|name| name.to_str().unwrap()));
}
