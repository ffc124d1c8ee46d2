//! Recorded jobs, replayed through the built plugin: what went in is what stands in the archive.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use otf2::{AttributeValue, EventKind, LocationType};
use serde_json::Value;
use whole_plugin::archive::{Contents, Tally};
use whole_plugin::machine::{python, recorded_stream};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

fn tally(numbers: &[(&str, u64)]) -> Tally {
    let owned = numbers
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count));
    owned.collect()
}

#[test]
fn one_process_with_four_gpus() {
    let Some(stream) = recorded_stream("allreduce-4gpu-1process.jsonl") else {
        return;
    };
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(&[stream])).with_code(0);

    let archive = scratch.archive();
    let report = archive.check();
    assert_eq!(
        (&report["faults"], &report["remarks"]),
        (&0.into(), &0.into()),
        "{report}"
    );
    archive.validate();
    for (kind, seen, written) in [
        ("GROUPAPI", 1, 1),
        ("COLLAPI", 4, 4),
        ("KERNELLAUNCH", 4, 4),
        ("GROUP", 4, 4),
        ("COLL", 4, 4),
        ("KERNELCH", 96, 96),
        ("PROXYCTRL", 24, 24),
    ] {
        assert_eq!(archive.count(&format!("{kind}::SEEN")), seen, "{kind}");
        assert_eq!(
            archive.count(&format!("{kind}::WRITTEN")),
            written,
            "{kind}"
        );
    }

    let contents = archive.contents(&python);
    let [(comm, members)] = contents.comms.as_slice() else {
        panic!("one communicator: {:?}", contents.comms)
    };
    assert_eq!(members.len(), 4);
    for (rank, member) in members.iter().enumerate() {
        assert!(
            member.ends_with(&format!("{comm} rank {rank}/4")),
            "{member}"
        );
    }
    assert_eq!(contents.calls["ncclAllReduce"], 4);
    assert_eq!(contents.calls["ncclKernelLaunch"], 4);
    for (state, times) in [
        ("ProxyIdle", 4),
        ("ProxyActive", 4),
        ("ProxySleep", 8),
        ("ProxyWakeup", 8),
        ("ProxyAppend", 8),
    ] {
        assert_eq!(contents.calls[state], times, "{state}");
    }
    assert_eq!(
        contents.operations,
        tally(&[("ncclAllReduce", 4), ("ncclKernelChannel", 96)])
    );
    let everywhere = members.iter().map(|member| (member.clone(), 1)).collect();
    let expected = BTreeMap::from([(format!("ALLREDUCE {comm}"), everywhere)]);
    assert_eq!(contents.collectives, expected);
    assert_eq!(contents.unfinished, Tally::new());
}

/// Two processes at the same time into one directory, through the table of one version.
fn two_processes(table: u32, rank_environment: bool) {
    let names = [
        "mixed-2procs-sockets.rank0.jsonl",
        "mixed-2procs-sockets.rank1.jsonl",
    ];
    let [Some(first), Some(second)] = names.map(recorded_stream) else {
        return;
    };
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let mut command = scratch.replay(&[first, second]);
    command.args(["--table", &table.to_string()]);
    if rank_environment {
        command.arg("--rank-environment");
    }
    let _replayed = run(&mut command).with_code(0);

    let archive = scratch.archive();
    let before = files(&scratch.out());
    let report = archive.check();
    assert_eq!(report["faults"], 0, "{report}");
    assert_eq!(report["processes"], 2, "{report}");
    archive.validate();
    let properties = archive.properties();
    assert_eq!(properties["NCCL::TABLE"], format!("ncclProfiler_v{table}"));
    assert!(
        !properties.contains_key("NCCL::RANKS_MISSING"),
        "{properties:#?}"
    );
    assert!(
        !properties.contains_key("NCCL::COLLECTIVES_UNMATCHED"),
        "{properties:#?}"
    );
    for (kind, count) in [
        ("COLL", 12),
        ("COLLAPI", 12),
        ("P2P", 12),
        ("PROXYOP", 52),
        ("PROXYSTEP", 176),
        ("PROXYCTRL", 43),
        ("KERNELCH", 34),
    ] {
        assert_eq!(archive.count(&format!("{kind}::SEEN")), count, "{kind}");
        assert_eq!(archive.count(&format!("{kind}::WRITTEN")), count, "{kind}");
        assert_eq!(archive.count(&format!("{kind}::LOST")), 0, "{kind}");
    }
    counted_by_python(&archive.contents(&python));

    let finalized = scratch.finalize().with_code(0);
    assert_eq!(
        files(&scratch.out()),
        before,
        "there was nothing left to do\n{finalized}"
    );
}

fn counted_by_python(contents: &Contents) {
    let [(comm, members)] = contents.comms.as_slice() else {
        panic!("one communicator: {:?}", contents.comms)
    };
    assert_eq!(members.len(), 2);
    let calls = |name: &str| contents.calls.get(name).copied().unwrap_or(0);
    assert_eq!((calls("ncclAllReduce"), calls("ncclAllGather")), (10, 2));
    assert_eq!((calls("ncclSend"), calls("ncclRecv")), (6, 6));
    assert_eq!(
        (calls("netSend"), calls("netRecv")),
        (26, 26),
        "proxy operations"
    );
    for phase in [
        "SendGPUWait",
        "SendPeerWait",
        "SendWait",
        "RecvWait",
        "RecvFlushWait",
        "RecvGPUWait",
    ] {
        assert_eq!(calls(phase), 88, "{phase}: half of the steps send");
    }
    for (operation, count) in [("ALLREDUCE", 5), ("ALLGATHER", 1)] {
        // Records can stand on a sibling lane: what counts is the rank.
        let mut of_rank = BTreeMap::<&str, u64>::new();
        for (lane, records) in &contents.collectives[&format!("{operation} {comm}")] {
            let rank = lane.split(" #").next().unwrap_or(lane);
            *of_rank.entry(rank).or_default() += records;
        }
        let expected = members
            .iter()
            .map(|member| (member.as_str(), count))
            .collect();
        assert_eq!(of_rank, expected, "{operation}");
    }
    assert_eq!(contents.collectives.len(), 2);
    assert_eq!(contents.unfinished, Tally::new());
}

/// All files below a directory with their contents and times of change.
fn files(directory: &Path) -> BTreeMap<String, (std::time::SystemTime, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("list") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = path
                .metadata()
                .expect("metadata")
                .modified()
                .expect("a time");
            let bytes = std::fs::read(&path).expect("read");
            found.insert(path.display().to_string(), (changed, bytes));
        }
    }
    found
}

#[test]
fn two_processes_make_one_archive_through_table_5() {
    two_processes(5, false);
}

#[test]
fn two_processes_make_one_archive_through_table_7() {
    two_processes(7, true);
}

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
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let of_type = |name: &'static str| lines.iter().filter(move |line| line["type"] == name);
        // µs with three decimals; the times are too large for an f64 in ns.
        let ns = |time: &Value| {
            let us = time["ts"].as_f64().expect("a time");
            (us * 1000.0).round() as i64
        };
        let calls = [
            "ncclProfileCollApi",
            "ncclProfileKernelLaunch",
            "ncclProfileGroup",
        ];
        let mut calls: Vec<i64> = calls
            .into_iter()
            .flat_map(of_type)
            .map(|line| ns(&line["start"]))
            .collect();
        calls.sort_unstable();
        // The launch's callback set the external correlation id that CUPTI tells with its kernel.
        let kernels = of_type("ncclProfileKernelLaunch").map(|launch| {
            let kernel = of_type("KERNEL")
                .find(|kernel| kernel["extCorrId"] == launch["extCorrId"])
                .expect("CUPTI saw the kernel");
            let rank = launch["rank"].as_u64().expect("a rank");
            (rank, (ns(&kernel["start"]), ns(&kernel["stop"])))
        });
        Self {
            calls,
            kernels: kernels.collect(),
        }
    }
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
    digits[..end.unwrap_or(digits.len())]
        .parse()
        .expect("a rank")
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

/// A replay at the recorded pace on a machine that kept up, and how much later than the recording it is.
fn replay_at_its_pace(stream: &Path, recorded: &Recorded) -> (Scratch, Replayed, i64) {
    for _ in 0..5 {
        let scratch = Scratch::new();
        let mut command = scratch.replay(&[stream.to_owned()]);
        let _replayed = run(command.args(["--speed", "recorded"])).with_code(0);
        let replayed = Replayed::read(scratch.archive().anchor());
        assert_eq!(replayed.calls.len(), recorded.calls.len());
        let calls = replayed.calls.iter().zip(&recorded.calls);
        let later: Vec<i64> = calls
            .map(|(replayed, recorded)| replayed - recorded)
            .collect();
        let least = *later.iter().min().expect("there are calls");
        let most = *later.iter().max().expect("there are calls");
        if most - least <= MOST_DELAY_NS {
            return (scratch, replayed, least);
        }
        println!(
            "the machine delayed a callback by {} ns, again",
            most - least
        );
    }
    panic!("this machine is too busy to replay at the recorded pace");
}

/// The most that a rank's collective may be longer or shorter than its kernel was by CUPTI.
const MOST_DIFFERENCE_NS: i64 = 5_000;

#[test]
fn at_its_own_pace_four_gpus_have_the_times_that_cupti_saw() {
    let Some(stream) = recorded_stream("allreduce-4gpu-1process.jsonl") else {
        return;
    };
    let recorded = Recorded::read(&stream);
    assert_eq!(recorded.kernels.len(), 4);
    let (scratch, replayed, later) = replay_at_its_pace(&stream, &recorded);
    let properties = scratch.archive().properties();
    assert_eq!(properties["NCCL::GPU_CLOCK::BOUNDED::RANKS"], "4");
    let clocks = &properties["NCCL::GPU_CLOCK::LIST"];
    assert_eq!(replayed.timings, tally(&[("kernelch", 4)]));
    for (&rank, &(kernel_start, kernel_stop)) in &recorded.kernels {
        let (start, stop) = replayed.operations[&rank];
        let (took, kernel_took) = (stop - start, kernel_stop - kernel_start);
        assert!(
            (took - kernel_took).abs() <= MOST_DIFFERENCE_NS,
            "rank {rank}: {took} ns, CUPTI {kernel_took} ns"
        );
        let residual = residual(clocks, rank);
        assert!(
            start - residual <= kernel_start + later && kernel_stop + later <= stop + residual,
            "rank {rank}: {:?} ± {residual}, CUPTI {:?}",
            (start - later, stop - later),
            (kernel_start, kernel_stop)
        );
        // A bound that bounds nothing would be no help.
        assert!(
            residual < kernel_took.max(6_000_000),
            "rank {rank}: {residual} ns"
        );
        let channels = &replayed.channels[&rank];
        assert_eq!(channels.len(), 24, "rank {rank}");
        for channel in channels {
            assert!(
                start <= channel.0 && channel.1 <= stop,
                "rank {rank}: {channel:?}"
            );
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
