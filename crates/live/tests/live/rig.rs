//! Follows a job to its end, and sums up the output of `stats` in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use journal::host::boot_id;
use journal::part::ProcessInfo;
use journal::testing::{Process, ProcessIdentity};
use live::{Families, Live, MetricKind, Names, Options, ProcessState, Snapshot};
use serde_json::Value;
use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// Records a process with one rank of a communicator: `(rank, ranks)`.
pub(crate) fn begin(part: &Path, (rank, ranks): (u32, u32), pid: u32) -> Process {
    let nccl_version = "2.30.7".to_owned();
    let info =
        ProcessInfo { boot_id: boot_id(), pid, table: 6, event_mask: 0xffff, nccl_version, ..Default::default() };
    Process::begin_as(part, ProcessIdentity { rank, ranks, in_environment: true }, &info)
}

/// Follows a job whose processes have ended, until nothing is left to read.
pub(crate) fn to_the_end(live: &mut Live) -> Snapshot {
    let began = Instant::now();
    loop {
        let progress = live.poll();
        if progress.processes == 0 && !progress.is_behind {
            return live.snapshot();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{progress:?}: {:#?}", live.snapshot().processes);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Looks for processes at every poll.
pub(crate) fn options() -> Options {
    Options { scan: Duration::ZERO, ..Options::default() }
}

/// The sums over a finished job.
pub(crate) fn followed(out: &Path) -> Snapshot {
    let snapshot = to_the_end(&mut Live::new(out, options()));
    for process in &snapshot.processes {
        assert_eq!(process.state, ProcessState::Finished, "{process:?}");
        let lost = (process.behind_bytes, process.discarded_bytes, process.damaged, process.late_events);
        assert_eq!(lost, (0, 0, 0, 0), "{process:?}");
        assert_eq!(process.problem, None);
    }
    snapshot
}

/// All values that only grow, except late events: their number depends on the reader.
pub(crate) fn counters(snapshot: &Snapshot) -> BTreeSet<String> {
    let families = Families::new(Names::Ours).collect(snapshot);
    let lines_of_family = |family: &live::Family| -> Vec<String> {
        family.samples.iter().map(|sample| format!("{} {:?} {:?}", family.name, sample.labels, sample.value)).collect()
    };
    let is_of_job = |family: &&live::Family| family.kind != MetricKind::Gauge && family.name != "nccl_late_events";
    families.iter().filter(is_of_job).flat_map(lines_of_family).collect()
}

/// A job that keeps its journals.
pub(crate) fn kept(mut job: Command) {
    let _ended = run(job.env("NCCL_OTF2_KEEP_JOURNAL", "1")).with_code(0);
}

/// The output of `stats` for a job.
pub(crate) fn stats(scratch: &Scratch) -> Value {
    let mut stats = scratch.plain(built::nccl_otf2());
    let said = run(stats.args(["stats", "--json"]).arg(scratch.out())).with_code(0).stdout;
    serde_json::from_str(&said).expect("JSON")
}

type Class = (String, String, u64);

/// The compared values of a class of operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Operations {
    pub(crate) count: u64,
    pub(crate) timing: BTreeMap<String, u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) duration_s: f64,
}

type Pair = (String, u64, u64);

/// The values that both report for a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) operations: BTreeMap<Class, Operations>,
    pub(crate) pairs: BTreeMap<Pair, (u64, u64)>,
    pub(crate) fits: BTreeMap<Pair, [f64; 3]>,
    pub(crate) waits_ns: [u64; 3],
    /// Collectives whose arrivals were compared.
    pub(crate) compared: u64,
    /// Compared collectives in which some rank was last.
    pub(crate) last: u64,
    /// How long others waited for the last rank.
    pub(crate) caused_s: f64,
    /// Least and greatest bus bandwidth of each class: of all operations, or of medians.
    pub(crate) busbw: BTreeMap<Class, (f64, f64)>,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

fn real(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn size_class(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |log| 1 << log)
}

impl Totals {
    pub(crate) fn by_stats(report: &Value) -> Self {
        let mut totals = Self::default();
        let communicator = |value: &Value| {
            let at = usize::try_from(number(&value["communicator"])).expect("small");
            // A running job has no names but those that users give.
            report["communicators"][at]["id"].as_str().expect("an id").to_owned()
        };
        for class in list(&report["operations"]) {
            assert_eq!(class["unfinished"], 0, "{class:#}");
            let function = class["function"].as_str().expect("a name").to_owned();
            let (least, most) = (number(&class["bytes_min"]), number(&class["bytes_max"]));
            let count = number(&class["count"]);
            let timing = class["timing"].as_object().expect("timings").iter();
            let operations = Operations {
                count,
                timing: timing.map(|(name, count)| (name.clone(), number(count))).collect(),
                bytes: (least == most).then_some(least * count),
                duration_s: real(&class["duration_ns"]["total"]) / 1e9,
            };
            let key = (communicator(class), function, size_class(least));
            if let Some(busbw) = class["busbw"].as_object() {
                totals.busbw.insert(key.clone(), (real(&busbw["min"]), real(&busbw["max"])));
            }
            totals.operations.insert(key, operations);
        }
        for pair in list(&report["pairs"]) {
            let key = (communicator(pair), totals.rank_in(report, pair), number(&pair["peer"]));
            totals.pairs.insert(key.clone(), (number(&pair["steps"]), number(&pair["bytes"])));
            let fit = [&pair["all"]["latency_ns"], &pair["least"]["latency_ns"], &pair["rate"]];
            totals.fits.insert(key, fit.map(real));
            let wait = |names: &[&str]| names.iter().map(|name| number(&pair["waits"][name])).sum::<u64>();
            let waits = [
                wait(&["send_gpu_ns", "recv_gpu_ns"]),
                wait(&["send_peer_ns"]),
                wait(&["send_ns", "recv_ns", "recv_flush_ns"]),
            ];
            totals.waits_ns.iter_mut().zip(waits).for_each(|(sum, ns)| *sum += ns);
        }
        // Without a sequence number they are matched by index, which requires all of them.
        let is_derived = |class: &&Value| {
            ["ncclAlltoAll", "ncclGather", "ncclScatter"].map(Value::from).contains(&class["function"])
        };
        let classes = list(&report["operations"]).iter().filter(|class| !is_derived(class));
        totals.compared = classes.map(|class| number(&class["comparable"])).sum();
        let sum_of_ranks = |name: &str| list(&report["ranks"]).iter().map(|rank| number(&rank[name])).sum();
        totals.last = sum_of_ranks("last");
        totals.caused_s = Duration::from_nanos(sum_of_ranks("caused_ns")).as_secs_f64();
        totals
    }

    fn rank_in(&self, report: &Value, pair: &Value) -> u64 {
        let from = usize::try_from(number(&pair["from"])).expect("small");
        let mut members = list(&report["ranks"][from]["members"]).iter();
        let member = members.find(|member| member["communicator"] == pair["communicator"]);
        number(&member.expect("a member")["rank"])
    }

    /// Takes values from the only snapshot.
    pub(crate) fn by_snapshot(snapshot: &Snapshot) -> Self {
        for series in &snapshot.operations {
            assert_eq!((series.window.count, series.window.bytes), (series.count, series.bytes));
        }
        Self::from_snapshot(snapshot)
    }

    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Self {
        let mut totals = Self::default();
        let name = |at: usize| snapshot.communicators[at].name.clone();
        for series in &snapshot.operations {
            let key = (name(series.communicator), series.function.clone(), series.size_class);
            if let Some(busbw) = series.window.busbw {
                let range = totals.busbw.entry(key.clone()).or_insert((busbw, busbw));
                *range = (range.0.min(busbw), range.1.max(busbw));
            }
            let class_operations = totals.operations.entry(key).or_default();
            assert_eq!(series.duration.count(), series.count);
            class_operations.count += series.count;
            *class_operations.timing.entry(series.timing.to_owned()).or_default() += series.count;
            class_operations.bytes = Some(class_operations.bytes.unwrap_or(0) + series.bytes);
            class_operations.duration_s += Duration::from_nanos(series.duration.sum_ns).as_secs_f64();
        }
        for pair in &snapshot.pairs {
            let key = (name(pair.communicator), pair.from.into(), pair.to.into());
            totals.pairs.insert(key.clone(), (pair.steps, pair.bytes));
            let latency = |fit: Option<live::Fit>| fit.and_then(|fit| fit.latency_ns).unwrap_or(0.0);
            totals.fits.insert(key, [latency(pair.all), latency(pair.least), pair.rate.unwrap_or(0.0)]);
        }
        for proxy in &snapshot.proxies {
            let waits = [proxy.gpu_wait_ns, proxy.peer_wait_ns, proxy.network_ns];
            totals.waits_ns.iter_mut().zip(waits).for_each(|(sum, ns)| *sum += ns);
        }
        totals.compared = snapshot.skews.iter().map(|skew| skew.count).sum();
        totals.last = snapshot.ranks.iter().map(|rank| rank.last).sum();
        let caused_ns = snapshot.ranks.iter().map(|rank| rank.caused_waiting_ns).sum();
        totals.caused_s = Duration::from_nanos(caused_ns).as_secs_f64();
        totals
    }

    /// No operation and no step was missed, and durations were measured in the same ways.
    pub(crate) fn assert_counts(&self, by_stats: &Self) {
        let counts = |totals: &Self| {
            let of = totals.operations.iter();
            of.map(|(class, of)| (class.clone(), of.count, of.timing.clone())).collect::<Vec<_>>()
        };
        assert_eq!(counts(self), counts(by_stats));
        assert_eq!(self.pairs, by_stats.pairs);
    }

    /// Nothing differs, except durations by a GPU's timer when it does not match the host's: a stream is replayed
    /// faster than its kernels ran.
    pub(crate) fn assert_equal(&self, by_stats: &Self, is_gpu_in_time: bool) {
        let keys = |totals: &Self| totals.operations.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(self), keys(by_stats));
        for (class, found) in &self.operations {
            let expected = &by_stats.operations[class];
            assert_eq!((found.count, &found.timing), (expected.count, &expected.timing), "{class:?}");
            assert!(expected.bytes.is_none() || found.bytes == expected.bytes, "{class:?}: {found:?} {expected:?}");
            let is_by_gpu = ["kernelch", "shared-kernel"].iter().any(|timing| found.timing.contains_key(*timing));
            if is_by_gpu && !is_gpu_in_time {
                continue;
            }
            assert!(is_near(found.duration_s, expected.duration_s, 1e-3), "{class:?}: {found:?} {expected:?}");
        }
        for (class, (least, most)) in self.busbw.iter().filter(|_| is_gpu_in_time) {
            let all = by_stats.busbw[class];
            assert!(*least >= all.0 * 0.999 && *most <= all.1 * 1.001, "{class:?}: {least} {most} {all:?}");
        }
        assert_eq!(self.pairs, by_stats.pairs);
        for (pair, found) in self.fits.iter().filter(|(pair, _)| self.pairs.contains_key(*pair)) {
            let expected = by_stats.fits[pair];
            let are_near = found.iter().zip(expected).all(|(found, expected)| is_near(*found, expected, 1e-2));
            assert!(are_near, "{pair:?}: {found:?} {expected:?}");
        }
        // `stats` has them by pair, if sizes are known.
        for (found, expected) in self.waits_ns.iter().zip(by_stats.waits_ns).filter(|_| !self.pairs.is_empty()) {
            let [found, expected] = [*found, expected].map(|ns| Duration::from_nanos(ns).as_secs_f64());
            assert!(is_near(found, expected, 1e-3), "{:?} {:?}", self.waits_ns, by_stats.waits_ns);
        }
    }
}

fn is_near(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs() + 2e-6
}
