//! Processes on hosts whose clocks are seconds apart and drift: real NCCL, and one archive with one clock.
//!
//! The hosts are played by processes of this machine (`NCCL_OTF2_TEST_CLOCK`), so the truth is known.

use std::path::Path;

use journal::clock::ClockPair;
use otf2::{Archive, AttributeValue, ClockOffset, Definitions, LocationGroupRef};
use serde_json::Value;
use whole_plugin::archive::trace_files;
use whole_plugin::built;
use whole_plugin::machine::python;
use whole_plugin::process::{LIMIT, run, run_within};
use whole_plugin::scratch::Scratch;

/// A played host: how far its wall clock is ahead, and what its clocks gain since this machine started.
type Clock = (i64, i64);

/// Up to 10 s, and 50 ppm.
const CLOCKS: [Clock; 4] = [(0, 0), (10_000_000_000, 50_000), (-7_000_000_000, -50_000), (3_000_000, 20_000)];

/// Runs NCCL on hosts with these clocks.
fn record(scratch: &Scratch, release: &str, clocks: &[Clock], procs: u32, ops: &str) -> bool {
    let list: Vec<String> = clocks.iter().map(|(offset_ns, drift_ppb)| format!("{offset_ns},{drift_ppb}")).collect();
    let (procs, list) = (procs.to_string(), list.join(";"));
    let arguments = ["--procs", &procs, "--threads", "1", "--exact", "--rounds", "8", "--count", "5000"];
    let arguments = [&arguments[..], &["--ops", ops, "--host-clocks", &list]].concat();
    // Without kernel channels: what is shown then are times of the host, which need no GPU clock.
    let Some(mut job) = scratch.run_nccl(release, &["--events", "standard,ProxyStep"], &arguments) else {
        return false;
    };
    let _ended = run_within(LIMIT, &mut job).with_code(0);
    true
}

/// CLOCK_REALTIME − CLOCK_MONOTONIC of this machine: in the middle of several readings, because one may be interrupted.
fn machine_offset_ns() -> i128 {
    let readings = (0..9).map(|_| {
        let pair = ClockPair::read();
        i128::from(pair.realtime_ns) - i128::from(pair.monotonic_ns)
    });
    let mut readings: Vec<i128> = readings.collect();
    readings.sort_unstable();
    readings[readings.len() / 2]
}

/// How far the wall clock of a played host is ahead of this machine's when the latter's CLOCK_MONOTONIC shows this.
fn ahead(clock: Clock, machine_ns: i128) -> i128 {
    i128::from(clock.0) + machine_ns * i128::from(clock.1) / 1_000_000_000
}

/// A process, with its clock by its part and by the archive.
struct Recorded {
    host: String,
    /// The host whose clock is the archive's.
    reference: String,
    uncertainty_ns: u64,
    /// CLOCK_MONOTONIC, and CLOCK_REALTIME − CLOCK_MONOTONIC, when it read its clocks first.
    first: (u64, i128),
    /// What readers add to its times.
    offsets: Vec<ClockOffset>,
    /// When it entered and left collectives, CLOCK_MONOTONIC; 0 where that is not known.
    collectives: Vec<(u64, u64)>,
}

impl Recorded {
    fn all(out: &Path) -> Vec<Self> {
        let archive = Archive::open(&out.join("traces.otf2")).expect("it opens");
        let definitions = archive.definitions().expect("it has definitions");
        let parts = std::fs::read_dir(out.join("parts")).expect("the parts are there").map(|part| {
            let manifest = std::fs::read(part.expect("an entry").path().join("manifest")).expect("it is written");
            Self::new(&archive, &definitions, &serde_json::from_slice(&manifest).expect("it is JSON"))
        });
        parts.collect()
    }

    fn new(archive: &Archive, definitions: &Definitions, manifest: &Value) -> Self {
        let pid = manifest["process"]["pid"].as_u64().map(AttributeValue::U64);
        let group = definitions.location_groups.keys().copied();
        let group = group.into_iter().find(|&group| property(definitions, group, "NCCL::PROCESS_ID") == pid);
        let group = group.expect("the process is in the archive");
        let locations = definitions.locations.iter().filter(|(_, location)| location.group == group);
        let (location, _) =
            locations.into_iter().find(|(_, location)| location.number_of_events > 0).expect("it has events");
        let Some(AttributeValue::U64(uncertainty_ns)) = property(definitions, group, "NCCL::CLOCK::UNCERTAINTY_NS")
        else {
            panic!("its clock is bounded");
        };
        let Some(AttributeValue::String(reference)) = property(definitions, group, "NCCL::CLOCK::REFERENCE") else {
            panic!("there is a reference");
        };
        let number = |value: &Value| value.as_u64().expect("a number");
        let clock = |name: &str| number(&manifest["clock"][name]);
        let monotonic_ns = clock("first_monotonic_ns");
        let passages = manifest["traffic"]["passages"].as_array().expect("a list");
        Self {
            host: manifest["process"]["host"].as_str().expect("a host").to_owned(),
            reference: definitions.string(reference).expect("a name").to_owned(),
            uncertainty_ns,
            first: (monotonic_ns, i128::from(clock("first_realtime_ns")) - i128::from(monotonic_ns)),
            offsets: archive.local_definitions(*location).expect("readable").clock_offsets,
            collectives: passages.iter().map(|passage| (number(&passage[4]), number(&passage[5]))).collect(),
        }
    }

    /// The clock that the host was played with.
    fn clock(&self) -> Clock {
        CLOCKS[self.host.strip_prefix("nccl-host-").expect("a played host").parse::<usize>().expect("its number")]
    }

    /// The longest collective, from entering to leaving.
    fn longest_ns(&self) -> u64 {
        let both = self.collectives.iter().filter(|(entered, left)| *entered > 0 && *left > 0);
        both.map(|(entered, left)| left.saturating_sub(*entered)).max().expect("one that all enter and leave")
    }

    /// The archive's time, as readers find it: with the line between the offsets around it.
    fn archive_ns(&self, ns: u64) -> i128 {
        let after = self.offsets.partition_point(|offset| offset.time <= ns);
        let from = after.saturating_sub(1).min(self.offsets.len() - 2);
        let (from, to) = (&self.offsets[from], &self.offsets[from + 1]);
        let [ns, start, end] = [ns, from.time, to.time].map(i128::from);
        ns + i128::from(from.offset) + i128::from(to.offset - from.offset) * (ns - start) / (end - start)
    }
}

/// A property of a process in the archive.
fn property(definitions: &Definitions, group: LocationGroupRef, name: &str) -> Option<AttributeValue> {
    let mut properties = definitions.location_groups[&group].properties.iter();
    properties.find(|(key, _)| definitions.string(*key) == Some(name)).map(|(_, value)| *value)
}

/// Compares the archive's clocks with the truth: each error is within the stated uncertainty, and that is no larger
/// than what collectives of this length bound, however slow the machine is.
fn compare_with_the_truth(out: &Path) {
    let processes = Recorded::all(out);
    let offset = machine_offset_ns();
    for process in &processes {
        let same_host = processes.iter().filter(|other| other.host == process.host);
        let (_, to_system) = same_host.map(|other| other.first).min().expect("itself at least");
        let reference = processes.iter().find(|other| other.host == process.reference);
        let reference = reference.expect("the reference has a process");
        let uncertainty = process.uncertainty_ns;
        let most = process.longest_ns() + reference.longest_ns();
        assert!(uncertainty <= most, "{}: {uncertainty} of {most}", process.host);
        let times: Vec<u64> = process.collectives.iter().map(|(_, left)| *left).filter(|left| *left > 0).collect();
        assert!(times.len() >= 20, "{}", times.len());
        for ns in times {
            let reading = i128::from(ns) + to_system - offset;
            // When that was on this machine: a few steps of Newton's method.
            let mut machine = reading;
            for _ in 0..5 {
                machine = reading - ahead(process.clock(), machine);
            }
            let truth = machine + offset + ahead(reference.clock(), machine);
            let off = (process.archive_ns(ns) - truth).unsigned_abs();
            // What reading clocks one after the other may cost on a busy machine.
            let allowed = u128::from(uncertainty) + 20_000;
            assert!(off <= allowed, "{}: {off} ns off, {allowed} allowed", process.host);
        }
    }
}

fn causality(anchor: &Path, python: &Path) -> Value {
    let mut command = std::process::Command::new(python);
    command.arg(built::root().join("tests/support/causality.py")).arg(anchor);
    let ended = run(&mut command).with_code(0);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
}

/// The same parts give the same clocks, elsewhere and later.
fn unify_again(scratch: &Scratch) {
    let again = scratch.path().join("again");
    std::fs::create_dir(&again).expect("a directory");
    let mut copy = std::process::Command::new("cp");
    let recorded = ["parts", "topology"].map(|name| scratch.out().join(name));
    let _copied = run(copy.arg("-a").args(recorded.iter().filter(|file| file.exists())).arg(&again)).with_code(0);
    let _finalized = run(scratch.tool(&["finalize"]).arg(&again)).with_code(0);
    let [before, after] = [scratch.out(), again].map(|directory| {
        let mut files = trace_files(&directory);
        files.retain(|name, _| name.extension().is_some_and(|extension| extension == "def"));
        files
    });
    assert!(before == after, "definitions differ, clock offsets among them");
}

fn hosts_with_clocks_of_their_own(version: &str, procs: u32) {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let ops = "allreduce,allgather,reducescatter,sendrecv,broadcast,reduce";
    if !record(&scratch, version, &CLOCKS, procs, ops) {
        return;
    }
    let archive = scratch.archive();
    let report = archive.sound();
    assert_eq!(report["remarks"], 0, "{report}");
    let properties = archive.properties();
    assert_eq!(properties["NCCL::CLOCK::ALIGNMENT::HOSTS"], "4");
    assert_eq!(properties["NCCL::CLOCK::ALIGNMENT::GROUPS"], "1");
    assert_eq!(properties["NCCL::CLOCK::ALIGNMENT::VIOLATIONS"], "0");
    // Each process says it too.
    let definitions = archive.definitions();
    for said in ["NCCL::CLOCK::UNCERTAINTY_NS", "NCCL::CLOCK::REFERENCE"] {
        assert!(definitions.contains(said), "{said}: {definitions}");
    }
    let info = run(scratch.tool(&["info"]).arg(archive.anchor())).with_code(0);
    assert!(info.stdout.contains("4 hosts on one clock to"), "{info}");
    let order = causality(archive.anchor(), &python);
    assert!(order["collectives"].as_u64() >= Some(30), "{order}");
    // Rounds of one message from each rank.
    assert_eq!(order["messages"], 8 * procs, "{order}");
    assert_eq!(order["early_exits"], Value::Array(Vec::new()), "{order}");
    assert_eq!(order["early_receives"], Value::Array(Vec::new()), "{order}");
    compare_with_the_truth(&scratch.out());
    unify_again(&scratch);
}

#[test]
fn eight_processes_on_four_hosts() {
    hosts_with_clocks_of_their_own("2.32.3", 8);
}

#[test]
fn the_first_release_reports_less() {
    hosts_with_clocks_of_their_own("2.23.4", 4);
}
