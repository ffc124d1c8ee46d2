//! GPU work in archives: rows, regions, attributes, devices, properties.

use std::collections::BTreeMap;
use std::path::Path;

use crate::job::{KEEP, new_job, open, unified};
use crate::read::{attributes, events, print, text, value};
use archive::{unify, write_part};
use journal::clock;
use journal::testing::{Process, ProcessIdentity, start};
use nccl_events::archive::region::LAUNCH;
use nccl_events::gpu::{ALL_DEVICES, Backend, ClockSample, Copy, Device, GpuClock, GpuCount, GpuRecord, Kernel};
use nccl_events::{Body, Name, event};
use otf2::{Archive, EventKind, LocationGroupType, LocationRef, LocationType, Paradigm, RegionRole, SystemTreeDomain};

const MANGLED: &std::ffi::CStr = c"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";
const DEMANGLED: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";

/// CUPTI's clock is ahead of CLOCK_MONOTONIC by this much.
const AHEAD_NS: u64 = 5_000_000_000;

fn gpu(process: &mut Process, id: u64, record: &GpuRecord<Name<'_>>) {
    assert!(process.maintenance.gpu(clock::ticks(), id, record));
}

fn sample(process: &mut Process) {
    let sample = ClockSample {
        clock: GpuClock::Cupti,
        ordinal: ALL_DEVICES,
        gpu_ns: clock::monotonic_ns() + AHEAD_NS,
        uncertainty_ticks: 100,
    };
    gpu(process, 0, &GpuRecord::Clock(sample));
}

fn device(number: u8) -> Device<Name<'static>> {
    Device {
        ordinal: 0,
        is_mig: false,
        uuid: [number; 16],
        pci_domain: 0,
        pci_bus: 0x41 + number,
        pci_device: 0,
        driver_version: 12_080,
        compute_capability: [9, 0],
        multiprocessors: 132,
        name: Name::from_cstr(c"NVIDIA H100"),
    }
}

/// A collective done by the copy engine.
fn copied(process: &mut Process) -> u64 {
    let collective = Body::CeColl(event::CeColl {
        func: Name::from_cstr(c"AllGather"),
        count: 4096,
        datatype: Name::from_cstr(c"ncclInt8"),
        sync_strategy: Name::from_cstr(c"MC"),
        stream: 0x6000,
        ..event::CeColl::default()
    });
    let context = process.context;
    let collective = process.main.start(&start(context, 0, 0, collective));
    process.main.stop(collective.get());
    collective.get()
}

/// A rank with a device, and a kernel for each of three collectives.
pub(crate) fn record(out: &Path, rank: u32, number: u8) -> std::path::PathBuf {
    let who = ProcessIdentity { rank, ranks: 2, in_environment: true };
    let mut process = Process::begin(out, who);
    let context = process.context.get();
    let text = Name::from_cstr(c"libcupti 13.5 by its newer interface");
    gpu(&mut process, 0, &GpuRecord::Notice { backend: Backend::Cupti, text });
    gpu(&mut process, 0, &GpuRecord::Device(device(number)));
    gpu(&mut process, context, &GpuRecord::DeviceOfCommunicator { ordinal: 0 });
    sample(&mut process);
    for sequence in 0..3 {
        let start = clock::monotonic_ns();
        let [launch, _] = process.all_reduce(sequence);
        let end = clock::monotonic_ns();
        let kernel = Kernel {
            correlation: 17,
            context: 1,
            stream: 7,
            start_ns: start + AHEAD_NS,
            end_ns: end + AHEAD_NS,
            grid: [24, 1, 1],
            block: [544, 1, 1],
            static_shared_bytes: 16,
            dynamic_shared_bytes: 82_240,
            registers_per_thread: 96,
            name: Name::from_cstr(MANGLED),
            ..Kernel::default()
        };
        gpu(&mut process, launch.get(), &GpuRecord::Kernel(kernel));
    }
    // On another stream.
    let collective = copied(&mut process);
    let start_ns = clock::monotonic_ns() + AHEAD_NS;
    let copy = Copy {
        correlation: 18,
        context: 1,
        stream: 8,
        start_ns,
        end_ns: start_ns + 1000,
        bytes: 4096,
        kind: 10,
        source_kind: 3,
        destination_kind: 2,
        count: 2,
        destination_device: 1,
        ..Copy::default()
    };
    gpu(&mut process, collective, &GpuRecord::Copy(copy));
    sample(&mut process);
    let mut counts = [0; GpuCount::COUNT];
    counts[GpuCount::Launches as usize] = 4;
    counts[GpuCount::Kernels as usize] = 3;
    counts[GpuCount::Copies as usize] = 1;
    gpu(&mut process, 0, &GpuRecord::Counts(counts));
    process.end()
}

/// The archive of two ranks on these devices.
fn written(out: &Path, devices: [u8; 2]) -> Archive {
    for (rank, number) in (0..).zip(devices) {
        let part = record(out, rank, number);
        write_part(&part, &KEEP, &()).expect("the part is written");
    }
    unify(out, &()).expect("the archive is written");
    open(out)
}

/// A region with its ENTER attributes, and its span.
type Region = (String, BTreeMap<String, String>, (u64, u64));

fn row(archive: &Archive, name: &str) -> Vec<Region> {
    let definitions = archive.definitions().expect("definitions");
    let events = events(archive);
    let has_name = |location: &LocationRef| text(&definitions, definitions.locations[location].name).contains(name);
    let (_, on_row) = events.iter().find(|(location, _)| has_name(location)).expect("a row");
    let mut regions = Vec::new();
    let mut open = Vec::new();
    for event in on_row {
        match event.kind {
            EventKind::Enter(_) => open.push((event.time, attributes(&definitions, event))),
            EventKind::Leave(region) => {
                let (start, attributes) = open.pop().expect("entered");
                let region = text(&definitions, definitions.regions[&region].name);
                regions.push((region.to_owned(), attributes, (start, event.time)));
            }
            _ => {}
        }
    }
    regions
}

#[test]
fn kernels_are_on_the_streams_of_their_gpus() {
    let out: &Path = &new_job();
    let archive = written(out, [1, 2]);
    let definitions = archive.definitions().expect("definitions");
    let mut streams: Vec<(String, String)> = definitions
        .locations
        .values()
        .filter(|location| text(&definitions, location.name).starts_with("CUDA stream"))
        .map(|location| {
            assert_eq!(location.location_type, LocationType::AcceleratorStream);
            let group = &definitions.location_groups[&location.group];
            let names = [location.name, group.name].map(|name| text(&definitions, name).to_owned());
            let mut properties = location.properties.iter();
            let id = properties.find(|(name, _)| text(&definitions, *name) == "NCCL::STREAM_ID").expect("an id");
            assert_eq!(names[0], format!("CUDA stream {}", value(&definitions, &id.1)));
            names.into()
        })
        .collect();
    let expected = [
        ("CUDA stream 7", "GPU 0 [0000:42:00.0]"),
        ("CUDA stream 7", "GPU 0 [0000:43:00.0]"),
        ("CUDA stream 8", "GPU 0 [0000:42:00.0]"),
        ("CUDA stream 8", "GPU 0 [0000:43:00.0]"),
    ];
    streams.sort();
    assert_eq!(streams, expected.map(|(row, gpu)| (row.to_owned(), gpu.to_owned())));

    let region = definitions
        .regions
        .values()
        .find(|region| text(&definitions, region.name) == DEMANGLED)
        .expect("the kernel's region");
    assert_eq!(text(&definitions, region.canonical_name), MANGLED.to_str().expect("ASCII"));
    assert_eq!((region.role, region.paradigm), (RegionRole::Function, Paradigm::Cuda));

    let (kernels, operations) = (row(&archive, "CUDA stream 7"), row(&archive, "world (2) rank 0"));
    let launches = row(&archive, "API thread");
    let launches: Vec<_> = launches.iter().filter(|row| row.0 == LAUNCH).collect();
    assert_eq!((kernels.len(), operations.len(), launches.len()), (3, 4, 3));
    let rows = kernels.iter().zip(&operations).zip(launches);
    for (((region, kernel, span), (_, operation, ran)), (_, launch, _)) in rows {
        assert_eq!((region.as_str(), span), (DEMANGLED, ran));
        assert_eq!(operation["nccl.timing"], "cupti");
        assert_eq!(kernel["nccl.parent"], operation["nccl.event"]);
        assert_eq!(kernel["nccl.external_correlation"], operation["nccl.launch"]);
        for id in ["nccl.event", "nccl.external_correlation"] {
            assert_eq!(kernel["nccl.external_correlation"], launch[id]);
        }
        for (name, value) in [
            ("cuda.correlation", "17"),
            ("cuda.grid", "24,1,1"),
            ("cuda.block", "544,1,1"),
            ("cuda.registers", "96"),
            ("cuda.static_shared_bytes", "16"),
            ("cuda.dynamic_shared_bytes", "82240"),
        ] {
            assert_eq!(kernel[name], value, "{name}");
        }
        assert!(!kernel.contains_key("cuda.graph_node"));
    }
    let copies = row(&archive, "CUDA stream 8");
    let [(region, copy, (start, end))] = copies.as_slice() else {
        panic!("{copies:?}");
    };
    assert_eq!(region, "memcpy PtoP");
    // A line through two clock readings rounds.
    assert!((end - start).abs_diff(1000) <= 5, "{start} {end}");
    let expected = [
        ("cuda.copies", "2"),
        ("cuda.correlation", "18"),
        ("cuda.destination_device", "1"),
        ("cuda.destination_memory", "pinned"),
        ("cuda.source_memory", "device"),
        ("nccl.bytes", "4096"),
    ];
    for (name, value) in expected {
        assert_eq!(copy[name], value, "{name}");
    }
    assert_eq!(copy["nccl.external_correlation"], copy["nccl.parent"]);
    assert_eq!(copy.len(), expected.len() + 2, "{copy:?}");
    print(out);
    let report = whole_plugin::archive::Archive::open(out).sound();
    assert_eq!(report["remarks"], 0, "{report:#}");
}

#[test]
fn a_device_that_two_processes_use_is_one_device() {
    let out: &Path = &new_job();
    let archive = written(out, [1, 1]);
    let definitions = archive.definitions().expect("definitions");
    let mut nodes = definitions
        .system_tree_nodes
        .iter()
        .filter(|(_, node)| node.domains.contains(&SystemTreeDomain::AcceleratorDevice));
    let (reference, node) = nodes.next().expect("a device");
    assert!(nodes.next().is_none(), "one device");
    assert_eq!(text(&definitions, node.name), "GPU 0000:42:00.0");
    let groups: Vec<_> = definitions
        .location_groups
        .values()
        .filter(|group| group.group_type == LocationGroupType::Accelerator)
        .collect();
    assert_eq!(groups.len(), 2);
    assert_ne!(groups[0].creator, groups[1].creator);
    for group in groups {
        assert_eq!(group.system_tree_parent, *reference);
        let properties = group.properties.iter().map(|(name, of)| (text(&definitions, *name), value(&definitions, of)));
        let properties: BTreeMap<&str, String> = properties.collect();
        let expected = [
            ("MIG", "no"),
            ("PCI", "0000:42:00.0"),
            ("UUID", "GPU-01010101-0101-0101-0101-010101010101"),
            ("compute capability", "9.0"),
            ("driver", "12.8"),
            ("multiprocessors", "132"),
            ("name", "NVIDIA H100"),
            ("ordinal", "0"),
        ];
        assert_eq!(properties, expected.map(|(name, value)| (name, value.to_owned())).into());
    }
    print(out);
}

/// The unreported events of an archive of two ranks, given CUDA's reports about their devices.
fn unreported(devices: [Option<Device<Name<'static>>>; 2]) -> String {
    let out: &Path = &new_job();
    for (rank, device) in (0..).zip(devices) {
        let who = ProcessIdentity { rank, ranks: 2, in_environment: true };
        let mut process = Process::begin(out, who);
        if let Some(device) = device {
            let context = process.context.get();
            gpu(&mut process, 0, &GpuRecord::Device(device));
            gpu(&mut process, context, &GpuRecord::DeviceOfCommunicator { ordinal: 0 });
        }
        let _events = process.all_reduce(0);
        write_part(&process.end(), &KEEP, &()).expect("the part is written");
    }
    let archive = unified(out);
    archive.property("NCCL::UNREPORTED").expect("there are others").to_owned()
}

#[test]
fn which_gpu_a_rank_uses_is_unreported_only_where_cuda_does_not_say() {
    let nameless = Device { uuid: [0; 16], pci_bus: 0, ..device(1) };
    for (devices, is_unknown) in [
        ([Some(device(1)), Some(device(2))], false),
        ([Some(device(1)), None], true),
        ([None, None], true),
        ([Some(device(1)), Some(nameless)], true),
    ] {
        let spots = unreported(devices);
        assert_eq!(spots.contains("which GPU a rank uses"), is_unknown, "{devices:?}: {spots}");
        assert!(spots.contains("split from"), "{spots}");
    }
}
