//! A job on four GPUs, replayed through the built plugin at the pace at which it was recorded: its times are those that
//! CUPTI saw, and with CUPTI each kernel is joined to its launch.
//!
//! The recording has CUPTI's kernels, which the host plays to the double of libcupti when their launches end; from
//! there the plugin gets them, under its own ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use otf2::LocationType;
use serde_json::Value;
use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::machine::{four_gpu_stream, print_skipped, python};
use whole_plugin::process::run;
use whole_plugin::regions::Region;
use whole_plugin::scratch::Scratch;

/// From and until, in ns.
type Span = (i64, i64);

/// What the recording says, in its own time.
struct Recorded {
    /// Starts of the calls, launches and launch plans, in order.
    calls: Vec<i64>,
    /// Each rank's kernel as CUPTI saw it, and its stream.
    kernels: BTreeMap<u64, (Span, String)>,
}

/// The recording has µs with three decimals.
#[expect(clippy::cast_possible_truncation, reason = "times since boot: rounded to whole ns, and exact up to 104 days")]
fn ns(time: &Value) -> i64 {
    let us = time["ts"].as_f64().expect("a time");
    (us * 1000.0).round() as i64
}

/// Some numbers are written as hexadecimal texts.
fn number(value: &Value) -> u64 {
    match value.as_str() {
        Some(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number"),
        None => value.as_u64().expect("a number"),
    }
}

impl Recorded {
    fn read(stream: &Path) -> Self {
        let text = fs::read_to_string(stream).expect("readable");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let lines_of_type = |name: &'static str| lines.iter().filter(move |line| line["type"] == name);
        let calls = ["ncclProfileCollApi", "ncclProfileKernelLaunch", "ncclProfileGroup"];
        let mut calls: Vec<i64> = calls.into_iter().flat_map(lines_of_type).map(|line| ns(&line["start"])).collect();
        calls.sort_unstable();
        // The launch's callback set the external correlation id that CUPTI reports with its kernel.
        let kernels = lines_of_type("ncclProfileKernelLaunch").map(|launch| {
            let mut kernels = lines_of_type("KERNEL");
            let kernel = kernels.find(|kernel| kernel["extCorrId"] == launch["extCorrId"]);
            let kernel = kernel.expect("CUPTI saw the kernel");
            let span = (ns(&kernel["start"]), ns(&kernel["stop"]));
            (number(&launch["rank"]), (span, format!("CUDA stream {}", number(&kernel["stream"]))))
        });
        Self { calls, kernels: kernels.collect() }
    }
}

/// An archive of the replay.
struct Replayed {
    archive: Archive,
    regions: Vec<Region>,
    /// How much later than the recording it is, at least, and by how much that differs between calls.
    later: i64,
    differs: i64,
    _scratch: Scratch,
}

/// Replays at the recorded pace, with GPU work timed by `backend`.
fn replay(stream: &Path, recorded: &Recorded, backend: &str) -> Replayed {
    let scratch = Scratch::new();
    // A process with a driver: the stand-in for a GPU under the driver's name.
    let [driver, cupti] = ["libcuda.so.1", "libcupti.so.13"].map(|name| scratch.path().join(name));
    fs::copy(built::fake_gpu(), &driver).expect("copied");
    fs::copy(built::fake_cupti(), &cupti).expect("copied");
    let mut command = scratch.replay(&[stream.to_owned()]);
    command.args(["--speed", "recorded"]);
    command.env("LD_PRELOAD", &driver).env("NCCL_OTF2_GPU", backend);
    if backend == "cupti" {
        command.arg("--cupti").arg(&cupti);
        command.env("NCCL_OTF2_CUPTI_LIB", &cupti).env("FAKECUPTI_API", "130500");
    }
    let _replayed = run(&mut command).with_code(0);
    let archive = scratch.archive();
    let regions = archive.regions();
    let is_call = |region: &&Region| {
        let calls = ["ncclAllReduce", "NCCL launch", "NCCL launch plan"];
        region.location_type == LocationType::CpuThread && calls.contains(&region.name.as_str())
    };
    let mut calls: Vec<u64> = regions.iter().filter(is_call).map(|region| region.start_ns).collect();
    calls.sort_unstable();
    assert_eq!(calls.len(), recorded.calls.len());
    let later = calls.iter().zip(&recorded.calls).map(|(replayed, recorded)| replayed.cast_signed() - recorded);
    let (least, most) = later.fold((i64::MAX, i64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    Replayed { archive, regions, later: least, differs: most - least, _scratch: scratch }
}

/// The most that the machine may delay a callback of the replay: the bounds are some ms apart.
const MOST_DELAY_NS: i64 = 1_000_000;

/// Tries until the machine keeps the pace and `judge` agrees. One that never keeps it is no judge: the test says so.
fn at_its_pace(mut judge: impl FnMut() -> (i64, Result<(), String>)) {
    let mut wrong = Vec::new();
    for _ in 0..5 {
        match judge() {
            (_, Ok(())) => return,
            (differs, Err(_)) if differs > MOST_DELAY_NS => {}
            (_, Err(error)) => wrong.push(error),
        }
    }
    assert!(wrong.len() < 3, "{wrong:#?}");
    print_skipped("this machine is too busy to replay at the recorded pace");
}

impl Replayed {
    /// Each rank's operation, which is on a location of its communicator.
    fn operations(&self) -> BTreeMap<u64, &Region> {
        let on_gpu = |region: &&Region| region.location_type != LocationType::CpuThread;
        let operations = self.regions.iter().filter(on_gpu).filter(|region| region.name == "NCCL AllReduce");
        let by_rank: BTreeMap<u64, &Region> = operations.map(|region| (rank(&region.location), region)).collect();
        assert_eq!(by_rank.len(), 4, "one operation for each rank");
        by_rank
    }

    /// How far off the archive says kernel channels can be, by rank, where a clock keeps all bounds.
    fn residuals(&self) -> BTreeMap<u64, i64> {
        let list = &self.archive.properties()["NCCL::GPU_CLOCK::LIST"];
        let lines = list.lines().filter_map(|line| {
            let (_, rest) = line.split_once(" rank ")?;
            let (rank, rest) = rest.split_once(": BOUNDED, residual ")?;
            let (residual, _) = rest.split_once(" ns")?;
            Some((rank.parse().ok()?, residual.parse().ok()?))
        });
        lines.collect()
    }
}

/// The rank in a location's name: `… rank 2`, `… r2 ch07`.
fn rank(location: &str) -> u64 {
    let word = |mark: &str| location.rsplit_once(mark).map(|(_, rest)| rest);
    let digits = word(" rank ").or_else(|| word(" r")).expect("of a rank");
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().expect("a rank")
}

fn span(region: &Region) -> Span {
    (region.start_ns.cast_signed(), region.end_ns.cast_signed())
}

/// An error unless it is so.
fn ensure(is_so: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what()) }
}

/// Each rank's collective took as long as its kernel by CUPTI, and was when that was.
fn times_are_those_of_kernels(recorded: &Recorded, replayed: &Replayed) -> Result<(), String> {
    /// The most that a rank's collective may be longer or shorter than its kernel was by CUPTI.
    const MOST_DIFFERENCE_NS: i64 = 5_000;
    let residuals = replayed.residuals();
    for (rank, operation) in replayed.operations() {
        let ((kernel_start, kernel_stop), _) = recorded.kernels[&rank];
        let (start, stop) = span(operation);
        let (took, kernel_took) = (stop - start, kernel_stop - kernel_start);
        let about = format!("rank {rank}: {operation:?}, CUPTI {:?}", (kernel_start, kernel_stop));
        ensure((took - kernel_took).abs() <= MOST_DIFFERENCE_NS, || format!("{took} ns: {about}"))?;
        // What bounds the clocks are other callbacks, and no more punctual than the calls.
        let residual = residuals.get(&rank).ok_or_else(|| about.clone())? + replayed.differs;
        let later = replayed.later;
        let is_there = start - residual <= kernel_start + later && kernel_stop + later <= stop + residual;
        ensure(is_there, || format!("{residual} ns: {about}"))?;
        // A bound that bounds nothing would be no help.
        ensure(residual < kernel_took.max(6_000_000), || format!("{residual} ns: {about}"))?;
    }
    Ok(())
}

#[test]
fn four_gpus_have_the_times_that_cupti_saw() {
    let Some(stream) = four_gpu_stream() else {
        return;
    };
    let recorded = Recorded::read(&stream);
    at_its_pace(|| {
        let replayed = replay(&stream, &recorded, "off");
        let channels = replayed.regions.iter().filter(|region| region.name == "kernel channel");
        let mut by_rank: BTreeMap<u64, usize> = BTreeMap::new();
        let operations = replayed.operations();
        for channel in channels {
            let operation = operations[&rank(&channel.location)];
            assert_eq!(operation.text("nccl.timing"), Some("kernelch"));
            assert!(operation.start_ns <= channel.start_ns && channel.end_ns <= operation.end_ns, "{channel:?}");
            *by_rank.entry(rank(&channel.location)).or_default() += 1;
        }
        assert_eq!(by_rank.into_values().collect::<Vec<_>>(), [24; 4]);
        (replayed.differs, times_are_those_of_kernels(&recorded, &replayed))
    });
}

/// Each kernel belongs to a launch and an operation, and lies on its stream of its GPU.
fn kernels_are_joined(recorded: &Recorded, replayed: &Replayed) {
    let operations = replayed.operations();
    let named = |name: &str| -> Vec<&Region> {
        let regions = replayed.regions.iter();
        regions.filter(|region| region.name == name || region.name.starts_with(&format!("{name}("))).collect()
    };
    let launches: BTreeSet<_> = named("NCCL launch")
        .iter()
        .map(|launch| {
            assert_eq!(launch.number("nccl.event"), launch.number("nccl.external_correlation"), "{launch:?}");
            launch.number("nccl.event")
        })
        .collect();
    let kernels = named("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    assert_eq!((kernels.len(), launches.len()), (4, 4));
    let mut groups = BTreeSet::new();
    for kernel in kernels {
        assert!(launches.contains(&kernel.number("nccl.external_correlation")), "{kernel:?}");
        let mut parents = operations.iter();
        let is_of_kernel = |operation: &Region| operation.number("nccl.event") == kernel.number("nccl.parent");
        let (rank, operation) = parents.find(|(_, operation)| is_of_kernel(operation)).expect("the operation");
        assert_eq!((operation.text("nccl.timing"), span(operation)), (Some("cupti"), span(kernel)));
        assert_eq!(kernel.location, recorded.kernels[rank].1);
        groups.insert(kernel.group);
    }
    assert_eq!(groups.len(), 4, "four GPUs");
    let properties = replayed.archive.properties();
    for (name, value) in [("BACKEND", "cupti"), ("KERNELS_JOINED", "4"), ("LAUNCHES_TIMED", "4")] {
        assert_eq!(properties[&format!("NCCL::GPU::{name}")], value, "{name}");
    }
}

#[test]
fn four_kernels_are_joined_to_four_launches_on_four_gpus() {
    let Some(stream) = four_gpu_stream() else {
        return;
    };
    let recorded = Recorded::read(&stream);
    at_its_pace(|| {
        let [with, without] = ["cupti", "off"].map(|backend| replay(&stream, &recorded, backend));
        with.archive.sound();
        kernels_are_joined(&recorded, &with);
        if let Some(python) = python() {
            assert_eq!(with.archive.readers_agree(&python)["agree"], true);
        }
        // With the times of kernels the GPU's timer is known better.
        let (known, guessed) = (with.residuals(), without.residuals());
        let is_better = |(rank, residual): (&u64, &i64)| guessed.get(rank).is_some_and(|other| 2 * residual < *other);
        let judged = ensure(known.len() == 4 && known.iter().all(is_better), || format!("{known:?} {guessed:?}"));
        (with.differs.max(without.differs), judged)
    });
}
