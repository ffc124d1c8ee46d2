//! Snapshots: archives of jobs that run on, requested by the tool, by a file or by a signal.

use std::path::{Path, PathBuf};
use std::process::Command;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::kinds::NEWEST;
use whole_plugin::process::{LIMIT, Running, run, start, wait_for};
use whole_plugin::scratch::{Scratch, recording};

/// Calls without end, a millisecond apart.
const CALLS: &str = "
    init c id=0x55 ranks=1 rank=0
    repeat 1000000 {
      start ca CollApi ctx=c func=AllReduce count=7 datatype=ncclFloat32
      stop ca
      sleep 1ms
    }
";

/// A process that calls NCCL until it is killed.
fn calling(scratch: &Scratch, mode: &str) -> Running {
    let mut command = scratch.script(CALLS);
    command.env("NCCL_OTF2_MODE", mode);
    start(&mut command)
}

fn snapshots(out: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(out.join("snapshots")).into_iter().flatten();
    let mut found: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn dump(scratch: &Scratch) -> Command {
    let mut dump = scratch.tool(&["dump"]);
    dump.arg(scratch.out());
    dump
}

/// A snapshot that somebody else than the tool requested.
fn requested(scratch: &Scratch) -> PathBuf {
    wait_for("snapshot", || {
        let found = snapshots(&scratch.out()).pop()?;
        found.join("request").exists().then_some(found)
    })
}

#[test]
fn the_tool_makes_an_archive_of_all_processes_and_they_run_on() {
    let scratch = Scratch::new();
    let processes = ["trace", "flight"].map(|mode| calling(&scratch, mode));
    scratch.wait_for_recording(2);
    let _dumped = run(&mut dump(&scratch)).with_code(0);
    let found = snapshots(&scratch.out());
    let [first] = &found[..] else { panic!("one snapshot: {found:?}") };
    let archive = Archive::open(first);
    archive.sound();
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

    processes.into_iter().for_each(Running::kill);
    let _finalized = scratch.finalize().with_code(0);
    assert!(scratch.sound_archive().count("COLLAPI::WRITTEN") > more);
}

#[test]
fn a_snapshot_names_the_plugins_behind_this_one() {
    let scratch = Scratch::new();
    let mut command = scratch.script(CALLS);
    let process = start(command.env("NCCL_OTF2_CHAIN", built::echo_plugin()));
    scratch.wait_for_recording(1);
    let _dumped = run(&mut dump(&scratch)).with_code(0);
    let found = snapshots(&scratch.out());
    let [snapshot] = &found[..] else { panic!("one snapshot: {found:?}") };
    let plugins = Archive::open(snapshot).properties()["NCCL::CHAIN::PLUGINS"].clone();
    assert_eq!(plugins, format!("{} (v{NEWEST})", built::echo_plugin().display()));
    process.kill();
}

#[test]
fn a_file_is_enough() {
    let scratch = Scratch::new();
    let process = calling(&scratch, "trace");
    scratch.wait_for_recording(1);
    std::fs::write(scratch.out().join("dump"), "please").unwrap();
    let snapshot = requested(&scratch);
    process.kill();
    let _finalized = run(scratch.tool(&["finalize"]).arg(&snapshot)).with_code(0);
    let archive = Archive::open(&snapshot);
    archive.sound();
    assert!(archive.count("COLLAPI::WRITTEN") > 0);
}

#[test]
fn a_signal_to_one_process_makes_all_of_them_take_part() {
    let scratch = Scratch::new();
    let processes = [calling(&scratch, "trace"), calling(&scratch, "trace")];
    scratch.wait_for_recording(2);
    processes[0].signal("USR2");
    let snapshot = requested(&scratch);
    assert_eq!(recording(&snapshot).len(), 2, "both are in it");
    processes.into_iter().for_each(Running::kill);
}

#[test]
fn another_signal_or_none() {
    let scratch = Scratch::new();
    let mut command = scratch.script(CALLS);
    let process = start(command.env("NCCL_OTF2_DUMP_SIGNAL", "none"));
    scratch.wait_for_recording(1);
    // Without a handler the signal ends the process.
    process.signal("USR2");
    let _ended = process.wait(LIMIT).by_signal(libc::SIGUSR2);
    assert!(!scratch.out().join("dump").exists());
}

#[test]
fn without_a_running_process_the_tool_says_so() {
    let scratch = Scratch::new();
    let _ended = run(&mut scratch.script("init c ranks=1 rank=0\nfinalize c\n")).with_code(0);
    let ended = run(&mut dump(&scratch)).with_code(2);
    assert!(ended.stderr.contains("no process is recording here any more"), "{ended}");
    assert!(!scratch.out().join("dump").exists(), "the request is gone");
}
