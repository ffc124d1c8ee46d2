//! Records about GPUs come back as they were written.

use journal::record::{RecordBody, Symbol};
use nccl_events::Name;
use nccl_events::gpu::{ALL_DEVICES, Backend, ClockSample, Copy, Device, GpuClock, GpuRecord, Kernel, LaunchTime};

use super::{read, writer};

/// One of every kind, each field with a value of its own. The names are the 1st, 2nd and 3rd of the journal.
fn records<N>(names: [N; 3]) -> [GpuRecord<N>; 8] {
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
fn every_kind_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), 64 << 20);
    let mut slot_writer = writer.register("tester").unwrap();
    let names = [c"NVIDIA H100", c"_Z23ncclDevKernel_AllReducev", c"events: torch is there"];
    for (ticks, record) in (1000..).zip(records(names.map(Name::from_cstr))) {
        assert!(slot_writer.gpu(ticks, ticks + 1, &record));
    }

    let (found, outcome) = read(directory.path());
    assert_eq!(outcome.problems, []);
    let found: Vec<_> = found
        .into_iter()
        .filter_map(|record| match record.body {
            RecordBody::Gpu(gpu) => Some((record.ticks, record.id, gpu)),
            _ => None,
        })
        .collect();
    let wanted: Vec<_> = (1000..)
        .zip(records([Symbol(1), Symbol(2), Symbol(3)]))
        .map(|(ticks, record)| (ticks, ticks + 1, record))
        .collect();
    assert_eq!(found, wanted);
    let said = [Symbol(1), Symbol(2), Symbol(3)].map(|symbol| outcome.symbols.text(symbol).to_owned());
    assert_eq!(said, names.map(|name| name.to_str().unwrap().to_owned()));
}
