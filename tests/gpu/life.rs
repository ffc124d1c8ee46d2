//! What programs do to themselves while their launches are timed: many sessions, forks, a driver that hangs.

use std::path::PathBuf;

use whole_plugin::machine::c_library;
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

/// Runs a script with a driver that watches what is done to it. None without a compiler.
fn watched(scratch: &Scratch, script: &str, hangs: &str) -> Option<FinishedProcess> {
    watched_for(scratch, script, hangs, 0)
}

/// As [`watched`]; the driver's function hangs in its first call, for so long.
fn watched_for(scratch: &Scratch, script: &str, hangs: &str, ms: u32) -> Option<FinishedProcess> {
    let driver: PathBuf = scratch.path().join("libcuda.so.1");
    c_library("tests/gpu/watchful_driver.c", &driver)?;
    let mut job = scratch.script(script);
    job.env("LD_PRELOAD", &driver)
        .env("NCCL_OTF2_GPU", "events")
        .env("WATCHFUL_REPORT", scratch.path().join("report"))
        .env("WATCHFUL_HANG", hangs)
        .env("WATCHFUL_HANG_MS", ms.to_string());
    Some(run(&mut job))
}

/// What the driver noted about a process.
fn report(scratch: &Scratch, process: &str) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string(scratch.path().join("report")).expect("a report");
    let line = text.lines().find_map(|line| line.strip_prefix(process));
    let line = line.unwrap_or_else(|| panic!("nothing of the {process}: {text}"));
    line.split_whitespace()
        .map(|word| {
            let (name, number) = word.split_once('=').expect("name=number");
            (name.to_owned(), number.parse().expect("a number"))
        })
        .collect()
}

fn number(report: &[(String, u64)], name: &str) -> u64 {
    let found = report.iter().find(|(other, _)| other == name);
    found.unwrap_or_else(|| panic!("no {name}: {report:?}")).1
}

#[test]
fn sessions_leave_nothing_and_children_call_nothing() {
    let scratch = Scratch::new();
    let script = "
        repeat 20 {
          load
          init c ranks=1 rank=0
          repeat 5 {
            start l KernelLaunch ctx=c
            stop l
          }
          finalize c
          unload
        }
        load
        init c ranks=1 rank=0
        start l KernelLaunch ctx=c
        fork status=7 {
          stop l
          start m KernelLaunch ctx=c
          stop m
          init d ranks=1 rank=0
          finalize d
          finalize c
          exit 7
        }
        stop l
        start open KernelLaunch ctx=c
    ";
    let Some(ended) = watched(&scratch, script, "") else {
        return;
    };
    let _ended = ended.undisturbed(&[]);
    let owner = report(&scratch, "owner");
    assert_eq!(number(&report(&scratch, "child"), "in_child"), 0);
    let (made, destroyed) = (number(&owner, "made"), number(&owner, "destroyed"));
    assert_eq!(destroyed, made / 21 * 20, "those of the session that the exit ended are left to the driver");
    // One launch has not ended.
    let launches = 20 * 5 + 2;
    assert!(number(&owner, "recorded") >= 2 * launches - 1);
    let archive = scratch.sound_archive();
    assert_eq!(archive.gpu_count("LAUNCHES"), launches);
    assert_eq!(archive.gpu_count("UNFINISHED"), 1);
    for count in ["REFUSED", "NO_EVENT_LEFT", "CAPTURED", "NO_ROOM"] {
        assert_eq!(archive.gpu_count(count), 0, "{count}");
    }
}

#[test]
fn a_driver_that_hangs_holds_up_nobody() {
    for hangs in ["cuEventQuery", "cuDriverGetVersion", "cuEventDestroy_v2"] {
        let scratch = Scratch::new();
        let script = "
            init c ranks=1 rank=0
            start l KernelLaunch ctx=c
            stop l
            finalize c
            init c ranks=1 rank=0
            start l KernelLaunch ctx=c
            stop l
            finalize c
        ";
        let Some(ended) = watched(&scratch, script, hangs) else {
            return;
        };
        assert_eq!(ended.status.code(), Some(0), "{hangs}: {ended}");
        let lines = ended.our_lines();
        let said = lines.iter().filter(|line| line.contains("did not answer"));
        let said = said.count();
        assert_eq!(said, 2, "{hangs}: once a session: {ended}");
        let archive = scratch.archive();
        archive.validate();
        assert_eq!(archive.count("KERNELLAUNCH::WRITTEN"), 2, "{hangs}");
        let notices = &archive.properties()["NCCL::GPU::NOTICES"];
        assert!(notices.contains("did not answer"), "{hangs}: {notices}");
    }
}

/// The thread that the first session did not wait for neither times nor ends the second one's launches.
#[test]
fn a_driver_that_answers_in_the_next_session_takes_nothing_from_it() {
    let scratch = Scratch::new();
    let script = "
        init a ranks=1 rank=0 id=1
        finalize a
        init b ranks=1 rank=0 id=2
        repeat 60 {
          start l KernelLaunch ctx=b
          stop l
          sleep 50ms
        }
        finalize b
    ";
    let Some(ended) = watched_for(&scratch, script, "cuDriverGetVersion", 5000) else {
        return;
    };
    assert_eq!(ended.status.code(), Some(0), "{ended}");
    let archive = scratch.archive();
    archive.validate();
    assert_eq!(archive.gpu_count("LAUNCHES"), 60, "{ended}");
    for count in ["REFUSED", "UNFINISHED", "NO_EVENT_LEFT"] {
        assert_eq!(archive.gpu_count(count), 0, "{count}: {ended}");
    }
}

/// The end of a recording waits for the driver, and then ends nothing but itself.
#[test]
fn a_communicator_that_begins_while_the_last_one_ends_is_recorded() {
    let scratch = Scratch::new();
    let script = "
        init a ranks=1 rank=0 id=1
        start l KernelLaunch ctx=a
        stop l
        thread closer {
          barrier end 2
          finalize a
        }
        barrier end 2
        sleep 50ms
        init b ranks=1 rank=0 id=2
        join closer
        repeat 1000 {
          start g GroupApi ctx=b
          stop g
        }
        finalize b
    ";
    let Some(ended) = watched(&scratch, script, "cuEventQuery") else {
        return;
    };
    assert_eq!(ended.status.code(), Some(0), "{ended}");
    let archive = scratch.archive();
    archive.validate();
    assert_eq!(archive.count("GROUPAPI::WRITTEN"), 1000);
    assert_eq!(archive.count("KERNELLAUNCH::WRITTEN"), 1);
}

#[test]
fn an_exit_waits_for_a_thread_that_ends_the_recording() {
    let scratch = Scratch::new();
    let script = "
        init a ranks=1 rank=0 id=1
        start l KernelLaunch ctx=a
        stop l
        thread closer {
          barrier end 2
          finalize a
        }
        barrier end 2
        sleep 50ms
        exit 3
    ";
    let Some(ended) = watched(&scratch, script, "cuEventQuery") else {
        return;
    };
    assert_eq!(ended.status.code(), Some(3), "{ended}");
    let archive = scratch.archive();
    archive.validate();
    assert_eq!(archive.count("KERNELLAUNCH::WRITTEN"), 1);
}
