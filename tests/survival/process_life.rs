//! What programs do while they are recorded: many threads, many sessions, forks, exits, signals.

use std::collections::BTreeSet;

use whole_plugin::process::{LIMIT, run, run_within};
use whole_plugin::scratch::Scratch;

#[test]
fn eight_threads_begin_and_end_at_once() {
    let scratch = Scratch::new();
    let script = "
        parallel 8 {
          barrier begin 8
          init c%t ranks=9 rank=%t id=77
          repeat 100 {
            start g%t GroupApi ctx=c%t
            start x%t CollApi parent=g%t func=AllReduce ctx=c%t
            stop x%t
            stop g%t
          }
        }
        init last ranks=9 rank=8 id=77
        parallel 8 {
          finalize c%t
        }
        repeat 100 {
          start g GroupApi
          stop g
        }
        finalize last
    ";
    let _ended = run(&mut scratch.script(script)).undisturbed(&[]);
    let archive = scratch.sound_archive();
    assert_eq!(archive.count("COLLAPI::WRITTEN"), 800);
    // The session lasts as long as its last communicator.
    assert_eq!(archive.count("GROUPAPI::WRITTEN"), 900);
    assert_eq!(archive.properties()["NCCL::PARTS"].lines().count(), 1, "one session");
    assert_eq!(archive.count("CONTEXTS_TWICE"), 0);
}

/// Making the archive costs as much as there are parts: only the first session and the exit do it.
#[test]
fn three_hundred_sessions_make_the_archive_twice() {
    let scratch = Scratch::new();
    let script = "
        repeat 300 {
          load
          init c ranks=1 rank=0
          start g GroupApi
          stop g
          finalize c
          unload
        }
    ";
    let mut command = scratch.script(script);
    command.env("NCCL_OTF2_VERBOSITY", "verbose");
    let ended = run_within(LIMIT, &mut command).with_code(0);
    let lines = ended.our_lines();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count(": wrote "), 2, "{ended}");
    assert_eq!(count("is updated at exit"), 299);
    let archive = scratch.sound_archive();
    assert_eq!(archive.count("GROUPAPI::WRITTEN"), 300);
    let properties = archive.properties();
    let parts: BTreeSet<&str> = properties["NCCL::PARTS"].lines().collect();
    assert_eq!(parts.len(), 300);
}

#[test]
fn a_forked_child_records_nothing() {
    let scratch = Scratch::new();
    let script = "
        init c ranks=1 rank=0
        repeat 100 {
          start g GroupApi
          stop g
        }
        start open CollApi func=AllReduce
        fork status=7 {
          stop open
          repeat 1000 {
            start h GroupApi
            expect-handle NULL
            stop h
          }
          init d ranks=1 rank=0
          expect-mask 0
          expect-context non-NULL
          finalize d
          finalize c
          exit 7
        }
        repeat 100 {
          start g GroupApi
          stop g
        }
        stop open
        finalize c
    ";
    let _ended = run(&mut scratch.script(script)).undisturbed(&[]);
    let archive = scratch.sound_archive();
    assert_eq!(archive.count("GROUPAPI::WRITTEN"), 200);
    assert_eq!(archive.count("COLLAPI::WRITTEN"), 1);
    assert_eq!(archive.count("COLLAPI::UNFINISHED"), 0, "the parent stopped it");
    assert!(!archive.properties().contains_key("NCCL::PROBLEMS"));
    assert_eq!(archive.properties()["NCCL::PARTS"].lines().count(), 1);
}

#[test]
fn a_child_forked_between_sessions_can_exit() {
    let scratch = Scratch::new();
    let script = "
        repeat 3 {
          init c ranks=1 rank=0
          start g GroupApi
          stop g
          finalize c
        }
        fork status=0 {
          exit 0
        }
        init c ranks=1 rank=0
        start g GroupApi
        stop g
        finalize c
    ";
    let _ended = run(&mut scratch.script(script)).undisturbed(&[]);
    assert_eq!(scratch.sound_archive().count("GROUPAPI::WRITTEN"), 4);
}

#[test]
fn the_exit_code_is_the_programs_own() {
    for (end, code) in [("exit 5", 5), ("_exit 6", 6)] {
        let scratch = Scratch::new();
        let script = format!("init c ranks=1 rank=0\nstart g GroupApi\nstop g\n{end}\n");
        let ended = run(&mut scratch.script(&script)).with_code(code);
        assert_eq!((ended.stdout.as_str(), ended.our_lines()), ("", vec![]), "{ended}");
        // Without exit handlers nothing writes the archive.
        assert_eq!(scratch.out().join("traces.otf2").exists(), code == 5, "{ended}");
        let _finalized = scratch.finalize().with_code(0);
        assert_eq!(scratch.sound_archive().count("GROUPAPI::WRITTEN"), 1);
    }
}

/// The thread needs seconds to write; the exit comes long before.
#[test]
fn an_exit_waits_for_a_thread_that_writes() {
    let scratch = Scratch::new();
    let script = "
        init c ranks=1 rank=0
        repeat 100000 {
          start g GroupApi
          stop g
        }
        thread closer {
          barrier end 2
          finalize c
        }
        barrier end 2
        sleep 50ms
        exit 5
    ";
    let ended = run(&mut scratch.script(script)).with_code(5);
    assert_eq!((ended.stdout.as_str(), ended.our_lines()), ("", vec![]), "{ended}");
    assert_eq!(scratch.sound_archive().count("GROUPAPI::WRITTEN"), 100_000);
}

#[test]
fn a_fatal_signal_ends_the_program_and_the_records_are_there() {
    let scratch = Scratch::new();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGABRT, libc::SIGKILL] {
        let script = format!("init c ranks=1 rank=0\nstart g GroupApi\nkill {signal}\n");
        let ended = run(&mut scratch.script(&script)).by_signal(signal);
        assert_eq!((ended.stdout.as_str(), ended.our_lines()), ("", vec![]), "{ended}");
    }
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.sound_archive();
    assert_eq!(archive.count("GROUPAPI::WRITTEN"), 4);
    assert_eq!(archive.count("GROUPAPI::UNFINISHED"), 4);
}
