//! What CUPTI told of a job on four GPUs, beside its callbacks: kernels are joined to their launches.
//!
//! The job is replayed at its own pace through the built plugin. Its recording has CUPTI's kernels, with the ids that
//! the program which recorded it gave the launches; here they get those of the plugin, and go into the journal that
//! the plugin left before the archive is made of it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use nccl_profiler_otf2::event::Name;
use nccl_profiler_otf2::gpu::record::{ALL_DEVICES, ClockSample, GpuClock, GpuRecord, Kernel, Way};
use nccl_profiler_otf2::id::ProcessTag;
use nccl_profiler_otf2::journal::reader::Journal;
use nccl_profiler_otf2::journal::record::{Fields, RecordBody};
use nccl_profiler_otf2::journal::writer::{Registry, RegistryOptions};
use otf2::{AttributeValue, EventKind, LocationRef, LocationType};
use serde_json::Value;
use whole_plugin::archive::Archive;
use whole_plugin::machine::{python, recorded_stream};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// The recording has µs with three decimals.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times since boot: rounded to whole ns, and exact up to 104 days"
)]
fn ns(time: &Value) -> u64 {
    let us = time["ts"].as_f64().expect("a time");
    (us * 1000.0).round() as u64
}

fn number(value: &Value) -> u32 {
    let number = match value.as_str() {
        Some(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number"),
        None => value.as_u64().expect("a number"),
    };
    u32::try_from(number).expect("32 bits")
}

/// A launch and its kernel, as recorded.
struct Recorded {
    launched_ns: u64,
    rank: u32,
    kernel: Value,
}

/// The launches in their order.
fn recorded(stream: &Path) -> Vec<Recorded> {
    let text = fs::read_to_string(stream).expect("readable");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of_type = |name: &'static str| lines.iter().filter(move |line| line["type"] == name);
    let mut launches: Vec<Recorded> = of_type("ncclProfileKernelLaunch")
        .map(|launch| Recorded {
            launched_ns: ns(&launch["start"]),
            rank: number(&launch["rank"]),
            kernel: of_type("KERNEL")
                .find(|kernel| kernel["extCorrId"] == launch["extCorrId"])
                .expect("CUPTI saw the kernel")
                .clone(),
        })
        .collect();
    launches.sort_by_key(|launch| launch.launched_ns);
    launches
}

/// The launches in a journal: ticks and event id, in their order.
fn launches(journal: &Path) -> Vec<(u64, u64)> {
    let mut launches = Vec::new();
    let _outcome = Journal::open(journal)
        .expect("a journal")
        .read(&mut |record| {
            if let RecordBody::Start(start) = record.body
                && let Fields::KernelLaunch { .. } = start.fields
            {
                launches.push((record.ticks, record.id));
            }
        });
    launches.sort_unstable();
    launches
}

/// Adds what CUPTI told to a journal, in a slot of its own. Its clock is sampled where the first launch and the last
/// were recorded and replayed.
fn add_kernels(journal: &Path, recorded: &[Recorded]) {
    let launches = launches(journal);
    assert_eq!(launches.len(), recorded.len());
    let open = Journal::open(journal).expect("a journal");
    let beside = tempfile::tempdir().expect("a directory");
    let registry = Registry::new(RegistryOptions {
        directory: beside.path().to_owned(),
        tag: ProcessTag::new(open.process_tag),
        process_id: open.process_id,
        tick_source: open.tick_source,
        session_start_realtime_ns: open.session_start_realtime_ns,
        limit_bytes: 1 << 30,
    });
    let slots = fs::read_dir(journal).expect("readable").map(|entry| {
        let name = entry.expect("readable").file_name();
        let name = name.to_string_lossy();
        let slot = name.split('.').next().expect("slot.segment");
        slot.parse::<u16>().expect("a number")
    });
    let taken = slots.max().expect("segments") + 1;
    let mut others: Vec<_> = (0..taken)
        .map(|_| registry.register("taken").expect("a slot"))
        .collect();
    let mut cursor = registry.register("nccl-otf2-gpu").expect("a slot");
    // Two are a line, whatever delayed one of the launches in between.
    for at in [0, launches.len() - 1] {
        let (ticks, recorded) = (launches[at].0, &recorded[at]);
        let sample = ClockSample {
            clock: GpuClock::Cupti,
            ordinal: ALL_DEVICES,
            gpu_ns: recorded.launched_ns,
            uncertainty_ticks: 0,
        };
        assert!(cursor.gpu(ticks, 0, &GpuRecord::Clock(sample)));
    }
    let text = Name::from_cstr(c"as it was recorded");
    let way = Way::Cupti;
    assert!(cursor.gpu(launches[0].0, 0, &GpuRecord::Notice { way, text }));
    for ((ticks, id), recorded) in launches.iter().zip(recorded) {
        let said = &recorded.kernel;
        let details = &said["details"];
        let extent =
            |of: &str| ["X", "Y", "Z"].map(|axis| number(&details[format!("{of}{axis}").as_str()]));
        let name = CString::new(said["name"].as_str().expect("a name")).expect("no NUL");
        let kernel = Kernel {
            correlation: number(&said["corrId"]),
            device: number(&said["deviceId"]),
            context: 1,
            stream: number(&said["stream"]),
            start_ns: ns(&said["start"]),
            end_ns: ns(&said["stop"]),
            grid: extent("grid"),
            block: extent("block"),
            static_shared_bytes: 0,
            dynamic_shared_bytes: 0,
            registers_per_thread: 0,
            graph: 0,
            graph_node: 0,
            source_graph_node: 0,
            name: Name::from_cstr(&name),
        };
        assert!(cursor.gpu(*ticks, *id, &GpuRecord::Kernel(kernel)));
    }
    drop(cursor);
    others.clear();
    drop(registry);
    for entry in fs::read_dir(beside.path()).expect("readable") {
        let path = entry.expect("readable").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if name.starts_with(&format!("{taken}.")) {
            fs::copy(&path, journal.join(name)).expect("copied");
        }
    }
}

/// A kernel in the archive.
#[derive(Debug)]
struct Drawn {
    lane: String,
    group: LocationRef,
    parent: u64,
    external: u64,
    span: (u64, u64),
}

/// When a region was entered, with what it carried.
type Entered = (u64, BTreeMap<String, AttributeValue>);

/// What the archive says of each rank's operation: event id, timing, interval, group of its row.
type Operations = BTreeMap<u64, (u32, String, (u64, u64))>;

/// Kernels, launches' external ids by event id, and operations.
fn read(anchor: &Path) -> (Vec<Drawn>, BTreeMap<u64, u64>, Operations) {
    let archive = otf2::Archive::open(anchor).expect("opens");
    let definitions = archive.definitions().expect("definitions");
    let text = |string| definitions.string(string).expect("defined").to_owned();
    let lanes: Vec<_> = definitions.locations.keys().copied().collect();
    let (mut kernels, mut launches, mut operations) =
        (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let mut open: BTreeMap<LocationRef, Vec<Entered>> = BTreeMap::new();
    archive
        .for_each_event(&lanes, |lane, event| {
            match event.kind {
                EventKind::Enter(_) => {
                    let attributes = event.attributes.iter().map(|(attribute, value)| {
                        (text(definitions.attributes[attribute].name), *value)
                    });
                    let entered = (event.time, attributes.collect());
                    open.entry(lane).or_default().push(entered);
                }
                EventKind::Leave(region) => {
                    let (start, attributes) = open.entry(lane).or_default().pop().expect("entered");
                    let number = |name: &str| match attributes.get(name) {
                        Some(AttributeValue::U64(number)) => *number,
                        _ => 0,
                    };
                    let location = &definitions.locations[&lane];
                    let on_gpu = location.location_type == LocationType::AcceleratorStream;
                    let name = text(location.name);
                    let span = (start, event.time);
                    match text(definitions.regions[&region].name).as_str() {
                        "ncclKernelLaunch" => {
                            let external = number("nccl.external_correlation");
                            launches.insert(number("nccl.event"), external);
                        }
                        "ncclAllReduce" if on_gpu => {
                            let Some(AttributeValue::String(timing)) =
                                attributes.get("nccl.timing")
                            else {
                                panic!("{attributes:?}");
                            };
                            let (_, rank) = name.rsplit_once(" rank ").expect("of a rank");
                            let rank = rank.split('/').next().expect("a rank");
                            let rank = rank.parse().expect("a rank");
                            operations.insert(number("nccl.event"), (rank, text(*timing), span));
                        }
                        region if region.starts_with("ncclDevKernel_AllReduce") => {
                            kernels.push(Drawn {
                                lane: name,
                                group: LocationRef::new(location.group.get().into()),
                                parent: number("nccl.parent"),
                                external: number("nccl.external_correlation"),
                                span,
                            });
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .expect("events");
    (kernels, launches, operations)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("readable") {
        let path = entry.expect("readable").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, to).expect("copied");
        }
    }
}

fn finalize(scratch: &Scratch, out: &Path) -> Archive {
    let mut command = scratch.plain(whole_plugin::built::nccl_otf2());
    let _finalized = run(command.arg("finalize").arg(out)).with_code(0);
    Archive::open(out)
}

/// How far off the archive says the times of kernel channels can be, by rank; of those whose clock keeps all bounds.
fn residuals(archive: &Archive) -> BTreeMap<u32, u64> {
    let list = &archive.properties()["NCCL::GPU_CLOCK::LIST"];
    let lines = list.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" rank ")?;
        let (rank, rest) = rest.split_once(": BOUNDED, residual ")?;
        let (residual, _) = rest.split_once(" ns")?;
        Some((rank.parse().ok()?, residual.parse().ok()?))
    });
    lines.collect()
}

/// The archives of a replay at the recorded pace, with and without kernels, from a machine that kept up.
fn replay(stream: &Path, recorded: &[Recorded]) -> (Scratch, Archive, Archive) {
    for _ in 0..5 {
        let scratch = Scratch::new();
        let mut command = scratch.replay(&[stream.to_owned()]);
        command.env("NCCL_OTF2_FINALIZE", "offline");
        let _replayed = run(command.args(["--speed", "recorded"])).with_code(0);
        let without = scratch.path().join("without");
        copy(&scratch.out(), &without);
        let parts: Vec<PathBuf> = fs::read_dir(scratch.out().join("parts"))
            .expect("readable")
            .map(|entry| entry.expect("readable").path())
            .collect();
        let [part] = parts.as_slice() else {
            panic!("one process: {parts:?}");
        };
        add_kernels(&part.join("journal"), recorded);
        let [with, without] = [scratch.out(), without].map(|out| finalize(&scratch, &out));
        let clocks = residuals(&without);
        let kept_up = |(rank, residual): (&u32, &u64)| 2 * residual < clocks[rank];
        if clocks.len() == 4 && residuals(&with).iter().any(kept_up) {
            return (scratch, with, without);
        }
        println!("the machine delayed callbacks, again: {clocks:?}");
    }
    panic!("this machine is too busy to replay at the recorded pace");
}

#[test]
fn four_kernels_are_joined_to_four_launches_on_four_gpus() {
    let Some(stream) = recorded_stream("allreduce-4gpu-1process.jsonl") else {
        return;
    };
    let recorded = recorded(&stream);
    assert_eq!(recorded.len(), 4);
    let (scratch, archive, without) = replay(&stream, &recorded);
    let report = archive.check();
    assert_eq!(
        (&report["faults"], &report["remarks"]),
        (&0.into(), &0.into()),
        "{report:#}"
    );
    archive.validate();
    let (kernels, launches, operations) = read(archive.anchor());
    assert_eq!((kernels.len(), launches.len(), operations.len()), (4, 4, 4));
    let ranks: BTreeMap<u32, &Recorded> = recorded
        .iter()
        .map(|recorded| (recorded.rank, recorded))
        .collect();
    let mut groups = BTreeMap::new();
    for kernel in &kernels {
        // The launch's own id, and the operation of the rank whose kernel it was.
        assert_eq!(launches[&kernel.external], kernel.external);
        let (rank, timing, span) = &operations[&kernel.parent];
        assert_eq!((timing.as_str(), span), ("cupti", &kernel.span));
        let said = &ranks[rank].kernel;
        let took = ns(&said["stop"]) - ns(&said["start"]);
        let shown = kernel.span.1 - kernel.span.0;
        // A delay of the replay bends the clock that is sampled at its launches.
        assert!(
            shown.abs_diff(took) < took / 2 + 1_000_000,
            "{shown} {took}"
        );
        let lane = format!("CUDA stream {}", number(&said["stream"]));
        assert_eq!(kernel.lane, lane);
        groups.insert(kernel.group, *rank);
    }
    assert_eq!(groups.len(), 4, "four GPUs: {groups:?}");
    let properties = archive.properties();
    for (name, value) in [
        ("WAY", "cupti"),
        ("KERNELS_JOINED", "4"),
        ("LAUNCHES_TIMED", "4"),
    ] {
        assert_eq!(properties[&format!("NCCL::GPU::{name}")], value, "{name}");
    }
    assert!(!properties.contains_key("NCCL::GPU::NOT_PLACED"));
    if let Some(python) = python() {
        let agreed = archive.readers_agree(&python);
        assert_eq!(agreed["agree"], true, "{agreed:#}");
    }

    // With the times of kernels the GPU's timer is known better, unless the replay was too late for them.
    let (with, without) = (residuals(&archive), residuals(&without));
    println!("residuals with kernels: {with:?} ns, without: {without:?} ns");
    assert!(
        with.iter()
            .all(|(rank, residual)| *residual <= without[rank])
    );
    assert!(
        with.iter()
            .any(|(rank, residual)| 2 * residual < without[rank])
    );
    drop(scratch);
}
