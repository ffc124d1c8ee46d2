//! Snapshots: archives of jobs that run on, requested by the tool, by a file or by a signal.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::machine::nccl_library;
use whole_plugin::process::{Ended, Running, run, start};
use whole_plugin::scratch::Scratch;

const LIMIT: Duration = Duration::from_secs(60);

/// A hundred thousand calls, a millisecond apart.
const CALLS: &str = "
    init c id=0x55 ranks=1 rank=0
    repeat 100000 {
      start ca CollApi ctx=c func=AllReduce count=7 datatype=ncclFloat32
      stop ca
      sleep 1ms
    }
";

/// A process that calls NCCL for more than a hundred seconds.
fn calling(scratch: &Scratch, mode: &str) -> Running {
    let mut command = scratch.script(CALLS);
    command.env("NCCL_OTF2_MODE", mode);
    start(&mut command)
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn parts(out: &Path) -> usize {
    let parts = std::fs::read_dir(out.join("parts")).into_iter().flatten();
    parts.flatten().filter(|part| part.path().join("journal/1.0").exists()).count()
}

fn snapshots(out: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(out.join("snapshots")).into_iter().flatten();
    let mut found: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn signal(process: &Running, name: &str) {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, &process.id().to_string()]);
    let _sent = run(&mut kill).with_code(0);
}

/// Ends a process, which must still run.
fn end(process: Running) {
    signal(&process, "KILL");
    let _killed: Ended = process.wait(LIMIT).by_signal(libc::SIGKILL);
}

fn dump(scratch: &Scratch) -> Command {
    let mut dump = scratch.plain(built::nccl_otf2());
    dump.arg("dump").arg(scratch.out());
    dump
}

#[test]
fn the_tool_makes_an_archive_of_all_processes_and_they_run_on() {
    let scratch = Scratch::new();
    let processes = ["trace", "flight"].map(|mode| calling(&scratch, mode));
    wait_for("part", || (parts(&scratch.out()) == 2).then_some(()));
    let _dumped = run(&mut dump(&scratch)).with_code(0);
    let found = snapshots(&scratch.out());
    let [first] = &found[..] else { panic!("one snapshot: {found:?}") };
    let archive = Archive::open(first);
    archive.validate();
    let report = archive.check();
    assert_eq!(report["faults"], 0, "{report}");
    assert_eq!(archive.properties()["NCCL::PARTS"].lines().count(), 2);
    let calls = archive.count("COLLAPI::WRITTEN");
    assert!(calls > 0);
    assert!(!scratch.out().join("dump").exists(), "the request is gone");

    // A second snapshot has the events since the first.
    let _dumped = run(&mut dump(&scratch)).with_code(0);
    let found = snapshots(&scratch.out());
    let [_, second] = &found[..] else { panic!("two snapshots: {found:?}") };
    let more = Archive::open(second).count("COLLAPI::WRITTEN");
    assert!(more > calls, "{more} calls after {calls}");

    processes.into_iter().for_each(end);
    let _finalized = scratch.finalize().with_code(0);
    let all = scratch.archive();
    assert!(all.count("COLLAPI::WRITTEN") > more);
    assert_eq!(all.check()["faults"], 0);
}

#[test]
fn a_file_is_enough() {
    let scratch = Scratch::new();
    let process = calling(&scratch, "trace");
    wait_for("part", || (parts(&scratch.out()) == 1).then_some(()));
    std::fs::write(scratch.out().join("dump"), "please").unwrap();
    let snapshot = wait_for("snapshot", || {
        let found = snapshots(&scratch.out()).pop()?;
        found.join("request").exists().then_some(found)
    });
    end(process);
    let mut finalize = scratch.plain(built::nccl_otf2());
    let _finalized = run(finalize.arg("finalize").arg(&snapshot)).with_code(0);
    let archive = Archive::open(&snapshot);
    assert_eq!(archive.check()["faults"], 0);
    assert!(archive.count("COLLAPI::WRITTEN") > 0);
}

#[test]
fn a_signal_to_one_process_makes_all_of_them_take_part() {
    let scratch = Scratch::new();
    let processes = [calling(&scratch, "trace"), calling(&scratch, "trace")];
    wait_for("part", || (parts(&scratch.out()) == 2).then_some(()));
    signal(&processes[0], "USR2");
    let snapshot = wait_for("snapshot", || {
        let found = snapshots(&scratch.out()).pop()?;
        found.join("request").exists().then_some(found)
    });
    assert_eq!(parts(&snapshot), 2, "both are in it");
    processes.into_iter().for_each(end);
}

#[test]
fn another_signal_or_none() {
    let scratch = Scratch::new();
    let mut command = scratch.script(CALLS);
    let process = start(command.env("NCCL_OTF2_DUMP_SIGNAL", "none"));
    wait_for("part", || (parts(&scratch.out()) == 1).then_some(()));
    // Without a handler the signal ends the process.
    signal(&process, "USR2");
    let _ended = process.wait(LIMIT).by_signal(libc::SIGUSR2);
    assert!(!scratch.out().join("dump").exists());
}

#[test]
fn without_a_running_process_the_tool_says_so() {
    let scratch = Scratch::new();
    let _ended = run(&mut scratch.script("init c ranks=1 rank=0\nfinalize c\n")).with_code(0);
    let ended = run(&mut dump(&scratch)).with_code(2);
    assert!(ended.stderr.contains("no process records here any more"), "{ended}");
    assert!(!scratch.out().join("dump").exists(), "the request is gone");
}

#[test]
fn nccl_in_flight() {
    let Some(library) = nccl_library("2.28.9") else {
        return;
    };
    let scratch = Scratch::new();
    let mut job = scratch.command(built::nccl_host());
    job.arg("--lib").arg(&library);
    job.arg(format!("--fake-gpu={}", built::fake_gpu().display()));
    job.args(["--procs", "2", "--threads", "1", "--rounds", "0", "--ops", "one"]);
    job.args(["--kill-after", "6"]);
    job.env("NCCL_PROFILER_PLUGIN", built::plugin());
    job.env("NCCL_OTF2_MODE", "flight");
    job.env("NCCL_OTF2_FLIGHT_SIZE", "8M");
    let job = start(&mut job);
    wait_for("part", || (parts(&scratch.out()) == 2).then_some(()));
    std::thread::sleep(Duration::from_millis(500));
    let _dumped = run(&mut dump(&scratch)).with_code(0);
    let found = snapshots(&scratch.out());
    let [snapshot] = &found[..] else { panic!("one snapshot: {found:?}") };
    let archive = Archive::open(snapshot);
    archive.validate();
    let report = archive.check();
    assert_eq!(report["faults"], 0, "{report}");
    assert_eq!(archive.properties()["NCCL::PARTS"].lines().count(), 2);
    assert!(archive.count("COLL::WRITTEN") > 0);
    let _killed = job.wait(LIMIT).with_code(3);
}
