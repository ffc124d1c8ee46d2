//! What is not handed over is reported: plugins that cannot be used, and events that no plugin can get.

use whole_plugin::built;
use whole_plugin::kinds::NEWEST;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::rig::{Play, alone, behind, chained, copy, everything, finish, log, only, same};

#[test]
fn a_plugin_that_fails_is_left_out_and_the_others_are_called() {
    let script = everything();
    let scratch = Scratch::new();
    let (one, two) = (copy(&scratch, "one"), copy(&scratch, "two"));
    let chain = format!("{},{}", one.display(), two.display());
    let mut command = chained(&scratch, Play::Script(&script), NEWEST, &chain);
    command.env("ECHO_one_OUT", scratch.path().join("one")).env("ECHO_one_FAIL", "init");
    command.env("ECHO_two_OUT", scratch.path().join("two"));
    let ended = finish(&scratch, &mut command);
    assert_eq!(log(&scratch, "one").lines().filter(|line| !line.contains(" init ")).count(), 0);
    same(&log(&scratch, "two"), &alone(Play::Script(&script), NEWEST, &[]), "the other plugin");
    let left_out = format!("{}: its init returned 3", one.display());
    // Once, although there are two communicators.
    let said = format!("nccl-otf2: NCCL_OTF2_CHAIN={left_out}; it is left out");
    assert_eq!(ended.our_lines().into_iter().filter(|line| *line == said).count(), 1, "{ended}");
    let archive = scratch.sound_archive();
    let properties = archive.properties();
    assert_eq!(properties["NCCL::CHAIN::LEFT_OUT"], left_out);
    assert_eq!(archive.count("COLL::SEEN"), 2);
}

#[test]
fn a_plugin_that_cannot_be_called_is_named_with_the_reason() {
    let scratch = Scratch::new();
    let (old, good) = (only(&scratch, 2), copy(&scratch, "one"));
    let none = scratch.path().join("libnone.so");
    std::fs::copy(built::nccl_stand_in(), &none).expect("a library");
    for (chain, reason) in [
        (old.display().to_string(), "NCCL calls through v7, which cannot be translated to the plugin's tables: v2"),
        (built::plugin().display().to_string(), "that is this plugin itself"),
        (format!("{0},{0}", good.display()), "it is in the list twice"),
        (none.display().to_string(), "it is not a profiler plugin"),
        ("missing".to_owned(), "libnccl-profiler-missing.so: cannot open shared object file"),
        ("a,b,c,d,e,f".to_owned(), "more than 4 plugins; left out: e, f"),
    ] {
        let mut command = chained(&scratch, Play::Script("init c ranks=1 rank=0\nfinalize c"), NEWEST, &chain);
        let ended = run(command.env("ONLY_PLUGIN", built::echo_plugin())).with_code(0);
        assert!(ended.stderr.contains("nccl-otf2: NCCL_OTF2_CHAIN="), "{ended}");
        assert!(ended.stderr.contains(reason), "{reason}\n{ended}");
    }
}

#[test]
fn a_name_is_found_as_nccl_finds_it() {
    let scratch = Scratch::new();
    let file = scratch.path().join("libnccl-profiler-named.so");
    std::fs::copy(built::echo_plugin(), file).expect("a copy");
    let mut command = chained(&scratch, Play::Script("init c ranks=1 rank=0\nfinalize c"), NEWEST, "named");
    command.env("LD_LIBRARY_PATH", scratch.path()).env("ECHO_OUT", scratch.path().join("log"));
    let ended = run(command.env("NCCL_OTF2_VERBOSITY", "verbose")).with_code(0);
    assert_eq!(log(&scratch, "log").lines().count(), 2);
    assert!(ended.stderr.contains(", with named (v7) behind it: recording"), "{ended}");
}

/// After `finalize` a plugin has freed what its contexts and handles point to: this plugin protects it.
#[test]
fn what_comes_after_finalize_is_counted_and_not_handed_over() {
    let scratch = Scratch::new();
    let script = "
        init c ranks=1 rank=0
        init d ranks=1 rank=0 id=2
        start x Coll ctx=c func=AllReduce count=1 datatype=ncclInt8
        start y Coll ctx=d func=AllReduce count=1 datatype=ncclInt8
        finalize c
        start k KernelCh ctx=c parent=x
        state x KernelChStop
        stop x
        stop y
        finalize d
    ";
    let text = behind(&scratch, Play::Script(script), NEWEST, &[]);
    let after = text.split_once("finalize").expect("finalized").1;
    assert_eq!(after.matches(" start ").count() + after.matches(" state ").count(), 0, "{text}");
    assert_eq!(after.matches(" stop ").count(), 1, "{text}");
    let properties = scratch.archive().properties();
    assert_eq!(properties["NCCL::CHAIN::STARTS_NOT_HANDED_OVER"], "1");
    assert_eq!(properties["NCCL::CHAIN::CALLS_NOT_HANDED_OVER"], "2");
}

/// PXN: context and parent are another process's. NCCL alone passes them on, and they point nowhere here.
#[test]
fn what_belongs_to_another_process_has_no_context_and_no_parent() {
    let scratch = Scratch::new();
    let script = "
        init c ranks=1 rank=0
        start p ProxyOp ctx=0x1234000000000005 parent=0x1234000000000041 pid=4242 channel=1
        start s ProxyStep ctx=0x1234000000000005 parent=p step=1
        stop s
        stop p
        finalize c
    ";
    let text = behind(&scratch, Play::Script(script), NEWEST, &[]);
    let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').expect("a thread").1).collect();
    let foreign = "start 0x8 ctx=0x0 parent=0x0 rank=0 -> 0x1001";
    let expected = [foreign, "start 0x10 ctx=0x0 parent=0x1001 rank=0 -> 0x1002", "stop 0x1002", "stop 0x1001"];
    assert_eq!(lines[1..5], expected, "{text}");
}

#[test]
fn errors_of_callbacks_are_counted() {
    let script = everything();
    let scratch = Scratch::new();
    let stops = behind(&scratch, Play::Script(&script), NEWEST, &[("ECHO_FAIL", "stop")]).matches(" stop ").count();
    assert_eq!(scratch.sound_archive().properties()["NCCL::CHAIN::ERRORS"], stops.to_string());
}
