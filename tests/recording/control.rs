//! The control file switches recording off and on while a job runs, and limits it to some kinds. The archive has the
//! switches and the counts of events that were not wanted; ranks are compared only where they can be.

use whole_plugin::machine::tested;
use whole_plugin::process::{LIMIT, Running, run, start, wait_for};
use whole_plugin::scratch::Scratch;

use crate::switches::{control, give, switch, wait_for_not_selected, wait_for_switches};

/// Calls in three parts; between them the job waits to be switched.
const PARTS: &str = "
    init c id=0x1234 name=train ranks=RANKS rank=RANK
    start long CollApi ctx=c func=ReduceScatter count=3 datatype=ncclFloat16
    repeat 10 {
      start ca CollApi ctx=c func=AllReduce count=7 datatype=ncclFloat32
      stop ca
    }
    give long
    take second
    stop long
    repeat 20 {
      start cb CollApi ctx=c func=Broadcast count=7 datatype=ncclFloat32
      start co Coll ctx=c parent=cb rank=RANK func=Broadcast count=7 datatype=ncclFloat32 channels=1 warps=8
      stop co
      stop cb
    }
    take third
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

/// Waits until the first part is over.
fn wait_for_first_part(scratch: &Scratch) {
    wait_for("first part", || scratch.path().join("long.handle").exists().then_some(()));
}

/// Runs the parts, with recording off for the second.
fn second_part_off(scratch: &Scratch, rank: u32, ranks: u32) -> Running {
    let running = start(&mut scratch.script(&parts(rank, ranks)));
    wait_for_first_part(scratch);
    switch(scratch, "# the second part is not of interest\nrecording of\nrecording off\n", 1);
    give(scratch, "second");
    switch(scratch, "recording on\n", 2);
    give(scratch, "third");
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

    let archive = scratch.sound_archive();
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
    assert_eq!(modes, ["OFF", "ON"], "on the thread's location:\n{events}");
    let times = at("MEASUREMENT_ON_OFF");
    let last_before = *at("\"ncclAllReduce\"").last().expect("the first part");
    let first_after = *at("\"ncclAllGather\"").first().expect("the third part");
    assert!(last_before < times[0] && times[1] < first_after, "{events}");
    assert!(at("\"ncclBroadcast\"").is_empty());
    assert_eq!(off.split(':').next(), Some(times[0].to_string().as_str()));
}

#[test]
fn what_the_control_file_says_does_not_act_on_the_terminal() {
    let scratch = Scratch::new();
    control(&scratch.out(), "recording \x1b[2J\u{9b}2J\u{202e}\x07perhaps\rFORGED\n");
    let script = "init c ranks=1 rank=0\nstart ca CollApi ctx=c func=AllReduce\nstop ca\nfinalize c\n";
    let ended = run(scratch.script(script).env("NCCL_OTF2_VERBOSITY", "verbose")).with_code(0);
    const WORDS: &str = r#"control:1: "recording \u{1b}[2J\u{9b}2J\u{202e}\u{7}perhaps\rFORGED" is not"#;
    // To stderr and to NCCL's log, which the host prints to stderr.
    let said = ended.stderr.matches(WORDS);
    assert_eq!(said.count(), 2, "{ended}");
    assert!(!ended.stderr.contains(|character: char| character.is_control() && character != '\n'), "{ended}");
}

#[test]
fn ranks_with_gaps_are_not_compared() {
    let scratch = Scratch::new();
    let _cut = second_part_off(&scratch, 1, 2).wait(LIMIT).with_code(0);
    control(&scratch.out(), "recording on\n");
    // What it waits for is there already.
    let _whole = run(&mut scratch.script(&parts(0, 2))).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    let properties = archive.properties();
    assert_eq!(archive.count("COLLAPI::NOT_SELECTED"), 20);
    assert!(properties["NCCL::MATCHING_UNKNOWN::LIST"].contains("rank 1: recording was switched"), "{properties:?}");
    let judged = ["NCCL::RANKS_BEHIND", "NCCL::MISMATCH::FUNCTION", "NCCL::MISMATCH::ORDER"];
    assert!(judged.iter().all(|name| !properties.contains_key(*name)), "{properties:?}");
    // Without operations: readers would match them by their order.
    let events = archive.events();
    let rank_lines = events.lines().filter(|line| line.starts_with("MPI_COLLECTIVE_END"));
    assert_eq!(rank_lines.count(), 20, "of rank 0 only");
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
        sleep 900s
    ";
    let running = start(&mut scratch.script(script));
    wait_for_not_selected(&scratch, 3000);
    running.kill();
    let judged = run(scratch.tool(&["hang"]).arg(scratch.out()));
    assert!(judged.stdout.contains("its recording was switched"), "{judged}");
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.sound_archive();
    assert_eq!(archive.count("COLLAPI::NOT_SELECTED"), 3000);
    assert_eq!(archive.count("COLLAPI::SEEN"), 0);
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
    let archive = scratch.sound_archive();
    assert_eq!(archive.count("COLLAPI::SEEN"), 4);
    assert_eq!(archive.count("GROUPAPI::SEEN"), 4, "what calls are in");
    assert_eq!(archive.count("KERNELLAUNCH::SEEN"), 0);
    assert_eq!(archive.count("KERNELLAUNCH::NOT_SELECTED"), 4);
    let list = &archive.properties()["NCCL::MEASUREMENT::LIST"];
    assert!(list.contains(": on, events CollApi, by"), "{list}");
    assert!(!archive.events().contains("MEASUREMENT_ON_OFF"), "it is on");
}

/// What real NCCL is asked for in the control file when the job begins.
#[test]
fn more_events_than_the_job_was_started_with() {
    for release in tested(["2.23.4", "2.28.9", "2.32.3"], |release| release) {
        let recorded = |events: &str, control_file: &str| {
            let scratch = Scratch::new();
            let mut job = scratch.nccl(release, &["--procs", "2", "--threads", "1", "--exact"])?;
            control(&scratch.out(), control_file);
            let _ended = run(job.env("NCCL_OTF2_EVENTS", events)).with_code(0);
            let _finalized = scratch.finalize().with_code(0);
            let archive = scratch.sound_archive();
            Some((scratch, archive))
        };
        let Some((_scratch, archive)) = recorded("light", "events standard\n") else {
            return;
        };
        assert!(archive.count("PROXYOP::SEEN") > 0, "{release}");
        assert_eq!(archive.count("PROXYSTEP::SEEN"), 0, "{release}");

        // Recording off stays off, whatever the mask is.
        let Some((_scratch, archive)) = recorded("standard", "recording off\n") else {
            return;
        };
        assert_eq!(archive.count("COLL::SEEN"), 0, "{release}");
        assert!(archive.count("GROUP::NOT_SELECTED") > 0, "{release}");
    }
}

/// The mask of a running NCCL is raised when the user requests more events.
#[test]
fn more_events_raise_the_mask_of_a_running_nccl() {
    for release in tested(["2.23.4", "2.32.3"], |release| release) {
        let scratch = Scratch::new();
        let endless = ["--procs", "2", "--threads", "1", "--rounds", "0", "--ops", "one", "--timeout", "900"];
        let Some(mut job) = scratch.nccl(release, &endless) else {
            return;
        };
        let job = start(job.env("NCCL_OTF2_EVENTS", "light"));
        scratch.wait_for_recording(2);
        control(&scratch.out(), "events standard\n");
        wait_for("proxy operation", || {
            let print = run(scratch.tool(&["print", "--kind", "ProxyOp"]).arg(scratch.out().join("parts")));
            print.stdout.contains("ProxyOp ").then_some(())
        });
        job.kill();
        // The workers go with their launcher, a moment later.
        wait_for("end of the workers", || (!scratch.finalize().stdout.contains("still running")).then_some(()));
        let archive = scratch.archive();
        archive.validate();
        assert!(archive.count("PROXYOP::SEEN") > 0, "{release}");
    }
}

#[test]
fn a_signal_switches_off_and_on() {
    let scratch = Scratch::new();
    let mut command = scratch.script(&parts(0, 1));
    let running = start(command.env("NCCL_OTF2_TOGGLE_SIGNAL", "USR1"));
    wait_for_first_part(&scratch);
    for (switches, part) in [(1, "second"), (2, "third")] {
        running.signal("USR1");
        wait_for_switches(&scratch, switches);
        give(&scratch, part);
    }
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
    assert!(ended.stderr.contains("NCCL_OTF2_TOGGLE_SIGNAL: the same signal as NCCL_OTF2_DUMP_SIGNAL"), "{ended}");
}
