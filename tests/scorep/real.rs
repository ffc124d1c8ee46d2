//! A real Score-P, wherever one is on PATH. `cargo xtask scorep` measures a job of NCCL by it in many ways.

use parking_lot::Mutex;
use std::process::Command;

use serde_json::Value;
use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::machine::{has, say};
use whole_plugin::process::{Ended, run};
use whole_plugin::scratch::Scratch;

use crate::job::{ROW, all_reduces};

/// `scorep-preload-init` writes a library beside the program, anew for each test.
static PRELOAD: Mutex<()> = Mutex::new(());

/// A Score-P that can be preloaded: its libraries are shared.
fn is_there() -> bool {
    let is_there = has("scorep-config") && has("scorep-preload-init");
    if !is_there {
        // There is no package of it, so a machine without it is no failure.
        say("there is no Score-P on PATH (scorep-config, of a build with --enable-shared)");
    }
    is_there
}

/// A process whose main thread calls NCCL, with Score-P preloaded. `thread` is one of its options, or empty.
fn measured(scratch: &Scratch, thread: &str) -> Command {
    let mut command = scratch.script(&all_reduces(200));
    let mut init = Command::new("scorep-preload-init");
    init.args(["--value-only", "--user", "--mpp=none"]);
    init.args(Some(thread).filter(|thread| !thread.is_empty()));
    init.arg(built::plugin_host()).current_dir(scratch.path());
    let preload = run(&mut init).with_code(0).stdout;
    command
        .env("LD_PRELOAD", preload.trim())
        .env("SCOREP_ENABLE_TRACING", "true")
        .env("SCOREP_EXPERIMENT_DIRECTORY", "experiment");
    command
}

/// `otf2-print`'s output for Score-P's trace. Its options come before the anchor file.
fn print(scratch: &Scratch, options: &[&str]) -> String {
    let mut print = Command::new("otf2-print");
    print.args(options).arg(scratch.path().join("experiment/traces.otf2"));
    run(&mut print).with_code(0).stdout
}

/// Merges both archives into a sound one, and returns what the tool said.
fn merge(scratch: &Scratch) -> Ended {
    let mut merge = scratch.tool(&["merge", "experiment"]);
    let ended = run(merge.arg(scratch.out()).args(["-o", "merged"])).with_code(0);
    let merged = Archive::open(&scratch.path().join("merged"));
    assert_eq!(merged.check()["faults"], 0);
    merged.validate();
    ended
}

/// The operations that `info` counts in the merged archive.
fn operations(scratch: &Scratch) -> Vec<(String, u64)> {
    let said = run(&mut scratch.tool(&["info", "--json", "merged"])).with_code(0).stdout;
    let info: Value = serde_json::from_str(&said).expect("JSON");
    let all = info["operations"].as_array().expect("a list");
    let one =
        |it: &Value| (it["function"].as_str().expect("a name").to_owned(), it["count"].as_u64().expect("a count"));
    all.iter().map(one).collect()
}

#[test]
fn a_real_score_p_records_calls_and_operations() {
    if !is_there() {
        return;
    }
    let _alone = PRELOAD.lock();
    for thread in ["", "--thread=pthread"] {
        let scratch = Scratch::new();
        let _ended = run(&mut measured(&scratch, thread)).with_code(0);
        let definitions = print(&scratch, &["-G"]);
        assert!(definitions.contains(ROW), "{definitions}");
        let events = print(&scratch, &[]);
        let entered = |region: &str| {
            let named = format!("\"{region}\"");
            events.lines().filter(|line| line.starts_with("ENTER") && line.contains(&named)).count()
        };
        // A call and an operation each.
        assert_eq!((entered("ncclAllReduce"), entered("ncclGroupEnd")), (400, 200), "{thread}");
        assert_eq!((entered("ncclCommInitRank"), entered("ncclCommDestroy")), (1, 1), "{thread}");
        assert_eq!(events.lines().filter(|line| line.starts_with("METRIC")).count(), 200, "{thread}");
        assert_eq!(scratch.archive().check()["faults"], 0);
        // The same process recorded both with the same counter, so merging reports nothing.
        let merged = merge(&scratch);
        assert!(merged.stdout.contains("host and process id"), "{merged}");
        assert!(merged.stdout.contains("Score-P was shown NCCL's calls while the job ran"), "{merged}");
        // Of three regions of this name, Score-P's call, its operation and the archive's, one is counted.
        assert_eq!(operations(&scratch), [("ncclAllReduce".to_owned(), 200)]);
    }
}

/// Calls that Score-P was not shown lie between its own events in a merged archive, on its own location.
#[test]
fn calls_lie_on_the_location_of_a_real_score_p() {
    if !is_there() {
        return;
    }
    let _alone = PRELOAD.lock();
    let scratch = Scratch::new();
    let _ended = run(measured(&scratch, "").env("NCCL_OTF2_SCOREP", "off")).with_code(0);
    let merged = merge(&scratch);
    assert!(merged.stdout.contains("calls: on Score-P's locations of 1 thread"), "{merged}");
    let mut print = Command::new("otf2-print");
    let events = run(print.arg(scratch.path().join("merged/traces.otf2"))).with_code(0).stdout;
    // Score-P's first thread has the id 0.
    let own = |line: &&str| line.split_whitespace().nth(1) == Some("0");
    let own: Vec<&str> = events.lines().filter(own).collect();
    let calls = own.iter().filter(|line| line.starts_with("ENTER") && line.contains("\"ncclAllReduce\""));
    assert_eq!(calls.count(), 200);
    assert!(own.first().is_some_and(|line| line.starts_with("PROGRAM_BEGIN")), "{own:?}");
    assert!(own.last().is_some_and(|line| line.starts_with("PROGRAM_END")), "{own:?}");
    assert_eq!(operations(&scratch), [("ncclAllReduce".to_owned(), 200)]);
}
