//! Processes on hosts whose clocks are seconds apart and drift: real NCCL, and one archive with one clock.
//!
//! The hosts are played by processes of this machine (`NCCL_OTF2_TEST_CLOCK`), so the truth is known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::clock::ClockPair;
use serde_json::Value;
use trace::Manifest;
use trace::internals::{Process, align_clocks, processes};
use trace::part_directories;
use whole_plugin::built;
use whole_plugin::machine::{nccl_library, python};
use whole_plugin::process::{run, run_within};
use whole_plugin::scratch::Scratch;

/// A played host: how far its wall clock is ahead, and what its clocks gain since this machine started.
type Clock = (i64, i64);

/// Up to 10 s, and 50 ppm.
const CLOCKS: [Clock; 4] = [(0, 0), (10_000_000_000, 50_000), (-7_000_000_000, -50_000), (3_000_000, 20_000)];

/// Runs NCCL on hosts with these clocks.
fn record(scratch: &Scratch, version: &str, clocks: &[Clock], procs: u32, ops: &str) -> bool {
    let Some(library) = nccl_library(version) else {
        return false;
    };
    let list: Vec<String> = clocks.iter().map(|(offset_ns, drift_ppb)| format!("{offset_ns},{drift_ppb}")).collect();
    let mut job = scratch.plain(built::nccl_otf2());
    // Without kernel channels: what is shown then are times of the host, which need no GPU clock.
    job.args(["run", "--events", "standard,ProxyStep", "--out"])
        .arg(scratch.out())
        .arg("--")
        .arg(built::nccl_host())
        .arg("--lib")
        .arg(&library)
        .args(["--procs", &procs.to_string(), "--threads", "1", "--exact"])
        .args(["--rounds", "8", "--count", "5000", "--ops", ops])
        .args(["--host-clocks", &list.join(";")])
        .arg(format!("--fake-gpu={}", built::fake_gpu().display()));
    let _ended = run_within(Duration::from_secs(240), &mut job).with_code(0);
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

/// Definitions of an archive: what unify makes, clock offsets among them.
fn definitions(out: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let traces = std::fs::read_dir(out.join("traces")).expect("the archive is there");
    let files = traces.map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "def"));
    let files = files.chain([out.join("traces.def")]);
    files
        .map(|path| {
            let bytes = std::fs::read(&path).expect("read");
            let name = path.strip_prefix(out).expect("below").to_owned();
            (name, bytes)
        })
        .collect()
}

/// The same parts give the same clocks, elsewhere and later.
fn unify_again(scratch: &Scratch) {
    let again = scratch.path().join("again");
    std::fs::create_dir(&again).expect("a directory");
    let mut copy = std::process::Command::new("cp");
    copy.arg("-a").arg(scratch.out().join("parts")).arg(&again);
    let _copied = run(&mut copy).with_code(0);
    let mut finalize = scratch.plain(built::nccl_otf2());
    let _finalized = run(finalize.arg("finalize").arg(&again)).with_code(0);
    let (before, after) = (definitions(&scratch.out()), definitions(&again));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    for (name, bytes) in &before {
        assert!(after[name] == *bytes, "{} differs", name.display());
    }
}

fn hosts_with_clocks_of_their_own(version: &str, procs: u32) {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let ops = "allreduce,allgather,reducescatter,sendrecv,broadcast,reduce";
    if !record(&scratch, version, &CLOCKS, procs, ops) {
        return;
    }
    let archive = scratch.archive();
    let report = archive.check();
    assert_eq!((&report["faults"], &report["remarks"]), (&0.into(), &0.into()), "{report}");
    archive.validate();
    let properties = archive.properties();
    assert_eq!(properties["NCCL::CLOCK::ALIGNMENT::HOSTS"], "4");
    assert_eq!(properties["NCCL::CLOCK::ALIGNMENT::GROUPS"], "1");
    assert_eq!(properties["NCCL::CLOCK::ALIGNMENT::VIOLATIONS"], "0");
    // Each process says it too.
    let definitions = archive.definitions();
    for said in ["NCCL::CLOCK::UNCERTAINTY_NS", "NCCL::CLOCK::REFERENCE"] {
        assert!(definitions.contains(said), "{said}: {definitions}");
    }
    let mut info = std::process::Command::new(built::nccl_otf2());
    let info = run(info.arg("info").arg(archive.anchor())).with_code(0);
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
    hosts_with_clocks_of_their_own("2.28.9", 8);
}

#[test]
fn the_first_release_has_less_to_tell() {
    hosts_with_clocks_of_their_own("2.23.4", 4);
}

#[test]
fn the_last_release() {
    hosts_with_clocks_of_their_own("2.32.3", 4);
}
