//! A job on four GPUs, replayed at the pace it was recorded at: its times are those that CUPTI saw.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use otf2::{AttributeValue, EventKind, LocationType};
use serde_json::Value;
use whole_plugin::archive::Tally;
use whole_plugin::machine::four_gpu_stream;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// A span of time, ns.
type Span = (i64, i64);

/// What the recording of four GPUs says, in its own time.
struct Recorded {
    /// Starts of the calls, launches and launch plans, in order.
    calls: Vec<i64>,
    /// Each rank's kernel as CUPTI saw it.
    kernels: BTreeMap<u64, Span>,
}

impl Recorded {
    fn read(stream: &Path) -> Self {
        let text = std::fs::read_to_string(stream).expect("readable");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let of_type = |name: &'static str| lines.iter().filter(move |line| line["type"] == name);
        let calls = ["ncclProfileCollApi", "ncclProfileKernelLaunch", "ncclProfileGroup"];
        let mut calls: Vec<i64> = calls.into_iter().flat_map(of_type).map(|line| ns(&line["start"])).collect();
        calls.sort_unstable();
        // The launch's callback set the external correlation id that CUPTI tells with its kernel.
        let kernels = of_type("ncclProfileKernelLaunch").map(|launch| {
            let kernel = of_type("KERNEL")
                .find(|kernel| kernel["extCorrId"] == launch["extCorrId"])
                .expect("CUPTI saw the kernel");
            let rank = launch["rank"].as_u64().expect("a rank");
            (rank, (ns(&kernel["start"]), ns(&kernel["stop"])))
        });
        Self { calls, kernels: kernels.collect() }
    }
}

/// The recording has µs with three decimals.
#[expect(clippy::cast_possible_truncation, reason = "times since boot: rounded to whole ns, and exact up to 104 days")]
fn ns(time: &Value) -> i64 {
    let us = time["ts"].as_f64().expect("a time");
    (us * 1000.0).round() as i64
}

/// What the archive of its replay says, in the replay's time.
#[derive(Default)]
struct Replayed {
    /// Starts of the calls, launches and launch plans, in order.
    calls: Vec<i64>,
    /// Each rank's operation.
    operations: BTreeMap<u64, Span>,
    /// Each rank's kernel channels.
    channels: BTreeMap<u64, Vec<Span>>,
    /// Values of `nccl.timing`.
    timings: Tally,
}

/// The rank in a lane's name: `… rank 2/4`, `… r2 ch07`.
fn rank(lane: &str) -> u64 {
    let word = |mark: &str| lane.rsplit_once(mark).map(|(_, rest)| rest);
    let digits = word(" rank ").or_else(|| word(" r")).expect("of a rank");
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().expect("a rank")
}

impl Replayed {
    fn read(anchor: &Path) -> Self {
        let archive = otf2::Archive::open(anchor).expect("opens");
        let definitions = archive.definitions().expect("definitions");
        let text = |string| definitions.string(string).expect("defined").to_owned();
        let lanes: Vec<_> = definitions.locations.keys().copied().collect();
        let mut replayed = Self::default();
        let mut open = BTreeMap::<_, Vec<i64>>::new();
        archive
            .for_each_event(&lanes, |lane, event| {
                let time = i64::try_from(event.time).expect("a time");
                let location = &definitions.locations[&lane];
                for (attribute, value) in &event.attributes {
                    if let AttributeValue::String(timing) = value
                        && text(definitions.attributes[attribute].name) == "nccl.timing"
                    {
                        *replayed.timings.entry(text(*timing)).or_default() += 1;
                    }
                }
                let region = match event.kind {
                    EventKind::Enter(region) => {
                        open.entry(lane).or_default().push(time);
                        text(definitions.regions[&region].name)
                    }
                    EventKind::Leave(region) => {
                        let start = open.entry(lane).or_default().pop().expect("entered");
                        let region = text(definitions.regions[&region].name);
                        if location.location_type != LocationType::CpuThread {
                            replayed.add(&region, &text(location.name), (start, time));
                        }
                        return ControlFlow::Continue(());
                    }
                    _ => return ControlFlow::Continue(()),
                };
                let on_host = location.location_type == LocationType::CpuThread;
                let calls = ["ncclAllReduce", "ncclKernelLaunch", "ncclLaunchPlan"];
                if on_host && calls.contains(&region.as_str()) {
                    replayed.calls.push(time);
                }
                ControlFlow::Continue(())
            })
            .expect("events");
        replayed.calls.sort_unstable();
        replayed
    }

    fn add(&mut self, region: &str, lane: &str, span: Span) {
        match region {
            "ncclAllReduce" => {
                let before = self.operations.insert(rank(lane), span);
                assert_eq!(before, None, "one operation for each rank");
            }
            "ncclKernelChannel" => self.channels.entry(rank(lane)).or_default().push(span),
            _ => {}
        }
    }
}

/// The most that the machine may delay a callback of the replay: the bounds are some ms apart.
const MOST_DELAY_NS: i64 = 1_000_000;

/// A replay at the recorded pace on a machine that kept up, how much later than the recording it is, at least, and by
/// how much that differs between calls.
fn replay_at_its_pace(stream: &Path, recorded: &Recorded) -> (Scratch, Replayed, i64, i64) {
    for _ in 0..5 {
        let scratch = Scratch::new();
        let mut command = scratch.replay(&[stream.to_owned()]);
        let _replayed = run(command.args(["--speed", "recorded"])).with_code(0);
        let replayed = Replayed::read(scratch.archive().anchor());
        assert_eq!(replayed.calls.len(), recorded.calls.len());
        let calls = replayed.calls.iter().zip(&recorded.calls);
        let later: Vec<i64> = calls.map(|(replayed, recorded)| replayed - recorded).collect();
        let least = *later.iter().min().expect("there are calls");
        let most = *later.iter().max().expect("there are calls");
        if most - least <= MOST_DELAY_NS {
            return (scratch, replayed, least, most - least);
        }
        println!("the machine delayed a callback by {} ns, again", most - least);
    }
    panic!("this machine is too busy to replay at the recorded pace");
}

/// The most that a rank's collective may be longer or shorter than its kernel was by CUPTI.
const MOST_DIFFERENCE_NS: i64 = 5_000;

#[test]
fn at_its_own_pace_four_gpus_have_the_times_that_cupti_saw() {
    let Some(stream) = four_gpu_stream() else {
        return;
    };
    let recorded = Recorded::read(&stream);
    assert_eq!(recorded.kernels.len(), 4);
    let (scratch, replayed, later, differs) = replay_at_its_pace(&stream, &recorded);
    let properties = scratch.archive().properties();
    assert_eq!(properties["NCCL::GPU_CLOCK::BOUNDED::RANKS"], "4");
    let clocks = &properties["NCCL::GPU_CLOCK::LIST"];
    assert_eq!(replayed.timings, Tally::from([("kernelch".to_owned(), 4)]));
    for (&rank, &(kernel_start, kernel_stop)) in &recorded.kernels {
        let (start, stop) = replayed.operations[&rank];
        let (took, kernel_took) = (stop - start, kernel_stop - kernel_start);
        assert!((took - kernel_took).abs() <= MOST_DIFFERENCE_NS, "rank {rank}: {took} ns, CUPTI {kernel_took} ns");
        // What bounds the clocks are other callbacks, and no more punctual than the calls.
        let residual = residual(clocks, rank) + differs;
        assert!(
            start - residual <= kernel_start + later && kernel_stop + later <= stop + residual,
            "rank {rank}: {:?} ± {residual}, CUPTI {:?}",
            (start - later, stop - later),
            (kernel_start, kernel_stop)
        );
        // A bound that bounds nothing would be no help.
        assert!(residual < kernel_took.max(6_000_000), "rank {rank}: {residual} ns");
        let channels = &replayed.channels[&rank];
        assert_eq!(channels.len(), 24, "rank {rank}");
        for channel in channels {
            assert!(start <= channel.0 && channel.1 <= stop, "rank {rank}: {channel:?}");
        }
    }
}

/// What the archive states for a rank's GPU clock.
fn residual(clocks: &str, rank: u64) -> i64 {
    let of_rank = format!(" rank {rank}: BOUNDED, residual ");
    let found = clocks.lines().find_map(|line| line.split_once(&of_rank));
    let (_, rest) = found.unwrap_or_else(|| panic!("rank {rank}: {clocks}"));
    let number = rest.split_once(" ns").expect("in ns").0;
    number.parse().expect("a number")
}
