//! Jobs of real NCCL that hang until they are killed, as a launcher's time limit does it.

use serde_json::Value;
use whole_plugin::process::{LIMIT, run, start, wait_for};
use whole_plugin::scratch::Scratch;

use crate::job::suspect;

/// Rank 2 never calls the third all-reduce, and the job is killed under `nccl-otf2 run`.
fn hung_then_killed(version: &str) {
    let scratch = Scratch::new();
    let arguments = ["--exact", "--timeout", "900", "--procs", "4", "--threads", "1", "--rounds", "3", "--ops", "one"];
    let Some(mut job) = scratch.run_nccl(version, &[], &[&arguments[..], &["--skip-last", "2"]].concat()) else {
        return;
    };
    let job = start(&mut job);
    let look = |after: &str| {
        let ended = run(scratch.tool(&["hang", "--json", "--after", after]).arg(scratch.out()));
        serde_json::from_str::<Value>(&ended.stdout).unwrap_or_default()
    };
    wait_for("a job that hangs for long", || (suspect(&look("12")) == ("not-called", 2, 3)).then_some(()));
    job.signal("TERM");
    let ended = job.wait(LIMIT).with_code(143);
    assert!(ended.stderr.contains("nccl-otf2: HANG: rank 2 ["), "{ended}");

    // The journals are removed; the verdict is kept, and the archive gives the same.
    let kept = look("10");
    assert_eq!((suspect(&kept), &kept["source"]), (("not-called", 2, 3), &"journals".into()), "{kept:#}");
    std::fs::remove_file(scratch.out().join("hang.json")).expect("kept");
    let of_archive = look("10");
    assert_eq!(
        (suspect(&of_archive), &of_archive["source"]),
        (("not-called", 2, 3), &"archive".into()),
        "{of_archive:#}"
    );
    let stats = run(scratch.tool(&["stats"]).arg(scratch.out())).with_code(0).stdout;
    // The archive is judged as above.
    assert!(stats.starts_with("HANG: rank 2 [") && stats.contains("] had not called ncclAllReduce"), "{stats}");
    let _sound = scratch.sound_archive();
}

#[test]
fn hung_then_killed_2_28() {
    hung_then_killed("2.28.9");
}

#[test]
fn hung_then_killed_2_32() {
    hung_then_killed("2.32.3");
}
