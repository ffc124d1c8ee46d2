//! Processes on hosts whose clocks are seconds apart and drift: real NCCL, and one archive with one clock.
//!
//! The hosts are played by processes of this machine (`NCCL_OTF2_TEST_CLOCK`), so the truth is known.

use std::path::Path;

use journal::clock::ClockPair;
use serde_json::Value;
use trace::Manifest;
use trace::internals::{Process, align_clocks, processes};
use trace::part_directories;
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

fn clock_of(process: &Process) -> Clock {
    let host = &process.manifest.process.host;
    let number = host.strip_prefix("nccl-host-").expect("a played host");
    CLOCKS[number.parse::<usize>().expect("its number")]
}

/// The longest collective of a process that is compared, from entering to leaving.
fn longest_ns(manifest: &Manifest) -> u64 {
    let both = manifest.traffic.passages.iter();
    let both = both.filter(|passage| passage.entered_ns > 0 && passage.left_ns > 0);
    let lengths = both.map(|passage| passage.left_ns.saturating_sub(passage.entered_ns));
    lengths.max().expect("a collective that all enter and leave")
}

/// What finalize finds of the clocks, against the truth: each is as good as is said, and what is said is no worse than
/// what collectives of this length tell, however slow the machine is.
fn compare_with_the_truth(out: &Path) {
    let parts = part_directories(out).expect("the parts are there");
    let parts = parts.into_iter().map(|part| {
        let manifest = Manifest::read(&part).expect("it can be read");
        (part, manifest)
    });
    let mut processes = processes(parts.collect());
    // Aligning uses them up.
    let manifests: Vec<_> = processes.iter().map(|process| process.manifest.clone()).collect();
    let alignment = align_clocks(&mut processes);
    assert_eq!(alignment.violations, 0, "{alignment:#?}");
    let offset = machine_offset_ns();
    for (process, manifest) in processes.iter().zip(&manifests) {
        let correction = &process.correction;
        let reference = processes
            .iter()
            .position(|other| usize::try_from(other.boot) == Ok(correction.reference))
            .expect("the reference has a process");
        let uncertainty = correction.map.uncertainty.expect("it is bounded");
        let most = longest_ns(manifest) + longest_ns(&manifests[reference]);
        assert!(uncertainty <= most, "{uncertainty} of {most}: {correction:?}");
        let (clock, reference) = (clock_of(process), clock_of(&processes[reference]));
        let times = manifest.traffic.passages.iter();
        let times: Vec<_> = times.filter(|passage| passage.left_ns > 0).collect();
        assert!(times.len() >= 20, "{}", times.len());
        for passage in times {
            let reading = i128::from(process.system_ns(passage.left_ns)) - offset;
            // When that was on this machine: a few steps of Newton's method.
            let mut machine = reading;
            for _ in 0..5 {
                machine = reading - ahead(clock, machine);
            }
            let truth = machine + offset + ahead(reference, machine);
            let found = i128::from(process.archive_ns(passage.left_ns));
            let off = (found - truth).unsigned_abs();
            // What reading clocks one after the other may cost on a busy machine.
            let allowed = u128::from(uncertainty) + 20_000;
            assert!(off <= allowed, "{off} ns off, {correction:?}");
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
    let _copied = run(copy.arg("-a").arg(scratch.out().join("parts")).arg(&again)).with_code(0);
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
