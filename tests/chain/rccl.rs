//! RCCL, AMD's NCCL, as its sources call a plugin. No librccl was at hand: a library of its name lends the mask and the
//! logger, and says which release it is.

use std::path::PathBuf;
use std::process::Command;

use whole_plugin::built;
use whole_plugin::machine::two_process_streams;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::rig::{Play, copy, everything, log, play};

/// ROCm's releases, the release of RCCL in each, and the table that RCCL calls.
const RELEASES: [(&str, &str, u8); 6] = [
    ("7.0", "2.26.6", 3),
    ("7.1", "2.27.7", 4),
    ("7.11", "2.28.3", 5),
    ("7.14", "2.30.4", 6),
    ("10.0", "2.30.7", 6),
    ("development", "2.31.2", 7),
];

/// A library that a plugin takes for RCCL.
fn librccl(scratch: &Scratch) -> PathBuf {
    let file = scratch.path().join("librccl.so.1");
    std::fs::copy(built::nccl_stand_in(), &file).expect("the stand-in can be copied");
    file
}

/// Lets the plugin's caller be this RCCL.
fn as_rccl(scratch: &Scratch, command: &mut Command, release: &str) {
    let numbers: Vec<u32> = release.split('.').map(|number| number.parse().expect("a number")).collect();
    let number = numbers.iter().fold(0, |all, number| all * 100 + number);
    command.args(["--nccl", &number.to_string(), "--libnccl"]).arg(librccl(scratch));
}

#[test]
fn each_rccl_is_recorded_and_named() {
    for (rocm, release, table) in RELEASES {
        let scratch = Scratch::new();
        let mut command = scratch.replay(&two_process_streams());
        command.args(["--table", &table.to_string()]).arg("--rank-environment");
        as_rccl(&scratch, &mut command, release);
        let _ended = run(&mut command).with_code(0);
        let archive = scratch.sound_archive();
        let properties = archive.properties();
        assert_eq!(properties["NCCL::LIBRARY"], "RCCL", "ROCm {rocm}");
        assert_eq!(properties["NCCL::VERSION"], release, "ROCm {rocm}");
        assert_eq!(properties["NCCL::TABLE"], format!("ncclProfiler_v{table}"));
        for (kind, count) in [("COLL", 12), ("P2P", 12), ("PROXYOP", 52), ("PROXYSTEP", 176)] {
            assert_eq!(archive.count(&format!("{kind}::SEEN")), count, "ROCm {rocm}: {kind}");
        }
    }
}

/// Bit 15 is KernelPhase in NCCL's v7 and ProxyDiag in RCCL's v6, whose state has 24 bytes and the number of
/// KernelPhaseStop; `proxyOp` is longer. The plugin asks for none of these and makes nothing up.
#[test]
fn what_rccls_version_6_has_of_its_own_is_counted_as_unknown() {
    let script = "
        init c ranks=1 rank=0
        expect-mask 0x7fff
        start x Coll func=AllReduce count=1 datatype=ncclFloat32
        start p ProxyOp parent=x channel=127 peer=0 steps=2 chunk_bytes=64 is_send=1 @48:8=0xa5a5a5a5a5a5a5a5
        start d 0x8000 parent=p @24:8=0xa5a5a5a5a5a5a5a5 @32:8=0xa5a5a5a5a5a5a5a5
        state d 31 gpu_ns=0x5a5a5a5a
        state p 31 gpu_ns=0x5a5a5a5a
        stop d
        stop p
        stop x
        finalize c
    ";
    let scratch = Scratch::new();
    let mut command = play(&scratch, Play::Script(script), &built::plugin(), 6);
    as_rccl(&scratch, &mut command, "2.30.4");
    let _ended = run(command.env("NCCL_OTF2_EVENTS", "full")).with_code(0);
    let archive = scratch.sound_archive();
    assert_eq!((archive.count("UNKNOWN::SEEN"), archive.count("KERNELPHASE::SEEN")), (1, 0));
    assert_eq!(archive.count("STATES_UNKNOWN"), 2);
    assert_eq!((archive.count("PROXYOP::SEEN"), archive.count("PROXYOP::WRITTEN")), (1, 1));
}

/// RCCL's own plugins ask for ProxyDiag: they get it, as from RCCL, with all that is behind what this plugin knows.
#[test]
fn a_plugin_behind_gets_what_only_rccl_has() {
    let script =
        everything().replace("finalize c", "start d 0x8000 ctx=c parent=op\nstate d 31 gpu_ns=77\nstop d\nfinalize c");
    let scratch = Scratch::new();
    let mut command = play(&scratch, Play::Script(&script), &built::plugin(), 6);
    as_rccl(&scratch, &mut command, "2.30.4");
    command.env("NCCL_OTF2_CHAIN", copy(&scratch, "one")).env("ECHO_MASK", "ffff");
    let _ended = run(command.env("ECHO_OUT", scratch.path().join("log"))).with_code(0);
    let text = log(&scratch, "log");
    let begin = text.rfind("start 0x8000 ctx=0x1000 parent=0x").unwrap_or_else(|| panic!("no ProxyDiag: {text}"));
    let handle = text[begin..].lines().next().and_then(|line| line.rsplit(' ').next()).expect("a handle");
    assert!(text[begin..].contains(&format!(" state {handle} 31 77\n")), "{text}");
    assert!(text[begin..].contains(&format!(" stop {handle}\n")), "{text}");
}
