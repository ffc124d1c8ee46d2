//! What CUPTI told of a job on four GPUs, beside its callbacks: kernels are joined to their launches.
//!
//! The job is replayed at its own pace through the built plugin. Its recording has CUPTI's kernels, which the host
//! plays to the double of libcupti when their launches end; from there the plugin gets them, under its own ids.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use otf2::{AttributeValue, EventKind, LocationRef, LocationType};
use serde_json::Value;
use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::machine::{four_gpu_stream, python};
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
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
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

/// A kernel in the archive.
#[derive(Debug)]
struct Drawn {
    location: String,
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
    let locations: Vec<_> = definitions.locations.keys().copied().collect();
    let (mut kernels, mut launches, mut operations) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let mut open: BTreeMap<LocationRef, Vec<Entered>> = BTreeMap::new();
    archive
        .for_each_event(&locations, |location, event| {
            match event.kind {
                EventKind::Enter(_) => {
                    let attributes = event
                        .attributes
                        .iter()
                        .map(|(attribute, value)| (text(definitions.attributes[attribute].name), *value));
                    let entered = (event.time, attributes.collect());
                    open.entry(location).or_default().push(entered);
                }
                EventKind::Leave(region) => {
                    let (start, attributes) = open.entry(location).or_default().pop().expect("entered");
                    let number = |name: &str| match attributes.get(name) {
                        Some(AttributeValue::U64(number)) => *number,
                        _ => 0,
                    };
                    let location = &definitions.locations[&location];
                    let on_gpu = location.location_type == LocationType::AcceleratorStream;
                    let name = text(location.name);
                    let span = (start, event.time);
                    match text(definitions.regions[&region].name).as_str() {
                        "ncclKernelLaunch" => {
                            let external = number("nccl.external_correlation");
                            launches.insert(number("nccl.event"), external);
                        }
                        "ncclAllReduce" if on_gpu => {
                            let Some(AttributeValue::String(timing)) = attributes.get("nccl.timing") else {
                                panic!("{attributes:?}");
                            };
                            let (_, rank) = name.rsplit_once(" rank ").expect("of a rank");
                            let rank = rank.split('/').next().expect("a rank");
                            let rank = rank.parse().expect("a rank");
                            operations.insert(number("nccl.event"), (rank, text(*timing), span));
                        }
                        region if region.starts_with("ncclDevKernel_AllReduce") => {
                            kernels.push(Drawn {
                                location: name,
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

/// A replay at the recorded pace, timed by CUPTI or not.
fn replay_once(stream: &Path, backend: &str) -> Scratch {
    let scratch = Scratch::new();
    // A process with a driver: the stand-in for a GPU under the driver's name.
    let driver = scratch.path().join("libcuda.so.1");
    let cupti = scratch.path().join("libcupti.so.13");
    fs::copy(built::fake_gpu(), &driver).expect("copied");
    fs::copy(built::fake_cupti(), &cupti).expect("copied");
    let mut command = scratch.replay(&[stream.to_owned()]);
    command.args(["--speed", "recorded"]);
    command.env("LD_PRELOAD", &driver);
    command.env("NCCL_OTF2_GPU", backend);
    if backend == "cupti" {
        command.arg("--cupti").arg(&cupti);
        command.env("NCCL_OTF2_CUPTI_LIB", &cupti);
        command.env("FAKECUPTI_API", "130500");
    }
    let _replayed = run(&mut command).with_code(0);
    scratch
}

/// Replays with and without CUPTI from a machine that kept up.
fn replay(stream: &Path) -> [Scratch; 2] {
    for _ in 0..5 {
        let scratches = ["cupti", "off"].map(|way| replay_once(stream, way));
        let [with, without] = scratches.each_ref().map(|scratch| residuals(&scratch.archive()));
        let kept_up = |(rank, residual): (&u32, &u64)| 2 * residual < without[rank];
        if without.len() == 4 && with.len() == 4 && with.iter().all(kept_up) {
            return scratches;
        }
        println!("the machine delayed callbacks, again: {with:?} {without:?}");
    }
    panic!("this machine is too busy to replay at the recorded pace");
}

#[test]
fn four_kernels_are_joined_to_four_launches_on_four_gpus() {
    let Some(stream) = four_gpu_stream() else {
        return;
    };
    let recorded = recorded(&stream);
    assert_eq!(recorded.len(), 4);
    let scratches = replay(&stream);
    let [archive, without] = scratches.each_ref().map(Scratch::archive);
    let report = archive.check();
    assert_eq!((&report["faults"], &report["remarks"]), (&0.into(), &0.into()), "{report:#}");
    archive.validate();
    let (kernels, launches, operations) = read(archive.anchor());
    assert_eq!((kernels.len(), launches.len(), operations.len()), (4, 4, 4));
    let ranks: BTreeMap<u32, &Recorded> = recorded.iter().map(|recorded| (recorded.rank, recorded)).collect();
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
        assert!(shown.abs_diff(took) < took / 2 + 1_000_000, "{shown} {took}");
        let location = format!("CUDA stream {}", number(&said["stream"]));
        assert_eq!(kernel.location, location);
        groups.insert(kernel.group, *rank);
    }
    assert_eq!(groups.len(), 4, "four GPUs: {groups:?}");
    let properties = archive.properties();
    for (name, value) in [("BACKEND", "cupti"), ("KERNELS_JOINED", "4"), ("LAUNCHES_TIMED", "4")] {
        assert_eq!(properties[&format!("NCCL::GPU::{name}")], value, "{name}");
    }
    assert!(!properties.contains_key("NCCL::GPU::NOT_PLACED"));
    if let Some(python) = python() {
        let agreed = archive.readers_agree(&python);
        assert_eq!(agreed["agree"], true, "{agreed:#}");
    }

    // With the times of kernels the GPU's timer is known better.
    let (with, without) = (residuals(&archive), residuals(&without));
    println!("residuals with kernels: {with:?} ns, without: {without:?} ns");
    assert!(with.iter().all(|(rank, residual)| 2 * residual < without[rank]));
}
