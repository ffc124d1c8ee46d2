//! Real NCCL on the stand-in for a GPU, with a plugin behind this one.

use std::collections::{BTreeMap, BTreeSet};

use whole_plugin::machine::tested;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::rig::copy;

/// NCCL's events by bit, as archives call them.
const KINDS: [&str; 12] = [
    "GROUP",
    "COLL",
    "P2P",
    "PROXYOP",
    "PROXYSTEP",
    "PROXYCTRL",
    "KERNELCH",
    "NETPLUGIN",
    "GROUPAPI",
    "COLLAPI",
    "P2PAPI",
    "KERNELLAUNCH",
];

/// Everything that is recorded the plugin behind was called with, and it never saw a handle that is not its own.
#[test]
fn what_real_nccl_calls_arrives_at_both() {
    for (release, table) in tested([("2.23.4", 1), ("2.32.3", 7)], |case| case.0) {
        let scratch = Scratch::new();
        let Some(mut job) = scratch.nccl(release, &["--procs", "2", "--threads", "2", "--exact"]) else {
            return;
        };
        if table < 4 {
            let folder = scratch.path().join("plugin");
            std::fs::create_dir(&folder).expect("a directory");
            std::fs::copy(whole_plugin::built::plugin(), folder.join("libnccl-profiler.so")).expect("a copy");
            job.env_remove("NCCL_PROFILER_PLUGIN").env("LD_LIBRARY_PATH", folder);
        }
        job.env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_CHAIN", copy(&scratch, "one"));
        job.env("ECHO_OUT", scratch.path().join("log-%p"));
        let _ended = run(&mut job).with_code(0);
        let _finalized = scratch.finalize().with_code(0);
        let archive = scratch.sound_archive();
        let properties = archive.properties();
        assert!(properties["NCCL::CHAIN::PLUGINS"].ends_with(&format!("(v{table})")), "{properties:#?}");
        assert!(!properties.keys().any(|name| name.contains("NOT_HANDED_OVER")), "{properties:#?}");

        let mut seen = [0_u64; KINDS.len()];
        let mut stops = 0_u64;
        let logs = std::fs::read_dir(scratch.path()).expect("list").map(|entry| entry.expect("an entry").path());
        for path in logs.filter(|path| path.display().to_string().contains("/log-")) {
            stops += read(&std::fs::read_to_string(&path).expect("a log"), &mut seen);
        }
        for (kind, seen) in KINDS.iter().zip(seen) {
            assert_eq!(archive.count(&format!("{kind}::SEEN")), seen, "{release}: {kind}");
        }
        // A turn of the proxy's loop that repeats the one before is only counted.
        let kinds = KINDS.iter().filter(|kind| **kind != "PROXYCTRL");
        let recorded: u64 = kinds.map(|kind| archive.count(&format!("{kind}::STOPS"))).sum();
        assert_eq!(recorded, stops, "{release}: stops");
        assert!(stops > 300, "{release}: {stops}");
    }
}

/// With NVTX the recording begins before the plugin behind is loaded.
#[test]
fn what_only_the_plugin_behind_asks_for_is_not_recorded() {
    let scratch = Scratch::new();
    let Some(mut job) = scratch.nccl("2.32.3", &["--procs", "2", "--threads", "1", "--ops", "one"]) else {
        return;
    };
    job.env("NVTX_INJECTION64_PATH", whole_plugin::built::plugin()).env("NCCL_OTF2_EVENTS", "CollApi");
    job.env("NCCL_OTF2_CHAIN", copy(&scratch, "one")).env("ECHO_OUT", scratch.path().join("log"));
    let _ended = run(&mut job).with_code(0);
    let archive = scratch.sound_archive();
    let log = std::fs::read_to_string(scratch.path().join("log")).expect("a log");
    assert!(log.contains("start 0x8 ") && archive.properties().contains_key("NCCL::CHAIN::PLUGINS"), "{log}");
    assert_eq!((archive.count("COLLAPI::SEEN"), archive.count("PROXYOP::SEEN")), (2, 0));
}

/// Adds the starts of a process; gives its stops. Contexts, parents and handles are the plugin's own.
fn read(log: &str, seen: &mut [u64]) -> u64 {
    // 0x0 is NULL, as a parent.
    let mut kinds = BTreeMap::from([("0x0", "")]);
    let mut contexts = BTreeSet::new();
    let mut stops = 0;
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[1] {
            "start" => {
                let kind = u64::from_str_radix(words[2].trim_start_matches("0x"), 16).expect("a number");
                seen[kind.trailing_zeros() as usize] += 1;
                let parent = words[4].trim_start_matches("parent=");
                assert!(kinds.contains_key(parent), "{line}");
                contexts.insert(words[3]);
                kinds.insert(words[words.len() - 1], words[2]);
            }
            "stop" => {
                assert!(words[2] != "0x0" && kinds.contains_key(words[2]), "{line}");
                stops += u64::from(kinds[words[2]] != "0x20");
            }
            "state" => assert!(kinds.contains_key(words[2]), "{line}"),
            "finalize" => assert!(contexts.contains(format!("ctx={}", words[2]).as_str()), "{line}"),
            _ => {}
        }
    }
    stops
}
