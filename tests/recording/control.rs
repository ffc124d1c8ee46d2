//! The control file switches recording off and on while a job runs, and limits it to some kinds. The archive has the
//! switches and the counts of events that were not wanted; ranks are compared only where they can be.

use std::path::Path;
use std::time::{Duration, Instant};

use whole_plugin::built;
use whole_plugin::machine::nccl_library;
use whole_plugin::process::{Running, run, start};
use whole_plugin::scratch::Scratch;

const LIMIT: Duration = Duration::from_secs(60);
/// Longer than the plugin needs to notice the file (a second), also on a busy machine.
const LOOKED_AT: Duration = Duration::from_millis(3000);

/// Calls with a pause after each part, long enough to switch.
const PARTS: &str = "
    init c id=0x1234 name=train ranks=RANKS rank=RANK
    start long CollApi ctx=c func=ReduceScatter count=3 datatype=ncclFloat16
    repeat 10 {
      start ca CollApi ctx=c func=AllReduce count=7 datatype=ncclFloat32
      stop ca
    }
    sleep 4s
    stop long
    repeat 20 {
      start cb CollApi ctx=c func=Broadcast count=7 datatype=ncclFloat32
      start co Coll ctx=c parent=cb rank=RANK func=Broadcast count=7 datatype=ncclFloat32 channels=1 warps=8
      stop co
      stop cb
    }
    sleep 4s
    repeat 5 {
      start cc CollApi ctx=c func=AllGather count=7 datatype=ncclFloat32
      stop cc
    }
    finalize c
";

fn parts(rank: u32, ranks: u32) -> String {
    let script = PARTS.replace("RANKS", &ranks.to_string());
    script.replace("RANK", &rank.to_string())
}

fn control(out: &Path, text: &str) {
    std::fs::create_dir_all(out).expect("make the directory");
    std::fs::write(out.join("control"), text).expect("write the control file");
}

/// Waits until a process records.
fn wait_for_recording(out: &Path) {
    let began = Instant::now();
    loop {
        let parts = std::fs::read_dir(out.join("parts")).into_iter().flatten();
        if parts.flatten().any(|part| part.path().join("journal/1.0").exists()) {
            return;
        }
        assert!(began.elapsed() < LIMIT, "no recording within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs the parts, with recording off for the second.
fn second_part_off(scratch: &Scratch, rank: u32, ranks: u32) -> Running {
    let running = start(&mut scratch.script(&parts(rank, ranks)));
    wait_for_recording(&scratch.out());
    let began = Instant::now();
    control(&scratch.out(), "# the second part is not of interest\nrecording of\nrecording off\n");
    std::thread::sleep(Duration::from_millis(5500).saturating_sub(began.elapsed()));
    control(&scratch.out(), "recording on\n");
    running
}

#[test]
fn what_is_not_selected_is_not_recorded_and_counted() {
    let scratch = Scratch::new();
    let ended = second_part_off(&scratch, 0, 1).wait(LIMIT).with_code(0);
    let said: Vec<&str> =
        ended.stderr.lines().filter(|line| line.starts_with("nccl-otf2: ") && line.contains("/control:")).collect();
    let [line] = said[..] else { panic!("once: {ended}") };
    assert!(line.contains("control:2: \"recording of\" is not"), "{line}");

    let archive = scratch.archive();
    archive.validate();
    assert_eq!(archive.check()["faults"], 0, "{}", archive.check());
    assert_eq!(archive.count("COLLAPI::SEEN"), 16);
    assert_eq!(archive.count("COLLAPI::NOT_SELECTED"), 20);
    assert_eq!(archive.count("COLL::NOT_SELECTED"), 20);
    assert_eq!(archive.count("COLL::SEEN"), 0);
    assert_eq!(archive.count("COLLAPI::LOST"), 0);
    assert_eq!(archive.count("STARTED"), 16);
    // Events that had begun before have their ends.
    assert_eq!(archive.count("COLLAPI::UNFINISHED"), 0);
    assert_eq!(archive.count("STOPS_WITHOUT_START"), 0);

    let properties = archive.properties();
    let list: Vec<&str> = properties["NCCL::MEASUREMENT::LIST"].lines().collect();
    let [off, on] = list[..] else { panic!("two switches: {list:?}") };
    assert!(off.contains(": off, events "), "{off}");
    assert!(on.contains(": on, events "), "{on}");

    let events = archive.events();
    let at = |text: &str| {
        let found = events.lines().filter(|line| line.contains(text));
        let times = found.filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
        times.collect::<Vec<u64>>()
    };
    let switches = events.lines().filter(|line| line.starts_with("MEASUREMENT_ON_OFF"));
    let modes: Vec<&str> = switches.filter_map(|line| line.split("Mode: ").nth(1)?.split_whitespace().next()).collect();
    assert_eq!(modes, ["OFF", "ON"], "on the thread's row:\n{events}");
    let times = at("MEASUREMENT_ON_OFF");
    let last_before = *at("\"ncclAllReduce\"").last().expect("the first part");
    let first_after = *at("\"ncclAllGather\"").first().expect("the third part");
    assert!(last_before < times[0] && times[1] < first_after, "{events}");
    assert!(at("\"ncclBroadcast\"").is_empty());
    assert_eq!(off.split(':').next(), Some(times[0].to_string().as_str()));
}

#[test]
fn ranks_with_gaps_are_not_compared() {
    let scratch = Scratch::new();
    let _whole = run(&mut scratch.script(&parts(0, 2))).with_code(0);
    let _cut = second_part_off(&scratch, 1, 2).wait(LIMIT).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    let properties = archive.properties();
    assert_eq!(archive.count("COLLAPI::NOT_SELECTED"), 20);
    assert!(properties["NCCL::MATCHING_UNKNOWN::LIST"].contains("rank 1: recording was switched"), "{properties:?}");
    let judged = ["NCCL::RANKS_BEHIND", "NCCL::MISMATCH::FUNCTION", "NCCL::MISMATCH::ORDER"];
    assert!(judged.iter().all(|name| !properties.contains_key(*name)), "{properties:?}");
    // Without operations: readers would match them by their order.
    let events = archive.events();
    let of_ranks = events.lines().filter(|line| line.starts_with("MPI_COLLECTIVE_END"));
    assert_eq!(of_ranks.count(), 20, "of rank 0 only");
}

#[test]
fn a_job_can_begin_with_recording_off_and_be_killed() {
    let scratch = Scratch::new();
    control(&scratch.out(), "recording off");
    let script = "
        init c ranks=1 rank=0
        repeat 3000 {
          start ca CollApi ctx=c func=AllReduce count=7 datatype=ncclFloat32
          stop ca
        }
        sleep 60s
    ";
    let running = start(&mut scratch.script(script));
    wait_for_recording(&scratch.out());
    std::thread::sleep(LOOKED_AT);
    let mut kill = std::process::Command::new("kill");
    kill.args(["-KILL", &running.id().to_string()]);
    let _sent = run(&mut kill).with_code(0);
    let _killed = running.wait(LIMIT).by_signal(libc::SIGKILL);
    let mut hang = scratch.plain(built::nccl_otf2());
    let judged = run(hang.arg("hang").arg(scratch.out()));
    assert!(judged.stdout.contains("its recording was switched"), "{judged}");
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    archive.validate();
    assert_eq!(archive.count("COLLAPI::NOT_SELECTED"), 3000);
    assert_eq!(archive.count("COLLAPI::SEEN"), 0);
    assert_eq!(archive.check()["faults"], 0, "{}", archive.check());
    let list = &archive.properties()["NCCL::MEASUREMENT::LIST"];
    assert!(list.contains(": off, events "), "{list}");
}

#[test]
fn events_can_be_cut_to_some_kinds() {
    let scratch = Scratch::new();
    control(&scratch.out(), "events CollApi\n");
    let script = "
        init c ranks=1 rank=0
        repeat 4 {
          start ga GroupApi ctx=c depth=1
          start ca CollApi ctx=c parent=ga func=AllReduce count=7 datatype=ncclFloat32
          start kl KernelLaunch ctx=c parent=ga
          stop kl
          stop ca
          stop ga
        }
        finalize c
    ";
    let _ended = run(&mut scratch.script(script)).with_code(0);
    let archive = scratch.archive();
    assert_eq!(archive.check()["faults"], 0, "{}", archive.check());
    assert_eq!(archive.count("COLLAPI::SEEN"), 4);
    assert_eq!(archive.count("GROUPAPI::SEEN"), 4, "what calls are in");
    assert_eq!(archive.count("KERNELLAUNCH::SEEN"), 0);
    assert_eq!(archive.count("KERNELLAUNCH::NOT_SELECTED"), 4);
    let list = &archive.properties()["NCCL::MEASUREMENT::LIST"];
    assert!(list.contains(": on, events CollApi, by"), "{list}");
    assert!(!archive.events().contains("MEASUREMENT_ON_OFF"), "it is on");
}

/// The mask of a running NCCL is raised when the user requests more events.
#[test]
fn more_events_raise_the_mask() {
    for version in ["2.23.4", "2.28.9", "2.32.3"] {
        let Some(library) = nccl_library(version) else {
            return;
        };
        let scratch = Scratch::new();
        let mut job = scratch.command(built::nccl_host());
        job.arg("--lib").arg(&library);
        job.args(["--procs", "2", "--threads", "1", "--exact"]);
        job.arg(format!("--fake-gpu={}", built::fake_gpu().display()));
        job.env("NCCL_PROFILER_PLUGIN", built::plugin());
        job.env("NCCL_OTF2_EVENTS", "light");
        control(&scratch.out(), "events standard\n");
        let _ended = run(&mut job).with_code(0);
        let _finalized = scratch.finalize().with_code(0);
        let archive = scratch.archive();
        archive.validate();
        assert_eq!(archive.check()["faults"], 0, "{version}: {}", archive.check());
        assert!(archive.count("PROXYOP::SEEN") > 0, "{version}");
        assert_eq!(archive.count("PROXYSTEP::SEEN"), 0, "{version}");

        // Recording off stays off, whatever the mask is.
        let scratch = Scratch::new();
        let mut job = scratch.command(built::nccl_host());
        job.arg("--lib").arg(&library);
        job.args(["--procs", "2", "--threads", "1", "--exact"]);
        job.arg(format!("--fake-gpu={}", built::fake_gpu().display()));
        job.env("NCCL_PROFILER_PLUGIN", built::plugin());
        control(&scratch.out(), "recording off\n");
        let _ended = run(&mut job).with_code(0);
        let _finalized = scratch.finalize().with_code(0);
        let archive = scratch.archive();
        assert_eq!(archive.count("COLL::SEEN"), 0, "{version}");
        assert!(archive.count("GROUP::NOT_SELECTED") > 0, "{version}");
        assert_eq!(archive.check()["faults"], 0, "{version}: {}", archive.check());
    }
}

#[test]
fn more_events_raise_the_mask_of_real_nccl() {
    for version in ["2.23.4", "2.28.9"] {
        let Some(library) = nccl_library(version) else {
            return;
        };
        let scratch = Scratch::new();
        let mut job = scratch.command(built::nccl_host());
        job.arg("--lib").arg(&library);
        job.args(["--procs", "2", "--threads", "1", "--rounds", "0"]);
        job.args(["--ops", "one", "--kill-after", "5"]);
        job.arg(format!("--fake-gpu={}", built::fake_gpu().display()));
        job.env("NCCL_PROFILER_PLUGIN", built::plugin());
        job.env("NCCL_OTF2_EVENTS", "light");
        let job = start(&mut job);
        wait_for_recording(&scratch.out());
        control(&scratch.out(), "events standard\n");
        let _killed = job.wait(LIMIT);
        let _finalized = scratch.finalize();
        let archive = scratch.archive();
        archive.validate();
        let list = &archive.properties()["NCCL::MEASUREMENT::LIST"];
        assert!(archive.count("PROXYOP::SEEN") > 0, "{version}: {list}");
    }
}

#[test]
fn a_signal_switches_off_and_on() {
    let scratch = Scratch::new();
    let mut command = scratch.script(&parts(0, 1));
    let running = start(command.env("NCCL_OTF2_TOGGLE_SIGNAL", "USR1"));
    wait_for_recording(&scratch.out());
    let began = Instant::now();
    let toggle = || {
        let mut kill = std::process::Command::new("kill");
        kill.args(["-USR1", &running.id().to_string()]);
        let _sent = run(&mut kill).with_code(0);
    };
    std::thread::sleep(Duration::from_millis(1500));
    toggle();
    std::thread::sleep(Duration::from_millis(6000).saturating_sub(began.elapsed()));
    toggle();
    let _ended = running.wait(LIMIT).with_code(0);
    let archive = scratch.archive();
    archive.validate();
    assert_eq!(archive.count("COLLAPI::SEEN"), 16);
    assert_eq!(archive.count("COLLAPI::NOT_SELECTED"), 20);
    let properties = archive.properties();
    let list: Vec<&str> = properties["NCCL::MEASUREMENT::LIST"].lines().collect();
    let [off, on] = list[..] else { panic!("two switches: {list:?}") };
    assert!(off.contains(": off, ") && off.ends_with("by a signal"), "{off}");
    assert!(on.contains(": on, ") && on.ends_with("by a signal"), "{on}");
}

#[test]
fn two_requests_cannot_have_one_signal() {
    let scratch = Scratch::new();
    let mut command = scratch.script("init c ranks=1 rank=0\nfinalize c\n");
    let ended = run(command.env("NCCL_OTF2_TOGGLE_SIGNAL", "USR2")).with_code(0);
    assert!(ended.stderr.contains("NCCL_OTF2_TOGGLE_SIGNAL: that is the signal of NCCL_OTF2_DUMP_SIGNAL"), "{ended}");
}
