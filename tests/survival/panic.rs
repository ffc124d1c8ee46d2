//! A panic in the built library: the job continues, one line reports it, and what was recorded before is written.
//!
//! Debug builds, which the tests run on, panic on demand; that what is installed does not is for cmake/tests.

use std::process::Command;

use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// Two threads record; one meets the fault, in version 7 or 5.
const SCRIPT: &str = "
    init c ranks=2 rank=0
    init d ranks=2 rank=1
    thread other {
      repeat 50 {
        start h GroupApi ctx=d
        stop h
      }
      barrier before 2
      barrier after 2
      start late GroupApi ctx=d
      expect-handle NULL
      stop late
    }
    repeat 100 {
      start g GroupApi ctx=c
      stop g
    }
    start open CollApi func=AllReduce ctx=c
    barrier before 2
    start x 0xfa17 ctx=c
    expect-handle NULL
    barrier after 2
    expect-mask 0
    stop x
    state open GroupEndApiStart
    stop open
    start again 0xfa17 ctx=c
    expect-handle NULL
    join other
    init e ranks=1 rank=0
    expect-mask 0
    expect-context other c
    finalize e
    finalize d
    finalize c
    init f ranks=1 rank=0
    expect-mask 0
    finalize f
";

#[test]
fn a_panic_ends_the_recording_and_not_the_job() {
    for table in ["5", "7"] {
        let scratch = Scratch::new();
        let mut command = scratch.script(SCRIPT);
        command.args(["--table", table]);
        let ended = run(&mut command).undisturbed(&["internal error in startEvent: planted"]);
        assert!(ended.our_lines()[0].contains("src/record/mod.rs:"), "says where\n{ended}");

        let archive = scratch.sound_archive();
        assert_eq!(archive.count("GROUPAPI::WRITTEN"), 150, "what came before");
        assert_eq!(archive.count("COLLAPI::UNFINISHED"), 1, "its stop came after");
    }
}

#[test]
fn a_panic_in_a_profile_does_not_get_into_tensorflow() {
    let scratch = Scratch::new();
    let host = scratch.path().join("host");
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(&host).arg(built::root().join("tests/tensorflow/host.c"));
    let _built = run(compiler.arg("-ldl")).with_code(0);
    let ended = run(scratch.command(&host).arg(built::tensorflow_library()).arg("panics")).with_code(0);
    let said = ended
        .stderr
        .matches("internal error in TensorFlow's profile: planted (at crates/tensorflow/src/lib.rs:")
        .count();
    assert_eq!((said, ended.stderr.lines().count()), (4, 4), "start, stop, twice collect\n{ended}");
}
